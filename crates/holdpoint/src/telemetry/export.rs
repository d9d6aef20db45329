//! Sends spans and metrics to a collector, on a thread of its own. What cannot be sent in time is dropped and counted:
//! telling others about a run must never hold it up.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use holdpoint_engine::{Engine, Listener};
use prost::Message;
use serde::Serialize;
use tracing::subscriber::{NoSubscriber, with_default};

use super::otlp::{
    self, InstrumentationScope, Metric, MetricsData, Resource, ResourceMetrics, ResourceSpans, ScopeMetrics,
    ScopeSpans, Span, TracesData,
};
use super::{Encoding, Losses, Settings, numbers, spans};

/// Spans that are sent together, or few more: those of one commit stay together.
const BATCH_MAX: usize = 512;

/// What we read of an answer, so that its connection can be used again.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

pub(crate) struct Exporter {
    settings: Settings,
    engine: Engine,
    agent: ureq::Agent,
    resource: Resource,
    spans: Vec<Span>,
    losses: Arc<Losses>,
    /// Complains once when the collector goes away, not with every batch.
    failing: bool,
    /// Commits missed so far, and whether that was said.
    missed: u64,
    behind: bool,
}

impl Exporter {
    pub(crate) fn new(settings: Settings, engine: Engine, losses: Arc<Losses>) -> Self {
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

    /// Until the engine is gone.
    pub(crate) fn run(mut self, feed: &Listener) {
        let since = self.engine.now();
        let (mut measured, mut sent) = (Instant::now(), Instant::now());
        loop {
            let next = self.settings.batch_wait.min(self.settings.metrics_every);
            match feed.hear(next) {
                Ok(committed) => self.spans.extend(spans::spans(&committed)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.spans.len() >= BATCH_MAX || sent.elapsed() >= self.settings.batch_wait {
                self.send_spans();
                self.look_back();
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
        let metrics: Vec<Metric> = numbers::metrics(self.engine.measures(), since, self.engine.now());
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics,
            ..ResourceMetrics::default()
        }];
        self.send("v1/metrics", &MetricsData { resource_metrics });
    }

    /// Complains when commits went by unheard while the collector took its time.
    fn look_back(&mut self) {
        let missed = self.engine.unheard();
        let more = missed > self.missed;
        if more && !self.behind && !self.failing {
            tracing::warn!(missed, "the telemetry collector is too slow; what it cannot take is dropped");
        }
        (self.missed, self.behind) = (missed, more);
    }

    /// Whether it was taken.
    fn send(&mut self, path: &str, message: &(impl Message + Serialize)) -> bool {
        let (kind, body) = match self.settings.encoding {
            Encoding::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
            Encoding::Json => ("application/json", serde_json::to_vec(message).unwrap_or_default()),
        };
        let mut request = self.agent.post(format!("{}/{path}", self.settings.endpoint)).content_type(kind);
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        // The client logs every byte that it sends, and among those are the credentials in its headers.
        let answer = with_default(NoSubscriber::new(), || request.send(&body[..]));
        match answer {
            Ok(mut answer) => {
                // What it says does not matter.
                let _ = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the telemetry collector takes what it is sent again");
                }
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "telemetry cannot be sent; what is not sent is dropped");
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
