//! Workflows over AG-UI: their gates and forms are interrupts like those of agents.

use serde_json::{Value, json};

use crate::agui::{FrontEnd, cancelled, resolved};
use crate::harness::{Server, client_with_key, linear};

fn front(server: &Server, workflow: &Value) -> FrontEnd {
    let id = workflow["id"].as_str().unwrap();
    let put = server.client.put(&format!("/v1/workflows/{id}"), workflow);
    assert_eq!(put.status, 201, "{put:?}");
    FrontEnd::new(&server.client, id, "t1")
}

fn gated() -> Value {
    let gate = json!({"title": "Ship it?", "actions": ["accept", "reject"]});
    linear(
        "shipping",
        &[
            ("before", "core.noop", json!({})),
            ("gate", "core.approvalGate", gate),
            ("after", "core.noop", json!({})),
        ],
    )
}

#[test]
fn a_gate_is_a_confirmation_and_the_nodes_are_steps() {
    let server = Server::start();
    let front = front(&server, &gated());
    let first = front.say("u1", "Ship");
    let shown = &first.interrupts()[0];
    assert_eq!((&shown["reason"], &shown["message"]), (&json!("confirmation"), &json!("Ship it?")));
    assert_eq!(shown.get("toolCallId"), None);
    let steps: Vec<_> = first.find("STEP_STARTED").iter().map(|one| one["stepName"].clone()).collect();
    assert_eq!(steps, [json!("before"), json!("gate")]);
    assert_eq!(first.messages(), [json!({"id": "u1", "role": "user", "content": "Ship"})]);
    let state = first.find("STATE_SNAPSHOT").last().unwrap()["snapshot"].clone();
    assert_eq!(state["message"], "Ship");
    front.say("u2", "Now").assert_refused("PENDING_INTERRUPTS");
    let id = first.ids()[0].clone();
    front.resume(json!([resolved(&id, json!("maybe"))])).assert_refused("INVALID_PAYLOAD");
    let second = front.resume(json!([resolved(&id, json!(true))]));
    second.assert_success();
    let steps: Vec<_> = second.find("STEP_FINISHED").iter().map(|one| one["stepName"].clone()).collect();
    assert_eq!(steps, [json!("gate"), json!("after")]);
    assert_eq!(front.resume(json!([resolved(&id, json!(true))])).assert_success().kinds().len(), 4);
    let again = front.say("u2", "Once more");
    assert_eq!(again.messages().len(), 2, "{again:?}");
    assert_ne!(again.ids(), [id]);
}

#[test]
fn cancelling_a_gate_rejects_it() {
    let server = Server::start();
    let front = front(&server, &gated());
    let id = front.say("u1", "Ship").ids()[0].clone();
    let events = front.resume(json!([cancelled(&id)]));
    assert!(["RUN_ERROR", "RUN_FINISHED"].contains(&events.last()["type"].as_str().unwrap()), "{events:?}");
    let run = id.rsplit_once(':').unwrap().0;
    let resolved = server.client.events(run);
    let answer = resolved.iter().find(|one| one["type"] == "interrupt.resolved").unwrap().to_string();
    assert!(answer.contains("reject") && answer.contains("cancelled in the front end"), "{answer}");
}

#[test]
fn sensitive_variables_are_not_shown_and_a_returned_state_is_accepted() {
    let server = Server::start();
    let mut workflow = gated();
    workflow["variables"] = json!([
        {"name": "pin", "type": "string", "defaultValue": "SECRET-PIN", "sensitive": true},
        {"name": "plain", "type": "string", "defaultValue": "shown"},
    ]);
    workflow["channels"] = json!({"sum": {"reducer": "counter", "default": 0}});
    let front = front(&server, &workflow);
    let first = front.say("u1", "Ship");
    let state = first.find("STATE_SNAPSHOT").last().unwrap()["snapshot"].clone();
    assert_eq!((&state["plain"], &state["sum"], state.get("pin")), (&json!("shown"), &json!(0), None));
    front.resume(json!([resolved(&first.ids()[0], json!(true))])).assert_success();
    // The client sends back the state that it got. The server must accept it.
    let input = json!({"threadId": "t1", "runId": "r9", "state": state, "messages": [
        {"id": "u2", "role": "user", "content": "Again"},
    ]});
    let again = server.client.post("/ag-ui/shipping", &input);
    assert_eq!(again.status, 200, "{again:?}");
    let all = format!("{first:?}{again:?}{:?}", server.client.get("/ag-ui/shipping/threads/t1"));
    assert!(!all.contains("SECRET-PIN"), "{all}");
}

#[test]
fn variables_of_another_workflow_in_the_thread_are_not_shown() {
    let server = Server::start();
    let mut other = linear("other", &[("only", "core.noop", json!({}))]);
    other["variables"] =
        json!([{"name": "pin", "type": "string", "defaultValue": "SECRET-PIN", "sensitive": true}]);
    front(&server, &other).say("u1", "Begin").assert_success();
    let front = front(&server, &gated());
    let first = front.say("u2", "Ship");
    let run = first.ids()[0].rsplit_once(':').unwrap().0.to_owned();
    let all = format!("{first:?}{:?}", server.client.get(&format!("/v1/runs/{run}")));
    assert!(!all.contains("SECRET-PIN"), "{all}");
}

