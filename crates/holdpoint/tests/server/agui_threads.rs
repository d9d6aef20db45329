//! Threads that outlive their front ends: answers from elsewhere, clients that hang up, come back or have forgotten all.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver as Signals, Sender, channel};

use serde_json::{Value, json};

use crate::agui::{FLAGS, Front, Told, World, approved, asking, cancelled, declare, mailer};
use crate::harness::{KEY, Server};
use crate::place::{Place, on_both};
use crate::receiver::{Receiver, Reply};

on_both!(
    a_client_without_memory_resumes_after_kill_9,
    a_client_of_a_long_thread_says_one_new_message_and_gets_the_last_ones,
);

/// A request reads the last 1000 messages of its thread. A client may send older ones, which are not said again.
fn a_client_of_a_long_thread_says_one_new_message_and_gets_the_last_ones(place: &Place) {
    let server = place.start(&FLAGS);
    declare(&server.client, &mailer("http://127.0.0.1:9", "allow", &[]));
    let front = Front::new(&server.client, "mailer", "t1");
    let user = |n: usize| json!({"id": format!("u{n}"), "role": "user", "content": n.to_string()});
    let mut messages: Vec<Value> = (0..1500).map(user).collect();
    let told = front.post(json!({"messages": messages}));
    let reply = told.assert_success().messages().last().unwrap().clone();
    assert_eq!((told.messages().len(), &reply["role"]), (1000, &json!("assistant")));
    messages.push(reply);
    messages.push(user(1500));
    for again in [&messages[..], &messages[1501..]] {
        let told = front.post(json!({"messages": again}));
        assert_eq!(told.assert_success().messages().len(), 1000);
    }
    let said = server.client.get("/v1/threads/t1/messages?limit=200").body;
    assert_eq!(said["messages"][0]["id"], "u0", "{said}");
    let last = front.thread()["messages"].as_array().unwrap().clone();
    let ids: Vec<&str> = last.iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids.iter().filter(|id| **id == "u1500").count(), 1, "said once");
    let users = last.iter().filter(|one| one["role"] == "user").count();
    assert_eq!((ids[0], users), ("u503", 998), "two replies are among the last 1000");
}

fn a_client_without_memory_resumes_after_kill_9(place: &Place) {
    let post_office = Receiver::start();
    let mut server = place.start(&FLAGS);
    declare(&server.client, &asking(&post_office.url));
    let id = Front::new(&server.client, "mailer", "t1").say("u1", "Write to Bob").ids()[0].clone();
    server.kill();
    let mut server = place.start(&FLAGS);
    let front = Front::new(&server.client, "mailer", "t1");
    front.say("u2", "Hello?").assert_refused("PENDING_INTERRUPTS");
    let known = front.thread();
    assert_eq!((&known["interrupts"][0]["id"], &known["messages"][0]["id"]), (&json!(id), &json!("u1")));
    let told = front.resume(json!([approved(&id)]));
    assert_eq!(told.assert_success().messages().len(), 4);
    server.kill();
    let server = place.start(&FLAGS);
    let again = Front::new(&server.client, "mailer", "t1").resume(json!([approved(&id)]));
    assert_eq!(again.assert_success().messages(), told.messages());
    assert_eq!(post_office.so_far().len(), 1);
}

#[test]
fn an_answer_from_the_inbox_shows_in_the_thread() {
    let world = World::new(asking);
    let front = world.front();
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    let client = &world.server.client;
    let run = id.rsplit_once(':').unwrap().0;
    assert_eq!(client.answer(run, "agent", &json!({"action": "accept"})).status, 200);
    client.ended(run);
    let known = front.thread();
    assert_eq!((&known["interrupts"], &known["status"]), (&json!([]), &json!("completed")));
    assert_eq!(known["messages"].as_array().unwrap().len(), 4);
    let late = front.resume(json!([approved(&id)]));
    assert_eq!(late.assert_success().messages(), *known["messages"].as_array().unwrap());
    front.resume(json!([cancelled(&id)])).assert_refused("ALREADY_ANSWERED");
    assert_eq!(world.mails().len(), 1);
    front.say("u2", "And once more").interrupts();
}

/// A post office that lets each mail in when it is told to.
pub(crate) struct Slow {
    pub office: Receiver,
    pub arrived: Signals<()>,
    pub open: Sender<()>,
}

impl Slow {
    fn start() -> Self {
        let ((arrived, heard), (open, opened)) = (channel(), channel());
        let office = Receiver::deciding(move |_| {
            arrived.send(()).unwrap();
            opened.recv().unwrap();
            Reply::Status(200)
        });
        Self { office, arrived: heard, open }
    }
}

/// A connection that reads events as they come, and can be dropped.
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
        assert!(stream.read_line(&mut line).unwrap() > 0, "{words} never came");
    }
}

