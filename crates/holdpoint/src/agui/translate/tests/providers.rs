//! The stream of a graph that a provider executes.

use serde_json::json;

use super::{kinds, replied, translate_all};
use crate::agui::test_runs::{interrupt_requested, new_run, provider_call, started, workflow};

#[test]
fn a_graph_of_a_provider_streams_its_text_and_calls_and_waits_with_the_call() {
    let mut run = new_run(workflow("claude:agent", &["agent"]));
    let text = |text: &str, last: bool| {
        json!({"type": "ai.message.chunk", "node": "agent", "chunk": text, "last": last,
            "meta": {"messageId": "reply-1", "attempt": 1, "index": 0}})
    };
    let mut reply =
        replied("I will.", json!([{"id": "call-1", "name": "Bash", "arguments": {"command": "ls"}}]));
    reply["provider"] = json!(true);
    let called = json!({"type": "agent.toolCalled", "node": "agent", "call": "call-1", "behaviour": "allow",
        "idempotent": false});
    let request = provider_call(json!(["accept", "reject"]));
    let waits = [
        started(json!({})),
        json!({"type": "node.started", "node": "agent"}),
        text("I w", false),
        text("ill.", true),
        reply,
        called,
        interrupt_requested(1, "agent", &request),
        json!({"type": "node.suspended", "node": "agent", "interrupt": 1}),
    ];
    let first = translate_all(&mut run, true, &waits);
    let expected = [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds(&first), expected);
    let asked = &first.last().unwrap()["outcome"]["interrupts"][0];
    assert_eq!((&asked["reason"], &asked["toolCallId"]), (&json!("tool_call"), &first[6]["toolCallId"]));
    let continues = [
        json!({"type": "interrupt.resolved", "id": 1, "value": {"action": "accept"}, "by": "ann"}),
        json!({"type": "node.resumed", "node": "agent", "interrupt": 1}),
        json!({"type": "agent.toolReturned", "node": "agent", "call": "call-1", "status": "succeeded",
            "content": "file"}),
        json!({"type": "node.completed", "node": "agent", "outputs": {"output": {"result": "Done."}}}),
        json!({"type": "run.completed"}),
    ];
    let second = translate_all(&mut run, true, &continues);
    let expected = [
        "RUN_STARTED",
        "STEP_STARTED",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STATE_SNAPSHOT",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds(&second), expected);
    assert_eq!(second[2]["toolCallId"], asked["toolCallId"]);
}
