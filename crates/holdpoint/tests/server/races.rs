//! Whoever answers, exactly one answer counts.

use std::sync::Barrier;

use serde_json::json;

use crate::harness::{Client, KEY, Server, accept, gated};

#[test]
fn of_sixteen_answers_at_once_exactly_one_is_taken_a_hundred_times_over() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    // A client each, so that sixteen connections race.
    let clients: Vec<Client> = (0..16).map(|_| Client::new(&server.url, Some(KEY))).collect();
    for _ in 0..100 {
        let run = server.client.start_run("gated");
        let line = Barrier::new(clients.len());
        let answers = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(n, client)| {
                    let (line, run) = (&line, &run);
                    scope.spawn(move || {
                        line.wait();
                        client.answer(run, "gate", &json!({"action": "accept", "feedback": n.to_string()}))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!(won.len(), 1, "{answers:?}");
        for answer in lost {
            answer.assert_envelope(409, "interrupt_already_resolved");
        }
        assert_eq!(server.client.status(&run), "completed");
        let log = server.client.events(&run);
        let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
        assert_eq!((count("interrupt.resolved"), count("run.completed")), (1, 1), "{log:?}");
    }
}

#[test]
fn a_later_answer_is_a_conflict_too() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    server.client.answer(&run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
}
