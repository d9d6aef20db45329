//! Programs and engines that are killed during a call. A call that may have been made is only repeated after a
//! decision.

use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, SyncPoint, expect_result, expect_waiting};

fn call(tool: &str) -> Value {
    json!([tool, {"command": "publish"}])
}

/// Starts an agent and approves a call. The program stops at the sync point during the call.
async fn stop_in_call(tool: &str, more: Value) -> (ClaudeEnv, SyncPoint) {
    let sync_point = SyncPoint::new().await;
    let steps = json!([{"calls": [call(tool)]}, {"text": "final: {results}"}]);
    let mut env =
        ClaudeEnv::with_script(json!({"sync_in_call": sync_point.port(), "steps": steps}), more).await;
    env.start().await;
    env.begin_answer(json!({"decision": "edit", "input": {"command": "publish it"}})).await;
    (env, sync_point)
}

#[tokio::test]
async fn an_interrupted_call_opens_an_interrupt_about_its_unknown_outcome() {
    let (mut env, sync_point) = stop_in_call("Bash", json!({})).await;
    sync_point.reached().await.kill();
    let status = env.wait_until_stopped().await;
    let (kind, data) = expect_waiting(&status);
    assert_eq!(kind, "outcome_unknown");
    assert_eq!((&data["tool"], &data["input"]), (&json!("Bash"), &json!({"command": "publish it"})));
    assert_eq!(env.calls().len(), 1);
    let status = env.answer(json!({"decision": "retry"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish it\"}");
    assert_eq!(
        env.calls(),
        [json!(["Bash", {"command": "publish it"}]), json!(["Bash", {"command": "publish it"}])]
    );
}

#[tokio::test]
async fn rejecting_the_retry_of_a_call_tells_the_agent_that_its_outcome_is_unknown() {
    let (mut env, sync_point) = stop_in_call("Bash", json!({})).await;
    sync_point.reached().await.kill();
    expect_waiting(&env.wait_until_stopped().await);
    let status = env.answer(json!({"decision": "reject", "reason": "it is on the page"})).await;
    assert!(expect_result(&status).contains("whether it was made is unknown"), "{status:?}");
    assert!(expect_result(&status).contains("it is on the page"), "{status:?}");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn each_repeated_crash_of_a_call_needs_a_new_retry_decision() {
    let sync_point = SyncPoint::new().await;
    let steps = json!([{"calls": [call("Bash")]}, {"text": "final: {results}"}]);
    let script = json!({"sync_before_call": sync_point.port(), "steps": steps});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    env.begin_answer(json!({"decision": "approve"})).await;
    sync_point.reached().await.kill();
    assert_eq!(expect_waiting(&env.wait_until_stopped().await).0, "outcome_unknown");
    env.begin_answer(json!({"decision": "retry"})).await;
    sync_point.reached().await.kill();
    assert_eq!(expect_waiting(&env.wait_until_stopped().await).0, "outcome_unknown");
    env.begin_answer(json!({"decision": "retry"})).await;
    sync_point.reached().await.resume().await;
    assert_eq!(expect_result(&env.wait_until_stopped().await), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn an_interrupted_call_of_an_idempotent_tool_is_repeated() {
    let (env, sync_point) = stop_in_call("mcp__pub__publish", json!({"idempotent": ["mcp__pub__*"]})).await;
    sync_point.reached().await.kill();
    assert_eq!(expect_result(&env.wait_until_stopped().await), "final: made {\"command\": \"publish it\"}");
    assert_eq!(env.calls().len(), 2);
}

#[tokio::test]
async fn an_engine_killed_during_a_call_ends_its_program_and_the_next_engine_opens_an_interrupt() {
    let (mut env, sync_point) = stop_in_call("Bash", json!({"lockMs": 1000})).await;
    let stopped = sync_point.reached().await;
    env.kill_and_restart_in("sessions").await;
    stopped.wait_for_exit().await;
    assert_eq!(expect_waiting(&env.wait_until_stopped().await).0, "outcome_unknown");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn an_engine_on_another_machine_opens_an_interrupt_after_a_kill_during_a_call() {
    let (mut env, sync_point) = stop_in_call("Bash", json!({"lockMs": 1000})).await;
    let stopped = sync_point.reached().await;
    env.kill_and_restart_in("elsewhere").await;
    stopped.wait_for_exit().await;
    assert_eq!(expect_waiting(&env.wait_until_stopped().await).0, "outcome_unknown");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn an_engine_without_the_lock_of_the_handle_permits_no_call() {
    let sync_point = SyncPoint::new().await;
    let steps = json!([{"calls": [call("Bash")]}, {"text": "final: {results}"}]);
    let mut env =
        ClaudeEnv::with_script(json!({"sync_on_resume": sync_point.port(), "steps": steps}), json!({})).await;
    env.start().await;
    env.begin_answer(json!({"decision": "approve"})).await;
    let stopped = sync_point.reached().await;
    env.set_lock_owner(Some("another node"));
    // The program asks for permission and is killed instead.
    stopped.resume_and_wait_for_exit().await;
    assert_eq!(env.calls(), [] as [Value; 0]);
    env.set_lock_owner(None);
    sync_point.reached().await.resume().await;
    assert_eq!(expect_result(&env.wait_until_stopped().await), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn an_engine_that_loses_the_lock_of_the_handle_during_a_call_kills_the_program() {
    let (env, sync_point) = stop_in_call("Bash", json!({"lockMs": 1000})).await;
    let stopped = sync_point.reached().await;
    env.set_lock_owner(Some("another node"));
    stopped.wait_for_exit().await;
    env.set_lock_owner(None);
    assert_eq!(expect_waiting(&env.wait_until_stopped().await).0, "outcome_unknown");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn an_interrupted_start_continues_or_is_repeated() {
    for calls in [json!([]), json!([["mcp__files__read", {}]])] {
        let sync_point = SyncPoint::new().await;
        let mut steps = vec![json!({"sync": sync_point.port(), "once": "sync", "text": "hello"})];
        if calls != json!([]) {
            steps.insert(0, json!({"calls": calls}));
        }
        let mut env =
            ClaudeEnv::with_script(json!({"steps": steps}), json!({"ungated": ["mcp__files__*"]})).await;
        env.begin("key").await;
        sync_point.reached().await.kill();
        assert_eq!(expect_result(&env.wait_until_stopped().await), "hello");
        // Calls before the crash are not repeated.
        assert_eq!(env.calls().len(), calls.as_array().unwrap().len());
    }
}

#[tokio::test]
async fn an_answer_to_a_lost_session_fails_with_state_lost() {
    let steps = json!([{"calls": [call("Bash")]}, {"text": "final"}]);
    let mut env = ClaudeEnv::with_script(json!({"steps": steps}), json!({})).await;
    env.start().await;
    let folder = env.folders("sessions").pop().unwrap();
    std::fs::remove_dir_all(folder.join("config/projects")).unwrap();
    let (code, _) =
        crate::claude::claude_env::expect_error(&env.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "state_lost");
    assert_eq!(env.calls(), [] as [Value; 0]);
}
