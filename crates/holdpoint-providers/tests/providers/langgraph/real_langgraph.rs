//! Tests with the published LangGraph server. Each test starts a server, so one test covers several cases.

use std::time::Duration;

use holdpoint_engine::core::Event;
use holdpoint_engine::outgoing::Method;
use holdpoint_providers::GraphStatus;
use serde_json::{Value, json};

use crate::claude::claude_env::SyncPoint;
use crate::langgraph::graph_env::{
    GraphEnv, expect_completed, expect_failed, expect_previous_error, expect_waiting,
};
use crate::langgraph::real_server::{RealServer, TOKEN};
use crate::test_database::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn graphs_wait_for_answers_continue_and_do_not_reveal_ids_of_the_server() {
    let (server, database) = (RealServer::start().await, TestDatabase::sqlite());
    let env = GraphEnv::open(&database, server.settings()).await;
    tokio::join!(
        a_letter_is_revised_and_then_sent(&env),
        parallel_interrupts_are_answered_one_by_one(&env),
        parallel_interrupts_are_answered_in_their_order(&env),
        repeated_interrupts_of_nested_graphs_are_answered_in_any_order(&env),
        an_answer_of_the_wrong_type_can_be_given_again(&env),
        answers_are_checked_against_the_schema(&env),
        errors_of_graphs_are_reported(&env),
        a_cancelled_run_is_cancelled_at_the_server(&env, &server),
        tokens_of_a_langchain_agent_are_recorded_while_they_are_made(&env),
    );
    assert_eq!(server.sent(), 1, "one letter is sent");
    let ids = server.ids().await;
    assert!(ids.len() > 10, "{ids:?}");
    for key in
        ["letter", "panel", "row", "tour", "typed", "schema", "plain", "fire", "paper", "book", "nap", "talk"]
    {
        let visible = env.visible_data(key).await;
        assert!(!ids.iter().any(|name| visible.contains(name.as_str())), "{key}: {visible}");
        assert!(!visible.contains(TOKEN) && !visible.contains(&server.url), "{key}: {visible}");
    }
    let wrong = GraphEnv::second(&database, server.wrong_settings()).await;
    env.kill().await;
    let (code, message) = expect_failed(wrong.start("letter", "locked out", json!({"topic": "keys"})).await);
    assert_eq!((code.as_str(), message.as_str()), ("provider_auth", "the server rejected the key"));
}

/// The model makes its last token only after the test has seen the first one.
async fn tokens_of_a_langchain_agent_are_recorded_while_they_are_made(env: &GraphEnv) {
    let sync_point = SyncPoint::new().await;
    let message = json!({"role": "user", "content": sync_point.port().to_string()});
    env.begin("talk", "talk", json!({"messages": [message]})).await;
    let writing = sync_point.reached().await;
    let is_first = |event: &Event| matches!(event, Event::MessageChunk { chunk, .. } if chunk.contains("I "));
    env.wait_for_event("talk", is_first).await;
    writing.resume().await;
    let (kind, data) = expect_waiting(env.wait_until_stopped("talk").await);
    assert_eq!((kind.as_str(), &data["input"]), ("tool_approval", &json!({"to": "bob"})));
    assert!(data["description"].as_str().unwrap().starts_with("Review"), "{data}");
    let run = env.engine.runs().get(&env.run_of("talk").await).await.unwrap();
    let agent = run.nodes[0].agent.clone().expect("the messages of the graph");
    assert_eq!(run.interrupts[0].provider_call(), Some(agent.calls[0].id.as_str()));
    assert_eq!(agent.usage.input_tokens, 7);
    expect_completed(env.resume("talk", "r1", json!({"decision": "edit", "input": {"to": "eve"}})).await);
    let progress = env.shown_progress("talk").await;
    let whole: Vec<_> = progress.into_iter().filter(|one| one[0] != "chunk").collect();
    let expected = [
        json!(["message", "I will send it.", [["send", {"to": "bob"}]]]),
        json!(["result", "sent to eve", "succeeded"]),
        json!(["message", "It is sent.", []]),
    ];
    assert_eq!(whole, expected);
}

