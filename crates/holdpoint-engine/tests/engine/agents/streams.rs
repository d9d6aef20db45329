//! Replies that are read while they come: an endpoint that says what a test tells it to, word by word.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdpoint_engine::agent::{AgentSettings, Connection, Connections};
use holdpoint_engine::core::{Event, ForkMode, RunRef};
use holdpoint_engine::{Engine, ForkRequest, Options, Overlay};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Calls, Office, agent, call, talk};
use crate::house::{House, alice, tenant};
use crate::place::{Place, on_both};

on_both! {
    pieces_are_on_record_before_the_reply_is,
    a_reply_that_broke_off_is_told_again_and_its_pieces_are_void,
    a_reply_that_a_crash_cut_off_is_told_again,
    a_stream_is_gathered_and_not_written_word_by_word,
    a_run_that_is_cancelled_hears_nothing_more,
    what_a_script_says_at_once_is_one_piece_in_the_commit_of_its_reply,
    a_script_with_pauses_is_read_while_it_is_said,
}

/// An endpoint that speaks chat completions, one request at a time.
struct Endpoint(TcpListener);

/// The answer to one of them.
struct Speaker(TcpStream);

impl Endpoint {
    async fn open() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Self(listener), address)
    }

    async fn asked(&self) -> Speaker {
        let (mut stream, _) = self.0.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&request) {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request broke off");
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        Speaker(stream)
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    body.len() >= length.unwrap().1.parse::<usize>().unwrap()
}

impl Speaker {
    async fn send(&mut self, data: &Value) {
        self.0.write_all(format!("data: {data}\n\n").as_bytes()).await.unwrap();
    }

    async fn say(&mut self, text: &str) {
        let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
        self.send(&json!({ "model": "small-2", "choices": [choice] })).await;
    }

    async fn end(mut self) {
        let usage = json!({ "prompt_tokens": 7, "completion_tokens": 5 });
        let choice = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
        self.send(&json!({ "choices": [choice], "usage": usage })).await;
        self.0.write_all(b"data: [DONE]\n\n").await.unwrap();
        self.0.shutdown().await.unwrap();
    }

    async fn cut(mut self) {
        self.0.shutdown().await.unwrap();
    }
}

fn connected(address: SocketAddr) -> impl FnOnce(Options) -> Options {
    let model = json!({
        "provider": "openai", "model": "small", "baseUrl": format!("http://{address}/v1"), "retryBaseMs": 1,
    });
    let model = Connection::model(model).unwrap();
    let connections = Connections { models: [("main".to_owned(), model)].into(), ..Connections::default() };
    move |options| options.agents(AgentSettings { connections, ..AgentSettings::default() })
}

/// An agent behind that endpoint, and somebody who has said something to it.
async fn begun(place: Place, address: SocketAddr) -> (Office, RunRef, JoinHandle<usize>) {
    let house = House::with(place, connected(address)).await;
    let office = Office { house, calls: Calls::default() };
    office.hire(json!({ "agentId": "clerk", "model": { "use": "main" } })).await;
    let run = office.house.engine.start_agent(talk(None, "please")).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let working = work(&office.house.engine);
    (office, of, working)
}

fn work(engine: &Engine) -> JoinHandle<usize> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.worker().drain().await.unwrap() })
}

/// A piece as it is on record: text, last, meta.
type Told = (String, bool, Value);

async fn pieces(engine: &Engine, of: &RunRef) -> Vec<Told> {
    let log = engine.events(of, 0).await.unwrap();
    let piece = |event: &Event| match event {
        Event::MessageChunk { chunk, last, meta, .. } => Some((chunk.clone(), *last, json!(meta))),
        _ => None,
    };
    log.iter().filter_map(|one| piece(&one.event)).collect()
}

/// Waits until as much as this was told in all, and returns what.
async fn heard(engine: &Engine, of: &RunRef, length: usize) -> Vec<Told> {
    let mut news = engine.subscribe(of);
    loop {
        let told = pieces(engine, of).await;
        if told.iter().map(|(text, ..)| text.len()).sum::<usize>() >= length {
            return told;
        }
        news.changed().await;
    }
}

