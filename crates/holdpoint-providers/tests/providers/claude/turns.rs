//! Further turns in the session of an agent.

use std::path::PathBuf;

use holdpoint_providers::GraphStatus;
use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, SyncPoint};
use crate::claude::streams::shown_progress;

fn call() -> Value {
    json!({"calls": [["Bash", {"command": "ls"}]]})
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn result(status: &GraphStatus) -> &str {
    let GraphStatus::Completed(output) = status else { panic!("{status:?}") };
    output["result"].as_str().unwrap()
}

fn is_waiting(status: &GraphStatus) -> bool {
    matches!(status, GraphStatus::Waiting { .. })
}

/// Returns the texts of the user in the only conversation.
fn prompts(env: &ClaudeEnv, sessions: &str) -> Vec<String> {
    let [folder]: [PathBuf; 1] = env.folders(sessions).try_into().unwrap();
    let projects = std::fs::read_dir(folder.join("config/projects")).unwrap().flatten();
    let files = projects.flat_map(|project| std::fs::read_dir(project.path()).unwrap().flatten());
    let lines = files.flat_map(|file| {
        let text = std::fs::read_to_string(file.path()).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    });
    let blocks =
        lines.filter(|line| line["type"] == "user").map(|line| line["message"]["content"][0].clone());
    blocks.filter_map(|block| block["text"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_turn_is_the_next_message_in_the_same_session() {
    let script = json!({"steps": [call(), text("first"), call(), text("second: {results}")]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    assert!(is_waiting(&env.start().await));
    assert_eq!(result(&env.answer(json!({"decision": "approve"})).await), "first");
    assert!(is_waiting(&env.turn("t2", "once more").await), "an approval permits no call of another turn");
    assert_eq!(env.calls().len(), 1);
    assert!(result(&env.answer(json!({"decision": "approve"})).await).starts_with("second: "));
    assert_eq!(env.calls().len(), 2);
    assert_eq!(prompts(&env, "sessions"), ["publish it", "once more"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_machine_continues_an_ended_conversation() {
    let script = json!({"steps": [text("first"), text("second"), text("third")]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    assert_eq!(result(&env.start().await), "first");
    env.restart_in("elsewhere").await;
    assert_eq!(result(&env.turn("t2", "two").await), "second");
    env.restart_in("sessions").await;
    assert_eq!(result(&env.turn("t3", "three").await), "third");
    assert_eq!(prompts(&env, "sessions"), ["publish it", "two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_cancelled_turn_is_rejected_before_the_next_message() {
    let script = json!({"steps": [call(), text("I stop."), text("second")]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    assert!(is_waiting(&env.start().await));
    env.cancel().await;
    assert_eq!(result(&env.turn("t2", "once more").await), "second");
    assert_eq!((env.calls().len(), prompts(&env, "sessions").len()), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_killed_after_its_prompt_is_continued_without_another_prompt() {
    let point = SyncPoint::new().await;
    let script =
        json!({"steps": [text("first"), {"text": "second", "sync": point.port(), "once": "killed"}]});
    let mut env = ClaudeEnv::with_script(script, json!({"lockMs": 300})).await;
    assert_eq!(result(&env.start().await), "first");
    env.begin_turn("t2", "once more").await;
    drop(point.reached().await);
    env.kill_and_restart_in("sessions").await;
    assert_eq!(result(&env.wait_until_stopped().await), "second");
    let prompts = prompts(&env, "sessions");
    assert_eq!(prompts.iter().filter(|prompt| *prompt == "once more").count(), 1, "{prompts:?}");
    // The messages of the first turn are in the log of its run only.
    let progress = shown_progress(&env).await;
    let messages: Vec<_> = progress.iter().filter(|one| one[0] == "message").map(|one| &one[1]).collect();
    assert_eq!(messages, ["second"], "{progress:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_after_the_conversation_was_deleted_fails() {
    let script = json!({"steps": [text("first"), text("second")]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    let [folder]: [PathBuf; 1] = env.folders("sessions").try_into().unwrap();
    std::fs::remove_dir_all(folder.join("config/projects")).unwrap();
    let status = env.turn("t2", "two").await;
    assert!(matches!(&status, GraphStatus::Failed(error) if error.code == "state_lost"), "{status:?}");
}