async fn a_letter_is_revised_and_then_sent(env: &GraphEnv) {
    let (kind, data) = expect_waiting(env.start("letter", "letter", json!({"topic": "tea"})).await);
    assert_eq!((kind.as_str(), &data["round"]), ("letter_review", &json!(1)));
    let revise = json!({"action": "revise", "feedback": "shorter"});
    let (_, data) = expect_waiting(env.resume("letter", "r1", revise.clone()).await);
    assert_eq!(data, json!({"text": "Dear reader, about tea. (shorter)", "round": 2}));
    // The repeated answer has the same result and is not sent to the server.
    assert_eq!(expect_waiting(env.resume("letter", "r1", revise).await).1, data);
    let output = expect_completed(env.resume("letter", "r2", json!({"action": "approve"})).await);
    assert_eq!(output["steps"], json!(["write", "revised", "rewrite", "approved", "send"]));
}

async fn parallel_interrupts_are_answered_one_by_one(env: &GraphEnv) {
    let (kind, data) =
        expect_waiting(env.start("panel", "panel", json!({"members": ["ann", "bob", "cleo"]})).await);
    assert_eq!((kind.as_str(), members(&data)), ("multi", json!(["ann", "bob", "cleo"])));
    let (_, data) = expect_waiting(env.resume("panel", "r1", json!({"i1": "yes"})).await);
    assert_eq!(members(&data), json!(["ann", "cleo"]));
    let (kind, data) = expect_waiting(env.resume("panel", "r2", json!({"i2": "no"})).await);
    assert_eq!((kind.as_str(), data), ("vote", json!({"member": "ann"})));
    let output = expect_completed(env.resume("panel", "r3", json!(null)).await);
    assert_eq!(output["votes"], json!([["ann", null], ["bob", "yes"], ["cleo", "no"]]));
}

async fn parallel_interrupts_are_answered_in_their_order(env: &GraphEnv) {
    expect_waiting(env.start("panel", "row", json!({"members": ["ann", "bob", "cleo"]})).await);
    expect_waiting(env.resume("row", "r1", json!({"i0": "yes", "i1": "no"})).await);
    let output = expect_completed(env.resume("row", "r2", json!("last")).await);
    assert_eq!(output["votes"], json!([["ann", "yes"], ["bob", "no"], ["cleo", "last"]]));
}

async fn repeated_interrupts_of_nested_graphs_are_answered_in_any_order(env: &GraphEnv) {
    let (kind, _) = expect_waiting(env.start("tour", "tour", json!({"members": ["oslo", "rome"]})).await);
    assert_eq!(kind, "multi");
    // The first stop is done. The second opens three interrupts.
    let (_, data) = expect_waiting(env.resume("tour", "r1", json!({"i0": "done"})).await);
    assert_eq!(data, json!({"name": "rome", "round": 1}));
    let (_, data) = expect_waiting(env.resume("tour", "r2", json!("again")).await);
    assert_eq!(data, json!({"name": "rome", "round": 2}));
    let (_, data) = expect_waiting(env.resume("tour", "r3", json!("again")).await);
    assert_eq!(data, json!({"name": "rome", "round": 3}));
    let output = expect_completed(env.resume("tour", "r4", json!("done")).await);
    let votes = json!([["oslo", "done"], ["rome", "again"], ["rome", "again"], ["rome", "done"]]);
    assert_eq!(output["votes"], votes);
}

fn members(data: &Value) -> Value {
    data["items"].as_array().unwrap().iter().map(|item| item["data"]["member"].clone()).collect()
}

async fn an_answer_of_the_wrong_type_can_be_given_again(env: &GraphEnv) {
    let (kind, _) = expect_waiting(env.start("strict", "typed", json!({})).await);
    assert_eq!(kind, "colour");
    // The schema accepts this answer; the validator of the graph rejects it.
    assert_eq!(
        expect_previous_error(env.resume("typed", "r1", json!({"colour": "plaid"})).await),
        "answer_rejected"
    );
    let output = expect_completed(env.resume("typed", "r2", json!({"colour": "red"})).await);
    assert_eq!(output["answer"], json!({"colour": "red"}));
}

async fn answers_are_checked_against_the_schema(env: &GraphEnv) {
    assert_eq!(expect_waiting(env.start("schema", "schema", json!({})).await).1, json!({"of": "door"}));
    env.answer("schema", "r1", json!({"color": "red"})).await.unwrap_err();
    let output = expect_completed(env.resume("schema", "r2", json!({"colour": "red"})).await);
    assert_eq!(output["answer"], json!({"colour": "red"}));
    let (kind, data) = expect_waiting(env.start("plain", "plain", json!({})).await);
    assert_eq!((kind.as_str(), data), ("langgraph.interrupt", json!({"value": "Which colour?"})));
}

