//! Streams and long polls end with the key or the session that opened them, on every node.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Server, create_key, gated, linear};
use crate::sessions::Browser;
use crate::test_database::{TestDatabase, on_both};

on_both! {
    every_kind_of_stream_ends_when_its_key_is_revoked,
    streams_and_long_polls_end_when_their_key_expires,
    a_stream_ends_when_its_session_is_signed_out_or_loses_its_key,
}

const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];
const SCOPES: [&str; 3] = ["runs:create", "runs:read", "approvals:respond"];
/// The bound that the documentation names.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// A request whose response is a stream without an end.
struct StreamRequest {
    method: &'static str,
    path: String,
    body: Option<Value>,
}

impl StreamRequest {
    fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), body: None }
    }

    fn post(path: &str, body: Value) -> Self {
        Self { method: "POST", path: path.to_owned(), body: Some(body) }
    }

    fn open(&self, url: &str, (name, value): (&str, &str)) -> Stream {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(60)));
        let request = ureq::http::Request::builder().method(self.method).uri(format!("{url}{}", self.path));
        let request = request.header(name, value).header("accept", "text/event-stream");
        let agent = config.build().new_agent();
        let response = match &self.body {
            None => agent.run(request.body(()).unwrap()),
            Some(body) => {
                let request = request.header("content-type", "application/json");
                agent.run(request.body(body.to_string()).unwrap())
            }
        };
        let response = response.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{}", self.path);
        Stream(BufReader::new(Box::new(response.into_body().into_reader())))
    }
}

/// An open stream.
struct Stream(BufReader<Box<dyn Read + Send + Sync>>);

impl Stream {
    fn open(request: &StreamRequest, url: &str, key: &Value) -> Self {
        request.open(url, ("authorization", &format!("Bearer {}", key["key"].as_str().unwrap())))
    }

    /// Waits for the first line, so that the stream is known to be served.
    fn begin(mut self) -> Self {
        assert!(self.0.read_line(&mut String::new()).unwrap() > 0);
        self
    }

    /// Reads to the end and returns the last frame.
    fn last_frame(mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text.trim_end().rsplit("\n\n").next().unwrap_or_default().to_owned()
    }
}

/// A server with a run at a gate, a run in thread `t1` that executes, and requests for streams of them.
struct StreamSetup {
    server: Server,
    run: String,
    /// Accepts connections and never responds.
    hangs: TcpListener,
}

impl StreamSetup {
    fn new(database: &TestDatabase) -> Self {
        Self::on(database.start(&FLAGS))
    }

    fn on(server: Server) -> Self {
        let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
        let call = json!({"method": "POST", "url": format!("http://{}", hangs.local_addr().unwrap())});
        let slow = linear("slow", &[("call", "core.http", call)]);
        for workflow in [gated("gated"), slow] {
            let id = workflow["id"].as_str().unwrap().to_owned();
            assert_eq!(server.client.put(&format!("/v1/workflows/{id}"), &workflow).status, 201);
        }
        let run = server.client.start_run("gated");
        Self { server, run, hangs }
    }

    fn client(&self) -> &Client {
        &self.server.client
    }

    fn key(&self, more: Value) -> Value {
        let mut members = json!({"principal": "reader", "scopes": SCOPES});
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create_key(self.client(), &members)
    }

    fn revoke(&self, key: &Value) {
        let path = format!("/v1/keys/{}", key["keyId"].as_str().unwrap());
        assert_eq!(self.client().send("DELETE", &path, None).status, 204);
    }

    fn events(&self) -> StreamRequest {
        StreamRequest::get(format!("/v1/runs/{}/events", self.run))
    }

    /// Returns a request for each kind of stream. The first starts the run of the thread that the others read.
    fn streams(&self) -> Vec<StreamRequest> {
        let input = json!({
            "threadId": "t1", "runId": "r1", "protocolVersion": "1.0", "state": {}, "tools": [], "context": [],
            "forwardedProps": {}, "messages": [{"id": "u1", "role": "user", "content": "Go"}],
        });
        vec![
            StreamRequest::post("/ag-ui/slow", input),
            StreamRequest::get("/ag-ui/slow/threads/t1/stream"),
            StreamRequest::get("/v1/threads/t1/events"),
            self.events(),
            StreamRequest::get(format!("/v1/runs/{}/events?bufferMs=100", self.run)),
            StreamRequest::get("/v1/interrupts/stream"),
        ]
    }
}

