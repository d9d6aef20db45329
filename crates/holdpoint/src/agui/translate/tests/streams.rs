//! Tests of what a client gets while a model writes: reasoning, arguments, activities and results with parts.

use super::*;

fn call_chunk(name: Option<&str>, text: &str, attempt: u64) -> Value {
    let mut event = json!({"type": "holdpoint.tool.chunk", "node": "agent", "call": "c1", "chunk": text, "last": false,
        "meta": {"messageId": "reply-1", "attempt": attempt, "index": 0}});
    if let Some(name) = name {
        event["name"] = name.into();
    }
    event
}

fn reasoning_chunk(text: &str, part: u64, attempt: u64, last: bool) -> Value {
    json!({"type": "holdpoint.reasoning.chunk", "node": "agent", "chunk": text, "last": last,
        "meta": {"messageId": "reply-1", "attempt": attempt, "index": 0, "part": part}})
}

fn replied_with_reasoning(text: &str, reasoning: Value) -> Value {
    let mut reply = replied(text, json!([]));
    reply["message"]["reasoning"] = reasoning;
    reply
}

fn deltas<'a>(events: &'a [Value], kind: &str) -> Vec<&'a str> {
    let found = events.iter().filter(|event| event["type"] == kind);
    found.map(|event| event["delta"].as_str().unwrap()).collect()
}

/// Returns the stream of a run of one agent with these events, and whether the client needs a correction.
fn stream_of(middle: &[Value]) -> (Vec<Value>, bool) {
    let mut run = agent();
    let mut translator = Translator::new("th", "wire", ClientVersion::V0, json!({}));
    let mut all = vec![translator.begin()];
    let [done, end] = completed();
    for one in [&[started(json!({}))], middle, &[done, end]].concat() {
        let one = event(one);
        run.apply(&one, Timestamp(1000));
        all.extend(translator.translate(&one, &run));
    }
    let needs_correction = translator.needs_correction();
    all.extend(translator.close(&run, &[]));
    all.push(translator.end(&run, SegmentEnd::Ended, &[]));
    let all: Vec<Value> = all.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    verify(&all);
    (all, needs_correction)
}

#[test]
fn arguments_are_streamed_and_not_repeated_with_the_complete_reply() {
    let chunks = [
        chunk("I will.", 1, false),
        call_chunk(Some("sendEmail"), "{\"to\":", 1),
        call_chunk(None, " \"bob\"}", 1),
        replied("I will.", email()),
    ];
    let (all, needs_correction) = stream_of(&chunks);
    assert_eq!(deltas(&all, "TOOL_CALL_ARGS"), ["{\"to\":", " \"bob\"}"], "the text of the model");
    let calls: Vec<_> = kinds(&all).into_iter().filter(|kind| kind.starts_with("TOOL")).collect();
    assert_eq!(calls, ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END"]);
    let start = all.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    assert_eq!((&start["toolCallId"], &start["parentMessageId"]), (&json!("r:c1"), &json!("r:reply-1")));
    assert!(!needs_correction);
}

#[test]
fn the_complete_reply_adds_the_rest_of_the_arguments() {
    let chunks = [call_chunk(Some("sendEmail"), "{\"to\":", 1), replied("", email())];
    let (all, needs_correction) = stream_of(&chunks);
    assert_eq!(deltas(&all, "TOOL_CALL_ARGS"), ["{\"to\":", "\"bob\"}"]);
    assert!(!needs_correction);
    let other = [call_chunk(Some("sendEmail"), "{ \"to\":", 1), replied("", email())];
    let (all, needs_correction) = stream_of(&other);
    assert_eq!(deltas(&all, "TOOL_CALL_ARGS"), ["{ \"to\":"], "the rest is unknown");
    assert!(needs_correction, "the messages at the end have the recorded arguments");
}

#[test]
fn arguments_of_a_failed_attempt_are_corrected() {
    let chunks = [
        call_chunk(Some("sendEmail"), "{\"to\": \"al", 1),
        chunk("Now", 2, false),
        call_chunk(Some("sendEmail"), "{\"to\":\"bob\"}", 2),
        replied("Now", email()),
    ];
    let (all, needs_correction) = stream_of(&chunks);
    assert_eq!(deltas(&all, "TOOL_CALL_ARGS"), ["{\"to\": \"al"], "a call is not opened again");
    assert!(needs_correction);
    // A retry without the call.
    let chunks = [call_chunk(Some("sendEmail"), "{", 1), chunk("No", 2, false), replied("No", json!([]))];
    assert!(stream_of(&chunks).1);
}

#[test]
fn reasoning_is_a_message_of_its_own_before_the_text() {
    let part = |text: &str| json!({"text": text, "source": "s", "shown": true});
    let chunks = [
        reasoning_chunk("First, ", 0, 1, false),
        reasoning_chunk("the sum.", 0, 1, true),
        chunk("It is", 1, false),
        replied_with_reasoning("It is 5.", json!([part("First, the sum."), part("Then more.")])),
    ];
    let (all, needs_correction) = stream_of(&chunks);
    let expected = [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds(&all), expected);
    assert_eq!(
        (&all[1]["messageId"], &all[9]["messageId"]),
        (&json!("r:reply-1:reasoning-0"), &json!("r:reply-1:reasoning-1"))
    );
    assert!(!needs_correction);
}

#[test]
fn hidden_reasoning_is_not_sent_and_encrypted_reasoning_has_no_text() {
    let hidden = json!({"text": "secret", "data": {"signature": "s"}, "source": "s"});
    let encrypted = json!({"data": {"encrypted": "x"}, "source": "s", "shown": true});
    let (all, needs_correction) = stream_of(&[replied_with_reasoning("Hi", json!([hidden, encrypted]))]);
    assert!(!json!(all).to_string().contains("secret") && !needs_correction);
    let value = json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message",
        "entityId": "r:reply-1:reasoning-1", "encryptedValue": "x"});
    assert!(all.contains(&value), "{all:?}");
    assert!(deltas(&all, "REASONING_MESSAGE_CONTENT").is_empty());
}

