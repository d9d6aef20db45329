//! Events of a thread: as a list, as a stream across runs, and after a reconnect.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, accept, gated};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_stream_continues_with_later_runs_and_a_reader_that_reconnects_after_kill_9_misses_no_event,
    a_reader_can_reconnect_after_every_event_of_a_thread,
);

/// An open stream of the events of a thread.
struct ThreadStream(BufReader<Box<dyn Read>>);

impl ThreadStream {
    fn open(server: &Server, thread: &str, last: Option<&str>) -> Self {
        Self::at(&server.url, &format!("/v1/threads/{thread}/events"), last)
    }

    fn at(url: &str, path: &str, last: Option<&str>) -> Self {
        // A missing event fails the test after a minute.
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(60)));
        let mut request = config.build().new_agent().get(format!("{url}{path}"));
        request =
            request.header("authorization", format!("Bearer {KEY}")).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self(BufReader::new(Box::new(response.into_body().into_reader())))
    }

    fn next(&mut self) -> Value {
        let (mut id, mut event) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
            match line.trim_end().split_once(": ") {
                Some(("id", text)) => id = text.to_owned(),
                Some(("event", text)) => event = text.to_owned(),
                Some(("data", text)) => {
                    let data: Value = serde_json::from_str(text).unwrap();
                    assert_eq!((&data["cursor"], &data["type"]), (&json!(id), &json!(event)));
                    return data;
                }
                _ => {}
            }
        }
    }

    /// Reads until this number of runs has ended.
    fn until_ended(&mut self, runs: usize) -> Vec<Value> {
        let (mut seen, mut ended) = (Vec::new(), 0);
        while ended < runs {
            let event = self.next();
            ended += usize::from(event["type"] == "run.completed");
            seen.push(event);
        }
        seen
    }
}

fn register_agent(client: &Client) {
    let model = json!({"provider": "scripted", "steps": [{"text": "Yes."}]});
    assert_eq!(client.put("/v1/agents/clerk", &json!({"model": model})).status, 201);
}

/// Sends a message to a thread and waits for the end of the run.
fn send_message(client: &Client, thread: &str, text: &str) -> String {
    let sent =
        client.post(&format!("/v1/threads/{thread}/messages"), &json!({"agentId": "clerk", "message": text}));
    assert_eq!(sent.status, 202, "{sent:?}");
    let run = sent.body["runId"].as_str().unwrap().to_owned();
    client.wait_for_end(&run);
    run
}

/// Reads all pages of the list.
fn list_all(client: &Client, thread: &str, limit: usize, after: Option<&str>) -> Vec<Value> {
    let (mut all, mut next) = (Vec::new(), after.map(str::to_owned));
    loop {
        let after = next.map(|next| format!("&after={next}")).unwrap_or_default();
        let page = client.get(&format!("/v1/threads/{thread}/events?limit={limit}{after}"));
        assert_eq!(page.status, 200, "{page:?}");
        let events = page.body["events"].as_array().unwrap();
        all.extend(events.iter().cloned());
        next = page.body["nextCursor"].as_str().map(str::to_owned);
        match &next {
            None => return all,
            Some(next) => assert_eq!((events.len(), &events[limit - 1]["cursor"]), (limit, &json!(next))),
        }
    }
}

fn cursor(event: &Value) -> &str {
    event["cursor"].as_str().unwrap()
}