fn every_kind_of_stream_ends_when_its_key_is_revoked(database: &TestDatabase) {
    let setup = StreamSetup::new(database);
    let (revoked, valid) = (setup.key(json!({})), setup.key(json!({})));
    let url = &setup.server.url;
    let mut streams = Vec::new();
    for request in setup.streams() {
        let stream = Stream::open(&request, url, &revoked).begin();
        streams.push((request.path, stream));
    }
    streams.push(("chat".to_owned(), chat(&setup, &revoked)));
    let mut other = Stream::open(&setup.events(), url, &valid).begin();
    let began = Instant::now();
    setup.revoke(&revoked);
    for (path, stream) in streams {
        let last = stream.last_frame();
        assert!(last.contains("key_revoked"), "{path}: {last:?}");
        if path.starts_with("/ag-ui") {
            let event: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!((&event["type"], &event["code"]), (&json!("RUN_ERROR"), &json!("key_revoked")));
        }
    }
    assert!(began.elapsed() < ENDS_WITHIN, "{:?}", began.elapsed());
    let again = setup.client().with_key(revoked["key"].as_str()).get(&setup.events().path);
    again.assert_envelope(401, "key_revoked");
    assert_eq!(setup.client().answer(&setup.run, "gate", &json!({"action": "accept"})).status, 200);
    let mut rest = String::new();
    other.0.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("run.completed"), "the stream of another key continues: {rest}");
}

/// Returns the stream of a graph that executes.
fn chat(setup: &StreamSetup, key: &Value) -> Stream {
    const CHAT: &str = "/api/v1/ai/chat";
    let client = setup.client().with_key(key["key"].as_str());
    let url = format!("http://{}", setup.hangs.local_addr().unwrap());
    let input = json!({"topic": "cats", "publishUrl": url});
    let start = json!({"graph": "native:content-review", "stateKey": "k1", "input": input});
    assert_eq!(client.post(CHAT, &start).body["outcome"], "needs_input");
    let approve = json!({"stateKey": "k1", "resumeId": "a1", "resumeValue": {"action": "approve"}});
    Stream::open(&StreamRequest::post(CHAT, approve), &setup.server.url, key).begin()
}

fn streams_and_long_polls_end_when_their_key_expires(database: &TestDatabase) {
    let setup = StreamSetup::new(database);
    let hold = setup.client().post("/v1/holds", &json!({"title": "Go?"})).body;
    let key = setup.key(json!({"expiresInSeconds": 2}));
    let stream = Stream::open(&setup.events(), &setup.server.url, &key).begin();
    let client = setup.client().with_key(key["key"].as_str());
    let last = setup.client().events(&setup.run).len();
    let poll = format!("/v1/runs/{}/events/poll?lastSequence={}&timeout=60", setup.run, last - 1);
    let wait = format!("/v1/holds/{}?wait=60", hold["holdId"].as_str().unwrap());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for path in [&poll, &wait] {
            let client = &client;
            scope.spawn(move || client.get(path).assert_envelope(401, "key_expired"));
        }
    });
    assert!(stream.last_frame().contains("key_expired"));
    assert!(began.elapsed() < ENDS_WITHIN, "{:?}", began.elapsed());
}

fn a_stream_ends_when_its_session_is_signed_out_or_loses_its_key(database: &TestDatabase) {
    let setup = StreamSetup::new(database);
    let key = setup.key(json!({}));
    let sign_in = || Browser::sign_in(setup.client(), &json!({"key": key["key"]})).unwrap();
    let open = |browser: &Browser| {
        let counts = StreamRequest::get("/v1/interrupts/stream");
        counts.open(&setup.server.url, ("cookie", &browser.cookie)).begin()
    };
    let (first, second) = (sign_in(), sign_in());
    let (signed_out, stays) = (open(&first), open(&second));
    assert_eq!(first.send("DELETE", "/v1/session", None, &[("x-holdpoint-page", "1")]).0, 204);
    assert!(signed_out.last_frame().contains("session_ended"));
    setup.revoke(&key);
    assert!(stays.last_frame().contains("key_revoked"));
    assert_eq!(second.get("/v1/interrupts/stream").0, 401);
}

#[test]
fn a_stream_at_one_node_ends_when_its_key_is_revoked_at_another() {
    let database = TestDatabase::postgres();
    let setup = StreamSetup::on(database.start_node("one", &FLAGS));
    let two = database.start_node("two", &[]);
    let key = setup.key(json!({}));
    let streams = [setup.events(), StreamRequest::get("/v1/interrupts/stream")];
    let streams = streams.map(|request| Stream::open(&request, &two.url, &key).begin());
    let began = Instant::now();
    setup.revoke(&key);
    for stream in streams {
        assert!(stream.last_frame().contains("key_revoked"));
    }
    assert!(began.elapsed() < ENDS_WITHIN, "{:?}", began.elapsed());
}
