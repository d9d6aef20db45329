//! AG-UI threads after a restart, a disconnect or an answer from another client, and CORS for front ends.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver as Signals, Sender, channel};

use serde_json::{Value, json};

use crate::agui::{
    AguiEvents, AguiFixture, FLAGS, FrontEnd, approved, asking_agent, cancelled, declare, mailer,
};
use crate::harness::{KEY, Server};
use crate::receiver::{Receiver, Reply};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_client_without_state_resumes_after_kill_9,
    a_client_of_a_long_thread_adds_one_message_and_gets_the_last_1000,
);

/// A request reads the last 1000 messages of its thread. A client may send older ones; they are not added again.
fn a_client_of_a_long_thread_adds_one_message_and_gets_the_last_1000(database: &TestDatabase) {
    let server = database.start(&FLAGS);
    declare(&server.client, &mailer("http://127.0.0.1:9", "allow", &[]));
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let user = |n: usize| json!({"id": format!("u{n}"), "role": "user", "content": n.to_string()});
    let mut messages: Vec<Value> = (0..1500).map(user).collect();
    let events = front.post(json!({"messages": messages}));
    let reply = events.assert_success().messages().last().unwrap().clone();
    assert_eq!((events.messages().len(), &reply["role"]), (1000, &json!("assistant")));
    messages.push(reply);
    messages.push(user(1500));
    for again in [&messages[..], &messages[1501..]] {
        let events = front.post(json!({"messages": again}));
        assert_eq!(events.assert_success().messages().len(), 1000);
    }
    let said = server.client.get("/v1/threads/t1/messages?limit=200").body;
    assert_eq!(said["messages"][0]["id"], "u0", "{said}");
    let last = front.thread()["messages"].as_array().unwrap().clone();
    let ids: Vec<&str> = last.iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids.iter().filter(|id| **id == "u1500").count(), 1, "the message was added once");
    let users = last.iter().filter(|one| one["role"] == "user").count();
    assert_eq!((ids[0], users), ("u503", 998), "two replies are among the last 1000");
}

fn a_client_without_state_resumes_after_kill_9(database: &TestDatabase) {
    let post_office = Receiver::start();
    let mut server = database.start(&FLAGS);
    declare(&server.client, &asking_agent(&post_office.url));
    let id = FrontEnd::new(&server.client, "mailer", "t1").say("u1", "Write to Bob").ids()[0].clone();
    server.kill();
    let mut server = database.start(&FLAGS);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    front.say("u2", "Hello?").assert_refused("PENDING_INTERRUPTS");
    let known = front.thread();
    assert_eq!((&known["interrupts"][0]["id"], &known["messages"][0]["id"]), (&json!(id), &json!("u1")));
    let events = front.resume(json!([approved(&id)]));
    assert_eq!(events.assert_success().messages().len(), 4);
    server.kill();
    let server = database.start(&FLAGS);
    let again = FrontEnd::new(&server.client, "mailer", "t1").resume(json!([approved(&id)]));
    assert_eq!(again.assert_success().messages(), events.messages());
    assert_eq!(post_office.requests().len(), 1);
}

#[test]
fn an_answer_from_the_inbox_shows_in_the_thread() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    let client = &fixture.server.client;
    let run = id.rsplit_once(':').unwrap().0;
    assert_eq!(client.answer(run, "agent", &json!({"action": "accept"})).status, 200);
    client.wait_for_end(run);
    let known = front.thread();
    assert_eq!((&known["interrupts"], &known["status"]), (&json!([]), &json!("completed")));
    assert_eq!(known["messages"].as_array().unwrap().len(), 4);
    let late = front.resume(json!([approved(&id)]));
    assert_eq!(late.assert_success().messages(), *known["messages"].as_array().unwrap());
    front.resume(json!([cancelled(&id)])).assert_refused("ALREADY_ANSWERED");
    assert_eq!(fixture.mails().len(), 1);
    front.say("u2", "And once more").interrupts();
}

/// A receiver that replies to each mail when the test says so.
pub(crate) struct SlowReceiver {
    pub office: Receiver,
    pub arrived: Signals<()>,
    pub open: Sender<()>,
}

impl SlowReceiver {
    fn start() -> Self {
        let ((arrived, arrivals), (open, opened)) = (channel(), channel());
        let office = Receiver::with_reply(move |_| {
            arrived.send(()).unwrap();
            opened.recv().unwrap();
            Reply::Status(200)
        });
        Self { office, arrived: arrivals, open }
    }
}

