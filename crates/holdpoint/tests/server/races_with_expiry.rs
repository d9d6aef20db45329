//! Answers at the deadline of an interrupt: an answer in time counts, a late one does not, and there is one outcome. An
//! expiry is never recorded as an answer of a principal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::{Client, KEY, Response, accept, gated};
use crate::links::mint;
use crate::races::{ROUNDS, assert_ended, server};
use crate::test_database::{TestDatabase, on_both};

on_both!(an_answer_at_the_deadline_is_accepted_or_expired_but_not_both);

/// Long enough to start a run and mint a link, short enough to wait for it a hundred times.
const TIMEOUT_MS: u64 = 400;
/// Offset of an answer after the deadline, which is too late.
const AFTER: SignedDuration = SignedDuration::from_micros(-500);
const AHEAD_MAX: SignedDuration = SignedDuration::from_millis(200);
/// Number of parallel rounds, which shortens the test.
const LANES: usize = 8;

#[derive(Default)]
struct Tally {
    by_key: AtomicUsize,
    by_link: AtomicUsize,
    expired: AtomicUsize,
}

/// The workflow `gated` with this timeout of its gate.
pub(crate) fn gated_for(timeout_ms: u64) -> Value {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"]["timeoutMs"] = json!(timeout_ms);
    flow
}

/// Returns the deadline of the interrupt of a run, from the log.
pub(crate) fn deadline(client: &Client, run: &str) -> Timestamp {
    let log = client.events(run);
    let asked = log.iter().find(|event| event["type"] == "node.suspended").unwrap();
    asked["payload"]["expiresAt"].as_str().unwrap().parse().unwrap()
}

/// Asserts that the interrupt expired once, without an answer. Returns the time of the expiry.
pub(crate) fn assert_expired(client: &Client, run: &str, deadline: Timestamp) -> Timestamp {
    assert_ended(client, run, "failed", 1);
    let log = client.events(run);
    let resolved = &log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap()["payload"];
    let recorded = ["action", "decision", "reason", "resolvedBy"].map(|name| resolved[name].clone());
    assert_eq!(recorded, ["timeout", "rejected", "timeout", "system:timeout"], "{log:?}");
    let at: Timestamp = resolved["resolvedAt"].as_str().unwrap().parse().unwrap();
    assert!(at >= deadline, "{at} is before {deadline}");
    client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
    at
}

fn an_answer_at_the_deadline_is_accepted_or_expired_but_not_both(database: &TestDatabase) {
    let server = server(database, &gated_for(TIMEOUT_MS));
    let tally = Tally::default();
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let (url, tally) = (&server.url, &tally);
            scope.spawn(move || {
                // The time of a request depends on the load of the machine: after a late answer the next one is sent
                // earlier, after an answer in time later.
                let mut ahead = SignedDuration::from_millis(8);
                for round in (lane..ROUNDS).step_by(LANES) {
                    let late = round % 5 == 0;
                    let accepted = answer_at_deadline(url, if late { AFTER } else { ahead }, tally);
                    ahead = match accepted {
                        true => ahead * 2 / 3,
                        false if late => ahead,
                        false => (ahead * 2).min(AHEAD_MAX),
                    };
                }
            });
        }
    });
    let Tally { by_key, by_link, expired } = tally;
    let (by_key, by_link, expired) = (by_key.into_inner(), by_link.into_inner(), expired.into_inner());
    println!("{}: {by_key} by key, {by_link} by link, {expired} expired", database.engine());
    assert_eq!(by_key + by_link + expired, ROUNDS);
    // An answer after the deadline is late on every machine. The number of the other late answers depends on the
    // machine; each round checks that a response before the deadline is an acceptance.
    assert!(expired >= ROUNDS / 5, "{expired} rounds expired, fewer than the late answers");
}

/// Executes one round: a key and a link answer at the same time, `ahead` of the deadline. Returns true if one was
/// accepted.
fn answer_at_deadline(url: &str, ahead: SignedDuration, tally: &Tally) -> bool {
    let clients: [Client; 2] = std::array::from_fn(|_| Client::new(url, Some(KEY)));
    let run = clients[0].start_run("gated");
    let deadline = deadline(&clients[0], &run);
    let minted = mint(&clients[1], &run, "gate", &json!({"expiresInSeconds": 3600}));
    if minted.status != 201 {
        // The machine was so busy that the deadline came first.
        minted.assert_envelope(409, "interrupt_already_resolved");
        assert_expired(&clients[0], &run, deadline);
        tally.expired.fetch_add(1, Ordering::SeqCst);
        return false;
    }
    let (path, anonymous) = (minted.body["url"].as_str().unwrap(), clients[1].with_key(None));
    let path = path.strip_prefix(url).unwrap();
    // The requests are sent at a given instant; no condition is awaited.
    let wait = deadline.duration_since(Timestamp::now()) - ahead;
    std::thread::sleep(Duration::try_from(wait).unwrap_or_default());
    let timed = |answer: &dyn Fn() -> Response| {
        let sent = Timestamp::now();
        (answer(), sent, Timestamp::now())
    };
    let (key, linked) = std::thread::scope(|scope| {
        let key = scope.spawn(|| timed(&|| clients[0].answer(&run, "gate", &accept())));
        let linked = timed(&|| anonymous.post(path, &json!({"resumeValue": accept()})));
        (key.join().unwrap(), linked)
    });
    for (answer, sent, _) in [&key, &linked] {
        assert!(answer.status != 200 || *sent < deadline, "sent too late and accepted: {answer:?}");
    }
    let back = key.2.min(linked.2);
    let (key, linked) = (key.0, linked.0);
    let accepted = key.status == 200 || linked.status == 200;
    assert!(accepted || back >= deadline, "in time and refused: {key:?} {linked:?}");
    match (key.status, linked.status) {
        (200, 410) => linked.assert_envelope(410, "interrupt_expired"),
        (200, _) => linked.assert_envelope(409, "interrupt_already_resolved"),
        (_, 200) => key.assert_envelope(409, "interrupt_already_resolved"),
        _ => {
            key.assert_envelope(409, "interrupt_already_resolved");
            linked.assert_envelope(410, "interrupt_expired");
            assert_expired(&clients[0], &run, deadline);
            anonymous.get(path).assert_envelope(410, "interrupt_expired");
            tally.expired.fetch_add(1, Ordering::SeqCst);
            return false;
        }
    }
    assert_ended(&clients[0], &run, "completed", 1);
    let won = if key.status == 200 { &tally.by_key } else { &tally.by_link };
    won.fetch_add(1, Ordering::SeqCst);
    true
}
