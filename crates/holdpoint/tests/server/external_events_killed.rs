//! kill -9 at random times while clients send events to runs, before or after the runs wait for them: no event is lost,
//! and none is used twice.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::external_events::waiting;
use crate::harness::{Client, KEY, Server};
use crate::kills::all_runs;

const CLIENTS: usize = 4;
const KILLS: usize = 10;

#[test]
fn a_sent_event_reaches_its_run_once_despite_kill_9() {
    let first = Server::start();
    for name in 0..CLIENTS {
        let flow = waiting(&format!("flow-{name}"), &json!({"client": name, "shop": "north"}));
        assert_eq!(first.client.put(&format!("/v1/workflows/flow-{name}"), &flow).status, 201);
    }
    let (url, over) = (RwLock::new(first.url.clone()), AtomicBool::new(false));
    let (server, matched) = std::thread::scope(|scope| {
        let client = |name| {
            let (url, over) = (&url, &over);
            scope.spawn(move || pairing_client(name, url, over))
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let last = (0..KILLS).fold(first, |server, _| {
            let mut byte = [0];
            getrandom::fill(&mut byte).unwrap();
            // A random time for the kill, not a wait for a condition.
            std::thread::sleep(Duration::from_millis(u64::from(byte[0]) / 2));
            let next = server.kill_and_restart();
            url.write().unwrap().clone_from(&next.url);
            next
        });
        over.store(true, Ordering::SeqCst);
        let matched: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (last, matched)
    });
    let server = server.kill_and_restart();
    assert!(matched.len() > CLIENTS, "the clients made progress");
    println!("{} events reached their runs", matched.len());
    for (run, event) in &matched {
        let log = server.client.wait_for_end(run);
        let resolved: Vec<&Value> = log.iter().filter(|one| one["type"] == "interrupt.resolved").collect();
        assert_eq!(resolved.len(), 1, "{log:?}");
        assert_eq!(resolved[0]["payload"]["resumeValue"]["eventId"], **event, "{log:?}");
    }
    assert_eq!(all_runs(&server.client).len(), matched.len(), "one run for each idempotency key");
    assert_eq!(server.client.get("/v1/interrupts").body["interrupts"], json!([]));
}

/// Starts runs and sends each its event, in either order. Repeats both until they are acknowledged. Continues with the
/// next pair when the run has ended, so that each event has exactly one possible run.
fn pairing_client(name: usize, url: &RwLock<String>, over: &AtomicBool) -> Vec<(String, String)> {
    let client = || Client::new(&url.read().unwrap(), Some(KEY));
    let send_until_acknowledged = |path: &str, body: &Value, key: &str| loop {
        let body = body.to_string();
        let answer = client().try_exchange("POST", path, Some(body.as_bytes()), &[("idempotency-key", key)]);
        match answer {
            Ok(answer) if answer.status().is_success() => {
                return serde_json::from_str::<Value>(answer.body()).unwrap();
            }
            Ok(answer) => assert!(answer.status().as_u16() >= 500, "{answer:?}"),
            Err(_) => {}
        }
    };
    let mut matched = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let id = format!("{name}-{}", matched.len());
        let event = json!({"eventType": "paid", "eventId": id, "correlation": {"client": name}});
        let start = json!({"workflowId": format!("flow-{name}")});
        let run = if matched.len() % 2 == 0 {
            let run = send_until_acknowledged("/v1/runs", &start, &format!("run-{id}"));
            send_until_acknowledged("/v1/events", &event, &format!("event-{id}"));
            run
        } else {
            send_until_acknowledged("/v1/events", &event, &format!("event-{id}"));
            send_until_acknowledged("/v1/runs", &start, &format!("run-{id}"))
        };
        let run = run["runId"].as_str().unwrap().to_owned();
        wait_for_end(&client, &run);
        matched.push((run, id));
    }
    matched
}

fn wait_for_end(client: &impl Fn() -> Client, run: &str) {
    let path = format!("/v1/runs/{run}/events/poll?timeout=5&lastSequence=");
    let mut last = -1;
    loop {
        let Ok(page) = client().try_send("GET", &format!("{path}{last}"), None) else { continue };
        if page.body["isComplete"] == true {
            return;
        }
        last += page.body["events"].as_array().map_or(0, Vec::len) as i64;
    }
}
