//! Long threads: the messages of earlier runs that the model gets.

use std::sync::atomic::Ordering;

use holdpoint_agents::{AgentInput, AgentRuntime, AgentSettings, Connection, Connections, EngineAgents};
use holdpoint_engine::Options;
use holdpoint_engine::core::{RunRef, StartRequest};
use serde_json::{Value, json};

use super::streams::{drain_in_background, wait_for_chunks};
use super::{AgentEnv, Calls, agent, call, counting_tool, input};
use crate::models::fake_endpoint::{FakeEndpoint, Turn, piece, text_reply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, tenant};

on_both! {
    the_model_gets_the_last_messages_from_a_message_of_the_user_on,
    a_call_of_the_model_after_a_crash_has_the_same_messages,
    the_cost_of_a_prompt_does_not_depend_on_the_length_of_the_thread,
    ids_of_messages_to_agents_are_found_in_their_thread_only,
    the_model_of_a_branch_gets_the_messages_up_to_its_run,
}

fn with_endpoint(endpoint: &FakeEndpoint, calls: &Calls) -> impl FnOnce(Options) -> Options + use<> {
    let url = format!("http://{}/v1", endpoint.address);
    let model = json!({ "provider": "openai", "model": "small", "baseUrl": url, "retryBaseMs": 1 });
    let models = [("main".to_owned(), Connection::model(model).unwrap())].into();
    let connections = Connections { models, ..Connections::default() };
    let rust = [counting_tool("look", calls, true, None)].into();
    move |options| {
        let settings = AgentSettings { connections, rust, ..AgentSettings::default() };
        options.extension(AgentRuntime::new(settings))
    }
}

async fn env_with(database: TestDatabase, endpoint: &FakeEndpoint) -> AgentEnv {
    let calls = Calls::default();
    AgentEnv { env: TestEnv::with(database, with_endpoint(endpoint, &calls)).await, calls }
}

/// An agent whose model is the endpoint, with this number of messages of earlier runs.
fn remote(history: u64) -> Value {
    json!({ "agentId": "clerk", "model": { "use": "main" }, "limits": { "history": history } })
}

/// Returns the messages of a request to the endpoint as texts; a reply with calls as the id of the first call.
fn sent(endpoint: &FakeEndpoint, at: usize) -> Vec<String> {
    let body = endpoint.body(at);
    let text = |message: &Value| {
        let id = message.pointer("/tool_calls/0/id").or_else(|| message.get("tool_call_id"));
        id.unwrap_or(&message["content"]).as_str().unwrap().to_owned()
    };
    body["messages"].as_array().unwrap().iter().map(text).collect()
}

async fn the_model_gets_the_last_messages_from_a_message_of_the_user_on(database: TestDatabase) {
    let endpoint = FakeEndpoint::with([text_reply("Seen.")]).await;
    let agents = env_with(database, &endpoint).await;
    // Two runs with a call and its result each: eight messages.
    let mut scripted = agent(&json!([{ "calls": [call("c1", "look", json!({}))] }, { "text": "Looked." }]));
    scripted["tools"] = json!([{ "type": "rust", "name": "look" }]);
    agents.declare(scripted).await;
    agents.send(Some("t"), "one").await;
    agents.send(Some("t"), "two").await;
    let (first, second) = (["one", "c1", "c1", "Looked."], ["two", "c1", "c1", "Looked."]);
    let cases: [(u64, Vec<&str>); 7] = [
        (100, [first, second].concat()),
        (8, [first, second].concat()),
        (7, second.to_vec()),
        (4, second.to_vec()),
        // Without a message of the user, the history begins with a reply; the result without its call is left out.
        (3, second[1..].to_vec()),
        (2, vec!["Looked."]),
        (0, vec![]),
    ];
    for (at, (history, expected)) in cases.iter().enumerate() {
        agents.declare(remote(*history)).await;
        // A copy of the thread, so that all cases have the same earlier messages.
        let thread = format!("t{at}");
        let copied = "INSERT INTO messages (tenant_id, thread_id, run_id, seq, at_ms, message) \
            SELECT tenant_id, 'COPY', run_id, seq, at_ms, message FROM messages WHERE thread_id = 't'";
        agents.env.database.execute(&copied.replace("COPY", &thread)).await.unwrap();
        agents.send(Some(&thread), "three").await;
        let expected: Vec<&str> = expected.iter().copied().chain(["three"]).collect();
        assert_eq!(sent(&endpoint, at), expected, "history: {history}");
    }
}

