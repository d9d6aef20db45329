//! Sends spans and metrics to a collector, on a thread of its own. What cannot be sent in time is dropped and counted:
//! telling others about a run must never hold it up.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use holdpoint_engine::{Committed, Engine};
use prost::Message;
use serde::Serialize;

use super::otlp::{
    KeyValue, Metric, Metrics, Resource, ResourceMetrics, ResourceSpans, Scope, ScopeMetrics, ScopeSpans,
    Span, Traces,
};
use super::{Encoding, Settings, numbers, spans};

/// Spans that are sent together at most, and how long the first of them waits for company.
const BATCH_MAX: usize = 512;
const BATCH_WAIT: Duration = Duration::from_secs(2);
const SEND_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Exporter {
    settings: Settings,
    engine: Engine,
    agent: ureq::Agent,
    resource: Resource,
    spans: Vec<Span>,
    /// Complains once when the collector goes away, not with every batch.
    failing: bool,
}

impl Exporter {
    pub(crate) fn new(settings: Settings, engine: Engine) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(SEND_MAX))
            .http_status_as_error(true)
            .max_redirects(0)
            .build()
            .new_agent();
        let resource = Resource {
            attributes: vec![
                KeyValue::text("service.name", settings.service.as_str()),
                KeyValue::text("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::text("service.instance.id", engine.name()),
            ],
        };
        Self { settings, engine, agent, resource, spans: Vec::new(), failing: false }
    }

    /// Until the engine is gone.
    pub(crate) fn run(mut self, feed: &Receiver<Committed>) {
        let since = self.engine.now();
        let (mut measured, mut sent) = (Instant::now(), Instant::now());
        loop {
            match feed.recv_timeout(BATCH_WAIT) {
                Ok(committed) => self.spans.extend(spans::spans(&committed)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.spans.len() >= BATCH_MAX || sent.elapsed() >= BATCH_WAIT {
                self.send_spans();
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
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        self.send("v1/traces", &Traces { resource_spans });
    }

    fn send_metrics(&mut self, since: holdpoint_core::Timestamp) {
        let metrics: Vec<Metric> = numbers::metrics(self.engine.measures(), since, self.engine.now());
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
        let resource_metrics = vec![ResourceMetrics { resource: Some(self.resource.clone()), scope_metrics }];
        self.send("v1/metrics", &Metrics { resource_metrics });
    }

    fn send(&mut self, path: &str, message: &(impl Message + Serialize)) {
        let (kind, body) = match self.settings.encoding {
            Encoding::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
            Encoding::Json => ("application/json", serde_json::to_vec(message).unwrap_or_default()),
        };
        let mut request = self.agent.post(format!("{}/{path}", self.settings.endpoint)).content_type(kind);
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        match request.send(&body[..]) {
            Ok(_) if self.failing => {
                tracing::info!("the telemetry collector takes what it is sent again");
                self.failing = false;
            }
            Ok(_) => {}
            Err(error) if !self.failing => {
                tracing::warn!(%error, "telemetry cannot be sent; what is not sent is dropped");
                self.failing = true;
            }
            Err(_) => {}
        }
    }
}

fn scope() -> Scope {
    Scope { name: "holdpoint".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}
