//! `holdpoint runs watch`: follows a run's events to its end, across lost connections.

use std::time::Duration;

use holdpoint_api::events::{Event, StreamEvents};
use holdpoint_api::ids::Status;
use holdpoint_api::snapshot::RunSnapshot;
use holdpoint_client::{Error, Frame};
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell, clean, shorten};
use super::runs;

const DETAIL_CHARS_MAX: usize = 100;
/// The type of the frames of the mode `values`, which have the run after an event.
const SNAPSHOT: &str = "state.snapshot";

/// The default mode.
pub(crate) const DEFAULT: &str = "updates";

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs watch latest
  holdpoint runs watch RUN --mode debug           # all events, with retries and steps
  holdpoint runs watch RUN --mode values --json   # the whole run after each change, one per line
  holdpoint runs watch RUN --mode messages        # the output of a model in chunks

The first column is the sequence number. After a lost connection, the command connects again and
continues. Ctrl-C ends the command, not the run.";

pub(crate) fn run(client: &Client, output: &Output, run: &str, mode: &str) -> Result<(), Failure> {
    let query = StreamEvents { stream_mode: Some(mode.to_owned()), buffer_ms: None };
    let mut events = client.runs().events(run, &query).on_reconnect(report_reconnect);
    let mut end = None;
    while end.is_none() {
        let read = client.next(&mut events).map_err(|failure| match failure.is_passing() {
            true => failure.hint(format!("the run goes on without us; later: holdpoint runs watch {run}")),
            false => failure,
        });
        let Some(frame) = read? else { break };
        output.line(&line_of(output, &frame, events.last_id()));
        end = end_of(&frame);
    }
    // The mode `messages` does not show the last event of a run.
    let end = match end {
        Some(end) => end,
        None => End::of_snapshot(&client.send(client.runs().get(run))?.value).unwrap_or(End::Completed),
    };
    end.result()
}

/// Tells the user that the connection is lost and when it is tried again.
pub(super) fn report_reconnect(error: Option<&Error>, delay: Duration) {
    let reason = error.map(|error| format!(" ({error})")).unwrap_or_default();
    eprintln!("connection lost{reason}; trying again in {:.1} s", delay.as_secs_f64());
}

fn line_of(output: &Output, frame: &Frame, last_id: Option<&str>) -> String {
    if output.json {
        return frame.data.clone();
    }
    if frame.event == SNAPSHOT {
        return frame.parse().map_or_else(|_| clean(&frame.data), |run| snapshot_line(output, last_id, &run));
    }
    frame.parse().map_or_else(|_| clean(&frame.data), |event| event_line(output, &event))
}

/// Returns the end of the run, if the frame tells it.
fn end_of(frame: &Frame) -> Option<End> {
    if frame.event == SNAPSHOT {
        return End::of_snapshot(&frame.parse().ok()?);
    }
    let event: Event = frame.parse().ok()?;
    match event.kind.as_ref() {
        "run.completed" => Some(End::Completed),
        "run.failed" => Some(End::Failed(detail(&event.payload))),
        "run.cancelled" => Some(End::Cancelled),
        _ => None,
    }
}

/// The end of a run.
#[derive(Debug, PartialEq)]
enum End {
    Completed,
    /// With the message of its error.
    Failed(String),
    Cancelled,
}

impl End {
    fn of_snapshot(run: &RunSnapshot<'_>) -> Option<Self> {
        match run.status {
            Status::Completed => Some(Self::Completed),
            Status::Failed => {
                let message = run.error.as_ref().map(|error| clean(&error.message)).unwrap_or_default();
                Some(Self::Failed(shorten(&message, DETAIL_CHARS_MAX)))
            }
            Status::Cancelled => Some(Self::Cancelled),
            _ => None,
        }
    }

    fn result(self) -> Result<(), Failure> {
        match self {
            Self::Completed => Ok(()),
            Self::Failed(message) => Err(Failure::refused(format!("the run failed: {message}"))),
            Self::Cancelled => Err(Failure::refused("the run was cancelled")),
        }
    }
}

fn snapshot_line(output: &Output, sequence: Option<&str>, run: &RunSnapshot<'_>) -> String {
    let (sequence, id) = (clean(sequence.unwrap_or("-")), clean(run.run_id.as_str()));
    format!("{sequence:>4}  {id}  {}", runs::standing(output, run))
}

/// Returns an event as a line of a table.
pub(crate) fn event_line(output: &Output, event: &Event) -> String {
    let time = jiff::Timestamp::from_millisecond(event.timestamp.0.0).unwrap_or_default();
    let time = time.strftime("%H:%M:%S%.3fZ");
    let node = event.node_id.as_ref().map_or_else(|| "-".to_owned(), |node| clean(node.as_str()));
    let kind = output.status(&format!("{:22}", clean(&event.kind)));
    let (sequence, detail) = (event.sequence, detail(&event.payload));
    format!("{sequence:>4}  {time:13}  {kind}  {node:16}  {detail}").trim_end().to_string()
}

/// Returns the message of a payload, or else the shortened payload.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_detail_is_the_message_or_the_payload_cut_short() {
        assert_eq!(detail(&json!({"error": {"code": "x", "message": "why"}})), "why");
        assert_eq!(detail(&json!({"data": {"title": "Ship?"}, "key": "k"})), "Ship?");
        assert_eq!(detail(&json!({"resumeValue": {"action": "accept"}})), "{\"action\":\"accept\"}");
        assert_eq!(detail(&json!({})), "");
        assert_eq!(detail(&json!({"a": "x".repeat(200)})).chars().count(), DETAIL_CHARS_MAX);
    }

    #[test]
    fn the_last_event_of_a_run_is_its_end() {
        let ended = |kind: &str, data: Value| {
            end_of(&Frame { id: None, event: kind.to_owned(), data: data.to_string() })
        };
        let event = |kind: &str| {
            ended(
                kind,
                json!({
                    "eventId": "e", "runId": "r", "type": kind, "payload": {"error": {"message": "no"}},
                    "timestamp": "2026-05-01T10:00:00Z", "sequence": 7,
                }),
            )
        };
        assert_eq!(event("run.failed"), Some(End::Failed("no".to_owned())));
        assert_eq!(event("node.failed"), None);
        let failure = event("run.failed").unwrap().result().expect_err("the run failed");
        assert_eq!(failure.message(), "the run failed: no");
        assert!(event("run.completed").unwrap().result().is_ok());
    }

    #[test]
    fn a_line_begins_with_the_number_of_the_event() {
        let event = json!({
            "eventId": "e", "runId": "r", "sequence": 7, "type": "node.started", "nodeId": "a", "payload": {},
            "timestamp": "2026-05-01T10:00:00Z",
        });
        let line = event_line(&Output::new(true), &serde_json::from_value(event).unwrap());
        assert!(line.starts_with("   7  10:00:00.000Z  node.started"), "{line}");
    }
}