/// Opens a connection that reads events as they arrive and can be dropped.
pub(crate) fn connect(server: &Server, body: &Value) -> BufReader<TcpStream> {
    let host = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /ag-ui/mailer HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    BufReader::new(stream)
}

pub(crate) fn read_until(stream: &mut BufReader<TcpStream>, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {words}");
    }
}

/// Reads events until the stream ends. The caller has read the first one.
pub(crate) fn read_rest(stream: BufReader<TcpStream>) -> AguiEvents {
    let mut events = vec![json!({"type": "RUN_STARTED"})];
    for line in stream.lines() {
        let line = line.unwrap();
        let Some(event) = line.strip_prefix("data: ") else { continue };
        events.push(serde_json::from_str(event).unwrap());
        if matches!(events.last().unwrap()["type"].as_str(), Some("RUN_FINISHED" | "RUN_ERROR")) {
            break;
        }
    }
    crate::verifier::verify(&events);
    AguiEvents(events)
}

pub(crate) fn start_slow_server() -> (SlowReceiver, Server, tempfile::TempDir) {
    let slow = SlowReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &FLAGS);
    declare(&server.client, &mailer(&slow.office.url, "allow", &["bob@example.test"]));
    (slow, server, folder)
}

#[test]
fn a_disconnected_client_does_not_cancel_the_run_and_can_read_its_result() {
    let (slow, server, _folder) = start_slow_server();
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let input = front.input(json!({"messages": [{"id": "u1", "role": "user", "content": "Write"}]}));
    let mut stream = connect(&server, &input);
    read_until(&mut stream, "TOOL_CALL_END");
    slow.arrived.recv().unwrap();
    drop(stream);
    slow.open.send(()).unwrap();
    let run = front.thread()["runId"].as_str().unwrap().to_owned();
    server.client.wait_for_end(&run);
    let events = front.say("u1", "Write");
    assert_eq!(events.assert_success().messages().len(), 4, "the repeated request returns the result");
    assert!(events.find("TOOL_CALL_RESULT").is_empty());
    assert_eq!(slow.office.requests().len(), 1);
}

