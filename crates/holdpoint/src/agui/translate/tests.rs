//! Tests of translated streams, with a check of the event order that clients require.

use holdpoint_core::Timestamp;
use serde_json::json;

use super::*;
use crate::agui::test_runs::{event, interrupt_requested, new_run, permission, started, workflow};
use crate::agui::verifier::verify;

mod providers;
mod streams;

/// Applies events to a run and returns the translated stream until the end of the segment.
fn translate_all(run: &mut Run, modern: bool, events: &[Value]) -> Vec<Value> {
    let client = if modern { ClientVersion::V1 } else { ClientVersion::V0 };
    let mut translator = Translator::new("th", "wire", client, json!({}));
    let mut all = vec![translator.begin()];
    for one in events {
        let one = event(one.clone());
        run.apply(&one, Timestamp(1000));
        all.extend(translator.translate(&one, run));
    }
    let open: Vec<_> = interrupts::open_for_people(run)
        .map(|asked| OpenInterrupt { run: Arc::new(run.clone()), id: asked.id })
        .collect();
    all.extend(translator.close(run, &open));
    all.push(translator.end(run, SegmentEnd::of(run).expect("the segment has ended"), &open));
    let all: Vec<Value> = all.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    verify(&all);
    all
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn agent() -> Run {
    new_run(workflow("agent:mailer", &["agent"]))
}

fn replied(text: &str, calls: Value) -> Value {
    json!({"type": "holdpoint.model.replied", "node": "agent", "seen": 1, "model": "m",
        "usage": {"inputTokens": 3, "outputTokens": 4},
        "message": {"id": "reply-1", "role": "assistant", "content": text, "calls": calls}})
}

fn email() -> Value {
    json!([{"id": "c1", "name": "sendEmail", "arguments": {"to": "bob"}}])
}

fn returned() -> Value {
    json!({"type": "agent.toolReturned", "node": "agent", "call": "c1", "status": "succeeded", "content": {"ok": 1}})
}

fn completed() -> [Value; 2] {
    let outputs = json!({"text": "Done."});
    [json!({"type": "node.completed", "node": "agent", "outputs": outputs}), json!({"type": "run.completed"})]
}

fn chunk(text: &str, attempt: u64, last: bool) -> Value {
    json!({"type": "ai.message.chunk", "node": "agent", "chunk": text, "last": last,
        "meta": {"messageId": "reply-1", "attempt": attempt, "index": 0}})
}

#[test]
fn a_plain_answer_is_one_message_and_a_success() {
    let mut run = agent();
    let [done, end] = completed();
    let begun = json!({"type": "node.started", "node": "agent"});
    let all =
        translate_all(&mut run, true, &[started(json!({})), begun, replied("Hello!", json!([])), done, end]);
    assert_eq!(
        kinds(&all),
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"],
        "the only node of an agent is not a step"
    );
    assert_eq!(
        all[0],
        json!({"type": "RUN_STARTED", "threadId": "th", "runId": "wire", "protocolVersion": "1.0"})
    );
    assert_eq!(all[1]["messageId"], "r:reply-1");
    let end = &all[4];
    assert_eq!((&end["outcome"], &end["result"]), (&json!({"type": "success"}), &json!({"text": "Done."})));
    assert_eq!(end["usage"], json!([{"model": "m", "inputTokens": 3, "outputTokens": 4, "totalTokens": 7}]));
}

#[test]
fn a_waiting_call_ends_the_segment_and_its_result_is_only_in_the_next_one() {
    let mut run = agent();
    let waits = [
        started(json!({})),
        json!({"type": "node.started", "node": "agent"}),
        replied("I will.", email()),
        json!({"type": "agent.toolCalled", "node": "agent", "call": "c1", "behaviour": "ask", "idempotent": false}),
        interrupt_requested(1, "agent", &permission("c1")),
        json!({"type": "holdpoint.tool.suspended", "node": "agent", "call": "c1", "interrupt": 1, "mode": "replay_tool_call"}),
        json!({"type": "node.suspended", "node": "agent", "interrupt": 1}),
    ];
    let first = translate_all(&mut run, true, &waits);
    assert_eq!(kinds(&first)[4..7], ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]);
    assert_eq!(
        (&first[4]["toolCallId"], &first[4]["parentMessageId"]),
        (&json!("r:c1"), &json!("r:reply-1"))
    );
    assert_eq!(first[5]["delta"], "{\"to\":\"bob\"}");
    let outcome = &first.last().unwrap()["outcome"];
    assert_eq!(
        (&outcome["type"], &outcome["interrupts"][0]["toolCallId"]),
        (&json!("interrupt"), &json!("r:c1"))
    );
    let [done, end] = completed();
    let continues = [
        json!({"type": "interrupt.resolved", "id": 1, "value": {"action": "accept"}, "by": "ann"}),
        json!({"type": "node.resumed", "node": "agent", "interrupt": 1}),
        json!({"type": "holdpoint.tool.begun", "node": "agent", "call": "c1"}),
        returned(),
        done,
        end,
    ];
    let second = translate_all(&mut run, true, &continues);
    assert_eq!(kinds(&second), ["RUN_STARTED", "TOOL_CALL_RESULT", "RUN_FINISHED"]);
    let expected = json!({"type": "TOOL_CALL_RESULT", "messageId": "r:c1:result", "toolCallId": "r:c1",
        "content": "{\"ok\":1}", "role": "tool"});
    assert_eq!(second[1], expected);
}

