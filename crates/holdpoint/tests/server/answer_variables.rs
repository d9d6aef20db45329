//! Answers over HTTP set only the variables that the definition maps. Each test repeats an attack by an approver, the
//! last voter or the holder of a link.

use serde_json::{Value, json};

use crate::agui::{AguiFixture, FrontEnd, asking_agent, resolved};
use crate::harness::{Client, Server, client_with_key, linear};
use crate::links::Link;
use crate::receiver::{Hook, ReceivedRequest, Receiver, server_at};
use crate::test_database::{TestDatabase, on_both};

const GOVERNED: &str = "core.openwop.governance.approvalGate";

on_both!(
    the_last_of_two_approvers_cannot_change_the_payment,
    a_link_holder_cannot_change_the_payment,
    an_answer_cannot_skip_the_next_gate,
    a_chat_answer_cannot_change_the_payment,
    an_ag_ui_answer_cannot_change_the_payment,
    a_timed_out_gate_is_distinguished_from_a_rejected_one,
);

fn server(database: &TestDatabase) -> Server {
    database.start(&["--outgoing-allow-loopback", "--allow-private-webhooks"])
}

fn variable(name: &str) -> Value {
    json!({"type": "variable", "variableName": name})
}

/// Returns a workflow with a gate that shows a payment and a call that sends it.
fn paying(bank: &Receiver, gate: Value) -> Value {
    let mut flow = linear(
        "pay",
        &[
            ("gate", "core.approvalGate", gate),
            ("pay", "core.http", json!({"method": "POST", "url": bank.url})),
        ],
    );
    flow["nodes"][0]["inputs"] = json!({"artifact": variable("payment")});
    flow["nodes"][1]["inputs"] = json!({"body": variable("payment")});
    flow
}

fn payment() -> Value {
    json!({"to": "supplier", "amount": 100})
}

fn put(client: &Client, flow: &Value) {
    let put = client.put(&format!("/v1/workflows/{}", flow["id"].as_str().unwrap()), flow);
    assert_eq!(put.status, 201, "{put:?}");
}

