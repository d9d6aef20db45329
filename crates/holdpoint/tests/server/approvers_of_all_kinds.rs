//! Approver lists on every kind of interrupt: a principal that is not listed cannot answer by any path.

use serde_json::{Value, json};

use crate::agui::{FrontEnd, resolved};
use crate::harness::{Client, Server, linear};
use crate::links::Link;

/// The kinds that need an answer: kind, data, an answer, and the same answer from an AG-UI front end.
fn kinds() -> Vec<(&'static str, Value, Value, Value)> {
    let answers = json!({"answers": {"q": "so"}});
    let approval = json!({"artifactId": "a", "artifactType": "t", "title": "Pay?", "actions": ["accept"]});
    let low_confidence = json!({"agentId": "planner", "threshold": 0.7, "observed": 0.2, "decision": 1});
    let accept = json!({"action": "accept"});
    vec![
        ("approval", approval, accept.clone(), json!(true)),
        ("clarification", json!({"questions": [{"id": "q", "question": "Why?"}]}), answers.clone(), answers),
        ("external-event", json!({"eventType": "paid", "correlation": {}}), json!({}), json!({})),
        ("custom", json!({"customKind": "colour"}), json!({"c": 1}), json!({"c": 1})),
        ("conversation.exchange", json!({"prompt": "Well?"}), json!("fine"), json!("fine")),
        ("low-confidence", low_confidence, accept.clone(), accept),
    ]
}

fn flow(id: &str, kind: &str, data: &Value) -> Value {
    let config = json!({"kind": kind, "data": data});
    if kind != "conversation.exchange" {
        return linear(id, &[("ask", "core.interrupt", config)]);
    }
    let open = json!({"kind": "conversation.start", "data": {}});
    linear(id, &[("open", "core.interrupt", open), ("ask", "core.interrupt", config)])
}

fn key(maker: &Client, principal: &str) -> Client {
    let scopes = ["runs:create", "runs:read", "runs:cancel", "approvals:respond", "events:send"];
    let made = maker.post("/v1/keys", &json!({"principal": principal, "scopes": scopes}));
    assert_eq!(made.status, 201, "{made:?}");
    maker.with_key(made.body["key"].as_str())
}

#[test]
fn a_principal_that_is_not_listed_cannot_answer_any_kind_by_any_path() {
    let server = Server::start();
    let admin = &server.client;
    let (bob, eve) = (key(admin, "bob"), key(admin, "eve"));
    for (at, (kind, mut data, value, payload)) in kinds().into_iter().enumerate() {
        let id = format!("flow-{at}");
        data["approversList"] = json!(["bob"]);
        let put = admin.put(&format!("/v1/workflows/{id}"), &flow(&id, kind, &data));
        assert_eq!((put.status, put.body.get("warnings")), (201, None), "{kind}: {put:?}");
        let run = admin.start_run(&id);
        eve.answer(&run, "ask", &value).assert_envelope(403, "forbidden");
        Link::mint(&eve, &run, "ask", &json!({})).answer(&value).assert_envelope(403, "forbidden");
        let started = FrontEnd::new(admin, &id, &id).say("u1", "Go");
        let asked = started.ids()[0].clone();
        let front = FrontEnd::new(&eve, &id, &id);
        front.resume(json!([resolved(&asked, payload.clone())])).assert_refused("FORBIDDEN");
        let start = json!({"graph": format!("native:{id}"), "stateKey": id});
        assert_eq!(admin.post("/api/v1/ai/chat", &start).status, 200, "{kind}");
        let resume = json!({"stateKey": id, "resumeId": "r1", "resumeValue": value});
        eve.post("/api/v1/ai/chat", &resume).assert_envelope(403, "forbidden");
        // The interrupt is in Bob's list and not in Eve's.
        let waiting = |client: &Client| client.get("/v1/interrupts?assignee=me").body["interrupts"].clone();
        assert_eq!(waiting(&eve), json!([]), "{kind}");
        let listed = waiting(&bob);
        assert!(listed.as_array().unwrap().iter().all(|row| row["assignees"] == json!(["bob"])), "{listed}");
        assert_eq!(bob.answer(&run, "ask", &value).status, 200, "{kind}");
        assert_eq!(bob.post("/api/v1/ai/chat", &resume).status, 200, "{kind}");
        let answered = FrontEnd::new(&bob, &id, &id).resume(json!([resolved(&asked, payload)]));
        answered.assert_success();
    }
}

