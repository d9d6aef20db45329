//! The limit of concurrent programs, and the end of programs of cancelled runs.

use holdpoint_engine::core::Principal;
use holdpoint_providers::EngineGraphs;
use serde_json::json;

use crate::claude::claude_env::{ClaudeEnv, SyncPoint, expect_error, expect_result, tenant};

#[tokio::test]
async fn a_program_that_waits_for_a_free_slot_longer_than_its_turn_fails() {
    let sync_point = SyncPoint::new().await;
    let script = json!({"steps": [{"sync": sync_point.port(), "text": "done"}]});
    let mut env = ClaudeEnv::with_script(script, json!({"processesMax": 1, "turnMs": 1500})).await;
    let first = env.begin("first").await;
    let stopped = sync_point.reached().await;
    env.begin("second").await;
    let (code, message) = expect_error(&env.wait_until_stopped().await);
    assert_eq!(code, "provider_timeout");
    assert!(message.contains("processesMax"), "{message}");
    assert_eq!(env.lines("starts.jsonl").len(), 1);
    drop(stopped);
    env.of = Some(first);
    env.wait_until_stopped().await;
}

#[tokio::test]
async fn the_next_program_starts_when_a_slot_is_free() {
    let sync_point = SyncPoint::new().await;
    let script = json!({"steps": [{"sync": sync_point.port(), "text": "done"}]});
    let mut env = ClaudeEnv::with_script(script, json!({"processesMax": 1})).await;
    let first = env.begin("first").await;
    let stopped = sync_point.reached().await;
    env.begin("second").await;
    stopped.resume().await;
    sync_point.reached().await.resume().await;
    assert_eq!(expect_result(&env.wait_until_stopped().await), "done");
    env.of = Some(first);
    assert_eq!(expect_result(&env.wait_until_stopped().await), "done");
}

#[tokio::test]
async fn deleting_a_conversation_ends_its_program_and_deletes_its_folder() {
    let sync_point = SyncPoint::new().await;
    let script = json!({"ignore_sigterm": true, "steps": [{"sync": sync_point.port(), "text": "done"}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.begin("key").await;
    let stopped = sync_point.reached().await;
    assert_eq!(env.folders("sessions").len(), 1);
    env.engine().graphs().close(&tenant(), "key", Principal::named("alice")).await.unwrap();
    stopped.wait_for_exit().await;
    // A read of a deleted conversation deletes its folder.
    while !env.folders("sessions").is_empty() {
        env.engine().graphs().handle(&tenant(), "key").await.unwrap();
        tokio::task::yield_now().await;
    }
}
