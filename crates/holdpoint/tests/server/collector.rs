//! A collector of telemetry for tests. It reads both encodings of OTLP by the numbers and names of its specification,
//! with nothing of the program's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

mod protobuf;

/// What is done with what comes in.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Takes = 0,
    Refuses = 1,
    /// Takes everything and never answers.
    Hangs = 2,
}

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A span as either encoding tells it; ids in hexadecimal, times in nanoseconds.
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
    /// Its code and message.
    pub status: Option<(u64, String)>,
}

impl Span {
    pub(crate) fn text(&self, name: &str) -> &str {
        self.attributes.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name}: {self:#?}"))
    }
}

pub(crate) struct Collector {
    pub url: String,
    heard: Arc<(Mutex<Vec<Sent>>, Condvar)>,
    mood: Arc<AtomicU8>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<(Mutex<Vec<Sent>>, Condvar)> = Arc::default();
        let mood = Arc::new(AtomicU8::new(Mood::Takes as u8));
        let (shared, moods) = (heard.clone(), mood.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (heard, mood) = (shared.clone(), moods.clone());
                std::thread::spawn(move || serve(&stream, &heard, &mood));
            }
        });
        Self { url, heard, mood }
    }

    pub(crate) fn turn(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    /// Waits until what came in is enough.
    pub(crate) fn wait(&self, what: &str, enough: impl Fn(&[Sent]) -> bool) -> Vec<Sent> {
        let (heard, news) = &*self.heard;
        let until = Instant::now() + Duration::from_secs(30);
        let mut heard = heard.lock().unwrap();
        while !enough(&heard) {
            let left = until.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("never heard {what}; of {} messages", heard.len()));
            heard = news.wait_timeout(heard, left).unwrap().0;
        }
        heard.clone()
    }

    /// All spans, once those of these runs are over.
    pub(crate) fn spans_of(&self, runs: &[&str]) -> Vec<Span> {
        let over = |span: &Span, run: &str| span.name == "openwop.run" && span.text("openwop.run_id") == run;
        let all = |heard: &[Sent]| -> Vec<Span> { heard.iter().flat_map(spans).collect() };
        let heard = self.wait("the end of each run", |heard| {
            let spans = all(heard);
            runs.iter().all(|run| spans.iter().any(|span| over(span, run)))
        });
        all(&heard)
    }
}

fn serve(stream: &TcpStream, heard: &(Mutex<Vec<Sent>>, Condvar), mood: &AtomicU8) {
    let mut reader = BufReader::new(stream);
    while let Some(sent) = read(&mut reader) {
        let mood = mood.load(Ordering::SeqCst);
        if mood == Mood::Takes as u8 {
            heard.0.lock().unwrap().push(sent);
            heard.1.notify_all();
        }
        let answer: &[u8] = match mood {
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

/// One request. Nothing when the other side has gone.
pub(crate) fn read(reader: &mut impl BufRead) -> Option<Sent> {
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
    Some(Sent { path, headers, body })
}

pub(crate) fn spans(sent: &Sent) -> Vec<Span> {
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

/// Ids are hexadecimal, numbers of 64 bits are strings, enumerations are numbers.
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
        attributes: attributes.map(|pair| (text(&pair["key"]), plain(&pair["value"]))).collect(),
        links: links.map(|link| (text(&link["traceId"]), text(&link["spanId"]))).collect(),
        status: span
            .get("status")
            .filter(|it| !it.is_null())
            .map(|it| (it["code"].as_u64().unwrap(), text(&it["message"]))),
    }
}

/// The one value that an attribute has.
pub(crate) fn plain(value: &Value) -> Value {
    let members = value.as_object().unwrap();
    assert_eq!(members.len(), 1, "{value}");
    match members.iter().next().map(|(kind, value)| (kind.as_str(), value)) {
        Some(("stringValue", text)) if text.is_string() => text.clone(),
        Some(("boolValue", flag)) if flag.is_boolean() => flag.clone(),
        Some(("intValue", Value::String(digits))) => json!(digits.parse::<i64>().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A point of a metric as protobuf tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub attributes: BTreeMap<String, Value>,
    pub start: u64,
    pub time: u64,
    pub value: Measured,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Measured {
    Sum(i64),
    Histogram { count: u64, sum: f64, buckets: Vec<u64>, bounds: Vec<f64> },
}

#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub unit: String,
    pub temporality: u64,
    /// Of sums.
    pub monotonic: bool,
    pub points: Vec<Point>,
}

pub(crate) fn metrics(sent: &Sent) -> BTreeMap<String, Metric> {
    assert_eq!(
        (sent.path.as_str(), sent.headers["content-type"].as_str()),
        ("/v1/metrics", "application/x-protobuf")
    );
    protobuf::metrics(&sent.body)
}
