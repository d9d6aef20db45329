//! Programs that misbehave: each fault has its own error code, and the interrupt stays open if another answer can help.

use std::time::{Duration, Instant};

use holdpoint_providers::GraphStatus;
use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, expect_error, expect_result, expect_waiting};

fn bash() -> Value {
    json!(["Bash", {"command": "publish"}])
}

async fn after_approval(trouble: Value, more: Value) -> (ClaudeEnv, GraphStatus) {
    let script = json!({"steps": [{"calls": [bash()]}, trouble, {"text": "final: {results}"}]});
    let mut env = ClaudeEnv::with_script(script, more).await;
    expect_waiting(&env.start().await);
    let status = env.answer(json!({"decision": "approve"})).await;
    (env, status)
}

#[tokio::test]
async fn failures_of_the_model_api_have_distinct_error_codes() {
    for (status, code, starts) in [
        (json!(401), "provider_auth", 1),
        (json!(400), "provider_rejected", 1),
        (json!(429), "provider_unreachable", 3),
        (json!(null), "provider_unreachable", 3),
    ] {
        let mut env = ClaudeEnv::with_script(json!({"steps": [{"api": status}]}), json!({})).await;
        let (found, message) = expect_error(&env.start().await);
        assert_eq!(found, code, "{status}: {message}");
        assert_eq!(env.lines("starts.jsonl").len(), starts, "{status}");
    }
}

#[tokio::test]
async fn an_overloaded_api_after_a_call_does_not_repeat_the_call() {
    let (mut env, status) = after_approval(json!({"api": 529}), json!({})).await;
    let (code, message) = expect_error(&status);
    assert_eq!(code, "provider_unreachable");
    assert!(message.contains("the decision was carried out"), "{message}");
    env.replace_script(json!({"steps": [{"calls": [bash()]}, {"text": "final: {results}"}]}));
    // A rejection is too late: the call was already made.
    let status = env.answer(json!({"decision": "reject"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn a_temporary_overload_of_the_model_api_is_retried() {
    let script = json!({"steps": [{"api": 529, "once": "start", "calls": [bash()]},
        {"api": 529, "once": "end", "text": "final: {results}"}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    expect_waiting(&env.start().await);
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn a_program_that_exits_without_a_result_is_retried_and_then_reported() {
    let (mut env, status) = after_approval(json!({"exit": 3}), json!({})).await;
    let (code, message) = expect_error(&status);
    assert_eq!(code, "provider_crashed");
    assert!(message.contains("broken at … in …"), "{message}");
    assert_eq!(env.calls().len(), 1);
    env.replace_script(json!({"steps": [{"calls": [bash()]}, {"text": "final: {results}"}]}));
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls().len(), 1);
}

#[tokio::test]
async fn an_unavailable_tool_keeps_the_interrupt_of_its_call_open() {
    let script = json!({"steps": [{"calls": [bash()]}, {"text": "final: {results}"}], "unavailable": true});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_error(&status).0, "provider_misconfigured");
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish\"}");
}

#[tokio::test]
async fn a_program_version_other_than_the_pinned_one_is_not_used() {
    let script =
        |version: &str| json!({"version": version, "steps": [{"calls": [bash()]}, {"text": "done"}]});
    let mut env = ClaudeEnv::with_script(script("2.1.325"), json!({"version": "2.1.325"})).await;
    expect_waiting(&env.start().await);
    env.replace_script(script("2.2.0"));
    let (code, message) = expect_error(&env.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "provider_version");
    assert!(message.contains("2.2.0") && message.contains("2.1.325"), "{message}");
    assert_eq!(env.lines("starts.jsonl").len(), 1);
    env.replace_script(script("2.1.325"));
    assert_eq!(expect_result(&env.answer(json!({"decision": "approve"})).await), "done");
}

#[tokio::test]
async fn a_program_version_without_deferred_calls_is_not_used() {
    let mut env =
        ClaudeEnv::with_script(json!({"version": "2.1.88", "steps": [{"text": "x"}]}), json!({})).await;
    assert_eq!(expect_error(&env.start().await).0, "provider_version");
}

#[tokio::test]
async fn a_missing_program_is_reported_as_provider_misconfigured() {
    let mut env = ClaudeEnv::with_script(json!({"steps": []}), json!({"binary": "nowhere/claude"})).await;
    let (code, message) = expect_error(&env.start().await);
    assert_eq!(code, "provider_misconfigured");
    assert!(!message.contains("nowhere"), "{message}");
}

#[tokio::test]
async fn a_program_that_rejects_the_hook_is_stopped() {
    let mut env =
        ClaudeEnv::with_script(json!({"reject_hook": true, "steps": [{"text": "x"}]}), json!({})).await;
    assert_eq!(expect_error(&env.start().await).0, "provider_version");
}

#[tokio::test]
async fn unknown_control_requests_get_an_error_and_invalid_lines_are_ignored() {
    let script = json!({"steps": [{"garbage": true, "ask": "dance", "text": "final"}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    assert_eq!(expect_result(&env.start().await), "final");
    assert_eq!(env.lines("control_responses.jsonl")[0]["subtype"], "error");
}

#[tokio::test]
async fn a_line_that_exceeds_the_size_limit_ends_the_program() {
    let mut env = ClaudeEnv::with_script(json!({"steps": [{"endless": "line"}]}), json!({})).await;
    let (code, message) = expect_error(&env.start().await);
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("provider_crashed", "the output of the agent's program exceeds the size limit")
    );
}

#[tokio::test]
async fn output_that_exceeds_the_size_limit_ends_the_program() {
    let mut env = ClaudeEnv::with_script(json!({"steps": [{"endless": "lines"}]}), json!({})).await;
    assert_eq!(expect_error(&env.start().await).0, "provider_crashed");
}

#[tokio::test]
async fn a_program_without_output_fails_after_the_time_limit_of_its_first_event() {
    let script = json!({"ignore_resume": true, "steps": [{"calls": [bash()]}, {"text": "done"}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    expect_waiting(&env.start().await);
    env.change_profile(json!({"firstEventMs": 300}));
    env.restart_in("sessions").await;
    let (code, message) = expect_error(&env.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "provider_timeout");
    assert!(message.contains("wrote no output"), "{message}");
    assert_eq!(env.calls(), [] as [Value; 0]);
    env.replace_script(json!({"steps": [{"calls": [bash()]}, {"text": "done"}]}));
    env.change_profile(json!({"firstEventMs": 15_000}));
    env.restart_in("sessions").await;
    assert_eq!(expect_result(&env.answer(json!({"decision": "approve"})).await), "done");
}

#[tokio::test]
async fn a_program_that_exceeds_its_turn_and_ignores_signals_is_killed() {
    let script = json!({"ignore_sigterm": true, "steps": [{"hang": true}]});
    let mut env = ClaudeEnv::with_script(script, json!({"turnMs": 1000})).await;
    let began = Instant::now();
    let (code, _) = expect_error(&env.start().await);
    assert_eq!(code, "provider_timeout");
    let took = began.elapsed();
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(40), "{took:?}");
    let pid = env.lines("starts.jsonl")[0]["pid"].to_string();
    assert!(!std::path::Path::new("/proc").join(pid).exists());
}
