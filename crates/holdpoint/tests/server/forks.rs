//! Forks over HTTP: replays repeat the log, branches continue independently, and invalid forks are rejected.

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, client_with_key, gated, linear};

fn server() -> Server {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server
}

fn fork(client: &Client, run: &str, body: &Value) -> Response {
    client.post(&format!("/v1/runs/{run}:fork"), body)
}

fn start_and_answer(client: &Client) -> String {
    let run = client.start_run("gated");
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
    run
}

/// Returns the events of a run without run ids.
fn normalized_log(client: &Client, run: &str, source: &str) -> Vec<(Value, Value, String)> {
    let log = client.wait_for_end(run);
    let plain = |payload: &Value| payload.to_string().replace(run, "RUN").replace(source, "RUN");
    log.iter()
        .map(|event| (event["type"].clone(), event["nodeId"].clone(), plain(&event["payload"])))
        .collect()
}

#[test]
fn a_replay_from_any_event_has_the_same_log() {
    let server = server();
    let client = &server.client;
    let run = start_and_answer(client);
    let expected = normalized_log(client, &run, &run);
    let source = client.get(&format!("/v1/runs/{run}")).body;
    for from in 0..=expected.len() {
        let made = fork(client, &run, &json!({"mode": "replay", "fromSeq": from}));
        assert_eq!(made.status, 201, "{made:?}");
        let copy = made.body["runId"].as_str().unwrap();
        assert_eq!((&made.body["sourceRunId"], &made.body["fromSeq"]), (&json!(run), &json!(from)));
        assert_eq!((&made.body["mode"], &made.body["status"]), (&json!("replay"), &json!("completed")));
        assert_eq!(made.body["eventsUrl"], format!("/v1/runs/{copy}/events"));
        assert_eq!(normalized_log(client, copy, &run), expected, "from {from}");
        client.answer(copy, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
        let shown = client.get(&format!("/v1/runs/{copy}")).body;
        assert_eq!((&shown["sourceRunId"], &shown["forkMode"]), (&json!(run), &json!("replay")));
        assert_eq!(shown["owner"]["tenant"], "default");
        assert_eq!(shown["startedAt"], source["startedAt"]);
    }
    assert_eq!(client.get("/v1/interrupts").body["interrupts"], json!([]), "no interrupt is open");
}

#[test]
fn a_replay_starts_at_event_0_by_default() {
    let server = server();
    let client = &server.client;
    let run = start_and_answer(client);
    let made = fork(client, &run, &json!({"mode": "replay"}));
    assert_eq!((made.status, &made.body["fromSeq"]), (201, &json!(0)));
}

#[test]
fn a_branch_continues_independently_of_its_source() {
    let server = server();
    let client = &server.client;
    let run = start_and_answer(client);
    let log = client.events(&run);
    let asked = log.iter().position(|event| event["type"] == "interrupt.resolved").unwrap();
    let overlay = json!({"configurable": {"temperature": 1}, "tags": ["second try"], "metadata": {"n": 2}});
    let body = json!({"mode": "branch", "fromSeq": asked, "runOptionsOverlay": overlay});
    let made = fork(client, &run, &body);
    assert_eq!((made.status, &made.body["status"]), (201, &json!("waiting-approval")), "{made:?}");
    let copy = made.body["runId"].as_str().unwrap();
    let shown = client.get(&format!("/v1/runs/{copy}")).body;
    assert_eq!((&shown["tags"], &shown["metadata"]), (&json!(["second try"]), &json!({"n": 2})));
    assert_eq!(shown["configurable"], json!({"temperature": 1}));
    let ended = client.get(&format!("/v1/runs/{run}")).body["completedAt"].clone();
    assert!(
        shown["startedAt"].as_str() >= ended.as_str(),
        "the branch starts at the time of the fork: {shown}, {ended}"
    );
    let rejected = client.answer(copy, "gate", &json!({"action": "reject"}));
    assert_eq!(rejected.status, 200);
    assert_eq!((client.status(&run), client.status(copy)), ("completed".to_owned(), "failed".to_owned()));
    assert_eq!(client.events(&run), log, "the source is unchanged");
}

fn person(maker: &Client, name: &str) -> Client {
    client_with_key(maker, &json!({"principal": name}))
}

#[test]
fn a_forker_cannot_approve_the_fork_if_the_gate_excludes_requesters() {
    let server = Server::start();
    let admin = &server.client;
    let mut flow = gated("gated");
    flow["nodes"][1]["config"]["requesterMayNotApprove"] = json!(true);
    assert_eq!(admin.put("/v1/workflows/gated", &flow).status, 201);
    let [ann, bob, carol] = ["ann", "bob", "carol"].map(|name| person(admin, name));
    let run = bob.start_run("gated");
    let branch = |client: &Client, run: &str| {
        let overlay = json!({"configurable": {"temperature": 1}});
        let made = fork(client, run, &json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": overlay}));
        assert_eq!(made.status, 201, "{made:?}");
        made.body["runId"].as_str().unwrap().to_owned()
    };
    let copy = branch(&ann, &run);
    // A fork of the fork has both forkers and the owner as requesters.
    let again = branch(&carol, &copy);
    let waits_for = |client: &Client, run: &str| {
        let listed = client.get("/v1/interrupts?assignee=me").body;
        listed["interrupts"].as_array().unwrap().iter().any(|one| one["runId"] == *run)
    };
    for (client, run) in [(&ann, &copy), (&bob, &copy), (&ann, &again), (&bob, &again), (&carol, &again)] {
        assert!(!waits_for(client, run));
        client.answer(run, "gate", &accept()).assert_envelope(403, "forbidden");
    }
    let forkers = |run: &str| admin.get(&format!("/v1/runs/{run}")).body["forkedBy"].clone();
    assert_eq!((forkers(&run), forkers(&copy)), (Value::Null, json!(["ann"])));
    assert_eq!(forkers(&again), json!(["ann", "carol"]));
    assert!(waits_for(&carol, &copy));
    assert_eq!(carol.answer(&copy, "gate", &accept()).status, 200);
    assert_eq!(ann.answer(&run, "gate", &accept()).status, 200, "she is not a requester of the source");
}

#[test]
fn a_forker_cannot_approve_child_runs_of_the_fork() {
    let server = Server::start();
    let admin = &server.client;
    let mut flow = gated("gated");
    flow["nodes"][1]["config"]["requesterMayNotApprove"] = json!(true);
    assert_eq!(admin.put("/v1/workflows/gated", &flow).status, 201);
    let above = linear("above", &[("call", "core.subWorkflow", json!({"workflowId": "gated"}))]);
    assert_eq!(admin.put("/v1/workflows/above", &above).status, 201);
    let [ann, bob] = ["ann", "bob"].map(|name| person(admin, name));
    let run = bob.start_run("above");
    let made = fork(&ann, &run, &json!({"mode": "branch", "fromSeq": 0}));
    let copy = made.body["runId"].as_str().unwrap();
    admin.wait_for_event(copy, |event| event["payload"]["childRunId"].is_string());
    let child = admin.snapshot(copy)["childRuns"][0]["runId"].as_str().unwrap().to_owned();
    admin.wait_for_event(&child, |event| event["type"] == "approval.requested");
    ann.answer(&child, "gate", &accept()).assert_envelope(403, "forbidden");
    assert_eq!(admin.answer(&child, "gate", &accept()).status, 200);
}

#[test]
fn an_invalid_fork_is_rejected() {
    let server = server();
    let client = &server.client;
    let run = start_and_answer(client);
    let length = client.events(&run).len();
    let overlay = json!({"tags": ["x"]});
    for wrong in [
        json!({}),
        json!({"mode": "again"}),
        json!({"mode": "branch"}),
        json!({"mode": "replay", "fromSeq": -1}),
        json!({"mode": "replay", "fromSeq": 1.5}),
        json!({"mode": "replay", "runOptionsOverlay": overlay}),
        json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"inputs": {}}}),
        json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"tags": vec!["t"; 101]}}),
        json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"configurable": {"recursionLimit": 0}}}),
    ] {
        let answer = fork(client, &run, &wrong);
        assert_eq!((answer.status, answer.code()), (400, "validation_error"), "{wrong} {answer:?}");
    }
    assert_eq!(fork(client, &run, &json!({"mode": "replay", "runOptionsOverlay": {}})).status, 201);
    for mode in ["replay", "branch"] {
        let beyond = fork(client, &run, &json!({"mode": mode, "fromSeq": length + 1}));
        beyond.assert_envelope(422, "beyond_log");
        assert_eq!(beyond.body["details"]["events"], length);
        fork(client, "unknown", &json!({"mode": mode, "fromSeq": 0})).assert_envelope(404, "not_found");
    }
    let made = client.post("/v1/keys", &json!({"tenant": "elsewhere"})).body;
    let elsewhere = client.with_key(made["key"].as_str());
    fork(&elsewhere, &run, &json!({"mode": "replay"})).assert_envelope(404, "not_found");
}