/// Reads events until the stream has ended. The first one was read before.
pub(crate) fn rest(stream: BufReader<TcpStream>) -> Told {
    let mut told = vec![json!({"type": "RUN_STARTED"})];
    for line in stream.lines() {
        let line = line.unwrap();
        let Some(event) = line.strip_prefix("data: ") else { continue };
        told.push(serde_json::from_str(event).unwrap());
        if matches!(told.last().unwrap()["type"].as_str(), Some("RUN_FINISHED" | "RUN_ERROR")) {
            break;
        }
    }
    crate::verifier::verify(&told);
    Told(told)
}

pub(crate) fn slow_world() -> (Slow, Server, tempfile::TempDir) {
    let slow = Slow::start();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &FLAGS);
    declare(&server.client, &mailer(&slow.office.url, "allow", &["bob@example.test"]));
    (slow, server, folder)
}

#[test]
fn a_client_that_hangs_up_does_not_cancel_and_finds_what_came_of_it() {
    let (slow, server, _folder) = slow_world();
    let front = Front::new(&server.client, "mailer", "t1");
    let input = front.input(json!({"messages": [{"id": "u1", "role": "user", "content": "Write"}]}));
    let mut stream = connect(&server, &input);
    read_until(&mut stream, "TOOL_CALL_END");
    slow.arrived.recv().unwrap();
    drop(stream);
    slow.open.send(()).unwrap();
    let run = front.thread()["runId"].as_str().unwrap().to_owned();
    server.client.ended(&run);
    let told = front.say("u1", "Write");
    assert_eq!(told.assert_success().messages().len(), 4, "sent again, it is told what came of it");
    assert!(told.find("TOOL_CALL_RESULT").is_empty());
    assert_eq!(slow.office.so_far().len(), 1);
}

#[test]
fn a_run_at_work_can_be_joined_from_its_beginning() {
    let (slow, server, _folder) = slow_world();
    let front = Front::new(&server.client, "mailer", "t1");
    let input = front.input(json!({"messages": [{"id": "u1", "role": "user", "content": "Write"}]}));
    let mut first = connect(&server, &input);
    read_until(&mut first, "TOOL_CALL_END");
    slow.arrived.recv().unwrap();
    assert_eq!(front.thread()["running"], true);
    let (by_post, by_stream) = std::thread::scope(|scope| {
        let by_post = scope.spawn(|| front.say("u1", "Write"));
        let path = "/ag-ui/mailer/threads/t1/stream";
        let by_stream = scope.spawn(|| Told::of(&server.client, "GET", path, None));
        slow.open.send(()).unwrap();
        (by_post.join().unwrap(), by_stream.join().unwrap())
    });
    read_until(&mut first, "RUN_FINISHED");
    for told in [&by_post, &by_stream] {
        assert_eq!(told.assert_success().messages().len(), 4);
        let said = told.find("TEXT_MESSAGE_START").len();
        assert!(said == 2 || said == 0, "from the beginning, or where it had ended: {told:?}");
    }
    let rest = Told::of(&server.client, "GET", "/ag-ui/mailer/threads/t1/stream", None);
    assert_eq!(
        rest.assert_success().kinds(),
        ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(slow.office.so_far().len(), 1);
}

#[test]
fn words_for_a_run_at_work_are_told_to_it() {
    let (slow, server, _folder) = slow_world();
    let front = Front::new(&server.client, "mailer", "t1");
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
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "one run heard both");
}

#[test]
fn a_tool_of_the_front_ends_own_is_called_there() {
    let world = World::new(locating);
    let front = world.front();
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

/// An agent that asks the front end where it is, and repeats what it was told last.
fn locating(_: &str) -> Value {
    let call = json!({"id": "c1", "name": "locate", "arguments": {}});
    let steps = json!([{"text": "Let me see.", "calls": [call]}, {"text": "You said {{user}}"}]);
    json!({"agentId": "mailer", "model": {"provider": "scripted", "steps": steps}})
}

#[test]
fn words_beside_the_result_of_a_front_ends_tool_are_heard_with_it() {
    let world = World::new(locating);
    let front = world.front();
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
fn nothing_is_known_of_a_thread_that_never_was() {
    let world = World::new(asking);
    let client = &world.server.client;
    client.get("/ag-ui/mailer/threads/nobody").assert_envelope(404, "not_found");
    // A front end joins its thread before it has said anything.
    let joined = client.exchange("GET", "/ag-ui/mailer/threads/nobody/stream", None, &[]);
    assert_eq!((joined.status().as_u16(), joined.body().as_str()), (200, ""));
    assert_eq!(joined.headers()["content-type"], "text/event-stream");
    client.get("/ag-ui/nobody/threads/nobody/stream").assert_envelope(404, "not_found");
    let shown = client.get("/ag-ui/mailer/capabilities").body;
    assert_eq!(shown["humanInTheLoop"]["interrupts"], true, "{shown}");
}

#[test]
fn browsers_let_pages_call_that_the_operator_names_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--cors-origin", "http://localhost:3000", "--cors-origin", "https://app.example.com"];
    let server = Server::start_in(&folder.path().join("data"), &flags);
    let ask = |method: &str, origin: &str, path: &str| {
        let wish = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        server.client.with_key(None).exchange(method, path, None, &wish)
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
    assert!(!asked.headers().contains_key("access-control-allow-origin"), "off unless asked for");
}
