//! Parameters of streams and polls: modes, buffering, invalid values, and slow readers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{KEY, Server, accept, gated};
use crate::streams::{read, start};

#[test]
fn unknown_and_incompatible_stream_modes_are_refused_first() {
    let server = Server::start();
    let run = start(&server);
    for modes in
        ["everything", "", "updates,everything", "values,updates", "updates,values", "updates,,debug"]
    {
        for path in ["events", "events/poll"] {
            for id in [run.as_str(), "unknown"] {
                let refused = server.client.get(&format!("/v1/runs/{id}/{path}?streamMode={modes}"));
                refused.assert_envelope(400, "unsupported_stream_mode");
                let supported = json!(["values", "updates", "messages", "debug"]);
                assert_eq!(refused.body["details"]["supported"], supported, "{modes}");
            }
        }
    }
    for bad in ["5001", "-1", "soon", "1.5", ""] {
        let refused = server.client.get(&format!("/v1/runs/{run}/events?bufferMs={bad}"));
        refused.assert_envelope(400, "validation_error");
    }
    let request = ureq::get(format!("{}/v1/runs/{run}/events?streamMode=all", server.url));
    let request =
        request.header("authorization", format!("Bearer {KEY}")).header("accept", "application/json");
    let refused = request.config().http_status_as_error(false).build().call().unwrap();
    assert_eq!(refused.status(), 400, "also for a JSON response");
    server.client.get("/v1/runs/unknown/events").assert_envelope(404, "not_found");
    server.client.get("/v1/runs/unknown/events/poll").assert_envelope(404, "not_found");
}

#[test]
fn a_list_of_events_is_complete_or_filtered_by_its_mode() {
    let server = Server::start();
    let run = start(&server);
    let list = |way: &str| -> Vec<String> {
        let (kind, text) = read(&server, &run, way, &[("accept", "application/json")]);
        assert_eq!(kind, "application/json");
        let body: Value = serde_json::from_str(&text).unwrap();
        body["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = list("events");
    let log = server.client.events(&run);
    assert_eq!(all.len(), log.len(), "the list returns at once although the run is open");
    let without: Vec<&String> = all.iter().filter(|kind| *kind != "node.started").collect();
    assert_eq!(list("events?streamMode=updates").iter().collect::<Vec<_>>(), without);
    assert_eq!(list("events?streamMode=messages"), Vec::<String>::new());
}

#[test]
fn a_poll_with_a_mode_waits_for_events_of_the_mode() {
    let server = Server::start();
    let run = start(&server);
    let last = server.client.events(&run).len() - 1;
    let path = format!("/v1/runs/{run}/events/poll?streamMode=updates&lastSequence={last}");
    let empty = server.client.get(&format!("{path}&timeout=1"));
    assert_eq!(empty.body, json!({"events": [], "isComplete": false}));
    let client = server.client.clone();
    let waiting = std::thread::spawn(move || client.get(&path));
    server.client.answer(&run, "gate", &accept());
    let found = waiting.join().unwrap().body;
    assert_eq!(found["events"][0]["type"], "interrupt.resolved");
    let kinds = found["events"].as_array().unwrap().iter();
    assert!(kinds.clone().all(|event| event["type"] != "node.resumed"), "{found}");
    // The run ends after a short delay, without messages.
    let without_messages =
        server.client.get(&format!("/v1/runs/{run}/events/poll?streamMode=messages&timeout=60"));
    assert_eq!(without_messages.body, json!({"events": [], "isComplete": true}));
}

#[test]
fn a_batch_is_sent_at_once_when_the_run_waits_or_ends() {
    let server = Server::start();
    let run = start(&server);
    let begun = Instant::now();
    let request = ureq::get(format!("{}/v1/runs/{run}/events?bufferMs=5000", server.url));
    let mut response = request.header("authorization", format!("Bearer {KEY}")).call().unwrap();
    let mut lines = BufReader::new(response.body_mut().as_reader()).lines().map(Result::unwrap);
    let mut batch = || -> Vec<Value> {
        let mut next = || lines.next().unwrap();
        assert!(next().starts_with("id: "));
        assert_eq!(next(), "event: batch");
        let data: Value = serde_json::from_str(next().strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(next(), "");
        data.as_array().unwrap().clone()
    };
    assert_eq!(batch().last().unwrap()["type"], "node.suspended");
    server.client.answer(&run, "gate", &accept());
    assert_eq!(batch().last().unwrap()["type"], "run.completed");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn a_batch_is_sent_after_its_buffer_time() {
    let server = Server::start();
    let run = start(&server);
    let last = server.client.events(&run).len() - 2;
    let request = ureq::get(format!("{}/v1/runs/{run}/events?bufferMs=1", server.url));
    let request = request.header("authorization", format!("Bearer {KEY}"));
    let mut response = request.header("last-event-id", last.to_string()).call().unwrap();
    let mut lines = BufReader::new(response.body_mut().as_reader()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), format!("id: {}", last + 1));
    assert_eq!(lines.next().unwrap(), "event: batch");
    assert!(lines.next().unwrap().contains("approval.requested"), "the batch contains the last event only");
}

#[test]
fn a_slow_reader_delays_no_other_reader_and_gets_all_events_later() {
    const STEPS: usize = 6;
    const BYTES: usize = 900_000;
    let server = Server::start();
    let mut flow = gated("large");
    for at in 0..STEPS {
        let inputs = json!({"payload": {"type": "variable", "variableName": "payload"}});
        let mut node = flow["nodes"][2].clone();
        node["id"] = json!(format!("large{at}"));
        node["typeId"] = json!("core.identity");
        node["inputs"] = inputs;
        let id = node["id"].clone();
        flow["nodes"].as_array_mut().unwrap().push(node);
        let edge = json!({"id": format!("to{at}"), "sourceNodeId": "gate", "targetNodeId": id});
        flow["edges"].as_array_mut().unwrap().push(edge);
    }
    assert_eq!(server.client.put("/v1/workflows/large", &flow).status, 201);
    let inputs = json!({"payload": "x".repeat(BYTES)});
    let created = server.client.post("/v1/runs", &json!({"workflowId": "large", "inputs": inputs})).body;
    let run = created["runId"].as_str().unwrap();
    let mut slow_reader = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\r\n");
    slow_reader.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    slow_reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    assert_eq!(server.client.answer(run, "gate", &accept()).status, 200);
    let fast_text = read(&server, run, "events?streamMode=debug", &[]).1;
    assert!(fast_text.len() > STEPS * BYTES && fast_text.contains("event: run.completed"));
    let mut later = Vec::new();
    slow_reader.read_to_end(&mut later).unwrap();
    assert!(later.len() > fast_text.len() && later.ends_with(b"0\r\n\r\n"), "{} bytes", later.len());
}
