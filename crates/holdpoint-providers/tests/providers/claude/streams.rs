//! The partial messages of the agent: recorded while it works, once, without its ids and paths.

use holdpoint_engine::core::Event;
use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, SyncPoint, expect_result, expect_waiting};

pub(crate) async fn events(env: &ClaudeEnv) -> Vec<Event> {
    let found = env.engine().events().list(env.of.as_ref().unwrap(), 0).await.unwrap();
    found.into_iter().map(|recorded| recorded.event).collect()
}

/// Returns the messages, calls and results that the log shows.
pub(crate) async fn shown_progress(env: &ClaudeEnv) -> Vec<Value> {
    let describe = |event: Event| match event {
        Event::MessageChunk { chunk, last, .. } => Some(json!(["chunk", chunk, last])),
        Event::ModelReplied { message, provider: true, .. } => {
            let calls: Vec<_> = message.calls.iter().map(|call| json!([call.name, call.arguments])).collect();
            Some(json!(["message", message.text(), calls]))
        }
        Event::ToolReturned { content, .. } => Some(json!(["result", content])),
        Event::InterruptRequested { .. } => Some(json!(["interrupt"])),
        _ => None,
    };
    events(env).await.into_iter().filter_map(describe).collect()
}

pub(crate) async fn wait_for_chunk(env: &ClaudeEnv, text: &str) {
    let of = env.of.clone().unwrap();
    let mut changes = env.engine().events().subscribe(&of);
    let is_wanted =
        |event: &Event| matches!(event, Event::MessageChunk { chunk, .. } if chunk.contains(text));
    while !events(env).await.iter().any(is_wanted) {
        changes.changed().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_recorded_while_the_agent_writes() {
    let sync = SyncPoint::new().await;
    let script = json!({"steps": [{"text": "Hello world!", "sync_in_text": sync.port()}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.begin("key").await;
    let writing = sync.reached().await;
    wait_for_chunk(&env, "Hello ").await;
    assert!(!shown_progress(&env).await.iter().any(|one| one[0] == "message"));
    writing.resume().await;
    assert_eq!(expect_result(&env.wait_until_stopped().await), "Hello world!");
    let expected = [
        json!(["chunk", "Hello ", false]),
        json!(["chunk", "world!", true]),
        json!(["message", "Hello world!", []]),
    ];
    assert_eq!(shown_progress(&env).await, expected);
    let run = env.engine().runs().get(env.of.as_ref().unwrap()).await.unwrap();
    let agent = run.nodes[0].agent.clone().expect("the messages of the agent");
    assert_eq!((agent.usage.input_tokens, agent.usage.output_tokens), (10, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_bound_to_the_call_and_its_result_follows() {
    let script = json!({"steps": [
        {"text": "I list.", "calls": [["Bash", {"command": "ls @cwd@"}]]}, {"text": "Done: {results}"}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    let status = env.start().await;
    let input = json!({"command": "ls <workdir>"});
    assert_eq!(expect_waiting(&status), ("tool_approval", &json!({"tool": "Bash", "input": input})));
    let run = env.engine().runs().get(env.of.as_ref().unwrap()).await.unwrap();
    let call = run.nodes[0].agent.as_ref().expect("the messages of the agent").calls[0].id.clone();
    assert_eq!(run.interrupts[0].provider_call(), Some(call.as_str()));
    env.answer(json!({"action": "accept"})).await;
    let progress = shown_progress(&env).await;
    let expected = json!(["message", "I list.", [["Bash", input]]]);
    let message = progress.iter().position(|one| *one == expected).unwrap();
    let asked = progress.iter().position(|one| one[0] == "interrupt").unwrap();
    let result = progress.iter().position(|one| one[0] == "result").unwrap();
    assert!(message < asked && asked < result, "{progress:?}");
    assert_eq!(progress.iter().filter(|one| one[0] == "result").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_ids_in_a_streamed_text_are_replaced() {
    let script = json!({"steps": [{"text": "in @cwd@/a, @session@, toolu_0123456789abcdef and @cwd@/b."}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    let progress = shown_progress(&env).await;
    let text: String =
        progress.iter().filter(|one| one[0] == "chunk").filter_map(|one| one[1].as_str()).collect();
    assert_eq!(text, "in <workdir>/a, <session>, <call> and <workdir>/b.");
    assert_eq!(progress.last().unwrap()[1], text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_a_dead_process_streamed_is_recorded_once() {
    let sync = SyncPoint::new().await;
    let script = json!({"steps": [{"text": "Hello world!", "sync_in_text": sync.port()}]});
    let mut env = ClaudeEnv::with_script(script, json!({"lockMs": 200})).await;
    env.begin("key").await;
    let writing = sync.reached().await;
    wait_for_chunk(&env, "Hello ").await;
    env.kill_and_restart_in("sessions").await;
    writing.wait_for_exit().await;
    assert_eq!(expect_result(&env.wait_until_stopped().await), "Hello world!");
    let progress = shown_progress(&env).await;
    let messages: Vec<_> = progress.iter().filter(|one| one[0] == "message").collect();
    assert_eq!(messages, [&json!(["message", "Hello world!", []])], "{progress:?}");
}
