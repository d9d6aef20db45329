//! Two servers on one PostgreSQL share the deliveries of durable webhooks: without faults each delivery is made once,
//! and deliveries in flight at a killed server are made by the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Client, Server, accept};
use crate::receiver::{Receiver, Reply};
use crate::test_database::TestDatabase;
use crate::webhooks_killed::{DeliveryCheck, EVENTS, LEASE, subscribe};

fn start_two_nodes(database: &TestDatabase) -> (Server, Server) {
    let start = |name| database.start_node(name, &[&["--allow-private-webhooks"], &LEASE[..]].concat());
    (start("one"), start("two"))
}

/// Starts runs at one node and answers them at another.
fn start_and_answer_runs(start: &Client, answer: &Client, count: usize) {
    for _ in 0..count {
        let run = start.start_run("gated");
        assert_eq!(answer.answer(&run, "gate", &accept()).status, 200);
    }
}

#[test]
fn two_nodes_together_deliver_every_event_once() {
    const RUNS: usize = 20;
    let database = TestDatabase::postgres();
    let (one, two) = start_two_nodes(&database);
    let receiver = Receiver::start();
    let hook = subscribe(&one.client, &receiver.url);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| start_and_answer_runs(&one.client, &two.client, RUNS));
            scope.spawn(|| start_and_answer_runs(&two.client, &one.client, RUNS));
        }
    });
    let check = DeliveryCheck::wait_and_check(&two.client, &hook, "default", &receiver);
    assert!(check.events > 4 * RUNS * EVENTS.len(), "{check:?}");
    assert_eq!((check.requests, check.dead_letters, check.repeats), (check.events, 0, 0));
}

#[test]
fn deliveries_in_flight_at_a_killed_node_are_delivered_by_the_other() {
    const RUNS: usize = 30;
    let database = TestDatabase::postgres();
    let (mut one, two) = start_two_nodes(&database);
    let hang = Arc::new(AtomicBool::new(true));
    let shared = hang.clone();
    let receiver = Receiver::with_reply(move |_| match shared.load(Ordering::SeqCst) {
        true => Reply::Hang,
        false => Reply::Status(200),
    });
    let hook = subscribe(&two.client, &receiver.url);
    start_and_answer_runs(&one.client, &two.client, RUNS);
    // More requests than one node has in flight at a time.
    receiver.wait_for(5);
    one.kill();
    // The requests in flight at the killed node end.
    receiver.wait_for_hang_ups(1);
    let in_flight = two.client.get(&format!("{}/deliveries?state=in-flight", hook.path())).body;
    let in_flight = in_flight["deliveries"].as_array().unwrap().len();
    assert!(in_flight > 0);
    hang.store(false, Ordering::SeqCst);
    start_and_answer_runs(&two.client, &two.client, RUNS);
    let check = DeliveryCheck::wait_and_check(&two.client, &hook, "default", &receiver);
    println!("{check:?}, {in_flight} in flight");
    assert!(check.events > 2 * RUNS * EVENTS.len(), "{check:?}");
    assert_eq!((check.dead_letters, check.repeats), (0, 0), "{check:?}");
}