#[test]
fn a_thread_lists_the_logs_of_its_runs_in_order() {
    let server = Server::start();
    let client = &server.client;
    register_agent(client);
    let runs = [send_message(client, "t", "one"), send_message(client, "t", "two")];
    send_message(client, "u", "elsewhere");
    let expected: Vec<Value> = runs.iter().flat_map(|run| client.events(run)).collect();
    let whole = list_all(client, "t", 200, None);
    let plain = |event: &Value| {
        let mut event = event.clone();
        assert!(
            event.as_object_mut().unwrap().shift_remove("cursor").is_some_and(|cursor| cursor.is_string())
        );
        event
    };
    assert_eq!(whole.iter().map(plain).collect::<Vec<_>>(), expected, "each event equals that of its run");
    assert_eq!(
        whole,
        ThreadStream::open(&server, "t", None).until_ended(2),
        "the stream sends the same events"
    );
    let mut cursors: Vec<&str> = whole.iter().map(cursor).collect();
    cursors.dedup();
    assert_eq!(cursors.len(), whole.len());
    let messages = client.get("/v1/threads/t/messages").body;
    let sent = messages["messages"][2]["cursor"].as_str().unwrap();
    let rest = list_all(client, "t", 200, Some(sent));
    assert_eq!(rest[..], whole[whole.iter().position(|one| cursor(one) == sent).unwrap() + 1..]);
}

fn a_reader_can_reconnect_after_every_event_of_a_thread(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    register_agent(client);
    send_message(client, "t", "one");
    send_message(client, "t", "two");
    let whole = list_all(client, "t", 200, None);
    assert_eq!(whole, list_all(client, "t", 1, None));
    for (at, event) in whole.iter().enumerate() {
        let rest = &whole[at + 1..];
        assert_eq!(list_all(client, "t", 3, Some(cursor(event))), rest);
        if let [.., last] = rest {
            let mut stream = ThreadStream::open(&server, "t", Some(cursor(event)));
            let seen: Vec<Value> = rest.iter().map(|_| stream.next()).collect();
            assert_eq!(seen, rest, "no gap and no repeated event after {event}");
            assert_eq!(seen.last(), Some(last));
        }
    }
    // A browser reconnects to the same address with Last-Event-ID.
    let path = format!("/v1/threads/t/events?after={}", cursor(&whole[0]));
    let mut stream = ThreadStream::at(&server.url, &path, Some(cursor(&whole[4])));
    assert_eq!(stream.next(), whole[5]);
}

fn a_stream_continues_with_later_runs_and_a_reader_that_reconnects_after_kill_9_misses_no_event(
    database: &TestDatabase,
) {
    let mut server = database.start(&[]);
    register_agent(&server.client);
    let first = send_message(&server.client, "t", "one");
    let mut stream = ThreadStream::open(&server, "t", None);
    let mut seen = stream.until_ended(1);
    let second = send_message(&server.client, "t", "two");
    seen.extend(stream.until_ended(1));
    let runs: Vec<&str> = seen.iter().map(|event| event["runId"].as_str().unwrap()).collect();
    assert!(runs.is_sorted() && runs.contains(&first.as_str()) && runs.contains(&second.as_str()));
    assert_eq!(seen, list_all(&server.client, "t", 200, None));
    server.kill();
    let server = database.start(&[]);
    let last = cursor(seen.last().unwrap()).to_owned();
    let mut stream = ThreadStream::open(&server, "t", Some(&last));
    send_message(&server.client, "t", "three");
    seen.extend(stream.until_ended(1));
    assert_eq!(seen, list_all(&server.client, "t", 200, None));
}

#[test]
fn a_stream_at_one_node_gets_messages_sent_at_another() {
    let database = TestDatabase::postgres();
    let (here, there) = (database.start_node("a", &[]), database.start_node("b", &[]));
    register_agent(&here.client);
    send_message(&here.client, "t", "one");
    let mut stream = ThreadStream::open(&there, "t", None);
    let mut seen = stream.until_ended(1);
    send_message(&here.client, "t", "two");
    seen.extend(stream.until_ended(1));
    assert_eq!(seen, list_all(&here.client, "t", 200, None));
}

