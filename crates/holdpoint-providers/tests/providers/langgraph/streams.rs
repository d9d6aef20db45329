//! The stream of a run at a LangGraph server: it is recorded while the graph works, once, without ids of the server.

use holdpoint_engine::core::Event;
use holdpoint_providers::GraphStatus;
use serde_json::{Value, json};

use crate::langgraph::fake::FakeServer;
use crate::langgraph::fake_state::{Step, hang};
use crate::langgraph::graph_env::{GraphEnv, expect_completed, expect_waiting};
use crate::langgraph::nodes::take_over;
use crate::test_database::{TestDatabase, on_both};

on_both!(
    tokens_are_recorded_while_the_graph_works,
    a_graph_without_a_stream_has_its_messages_in_the_commit_of_its_end,
    a_broken_stream_continues_without_duplicates,
    another_process_replaces_the_incomplete_text,
    ids_and_the_address_of_the_server_are_not_streamed,
    an_approval_of_the_middleware_is_bound_to_its_call,
    a_stream_beyond_the_limit_of_a_turn_ends_and_the_outcome_counts,
);

const MESSAGE: &str = "lc_run--0193b2f0-aaaa-7bbb-8ccc-0123456789ab";
const CALL: &str = "call_CanaryOfTheModel";

fn written(text: &str) -> Value {
    json!([{"type": "ai", "id": MESSAGE, "content": text}])
}

fn reply(text: &str) -> Value {
    json!({"type": "ai", "id": MESSAGE, "content": text,
        "tool_calls": [{"id": CALL, "name": "send", "args": {"to": "bob"}, "type": "tool_call"}],
        "usage_metadata": {"input_tokens": 7, "output_tokens": 3}, "response_metadata": {"model_name": "m1"}})
}

fn result(text: &str) -> Value {
    json!({"type": "tool", "tool_call_id": CALL, "content": text, "status": "success"})
}

fn has_chunk(event: &Event, text: &str) -> bool {
    matches!(event, Event::MessageChunk { chunk, .. } if chunk.contains(text))
}

async fn streaming_server(steps: impl IntoIterator<Item = Step>) -> FakeServer {
    let fake = FakeServer::with_steps(steps).await;
    fake.update(|state| state.streams = true);
    fake
}