/// What a reader makes of it: pieces of the latest attempt, in their order.
fn valid(told: &[Told]) -> String {
    let latest = told.iter().map(|(_, _, meta)| meta["attempt"].as_u64().unwrap()).max().unwrap();
    let valid: Vec<_> = told.iter().filter(|(_, _, meta)| meta["attempt"] == latest).collect();
    for (at, (_, last, meta)) in valid.iter().enumerate() {
        assert_eq!((&meta["index"], &meta["messageId"]), (&json!(at), &json!("reply-1")), "{told:?}");
        assert_eq!(*last, at + 1 == valid.len(), "{told:?}");
    }
    valid.iter().map(|(text, ..)| text.as_str()).collect()
}

async fn reply(office: &Office, of: &RunRef) -> Value {
    assert_eq!(office.house.status(of).await, "completed", "{:#?}", office.house.log(of).await);
    office.agent(of).await.last_reply().unwrap().content.clone()
}

async fn pieces_are_on_record_before_the_reply_is(place: Place) {
    let (endpoint, address) = Endpoint::open().await;
    let (office, of, working) = begun(place, address).await;
    let engine = &office.house.engine;
    let mut speaker = endpoint.asked().await;
    for (said, whole) in [("Hel", 3), ("lo, ", 7), ("Bob", 10)] {
        speaker.say(said).await;
        let told = heard(engine, &of, whole).await;
        assert_eq!(told.last().unwrap().0, said);
        assert!(told.iter().all(|(_, last, _)| !last), "{told:?}");
        assert_eq!(office.agent(&of).await.steps, 0, "the reply is not on record yet");
    }
    speaker.say(".").await;
    speaker.end().await;
    working.await.unwrap();
    assert_eq!(reply(&office, &of).await, "Hello, Bob.");
    let told = pieces(engine, &of).await;
    assert_eq!(valid(&told), "Hello, Bob.");
    let end = json!({
        "messageId": "reply-1", "attempt": 1, "index": told.len() - 1, "finishReason": "stop",
        "model": "small-2", "usage": { "inputTokens": 7, "outputTokens": 5 },
    });
    assert_eq!(told.last().unwrap().2, end);
    assert_eq!(commits_with(&office, "holdpoint.model.replied", r#""last":true"#).await, 1);
    for from_seq in 0..=office.house.run(&of).await.seq {
        let (by, mode, overlay) = ("forker".to_owned(), ForkMode::Replay, Overlay::default());
        let copy = engine
            .fork(&of, ForkRequest { by, credential: None, mode, from_seq, overlay, once: None })
            .await
            .unwrap();
        assert!(!copy.diverged && copy.finished(), "from {from_seq}");
        let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
        assert_eq!(pieces(engine, &copy).await, told, "nothing is said again");
    }
}

/// How many commits have both in them.
async fn commits_with(office: &Office, one: &str, other: &str) -> usize {
    let rows = office.house.place.read("SELECT events FROM events").await;
    let texts = rows.iter().map(|row| format!("{row:?}").replace('\\', ""));
    texts.filter(|text| text.contains(one) && text.contains(other)).count()
}

async fn a_reply_that_broke_off_is_told_again_and_its_pieces_are_void(place: Place) {
    let (endpoint, address) = Endpoint::open().await;
    let (office, of, working) = begun(place, address).await;
    let mut speaker = endpoint.asked().await;
    speaker.say("Wrong").await;
    heard(&office.house.engine, &of, 5).await;
    speaker.cut().await;
    let mut speaker = endpoint.asked().await;
    speaker.say("Right").await;
    let told = heard(&office.house.engine, &of, 10).await;
    assert_eq!((&told[0].2["attempt"], &told[1].2["attempt"]), (&json!(1), &json!(2)));
    speaker.end().await;
    working.await.unwrap();
    assert_eq!(reply(&office, &of).await, "Right");
    assert_eq!(valid(&pieces(&office.house.engine, &of).await), "Right");
}

async fn a_reply_that_a_crash_cut_off_is_told_again(place: Place) {
    let (endpoint, address) = Endpoint::open().await;
    let (office, of, working) = begun(place, address).await;
    let mut speaker = endpoint.asked().await;
    speaker.say("Once upon").await;
    heard(&office.house.engine, &of, 9).await;
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    let Office { house, calls } = office;
    let office = Office { house: house.reopen(connected(address)).await, calls };
    let working = work(&office.house.engine);
    let mut speaker = endpoint.asked().await;
    speaker.say("In short").await;
    heard(&office.house.engine, &of, 17).await;
    speaker.say(": no.").await;
    speaker.end().await;
    working.await.unwrap();
    assert_eq!(reply(&office, &of).await, "In short: no.");
    let told = pieces(&office.house.engine, &of).await;
    assert_eq!((told[0].0.as_str(), &told[0].2["attempt"]), ("Once upon", &json!(1)));
    assert_eq!(valid(&told), "In short: no.");
}

async fn a_stream_is_gathered_and_not_written_word_by_word(place: Place) {
    let (endpoint, address) = Endpoint::open().await;
    let (office, of, working) = begun(place, address).await;
    let mut speaker = endpoint.asked().await;
    let began = Instant::now();
    for _ in 0..600 {
        speaker.say("words ").await;
    }
    speaker.end().await;
    working.await.unwrap();
    let told = pieces(&office.house.engine, &of).await;
    assert_eq!(valid(&told), "words ".repeat(600));
    // One for each span of time, one for each lot of text, and the last.
    let most = began.elapsed().as_millis() / Duration::from_millis(50).as_millis() + 3600 / 1024 + 1;
    assert!(told.len() as u128 <= most, "{} pieces; at most {most}", told.len());
}

async fn a_run_that_is_cancelled_hears_nothing_more(place: Place) {
    let (endpoint, address) = Endpoint::open().await;
    let (office, of, working) = begun(place, address).await;
    let mut speaker = endpoint.asked().await;
    speaker.say("Let me").await;
    heard(&office.house.engine, &of, 6).await;
    office.house.engine.cancel(&of, None, alice()).await.unwrap();
    working.await.unwrap();
    assert_eq!(office.house.status(&of).await, "cancelled");
    assert_eq!(pieces(&office.house.engine, &of).await.len(), 1);
    // The request is given up with the run.
    assert_eq!(speaker.0.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

async fn what_a_script_says_at_once_is_one_piece_in_the_commit_of_its_reply(office: Office) {
    let steps = json!([
        { "text": "I look. And look.", "calls": [call("c1", "look", json!({}))] },
        { "calls": [call("c2", "look", json!({}))] },
        { "pieces": ["Seen", "."] },
    ]);
    office.hire(agent(&steps)).await;
    let of = office.told(None, "please").await;
    let told = pieces(&office.house.engine, &of).await;
    let texts: Vec<_> =
        told.iter().map(|(text, last, meta)| (text.as_str(), *last, &meta["messageId"])).collect();
    assert_eq!(texts, [("I look. And look.", true, &json!("reply-1")), ("Seen.", true, &json!("reply-3"))]);
    assert_eq!(told[0].2["toolCalls"], json!([{ "id": "c1", "name": "look" }]));
    assert_eq!(told[0].2["finishReason"], "tool_calls");
    let both = commits_with(&office, "holdpoint.model.replied", "ai.message.chunk").await;
    assert_eq!((both, commits_with(&office, "ai.message.chunk", "").await), (2, 2));
}

async fn a_script_with_pauses_is_read_while_it_is_said(office: Office) {
    let steps = json!([{ "pieces": ["Slow", "ly ", "now."], "delayMs": 120 }]);
    office.hire(agent(&steps)).await;
    let run = office.house.engine.start_agent(talk(None, "please")).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let working = work(&office.house.engine);
    let told = heard(&office.house.engine, &of, 1).await;
    assert!(!told[0].1, "{told:?}");
    working.await.unwrap();
    assert_eq!(reply(&office, &of).await, "Slowly now.");
    assert_eq!(valid(&pieces(&office.house.engine, &of).await), "Slowly now.");
}
