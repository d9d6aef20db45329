//! The real program, with a stand-in for its model: pauses and answers.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::real_world::{publisher, world};
use crate::stand_in::StandIn;
use crate::world::{World, asks, said, troubled};

fn bash(command: &str) -> Value {
    json!(["Bash", {"command": command, "description": "publish"}])
}

/// Where calls leave a trace: in no folder of the agent's.
fn traces(world: &World) -> String {
    fs::read_to_string(world.place.path().join("published.txt")).unwrap_or_default()
}

fn publish(place: &Path, word: &str) -> Value {
    bash(&format!("echo {word} >> {}; echo wrote {word}", place.join("published.txt").display()))
}

async fn approving(word: &str) -> (StandIn, World) {
    let model = StandIn::with(json!([{"text": "not yet"}])).await;
    let world = world(&model, json!({})).await;
    model.play(json!([{"calls": [publish(world.place.path(), word)]}, {"text": "final: {results}"}]));
    (model, world)
}

#[tokio::test]
async fn a_call_is_made_once_and_only_after_somebody_allowed_it() {
    let (_, mut world) = approving("one").await;
    let standing = world.start().await;
    let (kind, data) = asks(&standing);
    assert_eq!((kind, &data["tool"]), ("tool_approval", &json!("Bash")));
    assert_eq!(traces(&world), "");
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: wrote one");
    assert_eq!(traces(&world), "one\n");
}

#[tokio::test]
async fn an_edited_call_is_made_as_it_was_edited() {
    let (_, mut world) = approving("one").await;
    world.start().await;
    let edited = publish(world.place.path(), "other")[1].clone();
    let standing = world.answer(json!({"decision": "edit", "input": edited})).await;
    assert_eq!(said(&standing), "final: wrote other");
    assert_eq!(traces(&world), "other\n");
}

#[tokio::test]
async fn a_rejected_call_is_asked_for_again_until_somebody_is_content() {
    let (model, mut world) = approving("one").await;
    let place = world.place.path().to_owned();
    let steps = json!([
        {"calls": [publish(&place, "one")]}, {"calls": [publish(&place, "two")], "text": "I see: {results}"},
        {"text": "final: {results}"},
    ]);
    model.play(steps);
    world.start().await;
    let standing = world.answer(json!({"decision": "reject", "reason": "shorter"})).await;
    assert!(asks(&standing).1["input"]["command"].as_str().unwrap().contains("echo two"), "{standing:?}");
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: wrote two");
    assert_eq!(traces(&world), "two\n");
    let heard = Value::Array(model.heard()).to_string();
    assert!(heard.contains("a person rejected this call: shorter"), "{heard}");
}

#[tokio::test]
async fn of_two_gated_calls_in_one_message_the_second_has_to_wait() {
    let (model, mut world) = approving("one").await;
    let place = world.place.path().to_owned();
    // The end of the message comes late, after both hooks were asked.
    let both = json!({"calls": [publish(&place, "one"), publish(&place, "two")], "tailMs": 500});
    model.play(json!([both, {"text": "final: {results}"}]));
    let standing = world.start().await;
    assert_eq!(asks(&standing).0, "tool_approval");
    assert_eq!(traces(&world), "");
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(traces(&world).lines().count(), 1);
    let heard = Value::Array(model.heard()).to_string();
    assert!(heard.contains("one gated action at a time"), "{heard}");
    said(&standing);
}

#[tokio::test]
async fn a_question_is_asked_and_its_answers_reach_the_agent() {
    let option = |label: &str| json!({"label": label, "description": label});
    let options = [option("red"), option("blue")];
    let question =
        json!({"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": false});
    let ask = json!(["AskUserQuestion", {"questions": [question]}]);
    let model = StandIn::with(json!([{"calls": [ask]}, {"text": "final: {results}"}])).await;
    let mut world = world(&model, json!({})).await;
    let standing = world.start().await;
    let (kind, data) = asks(&standing);
    assert_eq!((kind, &data["questions"][0]["question"]), ("question", &json!("Which colour?")));
    let standing = world.answer(json!({"answers": {"Which colour?": "blue"}})).await;
    assert!(said(&standing).contains("blue"), "{standing:?}");
}

#[tokio::test]
async fn a_tool_of_a_server_is_gated_like_any_other() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("calls.jsonl");
    let call = json!(["mcp__pub__publish", {"text": "hello"}]);
    let model = StandIn::with(json!([{"calls": [call]}, {"text": "final: {results}"}])).await;
    let mut world = world(&model, json!({"mcpServers": publisher(&file, None)})).await;
    let standing = world.start().await;
    assert_eq!(asks(&standing).1, &json!({"tool": "mcp__pub__publish", "input": {"text": "hello"}}));
    assert!(!file.exists());
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: published 1 in all");
}

#[tokio::test]
async fn what_nobody_is_asked_about_runs_by_itself() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("calls.jsonl");
    let call = json!(["mcp__pub__publish", {"text": "hello"}]);
    let model = StandIn::with(json!([{"calls": [call]}, {"text": "final: {results}"}])).await;
    let more = json!({"mcpServers": publisher(&file, None), "ungated": ["mcp__pub__*"]});
    let mut world = world(&model, more).await;
    assert_eq!(said(&world.start().await), "final: published 1 in all");
}

#[tokio::test]
async fn a_conversation_goes_on_where_there_is_no_folder_of_it() {
    let (_, mut world) = approving("one").await;
    world.start().await;
    world.move_to("elsewhere").await;
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: wrote one");
    assert_eq!(traces(&world), "one\n");
}

#[tokio::test]
async fn another_version_than_the_pinned_one_is_not_used() {
    let model = StandIn::with(json!([{"text": "hello"}])).await;
    let mut world = world(&model, json!({"version": "1.0.0"})).await;
    assert_eq!(troubled(&world.start().await).0, "provider_version");
}
