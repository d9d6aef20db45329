//! kill -9 at random instants while clients repeat requests with an unknown outcome under the same idempotency key:
//! each is executed exactly once, and each client gets its response.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, gated};
use crate::kills::all_runs;

const CLIENTS: usize = 4;
const KILLS: usize = 10;

#[test]
fn a_request_repeated_with_its_idempotency_key_after_kill_9_is_executed_once() {
    let first = Server::start();
    assert_eq!(first.client.put("/v1/workflows/gated", &gated("gated")).status, 201);
    let (url, over) = (RwLock::new(first.url.clone()), AtomicBool::new(false));
    let repeated = AtomicUsize::new(0);
    let (server, done) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|name| {
                let (url, over, repeated) = (&url, &over, &repeated);
                scope.spawn(move || repeating_client(name, url, over, repeated))
            })
            .collect();
        let last = (0..KILLS).fold(first, |server, _| {
            let mut byte = [0];
            getrandom::fill(&mut byte).unwrap();
            // A random instant; no condition is awaited.
            std::thread::sleep(Duration::from_millis(u64::from(byte[0]) / 2));
            let next = server.kill_and_restart();
            url.write().unwrap().clone_from(&next.url);
            next
        });
        over.store(true, Ordering::SeqCst);
        let done: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (last, done)
    });
    assert!(done.len() > CLIENTS, "the clients completed too few requests");
    println!("{} runs, {} requests repeated", done.len(), repeated.into_inner());
    let mut stored = all_runs(&server.client);
    let mut known = done;
    stored.sort_unstable();
    known.sort_unstable();
    assert_eq!(stored, known, "one run for every key");
    for run in &stored {
        let log = server.client.events(run);
        let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
        assert_eq!((count("interrupt.resolved"), count("run.completed")), (1, 1), "{log:?}");
    }
}

/// Starts and answers runs until `over` is set. Returns the runs in the responses, one for every key it used.
fn repeating_client(
    name: usize,
    url: &RwLock<String>,
    over: &AtomicBool,
    repeated: &AtomicUsize,
) -> Vec<String> {
    let repeat_until_done = |path: &str, body: &Value, key: &str, status: u16| loop {
        let client = Client::new(&url.read().unwrap(), Some(KEY));
        let body = body.to_string();
        match client.try_exchange("POST", path, Some(body.as_bytes()), &[("idempotency-key", key)]) {
            Ok(answer) if answer.status().as_u16() == status => {
                return serde_json::from_str::<Value>(answer.body()).unwrap();
            }
            Ok(answer) => assert!(answer.status().as_u16() >= 500, "{} {}", answer.status(), answer.body()),
            // The outcome is unknown.
            Err(_) => {}
        }
        repeated.fetch_add(1, Ordering::SeqCst);
    };
    let mut runs = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let key = format!("client {name}, run {}", runs.len());
        let made = repeat_until_done("/v1/runs", &json!({"workflowId": "gated"}), &key, 201);
        let run = made["runId"].as_str().unwrap().to_owned();
        let answer = json!({"resumeValue": {"action": "accept"}});
        // A repeated answer is never a conflict with itself.
        repeat_until_done(&format!("/v1/runs/{run}/interrupts/gate"), &answer, &key, 200);
        runs.push(run);
    }
    runs
}
