//! The modes of a stream, compared with recorded transcripts, and reconnects after every event.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{KEY, Server, accept, gated};

/// The queries of a stream, with the names of their transcripts.
const QUERIES: [(&str, &str); 8] = [
    ("updates", "events"),
    ("debug", "events?streamMode=debug"),
    ("values", "events?streamMode=values"),
    ("no-messages", "events?streamMode=messages"),
    ("mixed", "events?streamMode=updates,messages"),
    ("buffered", "events?bufferMs=5000"),
    ("buffered-values", "events?streamMode=values&bufferMs=5000"),
    ("buffered-debug", "events?streamMode=debug&bufferMs=5000"),
];

/// A workflow with a value, a gate, a short delay and an end.
pub(crate) fn sample_workflow() -> Value {
    let mut flow = gated("winding");
    flow["nodes"][0]["typeId"] = json!("core.identity");
    flow["nodes"][0]["inputs"] = json!({"payload": {"type": "variable", "variableName": "payload"}});
    flow["nodes"][2]["typeId"] = json!("core.delay");
    flow["nodes"][2]["config"] = json!({"ms": 1});
    let mut end = flow["nodes"][0].clone();
    end["id"] = json!("end");
    end["name"] = json!("end");
    end["inputs"] = json!({"result": {"type": "static", "value": {"b": 1, "a": [true, null]}}});
    flow["nodes"].as_array_mut().unwrap().push(end);
    let edge = json!({"id": "3", "sourceNodeId": "after", "targetNodeId": "end"});
    flow["edges"].as_array_mut().unwrap().push(edge);
    flow["variables"] = json!([
        {"name": "payload", "type": "string"},
        {"name": "secret", "type": "string", "sensitive": true},
    ]);
    flow
}

/// Starts a run of the sample workflow with inputs, tags and metadata.
pub(crate) fn start(server: &Server) -> String {
    assert_eq!(server.client.put("/v1/workflows/winding", &sample_workflow()).status, 201);
    let body = json!({
        "workflowId": "winding", "inputs": {"payload": "p", "secret": "s"}, "tags": ["x"], "metadata": {"m": 1},
    });
    let created = server.client.post("/v1/runs", &body);
    created.body["runId"].as_str().unwrap_or_else(|| panic!("{created:?}")).to_owned()
}

fn finish(server: &Server) -> String {
    let run = start(server);
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    read(server, &run, "events", &[]);
    run
}

