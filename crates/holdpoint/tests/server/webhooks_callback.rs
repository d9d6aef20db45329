//! `callbackUrl`: the server sends a callback for each interrupt of the run, with a link that may answer if the key of
//! the run may.

use serde_json::{Value, json};

use crate::harness::{Client, accept, gated, linear};
use crate::receiver::{Receiver, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_callback_contains_a_link_that_answers_without_a_key,
    a_callback_secret_is_in_the_first_response_only,
    a_callback_of_a_gate_that_requires_a_key_has_an_inspect_link,
    a_callback_to_this_machine_is_refused_without_the_flag,
);

fn a_callback_contains_a_link_that_answers_without_a_key(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    let url = format!("{}/asked?t=1", receiver.url);
    let made = client.post("/v1/runs", &json!({"workflowId": "gated", "callbackUrl": url}));
    assert_eq!(made.status, 201, "{made:?}");
    let run = made.body["runId"].as_str().unwrap();
    let callback = receiver.wait_for(1).remove(0);
    assert_eq!((callback.path.as_str(), callback.header("content-type")), ("/asked?t=1", "application/json"));
    assert_eq!(callback.event_type(), "interrupt.requested");
    assert!(callback.is_signed_with(made.body["callbackSecret"].as_str().unwrap()));
    assert!(!callback.headers.contains_key("x-openwop-webhook-id"), "a callback has no webhook id");
    assert!(callback.header("x-openwop-delivery-id").starts_with("dl_"));
    assert_eq!(callback.header("x-openwop-dedup-key").len(), 64);
    let body = callback.json();
    assert_eq!(
        (&body["runId"], &body["nodeId"], &body["kind"]),
        (&json!(run), &json!("gate"), &json!("approval"))
    );
    assert_eq!(body["intent"], "resolve");
    assert!(body["expiresAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() > jiff::Timestamp::now());
    let link = body["callbackUrl"].as_str().unwrap();
    assert_eq!(link, format!("{}/v1/interrupts/{}", server.url, body["interruptToken"].as_str().unwrap()));
    let anonymous = Client::new(&server.url, None);
    let path = link.strip_prefix(&server.url).unwrap();
    let shown = anonymous.get(path);
    assert_eq!((shown.status, &shown.body["interruptId"]), (200, &body["interruptId"]));
    let answered = anonymous.post(path, &json!({"resumeValue": accept()}));
    assert_eq!((answered.status, &answered.body["status"]), (200, &json!("completed")), "{answered:?}");
    assert_eq!(receiver.requests().len(), 1);
    assert!(!client.snapshot(run).to_string().contains("asked?t=1"), "the callback URL is not shown");
}

fn a_callback_secret_is_in_the_first_response_only(database: &TestDatabase) {
    let server = server_at(database, &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let body = json!({"workflowId": "gated", "callbackUrl": Receiver::start().url}).to_string();
    let create = || {
        let headers = [("idempotency-key", "k1")];
        let response = server.client.exchange("POST", "/v1/runs", Some(body.as_bytes()), &headers);
        serde_json::from_str::<Value>(response.body()).unwrap()
    };
    let (mut first, replayed) = (create(), create());
    assert!(first.as_object_mut().unwrap().shift_remove("callbackSecret").is_some());
    assert_eq!(first, replayed);
}

fn a_callback_of_a_gate_that_requires_a_key_has_an_inspect_link(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let governed = ("gate", "core.openwop.governance.approvalGate", json!({"requiredRole": "release"}));
    assert_eq!(client.put("/v1/workflows/governed", &linear("governed", &[governed])).status, 201);
    let receiver = Receiver::start();
    let body = json!({"workflowId": "governed", "callbackUrl": receiver.url});
    assert_eq!(client.post("/v1/runs", &body).status, 201);
    let callback = receiver.wait_for(1).remove(0).json();
    assert_eq!(callback["intent"], "inspect");
    let path = callback["callbackUrl"].as_str().unwrap().strip_prefix(&server.url).unwrap().to_owned();
    let anonymous = Client::new(&server.url, None);
    assert_eq!(anonymous.get(&path).status, 200);
    assert_ne!(anonymous.post(&path, &json!({"resumeValue": accept()})).status, 200);
}

fn a_callback_to_this_machine_is_refused_without_the_flag(database: &TestDatabase) {
    let server = database.start(&[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let body = json!({"workflowId": "gated", "callbackUrl": "http://127.0.0.1:9/"});
    let refused = server.client.post("/v1/runs", &body);
    refused.assert_envelope(400, "webhook_url_rejected");
    assert_eq!(refused.body["details"]["field"], "callbackUrl");
}