#[test]
fn an_active_run_can_be_joined_from_its_beginning() {
    let (slow, server, _folder) = start_slow_server();
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let input = front.input(json!({"messages": [{"id": "u1", "role": "user", "content": "Write"}]}));
    let mut first = connect(&server, &input);
    read_until(&mut first, "TOOL_CALL_END");
    slow.arrived.recv().unwrap();
    assert_eq!(front.thread()["running"], true);
    let (by_post, by_stream) = std::thread::scope(|scope| {
        let by_post = scope.spawn(|| front.say("u1", "Write"));
        let path = "/ag-ui/mailer/threads/t1/stream";
        let by_stream = scope.spawn(|| AguiEvents::request(&server.client, "GET", path, None));
        slow.open.send(()).unwrap();
        (by_post.join().unwrap(), by_stream.join().unwrap())
    });
    read_until(&mut first, "RUN_FINISHED");
    for events in [&by_post, &by_stream] {
        assert_eq!(events.assert_success().messages().len(), 4);
        let said = events.find("TEXT_MESSAGE_START").len();
        assert!(said == 2 || said == 0, "from the beginning, or after the end: {events:?}");
    }
    let rest = AguiEvents::request(&server.client, "GET", "/ag-ui/mailer/threads/t1/stream", None);
    assert_eq!(
        rest.assert_success().kinds(),
        ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(slow.office.requests().len(), 1);
}

#[test]
fn messages_for_an_active_run_reach_that_run() {
    let (slow, server, _folder) = start_slow_server();
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let u1 = json!({"id": "u1", "role": "user", "content": "Write"});
    let mut first = connect(&server, &front.input(json!({"messages": [u1]})));
    read_until(&mut first, "TOOL_CALL_END");
    slow.arrived.recv().unwrap();
    let more = json!({"messages": [u1, {"id": "u2", "role": "user", "content": "Quickly"}]});
    let mut second = connect(&server, &front.input(more));
    read_until(&mut second, "RUN_STARTED");
    slow.open.send(()).unwrap();
    read_until(&mut second, "RUN_FINISHED");
    let known = front.thread();
    let ids: Vec<_> = known["messages"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert!(ids.contains(&json!("u1")) && ids.contains(&json!("u2")), "{ids:?}");
    let runs = server.client.get("/v1/threads/t1/runs").body;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "one run got both messages");
}

#[test]
fn a_client_tool_is_called_in_the_front_end() {
    let fixture = AguiFixture::new(locating_agent);
    let front = fixture.front_end();
    let tool =
        json!({"name": "locate", "description": "where the user is", "parameters": {"type": "object"}});
    let u1 = json!({"id": "u1", "role": "user", "content": "Where am I?"});
    let first = front.post(json!({"tools": [tool], "messages": [u1]}));
    let call = first.find("TOOL_CALL_START")[0]["toolCallId"].clone();
    assert_eq!(
        first.last()["outcome"],
        json!({"type": "success", "pendingToolCallIds": [call]}),
        "{first:?}"
    );
    assert_eq!(front.thread()["pendingToolCallIds"], json!([call]));
    let result = json!({"id": "x", "role": "tool", "toolCallId": call, "content": "in Bonn"});
    let second = front.post(json!({"tools": [tool], "messages": [u1, result]}));
    assert_eq!(second.assert_success().messages().len(), 4);
    assert_eq!(second.find("TOOL_CALL_RESULT")[0]["content"], "in Bonn", "{second:?}");
}

/// Returns an agent that calls the client tool `locate` and ends with the last message of the user.
fn locating_agent(_: &str) -> Value {
    let call = json!({"id": "c1", "name": "locate", "arguments": {}});
    let steps = json!([{"text": "Let me see.", "calls": [call]}, {"text": "You said {{user}}"}]);
    json!({"agentId": "mailer", "model": {"provider": "scripted", "steps": steps}})
}

#[test]
fn messages_sent_with_a_client_tool_result_reach_the_agent() {
    let fixture = AguiFixture::new(locating_agent);
    let front = fixture.front_end();
    let tool = json!({"name": "locate", "description": "", "parameters": {"type": "object"}});
    let u1 = json!({"id": "u1", "role": "user", "content": "Where am I?"});
    let first = front.post(json!({"tools": [tool], "messages": [u1]}));
    let call = first.find("TOOL_CALL_START")[0]["toolCallId"].clone();
    let result = json!({"id": "x", "role": "tool", "toolCallId": call, "content": "in Bonn"});
    let u2 = json!({"id": "u2", "role": "user", "content": "quickly"});
    let second = front.post(json!({"tools": [tool], "messages": [u1, result, u2]}));
    second.assert_success();
    let said: String =
        second.find("TEXT_MESSAGE_CONTENT").iter().map(|piece| piece["delta"].as_str().unwrap()).collect();
    assert_eq!(said, "You said quickly", "{second:?}");
    assert_eq!(second.find("TOOL_CALL_RESULT")[0]["content"], "in Bonn", "{second:?}");
}

#[test]
fn an_unknown_thread_is_not_found_and_its_stream_is_empty() {
    let fixture = AguiFixture::new(asking_agent);
    let client = &fixture.server.client;
    client.get("/ag-ui/mailer/threads/unknown").assert_envelope(404, "not_found");
    // A front end joins its thread before its first message.
    let joined = client.exchange("GET", "/ag-ui/mailer/threads/unknown/stream", None, &[]);
    assert_eq!((joined.status().as_u16(), joined.body().as_str()), (200, ""));
    assert_eq!(joined.headers()["content-type"], "text/event-stream");
    client.get("/ag-ui/unknown/threads/unknown/stream").assert_envelope(404, "not_found");
    let shown = client.get("/ag-ui/mailer/capabilities").body;
    assert_eq!(shown["humanInTheLoop"]["interrupts"], true, "{shown}");
}

#[test]
fn only_pages_of_allowed_origins_may_call_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--cors-origin", "http://localhost:3000", "--cors-origin", "https://app.example.com"];
    let server = Server::start_in(&folder.path().join("data"), &flags);
    let ask = |method: &str, origin: &str, path: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        server.client.with_key(None).exchange(method, path, None, &headers)
    };
    let preflight = ask("OPTIONS", "https://app.example.com", "/ag-ui/mailer");
    assert_eq!(preflight.status(), 200);
    assert_eq!(preflight.headers()["access-control-allow-origin"], "https://app.example.com");
    assert!(preflight.headers()["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    let refused = ask("GET", "http://localhost:3000", "/v1/runs");
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["access-control-allow-origin"]),
        (401, &"http://localhost:3000".parse().unwrap())
    );
    let stranger = ask("OPTIONS", "https://evil.example.com", "/ag-ui/mailer");
    assert!(!stranger.headers().contains_key("access-control-allow-origin"), "{stranger:?}");
    let closed = Server::start();
    let asked = closed.client.exchange("GET", "/v1/runs", None, &[("origin", "http://localhost:3000")]);
    assert!(!asked.headers().contains_key("access-control-allow-origin"), "CORS is off by default");
}
