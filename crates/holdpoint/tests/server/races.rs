//! Whoever answers or cancels, exactly one of them counts, and the run ends as that one said. Hundred rounds of each, on
//! both engines.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::harness::{Answer, Client, KEY, Server, accept, gated};
use crate::links::Link;
use crate::links_at_once::at_once;
use crate::place::{Place, on_both};

pub(crate) const ROUNDS: usize = 100;

on_both!(
    of_sixteen_answers_at_once_exactly_one_is_taken_a_hundred_times_over,
    of_an_answer_a_link_and_a_cancellation_at_once_one_comes_first,
    of_a_link_and_a_key_that_disagree_one_is_believed,
);

/// A server on which one workflow is registered. What is tried here over links is no guessing.
pub(crate) fn server(place: &Place, flow: &Value) -> Server {
    let server = place.start(&["--link-rate-limit", "0"]);
    let registered = server.client.put("/v1/workflows/gated", flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    server
}

/// A connection each, so that they really race.
pub(crate) fn clients<const N: usize>(server: &Server) -> [Client; N] {
    std::array::from_fn(|_| Client::new(&server.url, Some(KEY)))
}

pub(crate) fn count(log: &[Value], kind: &str) -> usize {
    log.iter().filter(|event| event["type"] == kind).count()
}

/// The run has ended like this, and its log has so many decisions and one end.
pub(crate) fn assert_ended(client: &Client, run: &str, status: &str, resolved: usize) {
    let log = client.ended(run);
    assert_eq!(client.status(run), status, "{log:?}");
    assert_eq!(count(&log, "interrupt.resolved"), resolved, "{log:?}");
    assert_eq!(count(&log, "approval.received"), resolved, "{log:?}");
    assert_eq!(log.last().unwrap()["type"], format!("run.{status}"), "{log:?}");
    let ends = ["run.completed", "run.failed", "run.cancelled"];
    assert_eq!(ends.iter().map(|end| count(&log, end)).sum::<usize>(), 1, "{log:?}");
    let after = log.iter().any(|event| event["nodeId"] == "after" && event["type"] == "node.completed");
    assert_eq!(after, status == "completed", "{log:?}");
}

fn reject() -> Value {
    json!({"action": "reject"})
}

/// Which of them was taken; all others are told that somebody was first.
fn winner(answers: &[Answer]) -> usize {
    let won: Vec<usize> = (0..answers.len()).filter(|at| answers[*at].status == 200).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != 200) {
        lost.assert_envelope(409, "interrupt_already_resolved");
    }
    won[0]
}

fn of_sixteen_answers_at_once_exactly_one_is_taken_a_hundred_times_over(place: &Place) {
    let server = server(place, &gated("gated"));
    let clients: [Client; 16] = clients(&server);
    let mut granted = 0;
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let line = Barrier::new(clients.len());
        let answers = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(n, client)| {
                    let (line, run) = (&line, &run);
                    let action = if n % 2 == 0 { "accept" } else { "reject" };
                    scope.spawn(move || {
                        line.wait();
                        client.answer(run, "gate", &json!({"action": action, "feedback": n.to_string()}))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let won = winner(&answers);
        assert_ended(&server.client, &run, if won.is_multiple_of(2) { "completed" } else { "failed" }, 1);
        let log = server.client.events(&run);
        let received = log.iter().find(|event| event["type"] == "approval.received").unwrap();
        assert_eq!(received["payload"]["feedback"], won.to_string(), "the one that was told so counts");
        granted += usize::from(won.is_multiple_of(2));
    }
    println!("{}: {granted} of {ROUNDS} were granted, the others refused", place.engine());
}

fn of_an_answer_a_link_and_a_cancellation_at_once_one_comes_first(place: &Place) {
    let server = server(place, &gated("gated"));
    let clients: [Client; 3] = clients(&server);
    let (mut by_key, mut by_link) = (0, 0);
    for round in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let link = Link::mint(&clients[1], &run, "gate", &json!({}));
        // What starts first is another one in each round.
        let key = || clients[0].answer(&run, "gate", &accept());
        let link_answer = || link.answer(&accept());
        let cancel = || clients[2].post(&format!("/v1/runs/{run}/cancel"), &json!({}));
        let [key, linked, cancelled] = match round % 3 {
            0 => at_once([&key, &link_answer, &cancel]),
            1 => {
                let [cancelled, key, linked] = at_once([&cancel, &key, &link_answer]);
                [key, linked, cancelled]
            }
            _ => {
                let [linked, cancelled, key] = at_once([&link_answer, &cancel, &key]);
                [key, linked, cancelled]
            }
        };
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        if cancelled.body["status"] == "cancelled" {
            key.assert_envelope(422, "interrupt_cancelled");
            linked.assert_envelope(409, "interrupt_already_resolved");
            assert_ended(&server.client, &run, "cancelled", 0);
        } else {
            let won = winner(&[key, linked]);
            assert_eq!(cancelled.body["status"], "completed", "it came too late, and says how the run ended");
            assert_ended(&server.client, &run, "completed", 1);
            by_key += usize::from(won == 0);
            by_link += usize::from(won == 1);
        }
    }
    let cancelled = ROUNDS - by_key - by_link;
    println!("{}: {by_key} by key, {by_link} by link, {cancelled} cancelled", place.engine());
}

fn of_a_link_and_a_key_that_disagree_one_is_believed(place: &Place) {
    let server = server(place, &gated("gated"));
    let clients: [Client; 2] = clients(&server);
    let mut by_link = 0;
    for round in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let link = Link::mint(&clients[0], &run, "gate", &json!({}));
        let (says_link, says_key) = if round % 2 == 0 { (accept(), reject()) } else { (reject(), accept()) };
        let answers = at_once([&|| link.answer(&says_link), &|| clients[1].answer(&run, "gate", &says_key)]);
        let linked = winner(&answers) == 0;
        let granted = if linked { says_link == accept() } else { says_key == accept() };
        assert_ended(&server.client, &run, if granted { "completed" } else { "failed" }, 1);
        link.assert_over(409, "interrupt_already_resolved");
        by_link += usize::from(linked);
    }
    println!("{}: the link was first {by_link} times of {ROUNDS}", place.engine());
}

#[test]
fn a_later_answer_is_a_conflict_too() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    server.client.answer(&run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
}
