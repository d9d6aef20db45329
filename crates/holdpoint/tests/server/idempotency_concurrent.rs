//! Concurrent duplicates with one idempotency key: one is executed, the others get its response.

use std::sync::Barrier;

use serde_json::{Value, json};
use ureq::http::Response;

use crate::harness::{Client, KEY, Server, gated, linear};
use crate::idempotency::{is_replay, send, state};

fn sixteen(server: &Server) -> Vec<Client> {
    // Separate clients have separate connections.
    (0..16).map(|_| Client::new(&server.url, Some(KEY))).collect()
}

fn send_at_once(
    clients: &[Client],
    request: impl Fn(&Client, usize) -> Response<String> + Sync,
) -> Vec<Response<String>> {
    let start = Barrier::new(clients.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(n, client)| {
                let (start, request) = (&start, &request);
                scope.spawn(move || {
                    start.wait();
                    request(client, n)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn assert_one_answer(answers: &[Response<String>], status: u16) {
    let first = answers.iter().find(|answer| !is_replay(answer)).expect("one response is not a replay");
    assert_eq!(first.status().as_u16(), status, "{}", first.body());
    for answer in answers {
        assert_eq!((answer.status(), answer.body()), (first.status(), first.body()));
    }
    let replays = answers.iter().filter(|answer| is_replay(answer)).count();
    assert_eq!(replays, answers.len() - 1, "one request was executed");
}

#[test]
fn one_of_sixteen_duplicate_requests_at_once_is_executed() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let clients = sixteen(&server);
    let count = |client: &Client| client.get("/v1/runs?limit=200").body["runs"].as_array().unwrap().len();
    for round in 0..10 {
        let key = format!("round {round}");
        let post = |path: String, body: Value| {
            send_at_once(&clients, |client, _| send(client, "POST", &path, Some(&body), &key))
        };
        let before = count(client);
        assert_one_answer(&post("/v1/runs".to_owned(), json!({"workflowId": "gated"})), 201);
        assert_eq!(count(client), before + 1);
        let run = client.start_run("gated");
        assert_one_answer(&post(format!("/v1/runs/{run}:fork"), json!({"mode": "replay"})), 201);
        assert_eq!(count(client), before + 3);
        let accept = json!({"resumeValue": {"action": "accept"}});
        assert_one_answer(&post(format!("/v1/runs/{run}/interrupts/gate"), accept), 200);
        let answers = client.events(&run);
        assert_eq!(answers.iter().filter(|event| event["type"] == "interrupt.resolved").count(), 1);
        let run = client.start_run("gated");
        assert_one_answer(&post(format!("/v1/runs/{run}:pause"), json!({})), 202);
        assert_one_answer(&post(format!("/v1/runs/{run}/cancel"), json!({})), 200);
    }
}

#[test]
fn one_of_sixteen_duplicate_registrations_at_once_is_stored() {
    let server = Server::start();
    let clients = sixteen(&server);
    for round in 0..5 {
        let (id, key) = (format!("flow-{round}"), format!("round {round}"));
        let definition = linear(&id, &[("only", "core.noop", json!({}))]);
        let path = format!("/v1/workflows/{id}");
        let answers = send_at_once(&clients, |client, _| send(client, "PUT", &path, Some(&definition), &key));
        assert_one_answer(&answers, 201);
        let before = state(&server.client);
        send(&server.client, "PUT", &path, Some(&definition), &key);
        assert_eq!(state(&server.client), before);
    }
}

#[test]
fn sixteen_duplicate_key_creations_at_once_create_one_key_and_show_it_once() {
    let server = Server::start();
    let clients = sixteen(&server);
    let keys = |client: &Client| client.get("/v1/keys").body["keys"].as_array().unwrap().len();
    let before = keys(&server.client);
    let body = json!({"scopes": ["runs:read"], "tenant": "default"});
    let answers = send_at_once(&clients, |client, _| send(client, "POST", "/v1/keys", Some(&body), "k"));
    assert!(answers.iter().all(|answer| answer.status() == 201));
    let shown: Vec<Value> =
        answers.iter().map(|answer| serde_json::from_str(answer.body()).unwrap()).collect();
    let secrets: Vec<&Value> = shown.iter().filter_map(|one| one.get("key")).collect();
    assert_eq!((secrets.len(), keys(&server.client)), (1, before + 1));
    assert!(shown.iter().all(|one| one["keyId"] == shown[0]["keyId"]));
    assert_eq!(server.client.with_key(secrets[0].as_str()).get("/v1/runs").status, 200);
}

#[test]
fn one_of_sixteen_different_bodies_with_one_idempotency_key_is_executed() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let clients = sixteen(&server);
    let answers = send_at_once(&clients, |client, n| {
        let body = json!({"workflowId": "gated", "tags": [n.to_string()]});
        send(client, "POST", "/v1/runs", Some(&body), "k")
    });
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status() == 201);
    assert_eq!((made.len(), refused.len()), (1, 15));
    for answer in refused {
        assert_eq!(answer.status(), 409);
        assert!(answer.body().contains("idempotency_key_mismatch"), "{}", answer.body());
    }
    assert_eq!(server.client.get("/v1/runs").body["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_duplicate_start_in_an_exclusive_scope_returns_its_own_run() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let clients = sixteen(&server);
    for round in 0..20 {
        let key = format!("round {round}");
        let body = json!({"workflowId": "gated", "scopeId": key}).to_string();
        let headers = [("x-dedup", "enforce"), ("idempotency-key", key.as_str())];
        let answers = send_at_once(&clients, |client, _| {
            client.exchange("POST", "/v1/runs", Some(body.as_bytes()), &headers)
        });
        assert_one_answer(&answers, 201);
    }
}

#[test]
fn one_of_eight_runs_of_an_exclusive_scope_at_once_is_started() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let clients: Vec<Client> = sixteen(&server).into_iter().take(8).collect();
    for round in 0..10 {
        let body = json!({"workflowId": "gated", "scopeId": format!("scope {round}")}).to_string();
        let answers = send_at_once(&clients, |client, _| {
            client.exchange("POST", "/v1/runs", Some(body.as_bytes()), &[("x-dedup", "enforce")])
        });
        let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status() == 201);
        assert_eq!((made.len(), refused.len()), (1, 7));
        let made: Value = serde_json::from_str(made[0].body()).unwrap();
        for answer in refused {
            let shown: Value = serde_json::from_str(answer.body()).unwrap();
            assert_eq!((answer.status().as_u16(), &shown["error"]), (409, &json!("run_already_active")));
            let details = &shown["details"];
            assert_eq!(
                (&details["activeRunId"], &details["activeHost"]),
                (&made["runId"], &json!("holdpoint"))
            );
            let seconds = details["retryAfter"].as_u64().unwrap().to_string();
            assert_eq!(answer.headers()["retry-after"], seconds.as_str());
        }
    }
}
