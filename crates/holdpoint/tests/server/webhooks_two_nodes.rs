//! Two servers on one PostgreSQL share what durable webhooks are to be told: each delivery is made once while all goes
//! well, and what one had in hand when it was killed is delivered by the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Client, Server, accept};
use crate::place::Place;
use crate::receiver::{Receiver, Reply};
use crate::webhooks_killed::{Account, EVENTS, LEASE, subscribed};

fn two(place: &Place) -> (Server, Server) {
    let start = |name| place.start_node(name, &[&["--allow-private-webhooks"], &LEASE[..]].concat());
    (start("one"), start("two"))
}

/// Starts runs at one node and answers them at another.
fn runs(start: &Client, answer: &Client, count: usize) {
    for _ in 0..count {
        let run = start.start_run("gated");
        assert_eq!(answer.answer(&run, "gate", &accept()).status, 200);
    }
}

#[test]
fn two_nodes_deliver_every_event_once_between_them() {
    const RUNS: usize = 20;
    let place = Place::postgres();
    let (one, two) = two(&place);
    let receiver = Receiver::start();
    let hook = subscribed(&one.client, &receiver.url);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| runs(&one.client, &two.client, RUNS));
            scope.spawn(|| runs(&two.client, &one.client, RUNS));
        }
    });
    let account = Account::close(&two.client, &hook, "default", &receiver);
    assert!(account.events > 4 * RUNS * EVENTS.len(), "{account:?}");
    assert_eq!((account.requests, account.dead_letters, account.repeats), (account.events, 0, 0));
}

#[test]
fn what_a_killed_node_had_in_hand_is_delivered_by_the_other() {
    const RUNS: usize = 30;
    let place = Place::postgres();
    let (mut one, two) = two(&place);
    let holds = Arc::new(AtomicBool::new(true));
    let held = holds.clone();
    let receiver = Receiver::deciding(move |_| match held.load(Ordering::SeqCst) {
        true => Reply::Hang,
        false => Reply::Status(200),
    });
    let hook = subscribed(&two.client, &receiver.url);
    runs(&one.client, &two.client, RUNS);
    // More than one node has under way at a time.
    receiver.wait_for(5);
    one.kill();
    // At least those ended with it that were under way.
    receiver.wait_hung_up(1);
    let in_hand = two.client.get(&format!("{}/deliveries?state=in-flight", hook.path())).body;
    let in_hand = in_hand["deliveries"].as_array().unwrap().len();
    assert!(in_hand > 0);
    holds.store(false, Ordering::SeqCst);
    runs(&two.client, &two.client, RUNS);
    let account = Account::close(&two.client, &hook, "default", &receiver);
    println!("{account:?}, {in_hand} in hand");
    assert!(account.events > 2 * RUNS * EVENTS.len(), "{account:?}");
    assert_eq!((account.dead_letters, account.repeats), (0, 0), "{account:?}");
}
