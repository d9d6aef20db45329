//! kill -9 between a decision and its effects: an acknowledged decision survives, and its effects happen once. A call
//! in flight may be repeated with the same idempotency key.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::collector::{Collector, RawRequest};
use crate::harness::{Client, KEY, Server, accept, linear};
use crate::races::count;
use crate::test_database::{TestDatabase, on_both};

const KILLS: usize = 12;
const ORDERS: usize = 6;
const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];

on_both!(an_acknowledged_decision_is_executed_once_after_kill_9);

/// A gate, a delay, and a payment that sends the order to the bank.
fn paying(url: &str, delay_ms: u64) -> Value {
    let mut flow = linear(
        "pay",
        &[
            ("gate", "core.approvalGate", json!({"title": "Pay?"})),
            ("wait", "core.delay", json!({"ms": delay_ms})),
            ("pay", "core.http", json!({"method": "POST", "url": url})),
        ],
    );
    flow["nodes"][2]["inputs"] = json!({"body": {"type": "variable", "variableName": "order"}});
    flow
}

fn start(client: &Client, order: usize) -> String {
    let made = client.post("/v1/runs", &json!({"workflowId": "pay", "inputs": {"order": {"number": order}}}));
    assert_eq!(made.status, 201, "{made:?}");
    made.body["runId"].as_str().unwrap().to_owned()
}

/// Returns the payment requests for an order.
fn payments(requests: &[RawRequest], order: usize) -> Vec<&RawRequest> {
    let is_it = |sent: &&RawRequest| {
        serde_json::from_slice::<Value>(&sent.body).is_ok_and(|body| body["number"] == order)
    };
    requests.iter().filter(is_it).collect()
}

fn assert_paid_once(client: &Client, bank: &Collector, run: &str, order: usize, calls_max: usize) -> usize {
    let log = client.wait_for_end(run);
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:?}");
    for once in ["interrupt.resolved", "approval.received", "node.resumed", "holdpoint.step.recorded"] {
        assert_eq!(count(&log, once), 1, "{once} of {run}: {log:?}");
    }
    client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
    let requests = bank.wait("the payment", |requests| !payments(requests, order).is_empty());
    let calls = payments(&requests, order);
    let keys: BTreeSet<&str> = calls.iter().map(|sent| sent.headers["idempotency-key"].as_str()).collect();
    assert_eq!(keys.len(), 1, "repeated calls have one key: {calls:?}");
    assert!(calls.len() <= calls_max, "{calls:?}");
    calls.len()
}

fn an_acknowledged_decision_is_executed_once_after_kill_9(database: &TestDatabase) {
    let bank = Collector::start();
    let mut server = database.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/pay", &paying(&bank.url, 3_000)).status, 201);
    let runs: Vec<String> = (0..ORDERS).map(|order| start(&server.client, order)).collect();
    for run in &runs {
        assert_eq!(server.client.answer(run, "gate", &accept()).status, 200);
    }
    // The decisions are stored; their effects have not started.
    server.kill();
    assert_eq!(bank.wait("no payment", |_| true).len(), 0);
    let server = database.start(&FLAGS);
    for (order, run) in runs.iter().enumerate() {
        assert_eq!(assert_paid_once(&server.client, &bank, run, order, 1), 1);
    }
}

// SQLite only: on PostgreSQL a call in flight is repeated after its lease of half a minute. The tests of several nodes
// kill processes during calls there.
#[test]
fn an_acknowledged_decision_causes_one_payment_after_kill_9_at_any_instant() {
    let (database, bank) = (TestDatabase::sqlite(), Collector::start());
    let mut server = database.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/pay", &paying(&bank.url, 0)).status, 201);
    let mut repeated = 0;
    for order in 0..KILLS {
        let run = start(&server.client, order);
        assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
        // The kill comes at different instants; no condition is awaited.
        std::thread::sleep(Duration::from_millis(order as u64 * 2));
        server.kill();
        server = database.start(&FLAGS);
        // Only a call in flight is repeated, once for each kill.
        repeated += assert_paid_once(&server.client, &bank, &run, order, 2) - 1;
    }
    println!("{KILLS} kills, {repeated} calls repeated under their key");
}

/// If the response is lost, the answer counts or it does not, and a repeated request shows which.
#[test]
fn a_decision_in_flight_during_kill_9_counts_once_or_not_at_all() {
    let (database, bank) = (TestDatabase::sqlite(), Collector::start());
    let mut server = database.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/pay", &paying(&bank.url, 0)).status, 201);
    let mut counted = 0;
    for order in 0..KILLS {
        let run = start(&server.client, order);
        let acknowledged = answer_during_kill(&mut server, &run, order as u64);
        server = database.start(&FLAGS);
        let again = Client::new(&server.url, Some(KEY)).answer(&run, "gate", &accept());
        match again.status {
            200 => assert!(!acknowledged, "{run} was answered, and the answer is lost"),
            _ => again.assert_envelope(409, "interrupt_already_resolved"),
        }
        counted += usize::from(again.status != 200);
        assert_paid_once(&server.client, &bank, &run, order, 2);
    }
    println!("{counted} of {KILLS} answers counted before the kill");
}

/// Sends an answer and kills the server after `after_ms`. Returns true if the answer was acknowledged.
fn answer_during_kill(server: &mut Server, run: &str, after_ms: u64) -> bool {
    let client = Client::new(&server.url, Some(KEY));
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({"resumeValue": accept()}).to_string();
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| client.try_send("POST", &path, Some(body.as_bytes())));
        std::thread::sleep(Duration::from_millis(after_ms));
        server.kill();
        answering.join().unwrap().is_ok_and(|answer| answer.status == 200)
    })
}