#[test]
fn chunks_are_streamed_and_not_repeated_with_the_complete_reply() {
    let mut run = agent();
    let [done, end] = completed();
    let all = translate_all(
        &mut run,
        true,
        &[
            started(json!({})),
            chunk("Hel", 1, false),
            chunk("lo", 1, false),
            replied("Hello!", email()),
            done,
            end,
        ],
    );
    let deltas: Vec<_> =
        all.iter().filter(|one| one["type"] == "TEXT_MESSAGE_CONTENT").map(|one| &one["delta"]).collect();
    assert_eq!(deltas, [&json!("Hel"), &json!("lo"), &json!("!")]);
    assert_eq!(kinds(&all)[5..7], ["TEXT_MESSAGE_END", "TOOL_CALL_START"]);
}

#[test]
fn chunks_of_a_failed_attempt_are_not_mixed_with_those_of_the_next() {
    let mut run = agent();
    let [done, end] = completed();
    let events = [
        started(json!({})),
        chunk("Hel", 1, false),
        chunk("Good", 2, false),
        chunk("bye", 2, true),
        replied("Goodbye", json!([])),
        done,
        end,
    ];
    let all = translate_all(&mut run, true, &events);
    let deltas: Vec<_> =
        all.iter().filter(|one| one["type"] == "TEXT_MESSAGE_CONTENT").map(|one| &one["delta"]).collect();
    assert_eq!(deltas, [&json!("Hel")], "the messages at the end have the valid text");
}

#[test]
fn steps_of_a_workflow_close_when_the_run_waits_and_open_again() {
    let mut run = new_run(workflow("w", &["a", "b"]));
    let gate = json!({"artifactId": "a", "artifactType": "t", "title": "Go?", "actions": ["accept"]});
    let gate = holdpoint_core::InterruptRequest::new(holdpoint_core::Kind::Approval, gate);
    let first = translate_all(
        &mut run,
        true,
        &[
            started(json!({"n": 1})),
            json!({"type": "node.started", "node": "a"}),
            json!({"type": "ai.message.chunk", "node": "a", "chunk": "Hm", "last": false}),
            json!({"type": "variable.changed", "node": "a", "name": "x/y", "next": 2}),
            json!({"type": "node.completed", "node": "a"}),
            json!({"type": "node.started", "node": "b"}),
            interrupt_requested(1, "b", &gate),
            json!({"type": "node.suspended", "node": "b", "interrupt": 1}),
        ],
    );
    let expected = [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "STATE_DELTA",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "STEP_STARTED",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds(&first), expected);
    assert_eq!((&first[1]["snapshot"], &first[3]["messageId"]), (&json!({"n": 1}), &json!("r:a:1")));
    assert_eq!(first[5]["delta"], json!([{"op": "add", "path": "/x~1y", "value": 2}]));
    let second = translate_all(
        &mut run,
        true,
        &[
            json!({"type": "interrupt.resolved", "id": 1, "value": {"action": "accept"}, "by": "ann"}),
            json!({"type": "node.resumed", "node": "b", "interrupt": 1}),
            json!({"type": "node.completed", "node": "b"}),
            json!({"type": "run.completed"}),
        ],
    );
    let expected = ["RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"];
    assert_eq!(kinds(&second), expected);
}