/// Reads a response to its end. Returns the content type and the text.
pub(crate) fn read(server: &Server, run: &str, query: &str, headers: &[(&str, &str)]) -> (String, String) {
    let mut request = ureq::get(format!("{}/v1/runs/{run}/{query}", server.url));
    request = request.header("authorization", format!("Bearer {KEY}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = request.call().unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let mut text = String::new();
    response.body_mut().as_reader().read_to_string(&mut text).unwrap();
    (kind, text)
}

/// Returns the frames of a stream: id, event, data.
fn frames(text: &str) -> Vec<(u64, String, String)> {
    let field = |line: Option<&str>, name: &str| line.unwrap().strip_prefix(name).unwrap().to_owned();
    let frame = |frame: &str| {
        let mut lines = frame.lines();
        let id = field(lines.next(), "id: ").parse().unwrap();
        let whole = (id, field(lines.next(), "event: "), field(lines.next(), "data: "));
        assert_eq!(lines.next(), None, "a frame is three lines: {frame}");
        whole
    };
    text.split_terminator("\n\n").filter(|text| !text.starts_with(':')).map(frame).collect()
}

/// Replaces run ids, instants, key ids, durations and the engine version by fixed names.
fn normalize(run: &str, text: &str) -> String {
    let mut normal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let instant = rest.get(..24).filter(|text| text.parse::<jiff::Timestamp>().is_ok());
        let known = [(run, "RUN"), (instant.unwrap_or(run), "INSTANT")];
        if let Some((found, name)) = known.iter().find(|(found, _)| rest.starts_with(found)) {
            normal.push_str(name);
            rest = &rest[found.len()..];
        } else if let Some(after) = rest.strip_prefix("key_") {
            normal.push_str("KEY");
            rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        } else if let Some(after) = rest.strip_prefix("\"engineVersion\":") {
            normal.push_str("\"engineVersion\":N");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '"');
        } else if let Some(after) = rest.strip_prefix("\"durationMs\":") {
            normal.push_str("\"durationMs\":MS");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        } else {
            normal.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    normal
}

#[test]
fn streams_match_the_recorded_transcripts() {
    let server = Server::start();
    let run = finish(&server);
    let mut transcripts: Vec<(&str, String)> =
        QUERIES.iter().map(|(name, query)| (*name, read(&server, &run, query, &[]).1)).collect();
    transcripts.push(("list.json", read(&server, &run, "events", &[("accept", "application/json")]).1));
    transcripts.push(("poll.json", read(&server, &run, "events/poll", &[]).1));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/streams");
    let mut differences = String::new();
    for (name, text) in transcripts {
        let path = folder.join(if name.contains('.') { name.to_owned() } else { format!("{name}.txt") });
        let text = normalize(&run, &text);
        if std::env::var_os("WRITE_TRANSCRIPTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        if known != text {
            writeln!(differences, "{name}, known:\n{known}\nnow:\n{text}").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}WRITE_TRANSCRIPTS=1 writes the transcripts again");
}

#[test]
fn a_reader_that_reconnects_gets_exactly_the_remaining_events_in_every_mode() {
    let server = Server::start();
    let run = finish(&server);
    let end = frames(&read(&server, &run, "events?streamMode=debug", &[]).1).last().unwrap().0;
    for (name, query) in QUERIES.iter().filter(|(name, _)| !name.contains("values")) {
        let all = documents(&read(&server, &run, query, &[]).1);
        for last in 0..=end + 1 {
            let rest = documents(&read(&server, &run, query, &[("last-event-id", &last.to_string())]).1);
            let expected: Vec<&Value> =
                all.iter().filter(|document| document["sequence"].as_u64() > Some(last)).collect();
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected, "{name} after {last}");
        }
    }
}

/// Returns the documents of a stream, with batches expanded.
fn documents(text: &str) -> Vec<Value> {
    let parsed = frames(text).into_iter().map(|(id, event, data)| {
        let data: Value = serde_json::from_str(&data).unwrap();
        let documents = if event == "batch" { data.as_array().unwrap().clone() } else { vec![data] };
        assert_eq!(documents.last().unwrap()["sequence"], id, "the id of a batch is that of its last event");
        documents
    });
    parsed.flatten().collect()
}

#[test]
fn a_reader_of_values_that_reconnects_gets_the_current_run_and_later_changes() {
    let server = Server::start();
    let run = start(&server);
    let waiting = server.client.snapshot(&run);
    let end = server.client.events(&run).len() as u64 - 1;
    let url = format!("{}/v1/runs/{run}/events?streamMode=values", server.url);
    for last in 0..=end + 1 {
        let request = ureq::get(&url).header("authorization", format!("Bearer {KEY}"));
        let mut response = request.header("last-event-id", last.to_string()).call().unwrap();
        let mut lines = BufReader::new(response.body_mut().as_reader()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), format!("id: {end}"), "after {last}");
        assert_eq!(lines.next().unwrap(), "event: state.snapshot");
        let data: Value =
            serde_json::from_str(lines.next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data, waiting, "after {last}");
    }
    let before = frames(&after_answer(&server, &run, end)).len();
    assert!(before > 2, "the current snapshot, then those after the answer: {before}");
    let last = server.client.events(&run).len() as u64 - 1;
    let done = server.client.get(&format!("/v1/runs/{run}")).body;
    for seen in 0..last {
        let text = read(&server, &run, "events?streamMode=values", &[("last-event-id", &seen.to_string())]).1;
        let found = frames(&text);
        assert_eq!(found.len(), 1, "after {seen}");
        assert_eq!((found[0].0, serde_json::from_str::<Value>(&found[0].2).unwrap()), (last, done.clone()));
    }
    for seen in [last, last + 1] {
        let text = read(&server, &run, "events?streamMode=values", &[("last-event-id", &seen.to_string())]).1;
        assert_eq!(text, "", "a reader that has seen the end gets no frame");
    }
}

/// Opens a stream of values at the gate, answers, and reads the stream to its end.
fn after_answer(server: &Server, run: &str, last: u64) -> String {
    let request = ureq::get(format!("{}/v1/runs/{run}/events?streamMode=values", server.url));
    let request = request.header("authorization", format!("Bearer {KEY}"));
    let mut response = request.header("last-event-id", last.to_string()).call().unwrap();
    server.client.answer(run, "gate", &accept());
    let mut text = String::new();
    response.body_mut().as_reader().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_live_stream_equals_the_stream_of_the_finished_log() {
    let server = Server::start();
    let run = start(&server);
    let open = |query: &str| {
        let request = ureq::get(format!("{}/v1/runs/{run}/{query}", server.url));
        request.header("authorization", format!("Bearer {KEY}")).call().unwrap()
    };
    let live: Vec<_> = QUERIES.iter().map(|(name, query)| (name, query, open(query))).collect();
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    for (name, query, mut response) in live {
        let mut text = String::new();
        response.body_mut().as_reader().read_to_string(&mut text).unwrap();
        let later = read(&server, &run, query, &[]).1;
        if name.starts_with("buffered") {
            // The batches depend on time; their events do not.
            let events_of = |text: &str| -> String {
                frames(text).iter().map(|frame| frame.2[1..frame.2.len() - 1].to_owned() + "\n").collect()
            };
            assert_eq!(events_of(&text).replace('\n', ","), events_of(&later).replace('\n', ","), "{name}");
        } else {
            assert_eq!(text, later, "{name}");
        }
    }
}

#[test]
fn a_document_has_the_same_bytes_in_streams_lists_and_polls() {
    let server = Server::start();
    let run = finish(&server);
    let stream = frames(&read(&server, &run, "events?streamMode=debug", &[]).1);
    let data: Vec<String> = stream.into_iter().map(|(_, _, data)| data).collect();
    let joined = data.join(",");
    let (kind, list) = read(&server, &run, "events", &[("accept", "application/json")]);
    assert_eq!((kind.as_str(), list), ("application/json", format!("{{\"events\":[{joined}]}}")));
    let poll = format!("{{\"events\":[{joined}],\"isComplete\":true}}");
    assert_eq!(read(&server, &run, "events/poll", &[]).1, poll);
    let server = server.kill_and_restart();
    assert_eq!(read(&server, &run, "events/poll?streamMode=debug", &[]).1, poll, "the same after a restart");
}
