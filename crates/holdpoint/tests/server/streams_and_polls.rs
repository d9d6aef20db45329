//! Streams and polls of events, and lists.

use serde_json::{Value, json};

use crate::harness::{Server, accept, gated};

#[test]
fn a_stream_sends_past_and_new_events_and_closes_at_the_end() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let (client, other) = (server.client.clone(), server.client.clone());
    let reader = std::thread::spawn(move || client.stream(&path, None));
    // The answer may come before or after the reader connects; the reader must get all events in both cases.
    assert_eq!(other.answer(&run, "gate", &accept()).status, 200);
    let frames = reader.join().unwrap();
    let log = server.client.events(&run);
    assert_eq!(frames.iter().map(|frame| frame.2.clone()).collect::<Vec<Value>>(), log);
    for (at, (id, event, data)) in frames.iter().enumerate() {
        assert_eq!((id.parse::<usize>().unwrap(), data["sequence"].as_u64()), (at, Some(at as u64)));
        assert_eq!(event, data["type"].as_str().unwrap());
    }
    assert_eq!(frames.last().unwrap().1, "run.completed");
}

#[test]
fn a_reader_that_reconnects_gets_exactly_the_remaining_events() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    server.client.answer(&run, "gate", &accept());
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let all = server.client.stream(&path, None);
    for last in 0..all.len() {
        let rest = server.client.stream(&path, Some(&last.to_string()));
        assert_eq!(rest, all[last + 1..], "after {last}");
        let page = server.client.get(&format!("/v1/runs/{run}/events/poll?lastSequence={last}"));
        assert_eq!(page.body["isComplete"], true);
        let polled = page.body["events"].as_array().unwrap();
        assert_eq!(polled.len(), all.len() - last - 1);
    }
    assert_eq!(server.client.stream(&path, Some("9999")), []);
}

#[test]
fn the_updates_mode_omits_debug_events() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    server.client.answer(&run, "gate", &accept());
    let kinds: Vec<String> = server
        .client
        .stream(&format!("/v1/runs/{run}/events"), None)
        .into_iter()
        .map(|frame| frame.1)
        .collect();
    let expected = [
        "run.started",
        "node.completed",
        "interrupt.requested",
        "node.suspended",
        "approval.requested",
        "interrupt.resolved",
        "approval.received",
        "node.completed",
        "node.completed",
        "run.completed",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_poll_waits_for_events_and_returns_an_empty_list_at_its_timeout() {
    let server = Server::start();
    let run = server.client.start_run("sample-approval");
    let last = server.client.events(&run).len() - 1;
    let path = format!("/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1");
    let page = server.client.get(&path);
    assert_eq!(page.body, json!({"events": [], "isComplete": false}));
    let client = server.client.clone();
    let waiting = std::thread::spawn(move || client.get(&path.replace("timeout=1", "timeout=30")));
    server.client.answer(&run, "review", &accept());
    assert_eq!(waiting.join().unwrap().body["isComplete"], true);
}

#[test]
fn a_poll_of_an_ended_run_returns_the_remaining_events_and_is_complete() {
    let server = Server::start();
    let run = server.client.start_run("sample-approval");
    server.client.answer(&run, "review", &accept());
    let end = server.client.events(&run).len() - 1;
    for last in 0..=end + 2 {
        let page =
            server.client.get(&format!("/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1")).body;
        let shown = page["events"].as_array().unwrap().len();
        assert_eq!((shown, &page["isComplete"]), (end.saturating_sub(last), &json!(true)), "after {last}");
    }
}

#[test]
fn refinements_and_custom_answers_have_no_decision() {
    let server = Server::start();
    let mut flow = gated("refined");
    flow["nodes"][1]["config"]["actions"] = json!(["accept", "refine"]);
    flow["nodes"][2]["typeId"] = json!("core.interrupt");
    flow["nodes"][2]["config"] = json!({"kind": "custom", "data": {"customKind": "any"}});
    assert_eq!(server.client.put("/v1/workflows/refined", &flow).status, 201);
    let run = server.client.start_run("refined");
    let refine = json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}});
    assert_eq!(server.client.answer(&run, "gate", &refine).status, 200);
    assert_eq!(server.client.answer(&run, "after", &json!({"action": "abort-all"})).status, 200);
    let log = server.client.events(&run);
    let resolved: Vec<&Value> = log.iter().filter(|event| event["type"] == "interrupt.resolved").collect();
    assert_eq!(resolved.len(), 2);
    assert_eq!(resolved[0]["payload"]["action"], "refine");
    assert!(resolved.iter().all(|event| event["payload"].get("decision").is_none()), "{resolved:?}");
}

#[test]
fn lists_are_paged_without_gaps_or_repeats() {
    let server = Server::start();
    let mut started: Vec<String> = (0..7).map(|_| server.client.start_run("sample-approval")).collect();
    let pages = |path: &str, list: &str| {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.client.get(&format!("{path}?limit=3{cursor}")).body;
            seen.extend(
                page[list].as_array().unwrap().iter().map(|row| row["runId"].as_str().unwrap().to_owned()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
        }
    };
    assert_eq!(pages("/v1/interrupts", "interrupts"), started, "the oldest interrupt comes first");
    started.reverse();
    assert_eq!(pages("/v1/runs", "runs"), started, "newest first");
    server.client.answer(&started[0], "review", &accept());
    let waiting = server.client.get("/v1/runs?status=waiting-approval").body;
    assert_eq!(waiting["runs"].as_array().unwrap().len(), 6);
}

#[test]
fn an_events_document_is_the_same_on_every_read_and_after_a_restart() {
    let server = Server::start();
    let run = server.client.start_run("sample-approval");
    let early = server.client.events(&run);
    server.client.answer(&run, "review", &accept());
    let late = server.client.events(&run);
    assert_eq!(late[..early.len()], early);
    let server = server.kill_and_restart();
    assert_eq!(server.client.events(&run), late);
    assert!(!late[0].to_string().contains("Hello"), "inputs are not repeated in events");
}
