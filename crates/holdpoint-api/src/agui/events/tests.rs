//! Tests of the serialized form of events.

use serde_json::json;

use super::*;

fn sample() -> Vec<(Event, Value)> {
    let id = || "m1".to_owned();
    vec![
        (Event::StepStarted { step_name: id() }, json!({"type": "STEP_STARTED", "stepName": "m1"})),
        (Event::StepFinished { step_name: id() }, json!({"type": "STEP_FINISHED", "stepName": "m1"})),
        (
            Event::TextMessageStart { message_id: id(), role: Some("assistant".into()), name: None },
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}),
        ),
        (
            Event::TextMessageChunk { message_id: None, role: None, delta: Some(id()), name: None },
            json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "m1"}),
        ),
        (
            Event::ToolCallChunk {
                tool_call_id: Some(id()),
                tool_call_name: Some("f".to_owned()),
                parent_message_id: None,
                delta: None,
            },
            json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "m1", "toolCallName": "f"}),
        ),
        (
            Event::ToolCallResult {
                message_id: id(),
                tool_call_id: id(),
                content: id().into(),
                role: Some("tool".into()),
            },
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m1", "toolCallId": "m1", "content": "m1", "role": "tool"}),
        ),
        (Event::StateSnapshot { snapshot: Value::Null }, json!({"type": "STATE_SNAPSHOT", "snapshot": null})),
    ]
}

fn rare() -> Vec<(Event, Value)> {
    let id = || "m1".to_owned();
    vec![
        (
            Event::ActivitySnapshot {
                message_id: id(),
                activity_type: id(),
                content: Map::new(),
                replace: None,
            },
            json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m1", "activityType": "m1", "content": {}}),
        ),
        (
            Event::ActivityDelta { message_id: id(), activity_type: id(), patch: vec![] },
            json!({"type": "ACTIVITY_DELTA", "messageId": "m1", "activityType": "m1", "patch": []}),
        ),
        (Event::Raw { event: json!({}), source: None }, json!({"type": "RAW", "event": {}})),
        (
            Event::Custom { name: id(), value: Value::Null },
            json!({"type": "CUSTOM", "name": "m1", "value": null}),
        ),
        (
            Event::ReasoningMessageStart { message_id: id(), role: "reasoning".into() },
            json!({"type": "REASONING_MESSAGE_START", "messageId": "m1", "role": "reasoning"}),
        ),
        (
            Event::ReasoningEncryptedValue {
                subtype: "message".into(),
                entity_id: id(),
                encrypted_value: id(),
            },
            json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m1", "encryptedValue": "m1"}),
        ),
        (
            Event::SubagentFinished {
                subagent_run_id: id(),
                result: None,
                outcome: Some(SubagentOutcome::Suspended { interrupt_ids: vec![id()] }),
            },
            json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "m1",
                "outcome": {"type": "suspended", "interruptIds": ["m1"]}}),
        ),
        (
            Event::SubagentError { subagent_run_id: id(), message: id(), code: None },
            json!({"type": "SUBAGENT_ERROR", "subagentRunId": "m1", "message": "m1"}),
        ),
    ]
}

#[test]
fn events_have_the_names_of_the_protocol_and_omit_members_without_a_value() {
    for (event, expected) in sample().into_iter().chain(rare()) {
        assert_eq!(serde_json::to_value(Frame::from(event)).unwrap(), expected);
    }
}

#[test]
fn common_members_are_beside_the_members_of_the_event() {
    let event = Event::RunError { message: "no".to_owned(), code: None, usage: Vec::new() };
    let frame = Frame { timestamp: Some(5), ..Frame::from(event) };
    let expected = json!({"type": "RUN_ERROR", "message": "no", "timestamp": 5});
    assert_eq!(serde_json::to_value(&frame).unwrap(), expected);
}

#[test]
fn outcomes_have_their_own_members() {
    let finished = |outcome| {
        let (thread_id, run_id) = ("t".to_owned(), "r".to_owned());
        let event =
            Event::RunFinished { thread_id, run_id, result: None, outcome: Some(outcome), usage: vec![] };
        serde_json::to_value(event).unwrap()["outcome"].clone()
    };
    assert_eq!(finished(Outcome::Success { pending_tool_call_ids: vec![] }), json!({"type": "success"}));
    let pending = Outcome::Success { pending_tool_call_ids: vec!["c".to_owned()] };
    assert_eq!(finished(pending), json!({"type": "success", "pendingToolCallIds": ["c"]}));
    assert_eq!(finished(Outcome::Cancelled), json!({"type": "cancelled"}));
}