#[test]
fn a_stream_that_begins_in_the_middle_has_no_end_without_a_start() {
    let mut run = new_run(workflow("w", &["a"]));
    for one in [started(json!({})), json!({"type": "node.started", "node": "a"})] {
        run.apply(&event(one), Timestamp(1000));
    }
    let rest = [json!({"type": "node.completed", "node": "a"}), json!({"type": "run.completed"})];
    assert_eq!(kinds(&translate_all(&mut run, true, &rest)), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[test]
fn the_end_of_a_run_depends_on_the_version_of_the_client() {
    let end = |modern, last: Value| {
        let mut run = agent();
        translate_all(&mut run, modern, &[started(json!({})), last]).pop().unwrap()
    };
    let failed = json!({"type": "run.failed", "error": {"code": "model_bad_reply", "message": "no"}});
    let shown = end(true, failed);
    assert_eq!((&shown["type"], &shown["code"]), (&json!("RUN_ERROR"), &json!("model_bad_reply")));
    let cancelled = json!({"type": "run.cancelled", "by": "ann", "reason": "enough"});
    assert_eq!(end(true, cancelled.clone())["outcome"], json!({"type": "cancelled"}));
    let old = end(false, cancelled);
    assert_eq!(
        (&old["type"], &old["code"], &old["message"]),
        (&json!("RUN_ERROR"), &json!("cancelled"), &json!("enough"))
    );
}

#[test]
fn open_client_tool_calls_are_a_success_with_pending_ids() {
    use crate::agui::test_runs::ticket;
    use holdpoint_core::agent::CLIENT_TOOL;
    let mode = holdpoint_core::agent::ToolCallResumeMode::UseDecisionAsToolResult;
    let asks = || interrupt_requested(1, "agent", &ticket(CLIENT_TOOL, mode, None));
    let node = |kind: &str| json!({"type": kind, "node": "agent", "interrupt": 1});
    let end = |modern| {
        let mut run = agent();
        let events = [started(json!({})), node("node.started"), asks(), node("node.suspended")];
        translate_all(&mut run, modern, &events).pop().unwrap()["outcome"].clone()
    };
    assert_eq!(end(true), json!({"type": "success", "pendingToolCallIds": ["r:c1"]}));
    assert_eq!(end(false), json!({"type": "success"}), "clients before 1.0 do not accept this member");
}

#[test]
fn the_first_change_of_a_known_state_is_sent_as_a_snapshot() {
    let mut run = agent();
    let changed =
        |next: u32| json!({"type": "variable.changed", "node": "agent", "name": "executions", "next": next});
    let mut translator = Translator::new("th", "wire", ClientVersion::V1, json!({"executions": 1}));
    run.apply(&event(started(json!({"executions": 1}))), Timestamp(1000));
    let mut translate_one = |run: &mut Run, one: Value| -> Vec<Value> {
        let one = event(one);
        run.apply(&one, Timestamp(1000));
        translator.translate(&one, run).iter().map(|event| serde_json::to_value(event).unwrap()).collect()
    };
    assert_eq!(
        translate_one(&mut run, json!({"type": "node.started", "node": "agent"})),
        Vec::<Value>::new()
    );
    let first = translate_one(&mut run, changed(2));
    assert_eq!(first, [json!({"type": "STATE_SNAPSHOT", "snapshot": {"executions": 2}})]);
    let next = translate_one(&mut run, changed(3));
    let delta = json!([{"op": "replace", "path": "/executions", "value": 3}]);
    assert_eq!(next, [json!({"type": "STATE_DELTA", "delta": delta})]);
}
