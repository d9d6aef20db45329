//! Signed links: minting, what they show, answering, expiry.

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, gated, linear};

/// A signed link to the interrupt of a node.
pub(crate) struct Link {
    pub token: String,
    pub minted: Value,
    anonymous: Client,
}

impl Link {
    pub(crate) fn mint(client: &Client, run: &str, node: &str, wanted: &Value) -> Self {
        let minted = mint(client, run, node, wanted);
        assert_eq!(minted.status, 201, "{minted:?}");
        let token = minted.body["token"].as_str().unwrap().to_owned();
        Self { token, minted: minted.body, anonymous: client.with_key(None) }
    }

    fn path(&self) -> String {
        format!("/v1/interrupts/{}", self.token)
    }

    pub(crate) fn open(&self) -> Response {
        self.anonymous.get(&self.path())
    }

    pub(crate) fn answer(&self, value: &Value) -> Response {
        self.anonymous.post(&self.path(), &json!({"resumeValue": value}))
    }

    /// Asserts that reading and answering are refused with this status and code.
    pub(crate) fn assert_refused(&self, status: u16, code: &str) {
        self.open().assert_envelope(status, code);
        self.answer(&accept()).assert_envelope(status, code);
    }
}

pub(crate) fn mint(client: &Client, run: &str, node: &str, wanted: &Value) -> Response {
    client.post(&format!("/v1/runs/{run}/interrupts/{node}/tokens"), wanted)
}

fn started(server: &Server) -> String {
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server.client.start_run("gated")
}

fn gate_with(config: &Value) -> Value {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"].as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    flow
}

#[test]
fn a_link_shows_an_interrupt_and_answers_it_without_a_key() {
    let server = Server::start();
    let run = started(&server);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    assert_eq!(link.minted["url"], format!("{}/v1/interrupts/{}", server.url, link.token));
    let snapshot = server.client.get(&format!("/v1/runs/{run}")).body;
    let shown = link.open();
    assert_eq!(shown.status, 200, "{shown:?}");
    for same in ["kind", "data", "key", "requestedAt", "nodeId", "interruptId"] {
        assert_eq!(shown.body[same], snapshot["interrupt"][same], "{same}");
    }
    assert_eq!((&shown.body["runId"], &shown.body["title"]), (&json!(run), &json!("Go on?")));
    assert_eq!(
        (&shown.body["intent"], &shown.body["expiresAt"]),
        (&json!("resolve"), &link.minted["expiresAt"])
    );
    assert!(shown.body["digest"].as_str().unwrap().starts_with("sha256:"), "{shown:?}");
    let answered = link.answer(&accept());
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(answered.body["interruptId"], link.minted["interruptId"]);
    let log = server.client.wait_for_end(&run);
    let resolved = log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap();
    assert_eq!(resolved["payload"]["resolvedBy"], link.minted["for"]);
    assert_eq!(server.client.status(&run), "completed");
    link.assert_refused(409, "interrupt_already_resolved");
}