fn start(client: &Client, inputs: Value) -> String {
    let made = client.post("/v1/runs", &json!({"workflowId": "pay", "inputs": inputs}));
    assert_eq!(made.status, 201, "{made:?}");
    made.body["runId"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_paid(client: &Client, run: &str, bank: &Receiver, body: &Value) {
    let log = client.wait_for_end(run);
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:?}");
    let calls: Vec<Value> = bank.wait_for(1).iter().map(ReceivedRequest::json).collect();
    assert_eq!(calls, std::slice::from_ref(body));
}

/// Returns the recorded answer from the log.
fn recorded(client: &Client, run: &str) -> Value {
    let log = client.events(run);
    let told = log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap();
    told["payload"]["resumeValue"].clone()
}

fn the_last_of_two_approvers_cannot_change_the_payment(database: &TestDatabase) {
    let (server, bank) = (server(database), Receiver::start());
    let client = &server.client;
    put(client, &paying(&bank, json!({"requiredApprovals": 2})));
    let run = start(client, json!({"payment": payment()}));
    let (ann, bob) = (
        client_with_key(client, &json!({"principal": "ann"})),
        client_with_key(client, &json!({"principal": "bob"})),
    );
    assert_eq!(ann.answer(&run, "gate", &json!({"action": "accept"})).status, 200);
    let stolen = json!({"to": "bob", "amount": 1_000_000});
    let answer = json!({"action": "accept", "comment": "fine", "payment": stolen});
    assert_eq!(bob.answer(&run, "gate", &answer).body["outcome"], "resolved");
    assert_paid(client, &run, &bank, &payment());
    assert_eq!(recorded(client, &run).get("payment"), None);
    let log = client.events(&run);
    let completed = log.iter().find(|event| event["type"] == "node.completed").unwrap();
    for gone in ["payment", "ignored", "comment"] {
        assert_eq!(completed["payload"]["outputs"].get(gone), None, "{completed}");
    }
}

fn a_link_holder_cannot_change_the_payment(database: &TestDatabase) {
    let (server, bank) = (server(database), Receiver::start());
    let client = &server.client;
    put(client, &paying(&bank, json!({"actions": ["accept", "reject"]})));
    let run = start(client, json!({"payment": payment()}));
    let link = Link::mint(client, &run, "gate", &json!({}));
    let edit = json!({"action": "edit-accept", "editedArtifactData": 1});
    link.answer(&edit).assert_envelope(400, "validation_error");
    let stolen = json!({"to": "mallory", "amount": 7});
    let answer = json!({"action": "accept", "payment": stolen, "editedArtifactData": stolen,
        "decidedAt": "1999-01-01T00:00:00Z"});
    assert_eq!(link.answer(&answer).status, 200);
    assert_paid(client, &run, &bank, &payment());
    let told = recorded(client, &run);
    assert_eq!(told["ignored"], json!({"payment": stolen, "editedArtifactData": stolen}), "{told}");
    assert_eq!(told["claimedAt"], "1999-01-01T00:00:00Z");
    assert!(told["decidedAt"].as_str().unwrap() > "2020", "{told}");
}

fn an_answer_cannot_skip_the_next_gate(database: &TestDatabase) {
    let server = server(database);
    let client = &server.client;
    let mut flow = linear(
        "pay",
        &[
            ("gate", GOVERNED, json!({"requiredRole": "clerk"})),
            ("cfo", "core.approvalGate", json!({})),
            ("end", "core.end", json!({})),
        ],
    );
    flow["variables"] = json!([{"name": "amount", "type": "number"}, {"name": "reason", "type": "string"}]);
    let above = json!({"type": "expression", "expression": "variables.amount > 500"});
    flow["edges"][0]["condition"] = above;
    put(client, &flow);
    let clerk = client_with_key(client, &json!({"principal": "ann", "roles": ["clerk"]}));
    for forged in [json!(1), json!("a text")] {
        let run = start(client, json!({"amount": 900_000, "reason": "the invoice of May"}));
        let answer = json!({"decision": "granted", "amount": forged, "reason": "so"});
        assert_eq!(clerk.answer(&run, "gate", &answer).status, 200);
        let now = client.snapshot(&run);
        assert_eq!((&now["status"], &now["currentNodeId"]), (&json!("waiting-approval"), &json!("cfo")));
        let kept = json!({"amount": 900_000, "reason": "the invoice of May"});
        assert_eq!(
            (&now["variables"]["amount"], &now["variables"]["reason"]),
            (&kept["amount"], &kept["reason"])
        );
    }
}

fn a_chat_answer_cannot_change_the_payment(database: &TestDatabase) {
    let (server, bank) = (server(database), Receiver::start());
    let client = &server.client;
    put(client, &paying(&bank, json!({})));
    let started =
        client.post("/api/v1/ai/chat", &json!({"graph": "native:pay", "input": {"payment": payment()}}));
    let state = started.body["stateKey"].clone();
    let answer = json!({"action": "accept", "payment": {"to": "eve", "amount": 99}});
    let body = json!({"stateKey": state, "resumeId": "r1", "resumeValue": answer});
    let ended = client.post("/api/v1/ai/chat", &body);
    assert_eq!(ended.body["outcome"], "completed", "{ended:?}");
    // A repeated resume gets the same response.
    assert_eq!(client.post("/api/v1/ai/chat", &body).status, 200);
    let calls: Vec<Value> = bank.wait_for(1).iter().map(ReceivedRequest::json).collect();
    assert_eq!(calls, [payment()]);
}

fn an_ag_ui_answer_cannot_change_the_payment(database: &TestDatabase) {
    let (server, bank) = (server(database), Receiver::start());
    let client = &server.client;
    put(client, &paying(&bank, json!({})));
    let front = |thread: &str| FrontEnd::new(client, "pay", thread);
    let forged = json!({"to": "eve", "amount": 77});
    let forms =
        [json!({"action": "accept", "payment": forged}), json!({"approved": true, "payment": forged})];
    for (number, answer) in forms.into_iter().enumerate() {
        let front = front(&format!("t{number}"));
        let state = json!({"payment": payment()});
        let first =
            front.post(json!({"messages": [{"id": "u1", "role": "user", "content": "Pay"}], "state": state}));
        let id = first.ids()[0].clone();
        front.resume(json!([resolved(&id, answer.clone())])).assert_success();
        front.resume(json!([resolved(&id, answer)])).assert_success();
        let run = id.rsplit_once(':').unwrap().0;
        assert_eq!(recorded(client, run)["ignored"], json!({"payment": forged}));
        let calls: Vec<Value> = bank.wait_for(number + 1).iter().map(ReceivedRequest::json).collect();
        assert_eq!(calls.last(), Some(&payment()));
    }
}

#[test]
fn a_decision_about_a_call_with_unknown_members_is_refused_by_name() {
    let fixture = AguiFixture::new(asking_agent);
    let client = &fixture.server.client;
    let id = fixture.front_end().say("u1", "Send it").ids()[0].clone();
    let path = format!("/v1/runs/{}/decision", id.rsplit_once(':').unwrap().0);
    let decision = |more: Value| {
        let mut body = json!({"toolCallId": "c1", "action": "resume"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post(&path, &body)
    };
    let beside = decision(json!({"payment": 7}));
    beside.assert_envelope(400, "validation_error");
    assert!(beside.body["message"].as_str().unwrap().contains("payment"), "{beside:?}");
    for result in [json!({"to": "eve"}), json!({"arguments": {"to": "ann"}, "to": "eve"})] {
        let within = decision(json!({"result": result}));
        within.assert_envelope(400, "validation_error");
        assert_eq!(within.body["details"]["field"], "result.to");
    }
    assert_eq!(fixture.mails().len(), 0);
    assert_eq!(decision(json!({"result": {"arguments": {"to": "ann"}}})).status, 202);
    assert_eq!(fixture.post_office.wait_for(1)[0].json()["to"], "ann");
}

fn a_timed_out_gate_is_distinguished_from_a_rejected_one(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let receiver = Receiver::start();
    let hook = Hook::create(client, &receiver.url, json!({"events": ["interrupt.resolved"]}));
    let durable = json!({"events": ["interrupt.resolved"], "durable": true});
    let durable = Hook::create(client, &receiver.url, durable);
    put(client, &linear("pay", &[("gate", "core.approvalGate", json!({"timeoutMs": 50}))]));
    let silent = start(client, json!({}));
    let log = client.wait_for_end(&silent);
    let error = json!({
        "code": "approval_rejected", "message": "no decision was made before the deadline; a timeout is not an approval",
    });
    let failed = &log.last().unwrap()["payload"]["error"];
    assert_eq!((&failed["code"], &failed["message"]), (&error["code"], &error["message"]), "{failed}");
    assert_eq!(failed["details"]["reason"], "timeout", "the error states the reason");
    assert_eq!(client.snapshot(&silent)["error"]["details"]["reason"], "timeout");
    let listed = client.get("/v1/runs").body["runs"][0].clone();
    assert_eq!(
        (&listed["status"], &listed["errorCode"], &listed["outcome"]),
        (&json!("failed"), &json!("approval_rejected"), &json!("timed_out")),
        "{listed}"
    );
    let heard = receiver.wait_for(2);
    assert!(heard.iter().all(|one| one.event_type() == "interrupt.resolved"), "{heard:?}");
    assert_eq!(heard[0].json()["event"]["payload"]["action"], "timeout");
    for hook in [hook, durable] {
        assert!(
            heard.iter().any(|one| one.header("x-openwop-webhook-id") == hook.id),
            "both webhooks get the event"
        );
    }
    let listed = server.run(&["runs", "list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("timed_out"), "{listed:?}");
    put(client, &linear("no", &[("gate", "core.approvalGate", json!({}))]));
    let refused = client.start_run("no");
    assert_eq!(client.answer(&refused, "gate", &json!({"action": "reject"})).status, 200);
    let error = client.snapshot(&refused)["error"].clone();
    assert_eq!((&error["code"], error["details"].get("reason")), (&json!("approval_rejected"), None));
}
