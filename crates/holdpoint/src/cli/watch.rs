//! `holdpoint runs watch`: follows a run's events to its end, across lost connections.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell, shorten};
use super::runs;

/// About twenty seconds in all: enough for a server to restart.
const PAUSES_MS: [u64; 8] = [100, 300, 1000, 2000, 4000, 4000, 4000, 5000];
const DETAIL_CHARS_MAX: usize = 100;

pub(crate) fn run(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let path = format!("{}/events", runs::path(run));
    let mut watch = Watch { output, last_id: None, ended: None };
    watch.follow(client.stream(&path, None)?);
    let mut pauses = PAUSES_MS.iter();
    while watch.ended.is_none() {
        let Some(pause) = pauses.next() else {
            return Err(Failure::broken("the connection was lost and could not be made again")
                .hint(format!("the run goes on without us; later: holdpoint runs watch {run}")));
        };
        eprintln!("connection lost; trying again in {} s", *pause as f64 / 1000.0);
        std::thread::sleep(Duration::from_millis(*pause));
        let seen = watch.last_id.clone();
        match client.stream(&path, seen.as_deref()) {
            Ok(stream) => watch.follow(stream),
            Err(failure) if failure.is_passing() => eprintln!("{}", failure.message()),
            Err(failure) => return Err(failure),
        }
        // News since the last try shows that the server is well again.
        if watch.last_id != seen {
            pauses = PAUSES_MS.iter();
        }
    }
    watch.verdict()
}

struct Watch<'a> {
    output: &'a Output,
    last_id: Option<String>,
    /// Type and payload of the terminal event, once it has come.
    ended: Option<(String, Value)>,
}

impl Watch<'_> {
    /// Reads until the run ends or the connection does; which of the two, `ended` tells.
    fn follow(&mut self, stream: impl std::io::Read) {
        let mut lines = BufReader::new(stream);
        let mut parser = Parser::default();
        let mut line = Vec::new();
        while self.ended.is_none() {
            line.clear();
            if !matches!(lines.read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
                return;
            }
            if let Some(frame) = parser.line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])) {
                self.take(frame);
            }
        }
    }

    fn take(&mut self, frame: Frame) {
        self.last_id = frame.id.or(self.last_id.take());
        let event: Value = serde_json::from_str(&frame.data).unwrap_or(Value::Null);
        let kind = event["type"].as_str().unwrap_or(&frame.event).to_string();
        if self.output.json {
            self.output.line(&frame.data);
        } else {
            self.output.line(&event_line(self.output, &kind, &event));
        }
        if matches!(kind.as_str(), "run.completed" | "run.failed" | "run.cancelled") {
            self.ended = Some((kind, event["payload"].clone()));
        }
    }

    fn verdict(self) -> Result<(), Failure> {
        match self.ended.as_ref().map(|(kind, payload)| (kind.as_str(), payload)) {
            Some(("run.failed", payload)) => {
                Err(Failure::refused(format!("the run failed: {}", detail(payload))))
            }
            Some(("run.cancelled", _)) => Err(Failure::refused("the run was cancelled")),
            _ => Ok(()),
        }
    }
}

fn event_line(output: &Output, kind: &str, event: &Value) -> String {
    let time = match event["timestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(at) => at.strftime("%H:%M:%S%.3fZ").to_string(),
        None => "-".to_string(),
    };
    let node = cell(&event["nodeId"]);
    let kind = output.status(&format!("{kind:22}"));
    format!("{time:13}  {kind}  {node:16}  {}", detail(&event["payload"])).trim_end().to_string()
}

/// The one thing worth a line: a message if there is one, else the payload cut short.
fn detail(payload: &Value) -> String {
    let told = ["/error/message", "/message", "/data/title", "/title", "/resumeValue", "/reason"];
    let found = told.iter().find_map(|pointer| payload.pointer(pointer).filter(|value| !value.is_null()));
    let text = match found {
        Some(value) => cell(value),
        None if payload.as_object().is_none_or(serde_json::Map::is_empty) => String::new(),
        None => cell(payload),
    };
    shorten(&text, DETAIL_CHARS_MAX)
}

/// One event of the stream.
#[derive(Debug, Default, PartialEq)]
struct Frame {
    id: Option<String>,
    event: String,
    data: String,
}

/// Server-sent events, line by line.
#[derive(Default)]
struct Parser {
    frame: Frame,
}

impl Parser {
    /// The finished event, when this line is the blank one that ends it.
    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return (!frame.data.is_empty()).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_string()),
            "event" => self.frame.event = value.to_string(),
            "data" => {
                if !self.frame.data.is_empty() {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // Comments keep the connection alive, and unknown fields are for readers after us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn frames(text: &str) -> Vec<Frame> {
        let mut parser = Parser::default();
        text.split('\n').filter_map(|line| parser.line(line)).collect()
    }

    #[test]
    fn a_frame_ends_at_the_blank_line_and_comments_are_nothing() {
        let read = frames(
            ":keepalive\n\nid: 7\nevent: node.started\ndata: {\"a\":\ndata:1}\nretry: 5\n\ndata: cut off",
        );
        let frame = Frame { id: Some("7".into()), event: "node.started".into(), data: "{\"a\":\n1}".into() };
        assert_eq!(read, [frame]);
    }

    #[test]
    fn the_last_id_is_kept_for_the_next_connection_and_the_end_is_known() {
        let output = Output::new(true);
        let mut watch = Watch { output: &output, last_id: None, ended: None };
        watch.follow(&b"id: 4\ndata: {\"type\":\"node.started\"}\n\ndata: {}\n\nid: 9\ndata: lost"[..]);
        assert_eq!((watch.last_id.as_deref(), watch.ended.is_none()), (Some("4"), true));
        watch.follow(
            &b"id: 5\ndata: {\"type\":\"run.failed\",\"payload\":{\"error\":{\"message\":\"no\"}}}\n\n"[..],
        );
        let failure = watch.verdict().expect_err("the run failed");
        assert_eq!(failure.message(), "the run failed: no");
    }

    #[test]
    fn a_detail_is_the_message_or_the_payload_cut_short() {
        assert_eq!(detail(&json!({"error": {"code": "x", "message": "why"}})), "why");
        assert_eq!(detail(&json!({"data": {"title": "Ship?"}, "key": "k"})), "Ship?");
        assert_eq!(detail(&json!({"resumeValue": {"action": "accept"}})), "{\"action\":\"accept\"}");
        assert_eq!(detail(&json!({})), "");
        assert_eq!(detail(&json!({"a": "x".repeat(200)})).chars().count(), DETAIL_CHARS_MAX);
    }
}
