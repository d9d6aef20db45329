//! Traces and metrics for an OTLP collector, if one is configured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use holdpoint_engine::Engine;
use tokio::sync::oneshot;

mod export;
pub(crate) mod metrics;
mod otlp;
mod spans;

pub(crate) use spans::{SpanBuilder, describe_span};

/// Maximum commits that wait for their export; more are dropped.
pub(crate) const FEED_MAX: usize = 4096;

/// Maximum time that a shutdown waits for the collector.
const FLUSH_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

/// Address, encoding and timing of the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelemetrySettings {
    /// The URL of the collector, without a trailing slash.
    pub endpoint: String,
    pub encoding: Encoding,
    /// Headers of requests. They may contain credentials and are never shown.
    pub headers: Vec<(String, String)>,
    pub service: String,
    pub metrics_every: Duration,
    /// Maximum time that the first span of a batch waits for others.
    pub batch_wait: Duration,
    /// Timeout of one call of the collector.
    pub send_max: Duration,
}

impl TelemetrySettings {
    /// Reads the settings from the flags and from the variables of OpenTelemetry. Returns None without an endpoint.
    pub(crate) fn read(
        endpoint: Option<&str>,
        protocol: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint = endpoint.map(str::to_owned).or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let Some(endpoint) = endpoint else { return Ok(None) };
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            bail!("--otlp-endpoint must be an http:// or https:// address, such as http://127.0.0.1:4318");
        }
        let protocol = protocol.map(str::to_owned).or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        let encoding = match protocol.as_deref() {
            None | Some("http/protobuf") => Encoding::Protobuf,
            Some("http/json") => Encoding::Json,
            Some(other) => bail!("--otlp-protocol {other:?}: must be http/protobuf or http/json"),
        };
        let headers =
            variable("OTEL_EXPORTER_OTLP_HEADERS").map_or(Ok(Vec::new()), |text| parse_headers(&text))?;
        let wait = |name: &str, ms: u64| match variable(name).map(|text| text.trim().parse()) {
            None => Ok(Duration::from_millis(ms)),
            Some(Ok(ms)) if ms > 0 => Ok(Duration::from_millis(ms)),
            Some(_) => bail!("{name}: must be a number of milliseconds, at least 1"),
        };
        Ok(Some(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            encoding,
            headers,
            service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "holdpoint".to_owned()),
            metrics_every: wait("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
            batch_wait: wait("OTEL_BSP_SCHEDULE_DELAY", 2_000)?,
            send_max: wait("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)?,
        }))
    }
}

/// Parses `name=value,name=value`; values may be percent-encoded.
fn parse_headers(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let parsed = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned()))
    });
    // The text is not shown: it contains credentials.
    parsed.collect::<Option<_>>().context("OTEL_EXPORTER_OTLP_HEADERS: must be name=value,name=value")
}

/// Counts spans that could not be sent.
#[derive(Debug, Default)]
pub(crate) struct TelemetryLosses {
    spans: AtomicU64,
}

impl TelemetryLosses {
    pub(crate) fn spans(&self) -> u64 {
        self.spans.load(Ordering::Relaxed)
    }

    fn add(&self, spans: usize) {
        self.spans.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

/// The thread that exports telemetry until the engine is closed.
pub(crate) struct TelemetryThread {
    pub losses: Arc<TelemetryLosses>,
    done: oneshot::Receiver<()>,
}

impl TelemetryThread {
    pub(crate) fn start(settings: TelemetrySettings, engine: Engine) -> std::io::Result<Self> {
        let (losses, feed) = (Arc::new(TelemetryLosses::default()), engine.subscribe_commits(FEED_MAX));
        let exporter = export::Exporter::new(settings, engine, losses.clone());
        let (end, done) = oneshot::channel();
        std::thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            exporter.run(&feed);
            // Fails if no shutdown waits for the end of the thread.
            let _ = end.send(());
        })?;
        Ok(Self { losses, done })
    }

    /// Waits until the remaining telemetry is sent, but not longer than [`FLUSH_MAX`].
    pub(crate) async fn finish(self) {
        if tokio::time::timeout(FLUSH_MAX, self.done).await.is_err() {
            tracing::warn!("the telemetry collector does not respond; telemetry that was not sent is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> anyhow::Result<Option<TelemetrySettings>> {
        let value =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        TelemetrySettings::read(None, None, value)
    }

    #[test]
    fn telemetry_is_off_without_an_endpoint() {
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "x")]).unwrap(), None);
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap(), None);
    }

    #[test]
    fn the_variables_of_opentelemetry_are_read() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20eA%3D%3D, x = y"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.endpoint, "http://127.0.0.1:4318");
        assert_eq!(settings.encoding, Encoding::Json);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("authorization", "Basic eA=="), pair("x", "y")]);
        assert_eq!(settings.metrics_every, Duration::from_millis(500));
        assert_eq!(settings.batch_wait, Duration::from_millis(50));
        assert_eq!(settings.send_max, Duration::from_secs(10));
    }

    #[test]
    fn invalid_settings_are_errors_that_show_no_secrets() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        assert!(read(&[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).is_err());
        let error = read(&[at, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")]).is_err());
        assert!(read(&[at, ("OTEL_EXPORTER_OTLP_TIMEOUT", "0")]).is_err());
    }
}
