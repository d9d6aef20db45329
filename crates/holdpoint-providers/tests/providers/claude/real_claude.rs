//! Interrupts and answers with the published program and a fake model API.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, expect_error, expect_result, expect_waiting};
use crate::claude::fake_model_api::FakeModelApi;
use crate::claude::real_agent::{open_real_agent, publisher};
use crate::claude::streams::{shown_progress, wait_for_chunk};

fn bash(command: &str) -> Value {
    json!(["Bash", {"command": command, "description": "publish"}])
}

/// Returns the effects of the calls. Their file is not in a folder of the agent.
fn published(env: &ClaudeEnv) -> String {
    fs::read_to_string(env.folder.path().join("published.txt")).unwrap_or_default()
}

fn publish(folder: &Path, word: &str) -> Value {
    bash(&format!("echo {word} >> {}; echo wrote {word}", folder.join("published.txt").display()))
}

/// Opens an agent whose model calls a tool and then ends.
async fn agent_with_call(word: &str) -> (FakeModelApi, ClaudeEnv) {
    let model = FakeModelApi::with(json!([{"text": "not yet"}])).await;
    let env = open_real_agent(&model, json!({})).await;
    model.set_steps(json!([{"calls": [publish(env.folder.path(), word)]}, {"text": "final: {results}"}]));
    (model, env)
}

#[tokio::test]
async fn a_gated_call_is_made_once_and_only_after_its_approval() {
    let (_, mut env) = agent_with_call("one").await;
    let status = env.start().await;
    let (kind, data) = expect_waiting(&status);
    assert_eq!((kind, &data["tool"]), ("tool_approval", &json!("Bash")));
    assert_eq!(published(&env), "");
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: wrote one");
    assert_eq!(published(&env), "one\n");
}

#[tokio::test]
async fn text_of_the_model_is_recorded_before_the_model_ends_it() {
    let model = FakeModelApi::with(json!([{"text": "Hello world!", "held": true}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    env.begin("key").await;
    wait_for_chunk(&env, "Hello ").await;
    assert!(!shown_progress(&env).await.iter().any(|one| one[0] == "message"));
    model.end_text();
    assert_eq!(expect_result(&env.wait_until_stopped().await), "Hello world!");
    assert_eq!(shown_progress(&env).await.last(), Some(&json!(["message", "Hello world!", []])));
}

#[tokio::test]
async fn an_approval_of_the_published_program_is_bound_to_its_call() {
    let (_, mut env) = agent_with_call("one").await;
    env.start().await;
    env.answer(json!({"decision": "approve"})).await;
    let progress = shown_progress(&env).await;
    let kinds: Vec<_> = progress.iter().filter(|one| one[0] != "chunk").map(|one| &one[0]).collect();
    assert_eq!(kinds, ["message", "interrupt", "result", "message"], "{progress:?}");
    let run = env.engine().runs().get(env.of.as_ref().unwrap()).await.unwrap();
    let call = &run.nodes[0].agent.as_ref().expect("the messages of the agent").calls[0];
    assert_eq!(run.interrupts[0].provider_call(), Some(call.id.as_str()));
}

#[tokio::test]
async fn an_edited_call_is_made_as_it_was_edited() {
    let (_, mut env) = agent_with_call("one").await;
    env.start().await;
    let edited = publish(env.folder.path(), "other")[1].clone();
    let status = env.answer(json!({"decision": "edit", "input": edited})).await;
    assert_eq!(expect_result(&status), "final: wrote other");
    assert_eq!(published(&env), "other\n");
}

#[tokio::test]
async fn after_a_rejection_the_next_call_needs_its_own_approval() {
    let (model, mut env) = agent_with_call("one").await;
    let folder = env.folder.path().to_owned();
    let steps = json!([
        {"calls": [publish(&folder, "one")]}, {"calls": [publish(&folder, "two")], "text": "I see: {results}"},
        {"text": "final: {results}"},
    ]);
    model.set_steps(steps);
    env.start().await;
    let status = env.answer(json!({"decision": "reject", "reason": "shorter"})).await;
    assert!(
        expect_waiting(&status).1["input"]["command"].as_str().unwrap().contains("echo two"),
        "{status:?}"
    );
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: wrote two");
    assert_eq!(published(&env), "two\n");
    let messages = Value::Array(model.conversations()).to_string();
    assert!(messages.contains("a person rejected this call: shorter"), "{messages}");
}

#[tokio::test]
async fn of_two_gated_calls_in_one_message_the_second_is_denied() {
    let (model, mut env) = agent_with_call("one").await;
    let folder = env.folder.path().to_owned();
    // The end of the message is delayed until both hooks were called.
    let both = json!({"calls": [publish(&folder, "one"), publish(&folder, "two")], "tailMs": 500});
    model.set_steps(json!([both, {"text": "final: {results}"}]));
    let status = env.start().await;
    assert_eq!(expect_waiting(&status).0, "tool_approval");
    assert_eq!(published(&env), "");
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(published(&env).lines().count(), 1);
    let messages = Value::Array(model.conversations()).to_string();
    assert!(messages.contains("one gated action at a time"), "{messages}");
    expect_result(&status);
}

#[tokio::test]
async fn a_question_opens_an_interrupt_and_its_answers_reach_the_agent() {
    let option = |label: &str| json!({"label": label, "description": label});
    let options = [option("red"), option("blue")];
    let question =
        json!({"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": false});
    let ask = json!(["AskUserQuestion", {"questions": [question]}]);
    let model = FakeModelApi::with(json!([{"calls": [ask]}, {"text": "final: {results}"}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    let status = env.start().await;
    let (kind, data) = expect_waiting(&status);
    assert_eq!((kind, &data["questions"][0]["question"]), ("question", &json!("Which colour?")));
    let status = env.answer(json!({"answers": {"Which colour?": "blue"}})).await;
    assert!(expect_result(&status).contains("blue"), "{status:?}");
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_is_gated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.jsonl");
    let call = json!(["mcp__pub__publish", {"text": "hello"}]);
    let model = FakeModelApi::with(json!([{"calls": [call]}, {"text": "final: {results}"}])).await;
    let mut env = open_real_agent(&model, json!({"mcpServers": publisher(&file, None)})).await;
    let status = env.start().await;
    assert_eq!(expect_waiting(&status).1, &json!({"tool": "mcp__pub__publish", "input": {"text": "hello"}}));
    assert!(!file.exists());
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: published 1 in all");
}

#[tokio::test]
async fn an_ungated_tool_runs_without_an_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.jsonl");
    let call = json!(["mcp__pub__publish", {"text": "hello"}]);
    let model = FakeModelApi::with(json!([{"calls": [call]}, {"text": "final: {results}"}])).await;
    let more = json!({"mcpServers": publisher(&file, None), "ungated": ["mcp__pub__*"]});
    let mut env = open_real_agent(&model, more).await;
    assert_eq!(expect_result(&env.start().await), "final: published 1 in all");
}

#[tokio::test]
async fn a_session_continues_on_a_machine_without_its_folder() {
    let (_, mut env) = agent_with_call("one").await;
    env.start().await;
    env.restart_in("elsewhere").await;
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: wrote one");
    assert_eq!(published(&env), "one\n");
}

#[tokio::test]
async fn a_program_version_other_than_the_pinned_one_is_not_used() {
    let model = FakeModelApi::with(json!([{"text": "hello"}])).await;
    let mut env = open_real_agent(&model, json!({"version": "1.0.0"})).await;
    assert_eq!(expect_error(&env.start().await).0, "provider_version");
}
