//! Conversations over HTTP: one conversation name in two runs, and servers with `--no-conversations`.

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, gated, linear};

fn talk(id: &str) -> Value {
    linear(id, &[("talk", "core.conversationGate", json!({"prompt": "Colour?", "turnCount": 1}))])
}

/// Returns a workflow that opens a conversation with an id of its own.
fn named(id: &str) -> Value {
    let open = json!({"kind": "conversation.start", "data": {"conversationId": "support"}});
    let turn = json!({"kind": "conversation.exchange", "data": {"conversationId": "support", "prompt": "?"}});
    linear(id, &[("open", "core.interrupt", open), ("turn", "core.interrupt", turn)])
}

fn opened(client: &Client, run: &str) -> String {
    let log = client.events(run);
    let event = log.iter().find(|event| event["type"] == "conversation.opened").unwrap();
    event["payload"]["conversationId"].as_str().unwrap().to_owned()
}

#[test]
fn two_conversations_of_a_tenant_never_share_an_id() {
    let server = Server::start();
    let client = &server.client;
    assert_eq!(client.put("/v1/workflows/named", &named("named")).status, 201);
    let (one, other) = (client.start_run("named"), client.start_run("named"));
    let (first, second) = (opened(client, &one), opened(client, &other));
    assert_ne!(first, second);
    assert_eq!(
        (client.status(&one), client.status(&other)),
        ("waiting-approval".into(), "waiting-approval".into())
    );
    // Each conversation is answered separately.
    assert_eq!(client.answer(&one, "turn", &json!("red")).status, 200);
    let log = client.events(&one);
    let turn = log.iter().find(|event| event["type"] == "conversation.exchanged").unwrap();
    assert_eq!(turn["payload"]["conversationId"], first);
    assert_eq!(client.status(&other), "waiting-approval");
}

fn assert_refused(answer: &Response, node: &str) {
    answer.assert_envelope(400, "capability_required");
    let details = &answer.body["details"];
    assert_eq!(
        (&details["requiredCapability"], &details["nodeId"]),
        (&json!("conversationPrimitive"), &json!(node))
    );
}

#[test]
fn a_server_without_conversations_reports_it_and_rejects_their_workflows() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut before = Server::start_in(&data, &[]);
    assert_eq!(before.client.get("/.well-known/openwop").body["conversationPrimitive"], true);
    assert_eq!(before.client.put("/v1/workflows/old", &talk("old")).status, 201);
    let calling = linear("calling", &[("call", "core.subWorkflow", json!({"workflowId": "old"}))]);
    assert_eq!(before.client.put("/v1/workflows/calling", &calling).status, 201);
    before.kill();

    let server = Server::start_in(&data, &["--no-conversations"]);
    let client = &server.client;
    assert_eq!(client.get("/.well-known/openwop").body["conversationPrimitive"], false);
    assert_refused(&client.put("/v1/workflows/new", &talk("new")), "talk");
    assert_refused(&client.put("/v1/workflows/named", &named("named")), "open");
    client.get("/v1/workflows/new").assert_envelope(404, "not_found");
    // A workflow that was registered before is rejected at the start, also as a child run.
    assert_refused(&client.post("/v1/runs", &json!({"workflowId": "old"})), "talk");
    let log = client.wait_for_end(&client.start_run("calling"));
    let failed = log.iter().find(|event| event["type"] == "node.failed").unwrap();
    assert!(failed["payload"]["error"]["message"].as_str().unwrap().contains("conversations"), "{failed}");
    // Other workflows still work.
    assert_eq!(client.put("/v1/workflows/gated", &gated("gated")).status, 201);
    let run = client.start_run("gated");
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
}

#[test]
fn an_open_conversation_fails_with_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut before = Server::start_in(&data, &[]);
    before.client.put("/v1/workflows/talk", &talk("talk"));
    let run = before.client.start_run("talk");
    before.kill();
    let after = Server::launch(&data, &[], |command| {
        command.env("HOLDPOINT_NO_CONVERSATIONS", "true").stderr(std::process::Stdio::null())
    });
    assert_eq!(after.client.status(&run), "waiting-approval", "the open interrupt can be answered");
    assert_eq!(after.client.answer(&run, "talk", &json!("red")).status, 200);
    let shown = after.client.get(&format!("/v1/runs/{run}")).body;
    assert_eq!(
        (&shown["status"], &shown["error"]["code"]),
        (&json!("failed"), &json!("capability_not_provided"))
    );
    assert!(shown["error"]["message"].as_str().unwrap().contains("conversationPrimitive"), "{shown}");
}
