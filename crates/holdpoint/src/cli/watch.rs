//! `holdpoint runs watch`: follows a run's events to its end, across lost connections.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, cell, shorten};
use super::runs;

/// About twenty seconds in all: enough for a server to restart.
pub(super) const PAUSES_MS: [u64; 8] = [100, 300, 1000, 2000, 4000, 4000, 4000, 5000];
const DETAIL_CHARS_MAX: usize = 100;
/// What the mode `values` sends: no event, but the run after one.
const SNAPSHOT: &str = "state.snapshot";

/// The mode that shows what people want to see.
pub(crate) const DEFAULT: &str = "updates";

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs watch latest
  holdpoint runs watch RUN --mode debug           # everything, retries and steps too
  holdpoint runs watch RUN --mode values --json   # the whole run after each change, one a line
  holdpoint runs watch RUN --mode messages        # what a model says, piece by piece

The first column is the number of the event. A lost connection is made again where it was.
Ctrl-C ends the watching, not the run.";

pub(crate) fn run(client: &Client, output: &Output, run: &str, mode: &str) -> Result<(), Failure> {
    let path = format!("{}/events?streamMode={}", runs::path(run), encode(mode));
    let mut watch = Watch { output, last_id: None, ended: None };
    watch.follow_to_end(client.stream(&path, None)?, client, run, mode);
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
            Ok(stream) => watch.follow_to_end(stream, client, run, mode),
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
    /// Messages do not tell the end of a run: when there are no more of them, we ask.
    fn follow_to_end(&mut self, stream: impl std::io::Read, client: &Client, run: &str, mode: &str) {
        let is_whole = self.follow(stream);
        if is_whole && self.ended.is_none() && mode.split(',').all(|name| name.trim() == "messages") {
            let snapshot = client.get(&runs::path(run)).map(|reply| reply.value).unwrap_or_default();
            self.ended = end_of(&snapshot);
        }
    }

    /// Reads until the run ends or the connection does; which of the two, `ended` tells. True when nothing was cut off.
    fn follow(&mut self, stream: impl std::io::Read) -> bool {
        let mut lines = BufReader::new(stream);
        let mut parser = Parser::default();
        let mut line = Vec::new();
        while self.ended.is_none() {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
            if let Some(frame) = parser.line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])) {
                self.take(frame);
            }
        }
        true
    }

    fn take(&mut self, frame: Frame) {
        self.last_id = frame.id.or(self.last_id.take());
        let event: Value = serde_json::from_str(&frame.data).unwrap_or(Value::Null);
        if self.output.json {
            self.output.line(&frame.data);
        } else if frame.event == SNAPSHOT {
            self.output.line(&snapshot_line(self.output, self.last_id.as_deref(), &event));
        } else {
            self.output.line(&event_line(self.output, &event));
        }
        self.ended = match event["type"].as_str() {
            Some(kind @ ("run.completed" | "run.failed" | "run.cancelled")) => {
                Some((kind.to_string(), event["payload"].clone()))
            }
            None if frame.event == SNAPSHOT => end_of(&event),
            _ => None,
        };
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

/// The event that a run as it is would have ended with.
fn end_of(snapshot: &Value) -> Option<(String, Value)> {
    let status =
        snapshot["status"].as_str().filter(|status| ["completed", "failed", "cancelled"].contains(status))?;
    Some((format!("run.{status}"), json!({"error": snapshot["error"]})))
}

fn snapshot_line(output: &Output, sequence: Option<&str>, run: &Value) -> String {
    format!("{:>4}  {}  {}", cell(&json!(sequence)), cell(&run["runId"]), runs::standing(output, run))
}

pub(crate) fn event_line(output: &Output, event: &Value) -> String {
    let time = match event["timestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(at) => at.strftime("%H:%M:%S%.3fZ").to_string(),
        None => "-".to_string(),
    };
    let (sequence, node) = (cell(&event["sequence"]), cell(&event["nodeId"]));
    let kind = output.status(&format!("{:22}", cell(&event["type"])));
    let detail = detail(&event["payload"]);
    format!("{sequence:>4}  {time:13}  {kind}  {node:16}  {detail}").trim_end().to_string()
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
pub(super) struct Frame {
    pub(super) id: Option<String>,
    event: String,
    pub(super) data: String,
}

/// Server-sent events, line by line.
#[derive(Default)]
pub(super) struct Parser {
    frame: Frame,
}

impl Parser {
    /// The finished event, when this line is the blank one that ends it.
    pub(super) fn line(&mut self, line: &str) -> Option<Frame> {
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
        assert!(
            watch.follow(&b"id: 4\ndata: {\"type\":\"node.started\"}\n\ndata: {}\n\nid: 9\ndata: lost"[..])
        );
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

    #[test]
    fn a_snapshot_of_a_run_that_has_ended_is_the_end() {
        let output = Output::new(true);
        let mut watch = Watch { output: &output, last_id: None, ended: None };
        watch.follow(&b"id: 1\nevent: state.snapshot\ndata: {\"status\":\"waiting-approval\"}\n\n"[..]);
        assert!(watch.ended.is_none());
        let last =
            "id: 2\nevent: state.snapshot\ndata: {\"status\":\"failed\",\"error\":{\"message\":\"no\"}}\n\n";
        watch.follow(last.as_bytes());
        assert_eq!(watch.verdict().expect_err("the run failed").message(), "the run failed: no");
    }

    #[test]
    fn a_line_begins_with_the_number_of_the_event() {
        let event = json!({"sequence": 7, "type": "node.started", "nodeId": "a", "timestamp": "2026-05-01T10:00:00Z"});
        let line = event_line(&Output::new(true), &event);
        assert!(line.starts_with("   7  10:00:00.000Z  node.started"), "{line}");
    }
}