async fn tokens_are_recorded_while_the_graph_works(database: TestDatabase) {
    let fake = streaming_server([hang(Step::Finish(json!({"ok": 1})))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/stream", 1).await;
    fake.emit("messages/partial", &written("Hel"));
    env.wait_for_event("k", |event| has_chunk(event, "Hel")).await;
    fake.emit("messages/partial", &written("Hello"));
    env.wait_for_event("k", |event| has_chunk(event, "lo")).await;
    fake.emit("updates", &json!({"model": {"messages": [reply("Hello")]}}));
    fake.emit("updates|tools:1", &json!({"tools": {"messages": [result("sent")]}}));
    fake.emit("updates", &json!({"model": {"messages": [reply("Hello")]}}));
    env.wait_for_event("k", |event| matches!(event, Event::ToolReturned { .. })).await;
    assert_eq!(fake.inspect(|state| state.requests.iter().filter(|one| one.ends_with("/join")).count()), 0);
    fake.release();
    assert_eq!(expect_completed(env.wait_until_stopped("k").await), json!({"ok": 1}));
    let expected = [
        json!(["chunk", "Hel", false, 1]),
        json!(["chunk", "lo", false, 1]),
        json!(["chunk", "", true, 1]),
        json!(["message", "Hello", [["send", {"to": "bob"}]]]),
        json!(["result", "sent", "succeeded"]),
    ];
    assert_eq!(env.shown_progress("k").await, expected);
    let shown = env.visible_data("k").await;
    assert!(!shown.contains(MESSAGE) && !shown.contains(CALL), "{shown}");
    let run = env.engine.runs().get(&env.run_of("k").await).await.unwrap();
    let agent = run.nodes[0].agent.clone().expect("the messages of the graph");
    assert_eq!((agent.usage.input_tokens, agent.usage.output_tokens), (7, 3));
}

async fn a_graph_without_a_stream_has_its_messages_in_the_commit_of_its_end(database: TestDatabase) {
    let values =
        json!({"messages": [{"type": "human", "id": "h", "content": "x"}, reply("Hello"), result("sent")]});
    let fake = FakeServer::with_steps([Step::Finish(values.clone()), Step::Finish(json!({}))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_completed(env.start("g", "k", json!({})).await), values);
    let expected =
        [json!(["message", "Hello", [["send", {"to": "bob"}]]]), json!(["result", "sent", "succeeded"])];
    assert_eq!(env.shown_progress("k").await, expected);
    let commits = async |key: &str| {
        let of = env.run_of(key).await;
        env.engine.events().list_with_commits(&of).await.unwrap().1.len()
    };
    expect_completed(env.start("g", "silent", json!({})).await);
    assert!(env.shown_progress("silent").await.is_empty());
    assert_eq!(commits("k").await, commits("silent").await, "the messages cost no commit");
}

async fn a_broken_stream_continues_without_duplicates(database: TestDatabase) {
    let fake = streaming_server([hang(Step::Finish(json!({"messages": [reply("Hello, Bob")]})))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/stream", 1).await;
    fake.emit("messages/partial", &written("Hel"));
    env.wait_for_event("k", |event| has_chunk(event, "Hel")).await;
    fake.cut_streams();
    fake.wait_for_requests("/stream", 2).await;
    fake.emit("messages/partial", &written("Hello, "));
    env.wait_for_event("k", |event| has_chunk(event, "lo, ")).await;
    fake.release();
    expect_completed(env.wait_until_stopped("k").await);
    let expected = [
        json!(["chunk", "Hel", false, 1]),
        json!(["chunk", "lo, ", false, 1]),
        json!(["chunk", "Bob", true, 1]),
        json!(["message", "Hello, Bob", [["send", {"to": "bob"}]]]),
    ];
    assert_eq!(env.shown_progress("k").await, expected);
}

async fn another_process_replaces_the_incomplete_text(database: TestDatabase) {
    let fake = streaming_server([hang(Step::Finish(json!({"messages": [reply("Hello")]})))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/stream", 1).await;
    fake.emit("messages/partial", &written("Hel"));
    env.wait_for_event("k", |event| has_chunk(event, "Hel")).await;
    let env = take_over(env, &database, &fake).await;
    fake.wait_for_requests("/stream", 2).await;
    fake.emit("messages/partial", &written("Hell"));
    let is_again = |event: &Event| matches!(event, Event::MessageChunk { meta, .. } if meta["attempt"] == 2);
    env.wait_for_event("k", is_again).await;
    fake.release();
    expect_completed(env.wait_until_stopped("k").await);
    let progress = env.shown_progress("k").await;
    let text_of = |attempt: u32| -> String {
        let chunks = progress.iter().filter(|one| one[0] == "chunk" && one[3] == attempt);
        chunks.filter_map(|one| one[1].as_str()).collect()
    };
    assert_eq!((text_of(1).as_str(), text_of(2).as_str()), ("Hel", "Hello"));
    let messages: Vec<_> = progress.iter().filter(|one| one[0] == "message").collect();
    assert_eq!(messages, [&json!(["message", "Hello", [["send", {"to": "bob"}]]])]);
    assert_eq!(fake.count_requests("POST /threads/X/runs"), 1);
}

async fn ids_and_the_address_of_the_server_are_not_streamed(database: TestDatabase) {
    let fake = streaming_server([hang(Step::Finish(json!({})))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/stream", 1).await;
    let ids = fake.inspect(|state| state.all_ids().to_vec());
    let secret = format!("{} at {} ", ids.join(" and "), fake.url);
    // Each token ends inside of an id.
    for length in (5..secret.len()).step_by(7) {
        fake.emit("messages/partial", &written(&secret[..length]));
    }
    fake.emit("messages/partial", &written(&format!("{secret}end")));
    env.wait_for_event("k", |event| has_chunk(event, "end")).await;
    fake.release();
    expect_completed(env.wait_until_stopped("k").await);
    let shown = env.visible_data("k").await;
    for canary in ids.iter().chain([&fake.url]) {
        assert!(!shown.contains(canary.as_str()), "{canary} is in {shown}");
    }
    let progress = env.shown_progress("k").await;
    let chunks = progress.iter().filter(|one| one[0] == "chunk");
    let text: String = chunks.filter_map(|one| one[1].as_str()).collect();
    assert_eq!(text, format!("{} at […] end", vec!["[…]"; ids.len()].join(" and ")));
}

async fn an_approval_of_the_middleware_is_bound_to_its_call(database: TestDatabase) {
    let asked = json!({"action_requests": [{"name": "send", "args": {"to": "bob"}}],
        "review_configs": [{"action_name": "send", "allowed_decisions": ["approve", "edit", "reject"]}]});
    let done = json!({"messages": [reply("I will."), result("sent")]});
    let fake = streaming_server([hang(Step::Ask(vec![asked])), Step::Finish(done)]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/stream", 1).await;
    fake.emit("updates", &json!({"model": {"messages": [reply("I will.")]}}));
    fake.release();
    let (kind, data) = expect_waiting(env.wait_until_stopped("k").await);
    assert_eq!((kind.as_str(), data), ("tool_approval", json!({"tool": "send", "input": {"to": "bob"}})));
    let run = env.engine.runs().get(&env.run_of("k").await).await.unwrap();
    let call = run.nodes[0].agent.as_ref().expect("the messages of the graph").calls[0].id.clone();
    assert_eq!(run.interrupts[0].provider_call(), Some(call.as_str()));
    let edited =
        json!({"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"to": "eve"}}}]});
    assert!(matches!(env.resume("k", "r1", edited.clone()).await, GraphStatus::Completed(_)));
    assert_eq!(fake.inspect(|state| state.answers.clone()), [edited]);
    assert_eq!(env.shown_progress("k").await.last(), Some(&json!(["result", "sent", "succeeded"])));
}

async fn a_stream_beyond_the_limit_of_a_turn_ends_and_the_outcome_counts(database: TestDatabase) {
    let fake = streaming_server([hang(Step::Finish(json!({"ok": 1})))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/stream", 1).await;
    fake.emit("messages/partial", &written("first"));
    env.wait_for_event("k", |event| has_chunk(event, "first")).await;
    let long = "x".repeat(1024 * 1024);
    for number in 0..5 {
        let message = json!([{"type": "ai", "id": format!("m{number}"), "content": long}]);
        fake.emit("messages/partial", &message);
    }
    fake.release();
    assert_eq!(expect_completed(env.wait_until_stopped("k").await), json!({"ok": 1}));
    let events = env.engine.events().list(&env.run_of("k").await, 0).await.unwrap();
    let bytes: usize = events.iter().map(|one| serde_json::to_string(&one.event).unwrap().len()).sum();
    assert!(bytes < 5 * 1024 * 1024, "{bytes} bytes are recorded");
}
