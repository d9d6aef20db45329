//! kill -9 between a decision and what follows from it: whoever was told that it counts can rely on it, and what follows
//! is done once. The other side is told by an idempotency key when a call in flight is repeated.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::collector::{Collector, Sent};
use crate::harness::{Client, KEY, Server, accept, line};
use crate::place::{Place, on_both};
use crate::races::count;

const KILLS: usize = 12;
const ORDERS: usize = 6;
const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];

on_both!(a_decision_that_was_acknowledged_is_carried_out_once_after_kill_9);

/// A gate, a while, and a payment of which the bank is told the run.
fn paying(url: &str, delay_ms: u64) -> Value {
    let mut flow = line(
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

/// What the bank was asked to pay for an order.
fn payments(heard: &[Sent], order: usize) -> Vec<&Sent> {
    let is_it =
        |sent: &&Sent| serde_json::from_slice::<Value>(&sent.body).is_ok_and(|body| body["number"] == order);
    heard.iter().filter(is_it).collect()
}

fn assert_paid_once(client: &Client, bank: &Collector, run: &str, order: usize, calls_max: usize) -> usize {
    let log = client.ended(run);
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:?}");
    for once in ["interrupt.resolved", "approval.received", "node.resumed", "holdpoint.step.recorded"] {
        assert_eq!(count(&log, once), 1, "{once} of {run}: {log:?}");
    }
    client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
    let heard = bank.wait("the payment", |heard| !payments(heard, order).is_empty());
    let calls = payments(&heard, order);
    let keys: BTreeSet<&str> = calls.iter().map(|sent| sent.headers["idempotency-key"].as_str()).collect();
    assert_eq!(keys.len(), 1, "one payment, whatever was repeated: {calls:?}");
    assert!(calls.len() <= calls_max, "{calls:?}");
    calls.len()
}

fn a_decision_that_was_acknowledged_is_carried_out_once_after_kill_9(place: &Place) {
    let bank = Collector::start();
    let mut server = place.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/pay", &paying(&bank.url, 3_000)).status, 201);
    let runs: Vec<String> = (0..ORDERS).map(|order| start(&server.client, order)).collect();
    for run in &runs {
        assert_eq!(server.client.answer(run, "gate", &accept()).status, 200);
    }
    // The decisions are on disk, and what follows is to come.
    server.kill();
    assert_eq!(bank.wait("nothing", |_| true).len(), 0);
    let server = place.start(&FLAGS);
    for (order, run) in runs.iter().enumerate() {
        assert_eq!(assert_paid_once(&server.client, &bank, run, order, 1), 1);
    }
}

// A call that was under way on PostgreSQL is repeated when its lease is over, after half a minute; killing in the middle of
// calls there is what the tests of several nodes do.
#[test]
fn a_decision_that_was_acknowledged_is_one_payment_whenever_the_server_is_killed() {
    let (place, bank) = (Place::sqlite(), Collector::start());
    let mut server = place.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/pay", &paying(&bank.url, 0)).status, 201);
    let mut repeated = 0;
    for order in 0..KILLS {
        let run = start(&server.client, order);
        assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
        // The instant is what is tried here; nothing waits for anything.
        std::thread::sleep(Duration::from_millis(order as u64 * 2));
        server.kill();
        server = place.start(&FLAGS);
        // Only a call that was under way is repeated, and only once for one kill.
        repeated += assert_paid_once(&server.client, &bank, &run, order, 2) - 1;
    }
    println!("{KILLS} kills, {repeated} calls repeated under their key");
}

/// The answer itself may be lost on its way: then it counts or it does not, and asking again tells which.
#[test]
fn a_decision_that_is_under_way_when_the_server_is_killed_counts_once_or_not_at_all() {
    let (place, bank) = (Place::sqlite(), Collector::start());
    let mut server = place.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/pay", &paying(&bank.url, 0)).status, 201);
    let mut counted = 0;
    for order in 0..KILLS {
        let run = start(&server.client, order);
        let acknowledged = answer_while_it_dies(&mut server, &run, order as u64);
        server = place.start(&FLAGS);
        let again = Client::new(&server.url, Some(KEY)).answer(&run, "gate", &accept());
        match again.status {
            200 => assert!(!acknowledged, "{run} was answered, and the answer is gone"),
            _ => again.assert_envelope(409, "interrupt_already_resolved"),
        }
        counted += usize::from(again.status != 200);
        assert_paid_once(&server.client, &bank, &run, order, 2);
    }
    println!("{counted} of {KILLS} answers counted before the kill");
}

/// Whether the answer was acknowledged before the end.
fn answer_while_it_dies(server: &mut Server, run: &str, after_ms: u64) -> bool {
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