#[test]
fn opening_a_link_does_not_answer_and_records_no_event() {
    let server = Server::start();
    let run = started(&server);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    let before = server.client.events(&run).len();
    for method in ["GET", "HEAD", "GET", "HEAD"] {
        let anonymous = server.client.with_key(None);
        let answer =
            anonymous.exchange(method, &format!("/v1/interrupts/{}?action=accept", link.token), None, &[]);
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
        assert_eq!(answer.body().is_empty(), method == "HEAD");
    }
    assert_eq!(server.client.status(&run), "waiting-approval");
    assert_eq!(server.client.events(&run).len(), before);
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn every_invalid_token_gets_the_same_404_before_the_body_is_read() {
    let server = Server::start();
    let run = started(&server);
    let token = Link::mint(&server.client, &run, "gate", &json!({})).token;
    let (payload, signature) = token.split_once('.').unwrap();
    let elsewhere = Server::start();
    let theirs = Link::mint(&elsewhere.client, &started(&elsewhere), "gate", &json!({})).token;
    let escaped = format!("%{:02X}{}", token.as_bytes()[0], &token[1..]);
    let mut answers = Vec::new();
    for bad in [
        "garbage",
        "a.b",
        ".",
        "%00",
        "%ff%fe",
        "a%2Fb",
        &token[1..],
        &token[..token.len() - 1],
        &format!("{token}="),
        &format!("{token}.{signature}"),
        &format!("{payload}.{}", signature.chars().rev().collect::<String>()),
        &format!("{payload}."),
        &format!(".{signature}"),
        &theirs,
        &escaped,
        &"A".repeat(20_000),
    ] {
        for client in [&server.client, &server.client.with_key(None)] {
            let path = format!("/v1/interrupts/{bad}");
            answers.push(client.exchange("GET", &path, None, &[]));
            answers.push(client.exchange("POST", &path, Some(b"{"), &[]));
            answers.push(client.exchange(
                "POST",
                &path,
                Some(br#"{"resumeValue":{"action":"accept"}}"#),
                &[],
            ));
        }
    }
    for answer in &answers {
        assert_eq!((answer.status().as_u16(), answer.body()), (404, answers[0].body()));
        assert!(answer.body().contains("\"interrupt_not_found\""), "{}", answer.body());
        let names = |answer: &ureq::http::Response<String>| -> Vec<String> {
            answer.headers().keys().map(ToString::to_string).collect()
        };
        assert_eq!(names(answer), names(&answers[0]), "the headers are the same too");
    }
    assert_eq!(server.client.status(&run), "waiting-approval");
}

#[test]
fn an_invalid_answer_is_refused_and_the_interrupt_stays_open() {
    let server = Server::start();
    let run = started(&server);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    link.answer(&json!({"action": "explode"})).assert_envelope(400, "validation_error");
    for body in [&b"{"[..], b"{}", b"[]", br#"{"resumeValue":{"a":1,"a":2}}"#] {
        link.anonymous.send("POST", &link.path(), Some(body)).assert_envelope(400, "validation_error");
    }
    let mismatch = json!({"resumeValue": accept(), "digest": "sha256:0000"});
    link.anonymous.post(&link.path(), &mismatch).assert_envelope(409, "payload_mismatch");
    assert_eq!(server.client.status(&run), "waiting-approval");
    let right = json!({"resumeValue": accept(), "digest": link.open().body["digest"]});
    assert_eq!(link.anonymous.post(&link.path(), &right).status, 200);
}

#[test]
fn an_inspect_link_cannot_answer() {
    let server = Server::start();
    let run = started(&server);
    let link = Link::mint(&server.client, &run, "gate", &json!({"intent": "inspect"}));
    assert_eq!(link.open().body["intent"], "inspect");
    link.answer(&accept()).assert_envelope(403, "forbidden");
    link.anonymous.send("POST", &link.path(), Some(b"{")).assert_envelope(403, "forbidden");
    assert_eq!(server.client.status(&run), "waiting-approval");
    assert_eq!(link.open().status, 200);
}

#[test]
fn a_link_ends_with_its_run() {
    let server = Server::start();
    let client = &server.client;
    let run = started(&server);
    let cancelled = Link::mint(client, &run, "gate", &json!({}));
    client.send("POST", &format!("/v1/runs/{run}/cancel"), None);
    cancelled.assert_refused(409, "interrupt_already_resolved");
    // A child run is cancelled with its parent.
    let call = json!({"workflowId": "gated", "waitForCompletion": true});
    client.put("/v1/workflows/parent", &linear("parent", &[("call", "core.subWorkflow", call)]));
    let parent = client.start_run("parent");
    client.wait_for_event(&parent, |event| event["type"] == "node.dispatched");
    let child = client.get(&format!("/v1/runs/{parent}")).body["childRuns"][0]["runId"].clone();
    let child = child.as_str().unwrap();
    client.wait_for_event(child, |event| event["type"] == "interrupt.requested");
    let link = Link::mint(client, child, "gate", &json!({}));
    client.send("POST", &format!("/v1/runs/{parent}/cancel"), None);
    client.wait_for_end(child);
    link.assert_refused(409, "interrupt_already_resolved");
    // A link is closed by an answer with a key.
    let run = client.start_run("gated");
    let link = Link::mint(client, &run, "gate", &json!({}));
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
    link.assert_refused(409, "interrupt_already_resolved");
}

#[test]
fn a_link_expires_at_its_time_and_the_interrupt_stays_open() {
    let server = Server::start();
    let run = started(&server);
    let link = Link::mint(&server.client, &run, "gate", &json!({"expiresInSeconds": 1}));
    // The poll takes one second without an event; then the link has expired.
    server.client.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=1"));
    link.assert_refused(410, "interrupt_expired");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    link.assert_refused(410, "interrupt_expired");
}

#[test]
fn a_link_expires_with_its_interrupt_at_the_latest() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gate_with(&json!({"timeoutMs": 1500})));
    let run = client.start_run("gated");
    let link = Link::mint(client, &run, "gate", &json!({"expiresInSeconds": 3600}));
    let shown = link.open().body;
    assert_eq!((&shown["timeoutMs"], &shown["expiresAt"]), (&json!(1500), &shown["interruptExpiresAt"]));
    let log = client.wait_for_event(&run, |event| event["type"] == "interrupt.resolved");
    assert!(log.iter().any(|event| event["payload"]["action"] == "timeout"), "{log:?}");
    link.assert_refused(410, "interrupt_expired");
    mint(client, &run, "gate", &json!({})).assert_envelope(409, "interrupt_already_resolved");
}

