//! Concurrent answers, links and cancellations: exactly one counts and determines the end of the run. A hundred rounds
//! each, on both databases.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Response, Server, accept, gated};
use crate::links::Link;
use crate::links_concurrent::send_at_once;
use crate::test_database::{TestDatabase, on_both};

pub(crate) const ROUNDS: usize = 100;

on_both!(
    exactly_one_of_sixteen_answers_at_once_is_accepted_in_each_of_a_hundred_rounds,
    exactly_one_of_an_answer_a_link_and_a_cancellation_at_once_wins,
    exactly_one_of_two_contradictory_answers_by_link_and_key_counts,
);

/// Starts a server with one workflow. The limit for invalid links is off, because all links are valid.
pub(crate) fn server(database: &TestDatabase, flow: &Value) -> Server {
    let server = database.start(&["--link-rate-limit", "0"]);
    let registered = server.client.put("/v1/workflows/gated", flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    server
}

/// Returns clients with separate connections, so that their requests are concurrent.
pub(crate) fn clients<const N: usize>(server: &Server) -> [Client; N] {
    std::array::from_fn(|_| Client::new(&server.url, Some(KEY)))
}

pub(crate) fn count(log: &[Value], kind: &str) -> usize {
    log.iter().filter(|event| event["type"] == kind).count()
}

/// Asserts the final status of a run, the number of its decisions, and that its log has one end.
pub(crate) fn assert_ended(client: &Client, run: &str, status: &str, resolved: usize) {
    let log = client.wait_for_end(run);
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

/// Returns the index of the accepted answer, and asserts that the others are conflicts.
fn winner(answers: &[Response]) -> usize {
    let won: Vec<usize> = (0..answers.len()).filter(|at| answers[*at].status == 200).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != 200) {
        lost.assert_envelope(409, "interrupt_already_resolved");
    }
    won[0]
}

fn exactly_one_of_sixteen_answers_at_once_is_accepted_in_each_of_a_hundred_rounds(database: &TestDatabase) {
    let server = server(database, &gated("gated"));
    let clients: [Client; 16] = clients(&server);
    let mut granted = 0;
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let barrier = Barrier::new(clients.len());
        let answers = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(n, client)| {
                    let (barrier, run) = (&barrier, &run);
                    let action = if n % 2 == 0 { "accept" } else { "reject" };
                    scope.spawn(move || {
                        barrier.wait();
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
        assert_eq!(received["payload"]["feedback"], won.to_string(), "the acknowledged answer counts");
        granted += usize::from(won.is_multiple_of(2));
    }
    println!("{}: {granted} of {ROUNDS} were granted, the others rejected", database.engine());
}

fn exactly_one_of_an_answer_a_link_and_a_cancellation_at_once_wins(database: &TestDatabase) {
    let server = server(database, &gated("gated"));
    let clients: [Client; 3] = clients(&server);
    let (mut by_key, mut by_link) = (0, 0);
    for round in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let link = Link::mint(&clients[1], &run, "gate", &json!({}));
        // Each round starts the requests in another order.
        let key = || clients[0].answer(&run, "gate", &accept());
        let link_answer = || link.answer(&accept());
        let cancel = || clients[2].post(&format!("/v1/runs/{run}/cancel"), &json!({}));
        let [key, linked, cancelled] = match round % 3 {
            0 => send_at_once([&key, &link_answer, &cancel]),
            1 => {
                let [cancelled, key, linked] = send_at_once([&cancel, &key, &link_answer]);
                [key, linked, cancelled]
            }
            _ => {
                let [linked, cancelled, key] = send_at_once([&link_answer, &cancel, &key]);
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
            assert_eq!(cancelled.body["status"], "completed", "a late cancellation returns the final status");
            assert_ended(&server.client, &run, "completed", 1);
            by_key += usize::from(won == 0);
            by_link += usize::from(won == 1);
        }
    }
    let cancelled = ROUNDS - by_key - by_link;
    println!("{}: {by_key} by key, {by_link} by link, {cancelled} cancelled", database.engine());
}

fn exactly_one_of_two_contradictory_answers_by_link_and_key_counts(database: &TestDatabase) {
    let server = server(database, &gated("gated"));
    let clients: [Client; 2] = clients(&server);
    let mut by_link = 0;
    for round in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let link = Link::mint(&clients[0], &run, "gate", &json!({}));
        let (link_value, key_value) =
            if round % 2 == 0 { (accept(), reject()) } else { (reject(), accept()) };
        let answers =
            send_at_once([&|| link.answer(&link_value), &|| clients[1].answer(&run, "gate", &key_value)]);
        let linked = winner(&answers) == 0;
        let granted = if linked { link_value == accept() } else { key_value == accept() };
        assert_ended(&server.client, &run, if granted { "completed" } else { "failed" }, 1);
        link.assert_refused(409, "interrupt_already_resolved");
        by_link += usize::from(linked);
    }
    println!("{}: the link was first {by_link} times of {ROUNDS}", database.engine());
}

#[test]
fn an_answer_after_the_decision_is_a_conflict() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    server.client.answer(&run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
}
