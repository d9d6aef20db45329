//! Concurrent answers over links and keys, and concurrent cancellations: exactly one of them counts.

use std::sync::Barrier;

use serde_json::json;

use crate::harness::{Client, KEY, Response, Server, accept, gated};
use crate::links::Link;

const ROUNDS: usize = 100;

fn server(folder: &tempfile::TempDir) -> Server {
    // The tests use valid links only, so the limit for invalid ones is off.
    let server = Server::start_in(&folder.path().join("data"), &["--link-rate-limit", "0"]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server
}

/// Sends requests at the same time. Returns the responses in the order of the requests.
pub(crate) fn send_at_once<const N: usize>(requests: [&(dyn Fn() -> Response + Sync); N]) -> [Response; N] {
    let start = Barrier::new(N);
    std::thread::scope(|scope| {
        requests
            .map(|request| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    request()
                })
            })
            .map(|thread| thread.join().unwrap())
    })
}

#[test]
fn one_of_two_links_and_two_keys_at_once_answers() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let clients: Vec<Client> = (0..4).map(|_| Client::new(&server.url, Some(KEY))).collect();
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let links = [0, 1].map(|n| Link::mint(&clients[n], &run, "gate", &json!({})));
        let answers = send_at_once([
            &|| links[0].answer(&accept()),
            &|| links[1].answer(&accept()),
            &|| clients[2].answer(&run, "gate", &accept()),
            &|| clients[3].answer(&run, "gate", &accept()),
        ]);
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
        for lost in answers.iter().filter(|answer| answer.status != 200) {
            lost.assert_envelope(409, "interrupt_already_resolved");
        }
        let log = server.client.events(&run);
        let resolved = log.iter().filter(|event| event["type"] == "interrupt.resolved").count();
        assert_eq!((resolved, server.client.status(&run).as_str()), (1, "completed"));
    }
}

#[test]
fn either_a_link_or_a_cancellation_at_the_same_time_wins() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let clients: Vec<Client> = (0..2).map(|_| Client::new(&server.url, Some(KEY))).collect();
    let mut answered = 0;
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let link = Link::mint(&clients[0], &run, "gate", &json!({}));
        let [answer, cancelled] = send_at_once([&|| link.answer(&accept()), &|| {
            clients[1].post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        }]);
        assert_eq!(cancelled.status, 200);
        match answer.status {
            200 => assert_eq!(server.client.status(&run), "completed"),
            _ => {
                answer.assert_envelope(409, "interrupt_already_resolved");
                assert_eq!(server.client.status(&run), "cancelled");
            }
        }
        answered += usize::from(answer.status == 200);
        link.assert_refused(409, "interrupt_already_resolved");
    }
    println!("the answer won in {answered} of {ROUNDS} rounds");
}