#[test]
fn sensitive_values_are_not_shown_in_the_history_of_a_chat() {
    let server = Server::start();
    let mut flow = linear("flow", &[("only", "core.noop", json!({}))]);
    flow["variables"] = json!([{"name": "pin", "type": "string", "sensitive": true}]);
    server.client.put("/v1/workflows/flow", &flow);
    let start = json!({"graph": "native:flow", "stateKey": "k", "input": {"pin": "SECRET-PIN"}});
    assert_eq!(server.client.post("/api/v1/ai/chat", &start).status, 200);
    let history = server.client.get("/api/v1/ai/chat/k/history");
    assert_eq!(history.body["turns"][0]["input"]["pin"], "[redacted]", "{history:?}");
    assert!(!format!("{history:?}").contains("SECRET-PIN"), "{history:?}");
}

fn filing() -> Value {
    let question =
        |id: &str, schema: Value| json!({"id": id, "question": format!("Which {id}?"), "schema": schema});
    let questions = json!({"questions": [
        question("quarter", json!({"type": "string", "enum": ["Q1", "Q2", "Q3", "Q4"]})),
        question("year", json!({"type": "integer", "minimum": 2000})),
    ]});
    linear("filing", &[("form", "core.clarificationGate", questions), ("after", "core.noop", json!({}))])
}

#[test]
fn a_form_has_a_schema_and_rejects_values_that_do_not_match() {
    let server = Server::start();
    let front = front(&server, &filing());
    let first = front.say("u1", "File");
    let shown = &first.interrupts()[0];
    assert_eq!(shown["reason"], "input_required");
    let schema = &shown["responseSchema"];
    assert_eq!(
        (&schema["required"], &schema["properties"]["year"]["minimum"]),
        (&json!(["quarter", "year"]), &json!(2000))
    );
    let id = first.ids()[0].clone();
    for bad in [
        json!({"quarter": "Q1"}),
        json!({"quarter": "Q9", "year": 2026}),
        json!({"quarter": "Q1", "year": 1}),
    ] {
        front.resume(json!([resolved(&id, bad)])).assert_refused("INVALID_PAYLOAD");
    }
    front.resume(json!([resolved(&id, json!({"quarter": "Q1", "year": 2026}))])).assert_success();
}

#[test]
fn cancelling_a_form_cancels_the_run_and_requires_runs_cancel() {
    let server = Server::start();
    let front = front(&server, &filing());
    let id = front.say("u1", "File").ids()[0].clone();
    let scopes = ["runs:create", "runs:read", "approvals:respond"];
    let key = server.client.post("/v1/keys", &json!({"scopes": scopes})).body;
    let limited = FrontEnd::new(&server.client.with_key(key["key"].as_str()), "filing", "t1");
    let refused = limited.resume(json!([cancelled(&id)]));
    refused.assert_refused("FORBIDDEN");
    assert!(refused.last()["message"].as_str().unwrap().contains("runs:cancel"), "{refused:?}");
    assert_eq!(front.resume(json!([cancelled(&id)])).last()["outcome"], json!({"type": "cancelled"}));
    assert_eq!(
        front.resume(json!([cancelled(&id)])).last()["outcome"],
        json!({"type": "cancelled"}),
        "a repeated cancel"
    );
}

#[test]
fn another_agent_cannot_use_a_thread_with_an_open_run() {
    let server = Server::start();
    front(&server, &filing()).say("u1", "File").ids();
    let other = front(&server, &gated());
    other.say("u9", "Ship").assert_refused("THREAD_BUSY");
}

#[test]
fn reading_a_built_in_workflow_does_not_register_it() {
    let server = Server::start();
    let reader = client_with_key(&server.client, &json!({"principal": "reader", "scopes": ["runs:read"]}));
    let shown = reader.get("/ag-ui/content-review/capabilities");
    assert_eq!((shown.status, &shown.body["identity"]["type"]), (200, &json!("workflow")), "{shown:?}");
    assert_eq!(reader.get("/ag-ui/content-review/threads/t1").status, 404);
    let ids = || {
        let listed = server.client.get("/v1/workflows").body;
        listed["workflows"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert!(!ids().contains(&json!("content-review")), "{:?}", ids());
    FrontEnd::new(&server.client, "content-review", "t1").say("u1", "cats");
    assert!(ids().contains(&json!("content-review")), "{:?}", ids());
}

#[test]
fn a_built_in_workflow_is_available_before_its_first_use() {
    let server = Server::start();
    let shown = server.client.get("/ag-ui/content-review/capabilities");
    assert_eq!(shown.status, 200, "{shown:?}");
    let events = FrontEnd::new(&server.client, "content-review", "t1").say("u1", "cats");
    assert_eq!(events.0[0]["type"], "RUN_STARTED", "{events:?}");
    server.client.get("/ag-ui/content-reviews/capabilities").assert_envelope(404, "not_found");
}
