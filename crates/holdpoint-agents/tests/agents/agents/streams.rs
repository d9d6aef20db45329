//! Streamed replies of models, from an endpoint that sends the chunks of a test.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdpoint_agents::{AgentRuntime, AgentSettings, Connection, Connections, EngineAgents};
use holdpoint_engine::core::{Event, ForkMode, RunRef};
use holdpoint_engine::{Engine, ForkRequest, Options, Overlay};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{AgentEnv, Calls, agent, call, input};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, tenant};

on_both! {
    chunks_are_recorded_before_the_reply,
    an_aborted_reply_is_requested_again_and_its_chunks_are_void,
    a_reply_interrupted_by_a_crash_is_requested_again,
    a_stream_is_written_in_batches,
    a_cancelled_run_records_no_more_chunks,
    a_scripted_reply_without_delays_is_one_chunk_in_the_commit_of_the_reply,
    a_scripted_reply_with_delays_is_streamed,
}

/// An endpoint of chat completions that accepts one request at a time.
struct Endpoint(TcpListener);

/// The response to one request.
struct ReplyStream(TcpStream);

impl Endpoint {
    async fn open() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Self(listener), address)
    }

    async fn accept_request(&self) -> ReplyStream {
        let (mut stream, _) = self.0.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&request) {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request is incomplete");
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        ReplyStream(stream)
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    body.len() >= length.unwrap().1.parse::<usize>().unwrap()
}

impl ReplyStream {
    async fn send_event(&mut self, data: &Value) {
        self.0.write_all(format!("data: {data}\n\n").as_bytes()).await.unwrap();
    }

    async fn send_text(&mut self, text: &str) {
        let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
        self.send_event(&json!({ "model": "small-2", "choices": [choice] })).await;
    }

    async fn end(mut self) {
        let usage = json!({ "prompt_tokens": 7, "completion_tokens": 5 });
        let choice = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
        self.send_event(&json!({ "choices": [choice], "usage": usage })).await;
        self.0.write_all(b"data: [DONE]\n\n").await.unwrap();
        self.0.shutdown().await.unwrap();
    }

    async fn cut(mut self) {
        self.0.shutdown().await.unwrap();
    }
}

fn with_model_at(address: SocketAddr) -> impl FnOnce(Options) -> Options {
    let model = json!({
        "provider": "openai", "model": "small", "baseUrl": format!("http://{address}/v1"), "retryBaseMs": 1,
    });
    let model = Connection::model(model).unwrap();
    let connections = Connections { models: [("main".to_owned(), model)].into(), ..Connections::default() };
    move |options| {
        options.extension(AgentRuntime::new(AgentSettings { connections, ..AgentSettings::default() }))
    }
}

/// Declares an agent with that endpoint, starts a run and drains its worker in the background.
async fn start_run(database: TestDatabase, address: SocketAddr) -> (AgentEnv, RunRef, JoinHandle<usize>) {
    let env = TestEnv::with(database, with_model_at(address)).await;
    let agents = AgentEnv { env, calls: Calls::default() };
    agents.declare(json!({ "agentId": "clerk", "model": { "use": "main" } })).await;
    let run = agents.env.engine.agents().start(input(None, "please")).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let working = drain_in_background(&agents.env.engine);
    (agents, of, working)
}

pub(super) fn drain_in_background(engine: &Engine) -> JoinHandle<usize> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.worker().drain().await.unwrap() })
}

/// A recorded chunk: text, last, meta.
pub(super) type Chunk = (String, bool, Value);

async fn chunks(engine: &Engine, of: &RunRef) -> Vec<Chunk> {
    let log = engine.events().list(of, 0).await.unwrap();
    let chunk = |event: &Event| match event {
        Event::MessageChunk { chunk, last, meta, .. } => Some((chunk.clone(), *last, json!(meta))),
        _ => None,
    };
    log.iter().filter_map(|one| chunk(&one.event)).collect()
}

/// Waits until the recorded chunks have this total length, and returns them.
pub(super) async fn wait_for_chunks(engine: &Engine, of: &RunRef, length: usize) -> Vec<Chunk> {
    let mut changes = engine.events().subscribe(of);
    loop {
        let recorded = chunks(engine, of).await;
        if recorded.iter().map(|(text, ..)| text.len()).sum::<usize>() >= length {
            return recorded;
        }
        changes.changed().await;
    }
}

