//! Sends spans and metrics to a collector, in a separate thread. Data that cannot be sent in time is dropped and counted:
//! telemetry must never delay a run.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use holdpoint_engine::{CommitReceiver, Engine};
use prost::Message;
use serde::Serialize;
use tracing::subscriber::{NoSubscriber, with_default};

use super::otlp::{
    self, InstrumentationScope, Metric, MetricsData, Resource, ResourceMetrics, ResourceSpans, ScopeMetrics,
    ScopeSpans, Span, TracesData,
};
use super::{Encoding, TelemetryLosses, TelemetrySettings, metrics, spans};

/// Maximum spans of a batch. A batch may have a few more: those of one commit stay together.
const BATCH_MAX: usize = 512;

/// Maximum bytes that are read of a response, so that its connection can be used again.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;

pub(crate) struct Exporter {
    settings: TelemetrySettings,
    engine: Engine,
    agent: ureq::Agent,
    resource: Resource,
    spans: Vec<Span>,
    losses: Arc<TelemetryLosses>,
    /// True after a failed call: the failure is logged once, not for every batch.
    failing: bool,
    /// Number of commits that were dropped until the last check.
    missed: u64,
    /// True if the last check found newly dropped commits. Only the first such check logs a warning.
    behind: bool,
}

impl Exporter {
    pub(crate) fn new(settings: TelemetrySettings, engine: Engine, losses: Arc<TelemetryLosses>) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(settings.send_max))
            .http_status_as_error(true)
            .max_redirects(0)
            .build()
            .new_agent();
        let resource = Resource {
            attributes: vec![
                otlp::text("service.name", settings.service.as_str()),
                otlp::text("service.version", env!("CARGO_PKG_VERSION")),
                otlp::text("service.instance.id", engine.name()),
            ],
            ..Resource::default()
        };
        let spans = Vec::new();
        Self { settings, engine, agent, resource, spans, losses, failing: false, missed: 0, behind: false }
    }

    /// Exports until the engine is closed.
    pub(crate) fn run(mut self, feed: &CommitReceiver) {
        let since = self.engine.now();
        let (mut measured, mut sent) = (Instant::now(), Instant::now());
        loop {
            let next = self.settings.batch_wait.min(self.settings.metrics_every);
            match feed.recv(next) {
                Ok(committed) => self.spans.extend(spans::spans(&committed)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.spans.len() >= BATCH_MAX || sent.elapsed() >= self.settings.batch_wait {
                self.send_spans();
                self.warn_of_dropped_commits();
                sent = Instant::now();
            }
            if measured.elapsed() >= self.settings.metrics_every {
                self.send_metrics(since);
                measured = Instant::now();
            }
        }
        self.send_spans();
        self.send_metrics(since);
    }

    fn send_spans(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if spans.is_empty() {
            return;
        }
        let count = spans.len();
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans,
            ..ResourceSpans::default()
        }];
        if !self.send("v1/traces", &TracesData { resource_spans }) {
            self.losses.add(count);
        }
    }

    fn send_metrics(&mut self, since: holdpoint_core::Timestamp) {
        let metrics: Vec<Metric> = metrics::otlp_metrics(&self.engine, since, self.engine.now());
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics,
            ..ResourceMetrics::default()
        }];
        self.send("v1/metrics", &MetricsData { resource_metrics });
    }

    /// Logs a warning if commits were dropped because the collector is too slow.
    fn warn_of_dropped_commits(&mut self) {
        let missed = self.engine.dropped_commits();
        let more = missed > self.missed;
        if more && !self.behind && !self.failing {
            tracing::warn!(missed, "the telemetry collector is too slow; some telemetry is dropped");
        }
        (self.missed, self.behind) = (missed, more);
    }

    /// Sends a message. Returns true if the collector accepted it.
    fn send(&mut self, path: &str, message: &(impl Message + Serialize)) -> bool {
        let (kind, body) = match self.settings.encoding {
            Encoding::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
            Encoding::Json => ("application/json", serde_json::to_vec(message).unwrap_or_default()),
        };
        let mut request = self.agent.post(format!("{}/{path}", self.settings.endpoint)).content_type(kind);
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        // The log of the HTTP client is discarded: it contains every byte that is sent, including the credentials in
        // headers.
        let response = with_default(NoSubscriber::new(), || request.send(&body[..]));
        match response {
            Ok(mut response) => {
                // The content is ignored.
                let _ = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec();
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the telemetry collector accepts telemetry again");
                }
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "telemetry cannot be sent and is dropped");
                }
                false
            }
        }
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "holdpoint".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