#[test]
fn an_open_workflow_run_blocks_messages_in_its_thread() {
    let server = Server::start();
    let client = &server.client;
    register_agent(client);
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    let mut stream = ThreadStream::open(&server, &run, None);
    let own = client.events(&run).len();
    let seen: Vec<u64> = (0..own).map(|_| stream.next()["sequence"].as_u64().unwrap()).collect();
    assert_eq!(seen, (0..own as u64).collect::<Vec<_>>());
    for mode in ["queue", "interrupt_then_queue"] {
        let message = json!({"agentId": "clerk", "message": "hello", "mode": mode});
        let busy = client.post(&format!("/v1/threads/{run}/messages"), &message);
        busy.assert_envelope(409, "thread_busy");
        assert_eq!(busy.body["details"]["activeRunId"], json!(run));
    }
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
    assert_eq!(stream.until_ended(1).last().unwrap()["runId"], json!(run));
    let next = send_message(client, &run, "hello");
    assert_eq!(stream.until_ended(1).last().unwrap()["runId"], json!(next));
    assert_eq!(
        client.get(&format!("/v1/threads/{next}/events")).status,
        404,
        "the run belongs to another thread"
    );
}

#[test]
fn threads_of_other_tenants_are_not_found_and_invalid_cursors_are_refused() {
    let server = Server::start();
    let client = &server.client;
    register_agent(client);
    let run = send_message(client, "t", "one");
    let other = send_message(client, "u", "two");
    client.get("/v1/threads/unknown/events").assert_envelope(404, "not_found");
    client.get("/v1/threads/%00/events").assert_envelope(404, "not_found");
    let made = client.post("/v1/keys", &json!({"tenant": "elsewhere", "scopes": ["runs:read"]})).body;
    let other_tenant = client.with_key(made["key"].as_str());
    for query in [String::new(), format!("?after={run}.0")] {
        other_tenant.get(&format!("/v1/threads/t/events{query}")).assert_envelope(404, "not_found");
    }
    let made = client.post("/v1/keys", &json!({"scopes": ["runs:create"]})).body;
    let writer = client.with_key(made["key"].as_str());
    writer.get("/v1/threads/t/events").assert_envelope(403, "forbidden");
    let beyond = client.events(&run).len();
    let wrong =
        ["x", "", "7", "unknown.0", &format!("{other}.0"), &format!("{run}.{beyond}"), &format!("{run}.00")];
    for wrong in wrong {
        for name in ["after", "cursor"] {
            let refused = client.get(&format!("/v1/threads/t/events?{name}={wrong}"));
            refused.assert_envelope(400, "validation_error");
            assert_eq!(refused.body["details"]["field"], name, "{wrong}");
        }
        for accept in ["application/json", "text/event-stream"] {
            let headers = [("last-event-id", wrong), ("accept", accept)];
            let refused = client.exchange("GET", "/v1/threads/t/events", None, &headers);
            assert_eq!(refused.status(), 400, "{wrong}");
        }
    }
    client.get("/v1/threads/t/events?limit=0").assert_envelope(400, "validation_error");
}

#[test]
fn a_waiting_run_shows_the_dispatch_since_which_it_waits() {
    let server = Server::start();
    let client = &server.client;
    let steps = json!([{"calls": [{"id": "c1", "name": "send", "arguments": {}}]}, {"text": "Yes."}]);
    let tool = json!({"type": "http", "name": "send", "description": "sends", "method": "POST",
        "url": "https://mail.example.test/", "parameters": {"type": "object"}});
    let asks = json!({"model": {"provider": "scripted", "steps": steps}, "tools": [tool],
        "permissions": {"rules": [], "default": "ask"}});
    let declared = client.put("/v1/agents/mailer", &asks);
    assert_eq!(declared.status, 201, "{declared:?}");
    let started = client.post("/v1/agents/mailer/runs", &json!({"threadId": "t", "message": "Go"}));
    let run = started.body["runId"].as_str().unwrap();
    client.wait_for_event(run, |event| event["type"] == "node.suspended");
    let waiting = client.get(&format!("/v1/runs/{run}/waiting")).body;
    let since = waiting["sinceDispatchId"].as_str().unwrap();
    assert_eq!(client.get("/v1/threads/t/runs/active").body["waiting"], waiting);
    let dispatch = client.get(&format!("/v1/dispatches/{since}")).body;
    assert_eq!((&dispatch["runId"], &dispatch["threadId"]), (&json!(run), &json!("t")), "{dispatch}");
    assert_eq!(dispatch["projection"]["runStatus"], "waiting", "{dispatch}");
}
