//! Checks for tests that a stream has the event order that AG-UI clients require.

use std::collections::BTreeSet;

use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct StreamVerifier {
    begun: bool,
    ended: bool,
    /// Set after a snapshot of the state.
    has_state: bool,
    open: BTreeSet<(&'static str, String)>,
    /// The activities with a snapshot.
    activities: BTreeSet<String>,
}

/// Panics if a client would reject the stream.
pub(super) fn verify(events: &[Value]) {
    let mut verifier = StreamVerifier::default();
    for event in events {
        verifier.check(event);
    }
    assert!(verifier.ended, "the last event ends the run: {events:?}");
}

impl StreamVerifier {
    fn check(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap();
        let text =
            |name: &str| event[name].as_str().unwrap_or_else(|| panic!("no {name}: {event}")).to_owned();
        assert!(!self.ended, "no event follows the end: {event}");
        assert!(self.begun || kind == "RUN_STARTED" || kind == "RUN_ERROR", "first: {event}");
        assert!(!has_null_member(event), "absent members are omitted, not null: {event}");
        match kind {
            "RUN_STARTED" => assert!(!std::mem::replace(&mut self.begun, true), "twice: {event}"),
            "RUN_FINISHED" => {
                assert!(self.open.is_empty(), "{:?} is still open at {event}", self.open);
                self.ended = true;
            }
            "RUN_ERROR" => self.ended = true,
            "STEP_STARTED" => self.open("step", text("stepName")),
            "STEP_FINISHED" => self.close("step", text("stepName")),
            "TEXT_MESSAGE_START" => self.open("text", text("messageId")),
            "TEXT_MESSAGE_CONTENT" => {
                assert!(!text("delta").is_empty(), "clients before 1.0 reject an empty delta: {event}");
                self.check_open("text", text("messageId"));
            }
            "TEXT_MESSAGE_END" => self.close("text", text("messageId")),
            "REASONING_START" => self.open("reasoning", text("messageId")),
            "REASONING_MESSAGE_START" => {
                assert_eq!(event["role"], "reasoning", "{event}");
                self.check_open("reasoning", text("messageId"));
                self.open("reasoning message", text("messageId"));
            }
            "REASONING_MESSAGE_CONTENT" => {
                assert!(!text("delta").is_empty(), "clients before 1.0 reject an empty delta: {event}");
                self.check_open("reasoning message", text("messageId"));
            }
            "REASONING_MESSAGE_END" => self.close("reasoning message", text("messageId")),
            "REASONING_END" => self.close("reasoning", text("messageId")),
            "REASONING_ENCRYPTED_VALUE" => assert_eq!(event["subtype"], "message", "{event}"),
            "ACTIVITY_SNAPSHOT" => {
                assert!(event["content"].is_object(), "{event}");
                self.activities.insert(text("messageId"));
            }
            "ACTIVITY_DELTA" => {
                assert!(self.activities.contains(&text("messageId")), "no snapshot before {event}");
            }
            "TOOL_CALL_START" => self.open("call", text("toolCallId")),
            "TOOL_CALL_ARGS" => self.check_open("call", text("toolCallId")),
            "TOOL_CALL_END" => self.close("call", text("toolCallId")),
            "TOOL_CALL_RESULT" => {
                assert!(event["content"].is_string() || event["content"].is_array(), "{event}");
            }
            "STATE_SNAPSHOT" => self.has_state = true,
            // `compactEvents` of client 0.0.59 applies the first delta of a run to an empty state.
            "STATE_DELTA" => assert!(self.has_state, "no STATE_SNAPSHOT comes before {event}"),
            "SUBAGENT_STARTED" => self.open("subagent", text("subagentRunId")),
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => self.close("subagent", text("subagentRunId")),
            "MESSAGES_SNAPSHOT" | "CUSTOM" => {}
            other => panic!("unexpected event type {other}"),
        }
    }

    fn open(&mut self, kind: &'static str, id: String) {
        assert!(self.open.insert((kind, id.clone())), "{kind} {id} is open already");
    }

    fn check_open(&self, kind: &'static str, id: String) {
        assert!(self.open.contains(&(kind, id.clone())), "{kind} {id} is not open");
    }

    fn close(&mut self, kind: &'static str, id: String) {
        assert!(self.open.remove(&(kind, id.clone())), "{kind} {id} is not open");
    }
}

/// Returns whether a member of the event is null. The state and custom values may be null.
fn has_null_member(event: &Value) -> bool {
    event.as_object().is_some_and(|members| {
        members.iter().any(|(name, value)| value.is_null() && !["snapshot", "value"].contains(&name.as_str()))
    })
}
