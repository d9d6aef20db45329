//! An answer against the deadline of what it answers: in time it counts, too late it does not, and whichever it was, it is
//! told once. Silence is never told as somebody's word.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, KEY, accept, gated};
use crate::links::mint;
use crate::place::{Place, on_both};
use crate::races::{ROUNDS, assert_ended, server};

on_both!(an_answer_and_a_deadline_that_meet_are_one_outcome);

/// Long enough to start a run and make a link, short enough to wait for it a hundred times.
const TIMEOUT_MS: u64 = 400;
/// Sent after the deadline, and therefore too late.
const AFTER: SignedDuration = SignedDuration::from_micros(-500);
const AHEAD_MAX: SignedDuration = SignedDuration::from_millis(200);
/// Rounds side by side, so that waiting costs little.
const LANES: usize = 8;

#[derive(Default)]
struct Tally {
    by_key: AtomicUsize,
    by_link: AtomicUsize,
    silent: AtomicUsize,
}

/// The gate of `gated`, which waits for so long.
pub(crate) fn gated_for(timeout_ms: u64) -> Value {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"]["timeoutMs"] = json!(timeout_ms);
    flow
}

/// When what a run asks is over, as the run itself says.
pub(crate) fn deadline(client: &Client, run: &str) -> Timestamp {
    let log = client.events(run);
    let asked = log.iter().find(|event| event["type"] == "node.suspended").unwrap();
    asked["payload"]["expiresAt"].as_str().unwrap().parse().unwrap()
}

/// Nobody has spoken, and the log says so, once.
pub(crate) fn assert_silence(client: &Client, run: &str, deadline: Timestamp) -> Timestamp {
    assert_ended(client, run, "failed", 1);
    let log = client.events(run);
    let resolved = &log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap()["payload"];
    let told = ["action", "decision", "reason", "resolvedBy"].map(|name| resolved[name].clone());
    assert_eq!(told, ["timeout", "rejected", "timeout", "system:timeout"], "{log:?}");
    let at: Timestamp = resolved["resolvedAt"].as_str().unwrap().parse().unwrap();
    assert!(at >= deadline, "{at} is before {deadline}");
    client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
    at
}

fn an_answer_and_a_deadline_that_meet_are_one_outcome(place: &Place) {
    let server = server(place, &gated_for(TIMEOUT_MS));
    let tally = Tally::default();
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let (url, tally) = (&server.url, &tally);
            scope.spawn(move || {
                // How long before the deadline is close depends on how busy the machine is: whoever was late begins
                // earlier the next time, whoever was in time begins later.
                let mut ahead = SignedDuration::from_millis(8);
                for round in (lane..ROUNDS).step_by(LANES) {
                    let late = round % 5 == 0;
                    let taken = meet(url, if late { AFTER } else { ahead }, tally);
                    ahead = match taken {
                        true => ahead * 2 / 3,
                        false if late => ahead,
                        false => (ahead * 2).min(AHEAD_MAX),
                    };
                }
            });
        }
    });
    let Tally { by_key, by_link, silent } = tally;
    let (by_key, by_link, silent) = (by_key.into_inner(), by_link.into_inner(), silent.into_inner());
    println!("{}: {by_key} by key, {by_link} by link, {silent} by silence", place.engine());
    assert_eq!(by_key + by_link + silent, ROUNDS);
    // What is sent after the deadline loses on every machine. How many of the others are in time is for the machine to
    // say; each of them that was answered before the deadline must have won, and that is asked of each.
    assert!(silent >= ROUNDS / 5, "{silent} rounds were certain to be late");
}

/// One round: a key and a link answer together, so long before the deadline. Whether one of them was taken.
fn meet(url: &str, ahead: SignedDuration, tally: &Tally) -> bool {
    let clients: [Client; 2] = std::array::from_fn(|_| Client::new(url, Some(KEY)));
    let run = clients[0].start_run("gated");
    let deadline = deadline(&clients[0], &run);
    let minted = mint(&clients[1], &run, "gate", &json!({"expiresInSeconds": 3600}));
    if minted.status != 201 {
        // The machine was so busy that the deadline came first.
        minted.assert_envelope(409, "interrupt_already_resolved");
        assert_silence(&clients[0], &run, deadline);
        tally.silent.fetch_add(1, Ordering::SeqCst);
        return false;
    }
    let (path, anybody) = (minted.body["url"].as_str().unwrap(), clients[1].with_key(None));
    let path = path.strip_prefix(url).unwrap();
    // The instant is what is tried here; nothing waits for anything.
    let wait = deadline.duration_since(Timestamp::now()) - ahead;
    std::thread::sleep(Duration::try_from(wait).unwrap_or_default());
    let timed = |answer: &dyn Fn() -> Answer| {
        let sent = Timestamp::now();
        (answer(), sent, Timestamp::now())
    };
    let (key, linked) = std::thread::scope(|scope| {
        let key = scope.spawn(|| timed(&|| clients[0].answer(&run, "gate", &accept())));
        let linked = timed(&|| anybody.post(path, &json!({"resumeValue": accept()})));
        (key.join().unwrap(), linked)
    });
    for (answer, sent, _) in [&key, &linked] {
        assert!(answer.status != 200 || *sent < deadline, "sent too late and taken: {answer:?}");
    }
    let back = key.2.min(linked.2);
    let (key, linked) = (key.0, linked.0);
    let taken = key.status == 200 || linked.status == 200;
    assert!(taken || back >= deadline, "in time and refused: {key:?} {linked:?}");
    match (key.status, linked.status) {
        (200, 410) => linked.assert_envelope(410, "interrupt_expired"),
        (200, _) => linked.assert_envelope(409, "interrupt_already_resolved"),
        (_, 200) => key.assert_envelope(409, "interrupt_already_resolved"),
        _ => {
            key.assert_envelope(409, "interrupt_already_resolved");
            linked.assert_envelope(410, "interrupt_expired");
            assert_silence(&clients[0], &run, deadline);
            anybody.get(path).assert_envelope(410, "interrupt_expired");
            tally.silent.fetch_add(1, Ordering::SeqCst);
            return false;
        }
    }
    assert_ended(&clients[0], &run, "completed", 1);
    let won = if key.status == 200 { &tally.by_key } else { &tally.by_link };
    won.fetch_add(1, Ordering::SeqCst);
    true
}
