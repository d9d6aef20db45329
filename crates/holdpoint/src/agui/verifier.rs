//! The order that clients insist on, as tests hold our streams against it.

use std::collections::BTreeSet;

use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct Verifier {
    begun: bool,
    ended: bool,
    /// Set once the state was told as a whole.
    has_state: bool,
    open: BTreeSet<(&'static str, String)>,
}

/// Panics where a client would.
pub(super) fn verify(events: &[Value]) {
    let mut verifier = Verifier::default();
    for event in events {
        verifier.hear(event);
    }
    assert!(verifier.ended, "the last event ends the run: {events:?}");
}

impl Verifier {
    fn hear(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap();
        let text =
            |name: &str| event[name].as_str().unwrap_or_else(|| panic!("no {name}: {event}")).to_owned();
        assert!(!self.ended, "nothing comes behind the end: {event}");
        assert!(self.begun || kind == "RUN_STARTED" || kind == "RUN_ERROR", "first: {event}");
        assert!(!has_null(event), "null is not nothing: {event}");
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
                assert!(!text("delta").is_empty(), "clients before 1.0 take no empty piece: {event}");
                self.within("text", text("messageId"));
            }
            "TEXT_MESSAGE_END" => self.close("text", text("messageId")),
            "TOOL_CALL_START" => self.open("call", text("toolCallId")),
            "TOOL_CALL_ARGS" => self.within("call", text("toolCallId")),
            "TOOL_CALL_END" => self.close("call", text("toolCallId")),
            "TOOL_CALL_RESULT" => assert!(event["content"].is_string(), "{event}"),
            "STATE_SNAPSHOT" => self.has_state = true,
            // `compactEvents` of client 0.0.59 applies the first delta of a run to an empty state.
            "STATE_DELTA" => assert!(self.has_state, "no STATE_SNAPSHOT comes before {event}"),
            "MESSAGES_SNAPSHOT" | "CUSTOM" => {}
            other => panic!("nobody expects {other} here"),
        }
    }

    fn open(&mut self, kind: &'static str, id: String) {
        assert!(self.open.insert((kind, id.clone())), "{kind} {id} is open already");
    }

    fn within(&self, kind: &'static str, id: String) {
        assert!(self.open.contains(&(kind, id.clone())), "{kind} {id} is not open");
    }

    fn close(&mut self, kind: &'static str, id: String) {
        assert!(self.open.remove(&(kind, id.clone())), "{kind} {id} is not open");
    }
}

/// Outside of what is anybody's own: the state, results, arguments.
fn has_null(event: &Value) -> bool {
    event.as_object().is_some_and(|members| {
        members.iter().any(|(name, value)| value.is_null() && !["snapshot", "value"].contains(&name.as_str()))
    })
}