async fn errors_of_graphs_are_reported(env: &GraphEnv) {
    let (code, message) = expect_failed(env.start("fire", "fire", json!({})).await);
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("graph_error", "ValueError: the printer at […] is on fire")
    );
    assert_eq!(expect_waiting(env.start("paper", "paper", json!({})).await).0, "go_on");
    let (code, message) = expect_failed(env.resume("paper", "r1", json!(true)).await);
    assert_eq!((code.as_str(), message.as_str()), ("graph_error", "ValueError: out of paper"));
    assert_eq!(expect_failed(env.start("book", "book", json!({})).await).0, "interrupt_too_large");
    let (code, message) = expect_failed(env.start("missing", "missing", json!({})).await);
    assert_eq!(code, "provider_rejected");
    assert!(message.contains("Invalid assistant: 'missing'"), "{message}");
}

async fn a_cancelled_run_is_cancelled_at_the_server(env: &GraphEnv, server: &RealServer) {
    let of = env.begin("nap", "nap", json!({"seconds": 600})).await;
    server.wait_until_busy("nap").await;
    let by = holdpoint_engine::core::Principal::named("alice");
    env.engine.runs().cancel(&of, None, by).await.unwrap();
    assert!(matches!(env.wait_until_stopped("nap").await, GraphStatus::Cancelled { .. }));
    server.wait_until_idle("nap").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_continues_from_its_checkpoints() {
    let (mut server, database) = (RealServer::start().await, TestDatabase::sqlite());
    let env = GraphEnv::open(&database, server.settings()).await;
    let (_, shown) = expect_waiting(env.start("letter", "k", json!({"topic": "storms"})).await);
    assert_eq!(shown["round"], json!(1));
    server.kill().await;
    let revise = json!({"action": "revise", "feedback": "calmer"});
    assert_eq!(expect_previous_error(env.resume("k", "r1", revise.clone()).await), "provider_unreachable");
    server.restart().await;
    assert_eq!(expect_waiting(env.resume("k", "r2", revise).await).1["round"], json!(2));
    // A kill during a run is handled, too.
    env.begin("nap", "long", json!({"seconds": 1})).await;
    server.wait_until_busy("nap").await;
    server.kill().await;
    server.restart().await;
    let output = expect_completed(env.resume("k", "r3", json!({"action": "approve"})).await);
    assert_eq!(output["steps"], json!(["write", "revised", "rewrite", "approved", "send"]));
    assert_eq!(expect_completed(env.wait_until_stopped("long").await)["answer"], json!("awake"));
}

/// Prints the measured times. `HOLDPOINT_LANGGRAPH_PAIRS` sets the number of pairs; the default is too small for exact
/// results. The limit is generous because the poll interval of the server is as long as the work.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_and_an_answer_take_less_than_twice_the_time_of_direct_requests() {
    let pairs: u32 = std::env::var("HOLDPOINT_LANGGRAPH_PAIRS").map_or(2, |text| text.parse().unwrap());
    let (server, database) = (RealServer::start().await, TestDatabase::sqlite());
    let env = GraphEnv::open(&database, server.settings()).await;
    let (mut with_holdpoint, mut direct) = (Duration::ZERO, Duration::ZERO);
    for number in 0..pairs {
        let key = format!("k{number}");
        let before = std::time::Instant::now();
        expect_waiting(env.start("letter", &key, json!({"topic": "time"})).await);
        expect_completed(env.resume(&key, "r", json!({"action": "approve"})).await);
        with_holdpoint += before.elapsed();
        let before = std::time::Instant::now();
        call_server_directly(&server).await;
        direct += before.elapsed();
    }
    println!("{pairs} pairs: {:?} each with Holdpoint, {:?} without", with_holdpoint / pairs, direct / pairs);
    assert!(with_holdpoint < direct * 2, "{with_holdpoint:?} with Holdpoint, {direct:?} without");
}

async fn call_server_directly(server: &RealServer) {
    let thread = server.call(Method::Post, "/threads", Some(json!({}))).await;
    let path = format!("/threads/{}/runs/wait", thread["thread_id"].as_str().unwrap());
    let start = json!({"assistant_id": "letter", "input": {"topic": "time"}});
    let paused = server.call(Method::Post, &path, Some(start)).await;
    let id = paused["__interrupt__"][0]["id"].as_str().unwrap();
    let resume = json!({"assistant_id": "letter", "command": {"resume": {id: {"action": "approve"}}}});
    let ended = server.call(Method::Post, &path, Some(resume)).await;
    assert_eq!(ended["sent"], json!(true));
}