#[test]
fn an_event_does_not_resolve_an_interrupt_with_approvers() {
    let server = Server::start();
    let admin = &server.client;
    let bob = key(admin, "bob");
    let data = json!({"eventType": "paid", "correlation": {"order": 7}, "approversList": ["bob"]});
    admin.put("/v1/workflows/pay", &flow("pay", "external-event", &data));
    let run = admin.start_run("pay");
    let event = json!({"eventType": "paid", "eventId": "e1", "correlation": {"order": 7}, "payload": {}});
    let sent = bob.post("/v1/events", &event);
    assert_eq!(sent.body["matched"], json!([]), "{sent:?}");
    assert_eq!(sent.body["refused"][0]["error"], "forbidden", "{sent:?}");
    assert_eq!(admin.status(&run), "waiting-external");
    assert_eq!(bob.answer(&run, "ask", &json!({"order": 7})).status, 200);
}

#[test]
fn approvers_are_rejected_at_registration_for_kinds_that_the_host_answers() {
    let server = Server::start();
    for kind in ["conversation.start", "conversation.close"] {
        let data = json!({"conversationId": "c", "approversList": ["bob"]});
        let refused = server.client.put(
            "/v1/workflows/f",
            &linear("f", &[("ask", "core.interrupt", json!({"kind": kind, "data": data}))]),
        );
        refused.assert_envelope(400, "validation_error");
        assert!(refused.body["message"].as_str().unwrap().contains("data.approversList"), "{refused:?}");
    }
}

#[test]
fn turns_of_a_conversation_gate_are_answered_only_by_its_approvers() {
    let server = Server::start();
    let admin = &server.client;
    let (bob, eve) = (key(admin, "bob"), key(admin, "eve"));
    let config = json!({"prompt": "Colour?", "approversList": ["bob"]});
    let put = admin.put("/v1/workflows/talk", &linear("talk", &[("talk", "core.conversationGate", config)]));
    assert_eq!(put.status, 201, "{put:?}");
    let run = admin.start_run("talk");
    eve.answer(&run, "talk", &json!("red")).assert_envelope(403, "forbidden");
    assert_eq!(bob.answer(&run, "talk", &json!("blue")).status, 200);
}

#[test]
fn a_name_that_no_key_has_causes_a_warning() {
    let server = Server::start();
    let admin = &server.client;
    key(admin, "bob");
    let data = json!({"customKind": "c", "approversList": ["bob", "zoe", "role:lead"]});
    let put = admin.put("/v1/workflows/f", &flow("f", "custom", &data));
    let warnings = json!([
        "node ask: no key of this tenant has the name, role or group \"zoe\"",
        "node ask: no key of this tenant has the role \"lead\"",
    ]);
    assert_eq!((put.status, &put.body["warnings"]), (201, &warnings), "{put:?}");
    let hold = admin.post("/v1/holds", &json!({"title": "Deploy?", "approvers": ["bob", "zoe"]}));
    let warnings = json!(["no key of this tenant has the name, role or group \"zoe\""]);
    assert_eq!((hold.status, &hold.body["warnings"]), (201, &warnings), "{hold:?}");
    let asked = server.run(&["ask", "Deploy?", "--approvers", "zoe", "--detach"]);
    let stderr = String::from_utf8(asked.stderr).unwrap();
    assert!(asked.status.success() && stderr.contains("warning: no key of this tenant"), "{stderr}");
}
