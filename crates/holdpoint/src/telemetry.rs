//! Traces and metrics for collectors that speak OTLP, when one is configured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use holdpoint_engine::Engine;
use tokio::sync::oneshot;

mod export;
pub(crate) mod numbers;
mod otlp;
mod spans;

pub(crate) use spans::{Teller, described};

/// Commits that may wait to be told about; more are dropped.
pub(crate) const FEED_MAX: usize = 4096;

/// How long a server that goes down waits for the collector.
const FLUSH_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

/// Where and how to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Without a slash at its end.
    pub endpoint: String,
    pub encoding: Encoding,
    /// May hold credentials: never shown.
    pub headers: Vec<(String, String)>,
    pub service: String,
    pub metrics_every: Duration,
    /// How long the first span of a batch waits for company.
    pub batch_wait: Duration,
    /// How long one call of the collector may take.
    pub send_max: Duration,
}

impl Settings {
    /// From what was given and from the variables that OpenTelemetry defines; nothing without an endpoint.
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
            Some(other) => bail!("--otlp-protocol {other:?}: there are http/protobuf and http/json"),
        };
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").map_or(Ok(Vec::new()), |text| headers(&text))?;
        let wait = |name: &str, ms: u64| match variable(name).map(|text| text.trim().parse()) {
            None => Ok(Duration::from_millis(ms)),
            Some(Ok(ms)) if ms > 0 => Ok(Duration::from_millis(ms)),
            Some(_) => bail!("{name} is a number of milliseconds, 1 or more"),
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

/// `name=value,name=value`; values may be percent-encoded.
fn headers(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let parsed = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned()))
    });
    // Not repeated: there are credentials in it.
    parsed.collect::<Option<_>>().context("OTEL_EXPORTER_OTLP_HEADERS reads name=value,name=value")
}

/// What was to be sent and was not.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    spans: AtomicU64,
}

impl Losses {
    pub(crate) fn spans(&self) -> u64 {
        self.spans.load(Ordering::Relaxed)
    }

    fn add(&self, spans: usize) {
        self.spans.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

/// A thread that tells a collector what happens here, until the engine is closed.
pub(crate) struct Telling {
    pub losses: Arc<Losses>,
    done: oneshot::Receiver<()>,
}

impl Telling {
    pub(crate) fn start(settings: Settings, engine: Engine) -> std::io::Result<Self> {
        let (losses, feed) = (Arc::new(Losses::default()), engine.listen(FEED_MAX));
        let exporter = export::Exporter::new(settings, engine, losses.clone());
        let (end, done) = oneshot::channel();
        std::thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            exporter.run(&feed);
            // Nobody waits for it when the server is not going down.
            let _ = end.send(());
        })?;
        Ok(Self { losses, done })
    }

    /// What is left to be told is told, if the collector takes it soon. The thread is not waited for beyond that.
    pub(crate) async fn finish(self) {
        if tokio::time::timeout(FLUSH_MAX, self.done).await.is_err() {
            tracing::warn!("the telemetry collector does not answer; what it was not told is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> anyhow::Result<Option<Settings>> {
        let value =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::read(None, None, value)
    }

    #[test]
    fn without_an_endpoint_nothing_is_sent() {
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "x")]).unwrap(), None);
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap(), None);
    }

    #[test]
    fn the_variables_of_opentelemetry_are_understood() {
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
    fn what_cannot_be_done_is_said_without_secrets() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        assert!(read(&[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).is_err());
        let error = read(&[at, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")]).is_err());
        assert!(read(&[at, ("OTEL_EXPORTER_OTLP_TIMEOUT", "0")]).is_err());
    }
}
