//! Traces and metrics for collectors that speak OTLP, when one is configured.

use std::time::Duration;

use anyhow::{Context, bail};
use holdpoint_engine::{Committed, Engine};
use serde_json::Value;

mod export;
pub(crate) mod numbers;
mod otlp;
mod spans;

/// Commits that may wait to be told about; more are dropped.
pub(crate) const FEED_MAX: usize = 4096;

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
        let every = match variable("OTEL_METRIC_EXPORT_INTERVAL") {
            Some(text) => {
                text.trim().parse().context("OTEL_METRIC_EXPORT_INTERVAL is a number of milliseconds")?
            }
            None => 60_000,
        };
        Ok(Some(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            encoding,
            headers,
            service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "holdpoint".to_owned()),
            metrics_every: Duration::from_millis(every),
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

/// The spans that ended with a commit, for people to read.
pub(crate) fn described_spans(committed: &Committed) -> Vec<Value> {
    spans::spans(committed).iter().map(spans::described).collect()
}

/// Sends from a thread of its own until the feed ends; wait for it to have said everything.
pub(crate) fn start(
    settings: Settings,
    engine: Engine,
    feed: std::sync::mpsc::Receiver<Committed>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let exporter = export::Exporter::new(settings, engine);
    std::thread::Builder::new().name("telemetry".to_owned()).spawn(move || exporter.run(&feed))
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
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.endpoint, "http://127.0.0.1:4318");
        assert_eq!(settings.encoding, Encoding::Json);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("authorization", "Basic eA=="), pair("x", "y")]);
        assert_eq!(settings.metrics_every, Duration::from_millis(500));
    }

    #[test]
    fn what_cannot_be_done_is_said_without_secrets() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        assert!(read(&[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).is_err());
        let error = read(&[at, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")]).is_err());
    }
}