async fn the_model_of_a_branch_gets_the_messages_up_to_its_run(database: TestDatabase) {
    let endpoint = FakeEndpoint::with(["1", "2", "3", "4"].map(text_reply)).await;
    let agents = env_with(database, &endpoint).await;
    agents.declare(remote(100)).await;
    let first = agents.send(Some("t"), "one").await;
    agents.send(Some("t"), "two").await;
    let base = input(Some("t"), "three");
    let branch = StartRequest { branch_of: Some(first.run), ..StartRequest::new(base.owner.clone()) };
    let branch = AgentInput { start: Some(Box::new(branch)), ..base };
    agents.env.engine.agents().start(branch).await.unwrap();
    agents.env.drain().await;
    assert_eq!(sent(&endpoint, 2), ["one", "1", "three"]);
    agents.send(Some("t"), "four").await;
    assert_eq!(sent(&endpoint, 3), ["one", "1", "three", "3", "four"]);
    let kept = agents.env.database.read("SELECT message FROM messages").await;
    assert_eq!(kept.len(), 8, "no message is deleted");
}

async fn a_call_of_the_model_after_a_crash_has_the_same_messages(database: TestDatabase) {
    let begun = Turn::stream([piece(json!({ "content": "Begun" }))]).silent();
    let endpoint = FakeEndpoint::with([text_reply("1"), text_reply("2"), begun, text_reply("3")]).await;
    let agents = env_with(database, &endpoint).await;
    agents.declare(remote(3)).await;
    agents.send(Some("t"), "one").await;
    agents.send(Some("t"), "two").await;
    let run = agents.env.engine.agents().start(input(Some("t"), "three")).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    // A later revision of the agent does not change the run.
    agents.declare(remote(100)).await;
    let working = drain_in_background(&agents.env.engine);
    wait_for_chunks(&agents.env.engine, &of, 5).await;
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    let AgentEnv { env, calls } = agents;
    let agents = AgentEnv { env: env.reopen(with_endpoint(&endpoint, &calls)).await, calls };
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(sent(&endpoint, 2), ["two", "2", "three"]);
    assert_eq!(endpoint.body(3), endpoint.body(2), "the same request");
}

async fn the_cost_of_a_prompt_does_not_depend_on_the_length_of_the_thread(agents: AgentEnv) {
    let mut definition = agent(&json!([{ "text": "Yes." }]));
    definition["limits"] = json!({ "history": 4 });
    agents.declare(definition).await;
    let read = || agents.env.engine.counters().rows_read.load(Ordering::SeqCst);
    let mut costs = Vec::new();
    for number in 0..12 {
        let before = read();
        agents.send(Some("t"), &number.to_string()).await;
        costs.push(read() - before);
    }
    // The first runs read fewer messages.
    assert!(costs[3..].iter().all(|cost| *cost == costs[3]), "{costs:?}");
}

async fn ids_of_messages_to_agents_are_found_in_their_thread_only(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "Yes." }]))).await;
    for word in ["one", "\"two\" \\"] {
        agents.send(Some("t"), word).await;
    }
    agents.send(Some("u"), "three").await;
    let found = async |thread: &str, ids: &[&str]| {
        let ids = ids.iter().copied();
        agents.env.engine.threads().input_ids(&tenant(), thread, ids).await.unwrap().into_iter().collect()
    };
    let ids = ["m:one", "m:\"two\" \\", "m:three", "reply-1", ""];
    let of_t: Vec<String> = found("t", &ids).await;
    assert_eq!(of_t, ["m:\"two\" \\", "m:one"]);
    let none: [Vec<String>; 2] = [found("t", &[]).await, found("v", &ids).await];
    assert_eq!(none, [[], []] as [[String; 0]; 2]);
}