#[test]
fn reasoning_of_a_failed_attempt_is_corrected() {
    let part = json!([{"text": "Better.", "source": "s", "shown": true}]);
    let chunks = [
        reasoning_chunk("Hm", 0, 1, false),
        reasoning_chunk("Better.", 0, 2, true),
        replied_with_reasoning("Hi", part),
    ];
    let (all, needs_correction) = stream_of(&chunks);
    assert_eq!(deltas(&all, "REASONING_MESSAGE_CONTENT"), ["Hm"]);
    assert!(needs_correction);
}

#[test]
fn the_last_chunk_ends_a_call_without_a_recorded_reply() {
    let mut last = call_chunk(None, "{}", 1);
    last["last"] = true.into();
    let (all, _) = stream_of(&[call_chunk(Some("search"), "", 1), last, chunk("Found.", 1, true)]);
    let expected =
        ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TEXT_MESSAGE_START"];
    assert_eq!(kinds(&all)[..5], expected);
}

#[test]
fn activities_are_a_snapshot_and_then_shorter_deltas() {
    let report = |content: Value| {
        json!({"type": "holdpoint.activity.reported", "node": "agent", "activity": "c1:copy", "kind": "PROGRESS",
            "content": content, "call": "c1"})
    };
    let long = "a long description that no delta repeats";
    let (all, _) = stream_of(&[
        report(json!({"done": 1, "text": long})),
        report(json!({"done": 2, "text": long})),
        report(json!({"done": 2, "text": long})),
        report(json!({"ok": 1})),
    ]);
    assert_eq!(kinds(&all)[1..4], ["ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "ACTIVITY_SNAPSHOT"]);
    let first = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "r:activity:c1:copy", "activityType": "PROGRESS",
        "content": {"done": 1, "text": long}});
    assert_eq!(all[1], first);
    assert_eq!(all[2]["patch"], json!([{"op": "replace", "path": "/done", "value": 2}]));
    assert_eq!(all[3]["content"], json!({"ok": 1}), "a patch would be longer");
}

#[test]
fn results_with_content_parts_are_lists_for_clients_of_1_0_and_texts_for_others() {
    let image =
        json!({"type": "image", "source": {"type": "data", "value": "/9j/", "mimeType": "image/jpeg"}});
    let parts = json!([{"type": "text", "text": "A chart"}, image]);
    let result = Event::ToolCallResult {
        message_id: "m".to_owned(),
        tool_call_id: "c".to_owned(),
        content: result_content(&parts),
        role: None,
    };
    let content = |client| {
        let translator = Translator::new("th", "wire", client, json!({}));
        serde_json::to_value(translator.adapt(result.clone())).unwrap()["content"].clone()
    };
    assert_eq!(content(ClientVersion::V1), parts);
    assert_eq!(content(ClientVersion::V0), "A chart\n[image/jpeg]");
    assert_eq!(result_content(&json!([{"row": 1}])), "[{\"row\":1}]", "other lists are data");
}