/// The text of the chunks of the latest attempt, in order.
fn valid_text(recorded: &[Chunk]) -> String {
    let latest = recorded.iter().map(|(_, _, meta)| meta["attempt"].as_u64().unwrap()).max().unwrap();
    let valid: Vec<_> = recorded.iter().filter(|(_, _, meta)| meta["attempt"] == latest).collect();
    for (at, (_, last, meta)) in valid.iter().enumerate() {
        assert_eq!((&meta["index"], &meta["messageId"]), (&json!(at), &json!("reply-1")), "{recorded:?}");
        assert_eq!(*last, at + 1 == valid.len(), "{recorded:?}");
    }
    valid.iter().map(|(text, ..)| text.as_str()).collect()
}

async fn reply(agents: &AgentEnv, of: &RunRef) -> Value {
    assert_eq!(agents.env.status(of).await, "completed", "{:#?}", agents.env.log(of).await);
    agents.agent(of).await.last_reply().unwrap().content.clone()
}

async fn chunks_are_recorded_before_the_reply(database: TestDatabase) {
    let (endpoint, address) = Endpoint::open().await;
    let (agents, of, working) = start_run(database, address).await;
    let engine = &agents.env.engine;
    let mut reply_stream = endpoint.accept_request().await;
    for (text, length) in [("Hel", 3), ("lo, ", 7), ("Bob", 10)] {
        reply_stream.send_text(text).await;
        let recorded = wait_for_chunks(engine, &of, length).await;
        assert_eq!(recorded.last().unwrap().0, text);
        assert!(recorded.iter().all(|(_, last, _)| !last), "{recorded:?}");
        assert_eq!(agents.agent(&of).await.steps, 0, "the reply is not recorded yet");
    }
    reply_stream.send_text(".").await;
    reply_stream.end().await;
    working.await.unwrap();
    assert_eq!(reply(&agents, &of).await, "Hello, Bob.");
    let recorded = chunks(engine, &of).await;
    assert_eq!(valid_text(&recorded), "Hello, Bob.");
    let end = json!({
        "messageId": "reply-1", "attempt": 1, "index": recorded.len() - 1, "finishReason": "stop",
        "model": "small-2", "usage": { "inputTokens": 7, "outputTokens": 5 },
    });
    assert_eq!(recorded.last().unwrap().2, end);
    assert_eq!(commits_with(&agents, "model.replied", r#""last":true"#).await, 1);
    for from_seq in 0..=agents.env.run(&of).await.seq {
        let (by, mode, overlay) = ("forker".to_owned(), ForkMode::Replay, Overlay::default());
        let copy = engine
            .runs()
            .fork(&of, ForkRequest { by, credential: None, mode, from_seq, overlay, once: None })
            .await
            .unwrap();
        assert!(!copy.diverged && copy.finished(), "from {from_seq}");
        let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
        assert_eq!(chunks(engine, &copy).await, recorded, "the copy records the same chunks");
    }
}

/// Counts the commits whose stored events contain both texts. The beginning `holdpoint.` of a type is abbreviated.
async fn commits_with(agents: &AgentEnv, one: &str, other: &str) -> usize {
    let rows = agents.env.database.read("SELECT events FROM events").await;
    let texts = rows.iter().map(|row| format!("{row:?}").replace('\\', ""));
    texts.filter(|text| text.contains(one) && text.contains(other)).count()
}

async fn an_aborted_reply_is_requested_again_and_its_chunks_are_void(database: TestDatabase) {
    let (endpoint, address) = Endpoint::open().await;
    let (agents, of, working) = start_run(database, address).await;
    let mut reply_stream = endpoint.accept_request().await;
    reply_stream.send_text("Wrong").await;
    wait_for_chunks(&agents.env.engine, &of, 5).await;
    reply_stream.cut().await;
    let mut reply_stream = endpoint.accept_request().await;
    reply_stream.send_text("Right").await;
    let recorded = wait_for_chunks(&agents.env.engine, &of, 10).await;
    assert_eq!((&recorded[0].2["attempt"], &recorded[1].2["attempt"]), (&json!(1), &json!(2)));
    reply_stream.end().await;
    working.await.unwrap();
    assert_eq!(reply(&agents, &of).await, "Right");
    assert_eq!(valid_text(&chunks(&agents.env.engine, &of).await), "Right");
}

async fn a_reply_interrupted_by_a_crash_is_requested_again(database: TestDatabase) {
    let (endpoint, address) = Endpoint::open().await;
    let (agents, of, working) = start_run(database, address).await;
    let mut reply_stream = endpoint.accept_request().await;
    reply_stream.send_text("Once upon").await;
    wait_for_chunks(&agents.env.engine, &of, 9).await;
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    let AgentEnv { env, calls } = agents;
    let agents = AgentEnv { env: env.reopen(with_model_at(address)).await, calls };
    let working = drain_in_background(&agents.env.engine);
    let mut reply_stream = endpoint.accept_request().await;
    reply_stream.send_text("In short").await;
    wait_for_chunks(&agents.env.engine, &of, 17).await;
    reply_stream.send_text(": no.").await;
    reply_stream.end().await;
    working.await.unwrap();
    assert_eq!(reply(&agents, &of).await, "In short: no.");
    let recorded = chunks(&agents.env.engine, &of).await;
    assert_eq!((recorded[0].0.as_str(), &recorded[0].2["attempt"]), ("Once upon", &json!(1)));
    assert_eq!(valid_text(&recorded), "In short: no.");
}

async fn a_stream_is_written_in_batches(database: TestDatabase) {
    let (endpoint, address) = Endpoint::open().await;
    let (agents, of, working) = start_run(database, address).await;
    let mut reply_stream = endpoint.accept_request().await;
    let began = Instant::now();
    for _ in 0..600 {
        reply_stream.send_text("words ").await;
    }
    reply_stream.end().await;
    working.await.unwrap();
    let recorded = chunks(&agents.env.engine, &of).await;
    assert_eq!(valid_text(&recorded), "words ".repeat(600));
    // One chunk for each flush interval, one for each full buffer, and the last.
    let most = began.elapsed().as_millis() / Duration::from_millis(50).as_millis() + 3600 / 1024 + 1;
    assert!(recorded.len() as u128 <= most, "{} chunks; at most {most}", recorded.len());
}

async fn a_cancelled_run_records_no_more_chunks(database: TestDatabase) {
    let (endpoint, address) = Endpoint::open().await;
    let (agents, of, working) = start_run(database, address).await;
    let mut reply_stream = endpoint.accept_request().await;
    reply_stream.send_text("Let me").await;
    wait_for_chunks(&agents.env.engine, &of, 6).await;
    agents.env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    working.await.unwrap();
    assert_eq!(agents.env.status(&of).await, "cancelled");
    assert_eq!(chunks(&agents.env.engine, &of).await.len(), 1);
    // The request ends with the run.
    assert_eq!(reply_stream.0.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

async fn a_scripted_reply_without_delays_is_one_chunk_in_the_commit_of_the_reply(agents: AgentEnv) {
    let steps = json!([
        { "text": "I look. And look.", "calls": [call("c1", "look", json!({}))] },
        { "calls": [call("c2", "look", json!({}))] },
        { "pieces": ["Seen", "."] },
    ]);
    agents.declare(agent(&steps)).await;
    let of = agents.send(None, "please").await;
    let recorded = chunks(&agents.env.engine, &of).await;
    let texts: Vec<_> =
        recorded.iter().map(|(text, last, meta)| (text.as_str(), *last, &meta["messageId"])).collect();
    assert_eq!(texts, [("I look. And look.", true, &json!("reply-1")), ("Seen.", true, &json!("reply-3"))]);
    assert_eq!(recorded[0].2["toolCalls"], json!([{ "id": "c1", "name": "look" }]));
    assert_eq!(recorded[0].2["finishReason"], "tool_calls");
    let both = commits_with(&agents, "model.replied", "ai.message.chunk").await;
    assert_eq!((both, commits_with(&agents, "ai.message.chunk", "").await), (2, 2));
}

async fn a_scripted_reply_with_delays_is_streamed(agents: AgentEnv) {
    let steps = json!([{ "pieces": ["Slow", "ly ", "now."], "delayMs": 120 }]);
    agents.declare(agent(&steps)).await;
    let run = agents.env.engine.agents().start(input(None, "please")).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let working = drain_in_background(&agents.env.engine);
    let recorded = wait_for_chunks(&agents.env.engine, &of, 1).await;
    assert!(!recorded[0].1, "{recorded:?}");
    working.await.unwrap();
    assert_eq!(reply(&agents, &of).await, "Slowly now.");
    assert_eq!(valid_text(&chunks(&agents.env.engine, &of).await), "Slowly now.");
}
