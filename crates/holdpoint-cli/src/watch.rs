//! `holdpoint runs watch`: prints the events of a run until its end, and reconnects after a lost connection.

use std::time::Duration;

use holdpoint_api::events::{Event, StreamEvents};
use holdpoint_api::ids::Status;
use holdpoint_api::snapshot::RunSnapshot;
use holdpoint_client::{Error, SseFrame};
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell, clean, quoted, shorten};
use super::runs;

const DETAIL_CHARS_MAX: usize = 100;
/// The type of the frames of the mode `values`, which contain the run after an event.
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
    let mut events = client.runs().watch(run, &query).on_reconnect(report_reconnect);
    loop {
        let read = client.next(&mut events).map_err(|failure| match failure.is_transient() {
            true => {
                let again = output.command(&format!("runs watch {}", quoted(run)));
                failure.hint(format!("the run continues; watch it again with: {again}"))
            }
            false => failure,
        });
        let Some(frame) = read? else { break };
        let (line, result) = read_frame(output, &frame, events.last_id());
        output.line(if output.json { &frame.data } else { &line });
        if let Some(result) = result {
            return result;
        }
    }
    // In the mode `messages` the stream does not have the last event of a run.
    result_of_snapshot(&client.send(client.runs().get(run))?.value).unwrap_or(Ok(()))
}

/// Reports a lost connection and the delay before the next attempt.
pub(super) fn report_reconnect(error: Option<&Error>, delay: Duration) {
    let reason = error.map(|error| format!(" ({error})")).unwrap_or_default();
    eprintln!("connection lost{reason}; retrying in {:.1} s", delay.as_secs_f64());
}

/// Returns a frame as a line of a table, with the result of the command if the run has ended.
fn read_frame(
    output: &Output,
    frame: &SseFrame,
    last_id: Option<&str>,
) -> (String, Option<Result<(), Failure>>) {
    if frame.event == SNAPSHOT
        && let Ok(run) = frame.parse()
    {
        return (snapshot_line(output, last_id, &run), result_of_snapshot(&run));
    }
    let Ok(event) = frame.parse::<Event>() else { return (clean(&frame.data), None) };
    let status = event.kind.strip_prefix("run.").and_then(Status::parse);
    let result = status.and_then(|status| result_of(status, &detail(&event.payload)));
    (event_line(output, &event), result)
}

fn result_of_snapshot(run: &RunSnapshot<'_>) -> Option<Result<(), Failure>> {
    let message = run.error.as_ref().map(|error| clean(&error.message)).unwrap_or_default();
    result_of(run.status, &shorten(&message, DETAIL_CHARS_MAX))
}

/// Returns the result of the command, or None if the run has not ended.
fn result_of(status: Status, message: &str) -> Option<Result<(), Failure>> {
    match status {
        Status::Completed => Some(Ok(())),
        Status::Failed => Some(Err(Failure::refused(format!("the run failed: {message}")))),
        Status::Cancelled => Some(Err(Failure::refused("the run was cancelled"))),
        _ => None,
    }
}

fn snapshot_line(output: &Output, sequence: Option<&str>, run: &RunSnapshot<'_>) -> String {
    let (sequence, id) = (clean(sequence.unwrap_or("-")), clean(run.run_id.as_str()));
    format!("{sequence:>4}  {id}  {}", runs::describe_state(output, run))
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

/// Returns the message of a payload, or the shortened payload if it has none.
fn detail(payload: &Value) -> String {
    let pointers = ["/error/message", "/message", "/data/title", "/title", "/resumeValue", "/reason"];
    let found = pointers.iter().find_map(|pointer| payload.pointer(pointer).filter(|value| !value.is_null()));
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
    fn the_detail_of_an_event_is_its_message_or_its_shortened_payload() {
        assert_eq!(detail(&json!({"error": {"code": "x", "message": "why"}})), "why");
        assert_eq!(detail(&json!({"data": {"title": "Ship?"}, "key": "k"})), "Ship?");
        assert_eq!(detail(&json!({"resumeValue": {"action": "accept"}})), "{\"action\":\"accept\"}");
        assert_eq!(detail(&json!({})), "");
        assert_eq!(detail(&json!({"a": "x".repeat(200)})).chars().count(), DETAIL_CHARS_MAX);
    }

    #[test]
    fn the_last_event_of_a_run_is_the_result_of_the_command() {
        let result = |kind: &str| {
            let data = json!({
                "eventId": "e", "runId": "r", "type": kind, "payload": {"error": {"message": "no"}},
                "timestamp": "2026-05-01T10:00:00Z", "sequence": 7,
            });
            let frame = SseFrame { id: None, event: kind.to_owned(), data: data.to_string() };
            read_frame(&Output::json(), &frame, None).1
        };
        let failure = result("run.failed").unwrap().expect_err("the run failed");
        assert_eq!(failure.message(), "the run failed: no");
        assert!(result("run.completed").unwrap().is_ok() && result("run.cancelled").unwrap().is_err());
        assert!(result("node.failed").is_none() && result("run.paused").is_none());
    }

    #[test]
    fn a_line_begins_with_the_sequence_number() {
        let event = json!({
            "eventId": "e", "runId": "r", "sequence": 7, "type": "node.started", "nodeId": "a", "payload": {},
            "timestamp": "2026-05-01T10:00:00Z",
        });
        let line = event_line(&Output::json(), &serde_json::from_value(event).unwrap());
        assert!(line.starts_with("   7  10:00:00.000Z  node.started"), "{line}");
    }
}
