//! A telemetry collector for tests. It decodes both encodings of OTLP by the field numbers and names of the
//! specification, without code of the program.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

mod protobuf;

/// The way in which the collector handles requests.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum CollectorMode {
    Accept = 0,
    Reject = 1,
    /// Reads requests and sends no response.
    Hang = 2,
}

/// One HTTP request. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) struct RawRequest {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A span from either encoding. Ids are hexadecimal, times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub kind: u64,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, Value>,
    pub links: Vec<(String, String)>,
    /// Code and message.
    pub status: Option<(u64, String)>,
}

impl Span {
    pub(crate) fn text(&self, name: &str) -> &str {
        self.attributes.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name}: {self:#?}"))
    }
}

pub(crate) struct Collector {
    pub url: String,
    requests: Arc<(Mutex<Vec<RawRequest>>, Condvar)>,
    mode: Arc<AtomicU8>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<(Mutex<Vec<RawRequest>>, Condvar)> = Arc::default();
        let mode = Arc::new(AtomicU8::new(CollectorMode::Accept as u8));
        let (shared_requests, shared_mode) = (requests.clone(), mode.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (requests, mode) = (shared_requests.clone(), shared_mode.clone());
                std::thread::spawn(move || serve(&stream, &requests, &mode));
            }
        });
        Self { url, requests, mode }
    }

    pub(crate) fn set_mode(&self, mode: CollectorMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// Waits until the received requests satisfy the condition.
    pub(crate) fn wait(&self, what: &str, enough: impl Fn(&[RawRequest]) -> bool) -> Vec<RawRequest> {
        let (requests, changed) = &*self.requests;
        let until = Instant::now() + Duration::from_secs(30);
        let mut requests = requests.lock().unwrap();
        while !enough(&requests) {
            let left = until.checked_duration_since(Instant::now());
            let left =
                left.unwrap_or_else(|| panic!("timed out waiting for: {what}; {} requests", requests.len()));
            requests = changed.wait_timeout(requests, left).unwrap().0;
        }
        requests.clone()
    }

    /// Waits until the spans of these runs have arrived, and returns all spans.
    pub(crate) fn spans_of(&self, runs: &[&str]) -> Vec<Span> {
        let over = |span: &Span, run: &str| span.name == "openwop.run" && span.text("openwop.run_id") == run;
        let all = |requests: &[RawRequest]| -> Vec<Span> { requests.iter().flat_map(spans).collect() };
        let requests = self.wait("the end of each run", |requests| {
            let spans = all(requests);
            runs.iter().all(|run| spans.iter().any(|span| over(span, run)))
        });
        all(&requests)
    }
}

fn serve(stream: &TcpStream, requests: &(Mutex<Vec<RawRequest>>, Condvar), mode: &AtomicU8) {
    let mut reader = BufReader::new(stream);
    while let Some(sent) = read(&mut reader) {
        let mode = mode.load(Ordering::SeqCst);
        if mode == CollectorMode::Accept as u8 {
            requests.0.lock().unwrap().push(sent);
            requests.1.notify_all();
        }
        let answer: &[u8] = match mode {
            0 => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            1 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            _ => continue,
        };
        let mut writer = stream;
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

/// Reads one request. Returns `None` if the sender has closed the connection.
pub(crate) fn read(reader: &mut impl BufRead) -> Option<RawRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    assert!(line.starts_with("POST "), "{line}");
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some(RawRequest { path, headers, body })
}

pub(crate) fn spans(sent: &RawRequest) -> Vec<Span> {
    if sent.path != "/v1/traces" {
        return Vec::new();
    }
    match sent.headers["content-type"].as_str() {
        "application/x-protobuf" => protobuf::spans(&sent.body),
        "application/json" => {
            let body: Value = serde_json::from_slice(&sent.body).unwrap();
            let of = |value: &Value, name: &str| value[name].as_array().unwrap().clone();
            let scopes = of(&body, "resourceSpans").into_iter().flat_map(|one| of(&one, "scopeSpans"));
            scopes.flat_map(|scope| of(&scope, "spans")).map(|span| from_json(&span)).collect()
        }
        other => panic!("{other}"),
    }
}

/// Decodes a span of the JSON encoding: ids are hexadecimal, 64-bit numbers are strings, enums are numbers.
fn from_json(span: &Value) -> Span {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} in {span}")).to_owned();
    let long = |value: &Value| text(value).parse().unwrap();
    let attributes = span["attributes"].as_array().unwrap().iter();
    let links = span["links"].as_array().into_iter().flatten();
    Span {
        trace: text(&span["traceId"]),
        id: text(&span["spanId"]),
        parent: span.get("parentSpanId").map(text).unwrap_or_default(),
        name: text(&span["name"]),
        kind: span["kind"].as_u64().unwrap(),
        start: long(&span["startTimeUnixNano"]),
        end: long(&span["endTimeUnixNano"]),
        attributes: attributes.map(|pair| (text(&pair["key"]), attribute_value(&pair["value"]))).collect(),
        links: links.map(|link| (text(&link["traceId"]), text(&link["spanId"]))).collect(),
        status: span
            .get("status")
            .filter(|it| !it.is_null())
            .map(|it| (it["code"].as_u64().unwrap(), text(&it["message"]))),
    }
}

/// Returns the single value of an attribute.
pub(crate) fn attribute_value(value: &Value) -> Value {
    let members = value.as_object().unwrap();
    assert_eq!(members.len(), 1, "{value}");
    match members.iter().next().map(|(kind, value)| (kind.as_str(), value)) {
        Some(("stringValue", text)) if text.is_string() => text.clone(),
        Some(("boolValue", flag)) if flag.is_boolean() => flag.clone(),
        Some(("intValue", Value::String(digits))) => json!(digits.parse::<i64>().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A data point of a metric in the protobuf encoding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub attributes: BTreeMap<String, Value>,
    pub start: u64,
    pub time: u64,
    pub value: PointValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PointValue {
    Sum(i64),
    Histogram { count: u64, sum: f64, buckets: Vec<u64>, bounds: Vec<f64> },
}

#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub unit: String,
    pub temporality: u64,
    /// True for monotonic sums.
    pub monotonic: bool,
    pub points: Vec<Point>,
}

pub(crate) fn metrics(sent: &RawRequest) -> BTreeMap<String, Metric> {
    assert_eq!(
        (sent.path.as_str(), sent.headers["content-type"].as_str()),
        ("/v1/metrics", "application/x-protobuf")
    );
    protobuf::metrics(&sent.body)
}
