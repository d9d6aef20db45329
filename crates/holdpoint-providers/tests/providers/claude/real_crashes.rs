//! The published program: kills during a call, and failures of the model API.

use std::fs;

use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, SyncPoint, expect_error, expect_result, expect_waiting};
use crate::claude::fake_model_api::FakeModelApi;
use crate::claude::real_agent::{open_real_agent, publisher};

/// A shell call that writes its effect and then stops at the sync point.
fn sync_shell(env: &ClaudeEnv, port: u16) -> Value {
    let file = env.folder.path().join("published.txt");
    // The parent process of the shell is the program of the agent.
    let command = format!(
        "echo one >> {}; exec 3<>/dev/tcp/127.0.0.1/{port}; echo here $PPID >&3; read line <&3; echo resumed",
        file.display()
    );
    json!(["Bash", {"command": command, "description": "publish"}])
}

fn published(env: &ClaudeEnv) -> usize {
    fs::read_to_string(env.folder.path().join("published.txt")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn an_interrupted_call_opens_an_interrupt_about_its_unknown_outcome_and_its_shell_is_killed() {
    let sync_point = SyncPoint::new().await;
    let model = FakeModelApi::with(json!([{"text": "not yet"}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    model.set_steps(json!([{"calls": [sync_shell(&env, sync_point.port())]}, {"text": "final: {results}"}]));
    env.start().await;
    env.begin_answer(json!({"decision": "approve"})).await;
    let stopped = sync_point.reached().await;
    stopped.kill();
    // The shell has its own process session and would continue.
    stopped.wait_for_exit().await;
    let status = env.wait_until_stopped().await;
    assert_eq!(expect_waiting(&status).0, "outcome_unknown");
    assert_eq!(published(&env), 1);
    env.begin_answer(json!({"decision": "retry"})).await;
    sync_point.reached().await.resume().await;
    assert_eq!(expect_result(&env.wait_until_stopped().await), "final: resumed");
    assert_eq!(published(&env), 2);
}

#[tokio::test]
async fn rejecting_the_retry_of_a_call_tells_the_agent_that_its_outcome_is_unknown() {
    let sync_point = SyncPoint::new().await;
    let model = FakeModelApi::with(json!([{"text": "not yet"}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    model.set_steps(json!([{"calls": [sync_shell(&env, sync_point.port())]}, {"text": "final: {results}"}]));
    env.start().await;
    env.begin_answer(json!({"decision": "approve"})).await;
    sync_point.reached().await.kill();
    expect_waiting(&env.wait_until_stopped().await);
    let status = env.answer(json!({"decision": "reject", "reason": "it is on the page"})).await;
    assert!(expect_result(&status).contains("whether it was made is unknown"), "{status:?}");
    assert_eq!(published(&env), 1);
}

#[tokio::test]
async fn a_repeated_call_of_an_idempotent_mcp_tool_has_one_effect() {
    let (sync_point, folder) = (SyncPoint::new().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("calls.jsonl");
    let call = json!(["mcp__pub__publish", {"text": "hello"}]);
    let model = FakeModelApi::with(json!([{"calls": [call]}, {"text": "final: {results}"}])).await;
    let servers = publisher(&file, Some(sync_point.port()));
    let mut env =
        open_real_agent(&model, json!({"mcpServers": servers, "idempotent": ["mcp__pub__*"]})).await;
    env.start().await;
    env.begin_answer(json!({"decision": "approve"})).await;
    sync_point.reached().await.kill();
    assert_eq!(expect_result(&env.wait_until_stopped().await), "final: published 1 in all");
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn cancelling_a_run_ends_its_program_and_its_shell() {
    let sync_point = SyncPoint::new().await;
    let model = FakeModelApi::with(json!([{"text": "not yet"}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    model.set_steps(json!([{"calls": [sync_shell(&env, sync_point.port())]}, {"text": "final: {results}"}]));
    env.start().await;
    env.begin_answer(json!({"decision": "approve"})).await;
    let stopped = sync_point.reached().await;
    let program = std::path::Path::new("/proc").join(stopped.pid.to_string());
    env.cancel().await;
    stopped.wait_for_exit().await;
    while program.exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(published(&env), 1);
}

#[tokio::test]
async fn an_overloaded_api_after_a_call_does_not_repeat_the_call() {
    let model = FakeModelApi::with(json!([{"text": "not yet"}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    let file = env.folder.path().join("published.txt");
    let call = json!(["Bash", {"command": format!("echo one >> {}; echo wrote", file.display())}]);
    model.set_steps(json!([{"calls": [call]}, {"status": 529}]));
    env.start().await;
    let (code, message) = expect_error(&env.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "provider_unreachable");
    assert!(message.contains("529") && message.contains("the decision was carried out"), "{message}");
    model.set_steps(json!([{"calls": [call]}, {"text": "final"}]));
    assert_eq!(expect_result(&env.answer(json!({"decision": "approve"})).await), "final");
    assert_eq!(published(&env), 1);
}

#[tokio::test]
async fn a_rejected_key_a_missing_key_and_a_rejected_request_have_distinct_error_codes() {
    let key = json!({"file": "key.txt"});
    for (key, status, code) in
        [(&key, 401, "provider_auth"), (&key, 400, "provider_rejected"), (&Value::Null, 529, "provider_auth")]
    {
        let model = FakeModelApi::with(json!([{"status": status}])).await;
        let mut env = open_real_agent(&model, json!({"apiKey": key})).await;
        let (found, message) = expect_error(&env.start().await);
        assert_eq!(found, code, "{message}");
    }
}

#[tokio::test]
async fn a_turn_that_exceeds_its_time_limit_is_stopped_and_can_be_answered_again() {
    let sync_point = SyncPoint::new().await;
    let model = FakeModelApi::with(json!([{"text": "not yet"}])).await;
    let mut env = open_real_agent(&model, json!({})).await;
    model.set_steps(json!([{"calls": [sync_shell(&env, sync_point.port())]}, {"text": "final"}]));
    expect_waiting(&env.start().await);
    env.change_profile(json!({"turnMs": 6000}));
    env.restart_in("sessions").await;
    env.begin_answer(json!({"decision": "approve"})).await;
    let stopped = sync_point.reached().await;
    let (code, _) = expect_error(&env.wait_until_stopped().await);
    assert_eq!(code, "provider_timeout");
    stopped.wait_for_exit().await;
    assert_eq!(expect_result(&env.answer(json!({"decision": "approve"})).await), "final");
    assert_eq!(published(&env), 1);
}