#[test]
fn a_link_is_for_one_visit_of_a_node_and_no_other() {
    let server = Server::start();
    let client = &server.client;
    let mut flow = gated("gated");
    let mut fix = flow["nodes"][0].clone();
    fix["id"] = json!("fix");
    flow["nodes"].as_array_mut().unwrap().push(fix);
    flow["edges"].as_array_mut().unwrap().extend([
        json!({"id": "no", "sourceNodeId": "gate", "targetNodeId": "fix", "triggerRule": "any_failed"}),
        json!({"id": "back", "sourceNodeId": "fix", "targetNodeId": "gate"}),
    ]);
    let registered = client.put("/v1/workflows/gated", &flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    let run = client.start_run("gated");
    let first = Link::mint(client, &run, "gate", &json!({}));
    assert_eq!(first.answer(&json!({"action": "reject"})).status, 200);
    client.wait_for_event(&run, |event| {
        event["type"] == "interrupt.requested"
            && event["payload"]["interruptId"] != first.minted["interruptId"]
    });
    first.assert_refused(409, "interrupt_already_resolved");
    assert_eq!(client.status(&run), "waiting-approval", "the second visit still asks");
    let second = Link::mint(client, &run, "gate", &json!({}));
    assert_ne!(second.minted["interruptId"], first.minted["interruptId"]);
    assert_eq!(second.answer(&accept()).status, 200);
    assert_eq!(client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
}

#[test]
fn minting_a_link_is_refused_for_the_same_reasons_as_answering() {
    let server = Server::start();
    let client = &server.client;
    let run = started(&server);
    mint(client, "unknown", "gate", &json!({})).assert_envelope(404, "not_found");
    mint(client, &run, "before", &json!({})).assert_envelope(404, "interrupt_not_found");
    mint(client, &run, "unknown", &json!({})).assert_envelope(404, "interrupt_not_found");
    for bad in [
        json!({"intent": "decide"}),
        json!({"expiresInSeconds": 0}),
        json!({"expiresInSeconds": 7 * 24 * 3600 + 1}),
        json!({"expiresInSeconds": "1h"}),
        json!({"for": ""}),
        json!({"for": "two words"}),
    ] {
        mint(client, &run, "gate", &bad).assert_envelope(400, "validation_error");
    }
    let cancelled = client.start_run("gated");
    client.send("POST", &format!("/v1/runs/{cancelled}/cancel"), None);
    mint(client, &cancelled, "gate", &json!({})).assert_envelope(422, "interrupt_cancelled");
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
    mint(client, &run, "gate", &json!({})).assert_envelope(409, "interrupt_already_resolved");
}
