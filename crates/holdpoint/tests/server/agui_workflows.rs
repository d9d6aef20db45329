//! Workflows behind AG-UI: gates and forms of theirs are interrupts like those of agents.

use serde_json::{Value, json};

use crate::agui::{Front, cancelled, resolved};
use crate::harness::{Server, keyed, line};

fn front(server: &Server, workflow: &Value) -> Front {
    let id = workflow["id"].as_str().unwrap();
    let put = server.client.put(&format!("/v1/workflows/{id}"), workflow);
    assert_eq!(put.status, 201, "{put:?}");
    Front::new(&server.client, id, "t1")
}

fn gated() -> Value {
    let gate = json!({"title": "Ship it?", "actions": ["accept", "reject"]});
    line(
        "shipping",
        &[
            ("before", "core.noop", json!({})),
            ("gate", "core.approvalGate", gate),
            ("after", "core.noop", json!({})),
        ],
    )
}

#[test]
fn a_gate_is_a_confirmation_and_its_nodes_are_steps() {
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
fn a_gate_that_is_cancelled_is_rejected() {
    let server = Server::start();
    let front = front(&server, &gated());
    let id = front.say("u1", "Ship").ids()[0].clone();
    let told = front.resume(json!([cancelled(&id)]));
    assert!(["RUN_ERROR", "RUN_FINISHED"].contains(&told.last()["type"].as_str().unwrap()), "{told:?}");
    let run = id.rsplit_once(':').unwrap().0;
    let resolved = server.client.events(run);
    let answer = resolved.iter().find(|one| one["type"] == "interrupt.resolved").unwrap().to_string();
    assert!(answer.contains("reject") && answer.contains("cancelled in the front end"), "{answer}");
}

#[test]
fn what_must_not_be_shown_is_not_and_channels_stay_with_their_nodes() {
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
    // What was shown comes back, and is no reason to refuse anything.
    let input = json!({"threadId": "t1", "runId": "r9", "state": state, "messages": [
        {"id": "u2", "role": "user", "content": "Again"},
    ]});
    let again = server.client.post("/ag-ui/shipping", &input);
    assert_eq!(again.status, 200, "{again:?}");
    let all = format!("{first:?}{again:?}{:?}", server.client.get("/ag-ui/shipping/threads/t1"));
    assert!(!all.contains("SECRET-PIN"), "{all}");
}

#[test]
fn what_another_workflow_left_in_a_thread_is_its_own() {
    let server = Server::start();
    let mut other = line("other", &[("only", "core.noop", json!({}))]);
    other["variables"] =
        json!([{"name": "pin", "type": "string", "defaultValue": "SECRET-PIN", "sensitive": true}]);
    front(&server, &other).say("u1", "Begin").assert_success();
    let front = front(&server, &gated());
    let first = front.say("u2", "Ship");
    let run = first.ids()[0].rsplit_once(':').unwrap().0.to_owned();
    let all = format!("{first:?}{:?}", server.client.get(&format!("/v1/runs/{run}")));
    assert!(!all.contains("SECRET-PIN"), "{all}");
}

fn filing() -> Value {
    let question =
        |id: &str, schema: Value| json!({"id": id, "question": format!("Which {id}?"), "schema": schema});
    let questions = json!({"questions": [
        question("quarter", json!({"type": "string", "enum": ["Q1", "Q2", "Q3", "Q4"]})),
        question("year", json!({"type": "integer", "minimum": 2000})),
    ]});
    line("filing", &[("form", "core.clarificationGate", questions), ("after", "core.noop", json!({}))])
}

#[test]
fn a_form_has_a_schema_and_takes_only_what_fits() {
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
fn a_form_that_is_cancelled_ends_the_run_for_those_who_may_end_it() {
    let server = Server::start();
    let front = front(&server, &filing());
    let id = front.say("u1", "File").ids()[0].clone();
    let scopes = ["runs:create", "runs:read", "approvals:respond"];
    let key = server.client.post("/v1/keys", &json!({"scopes": scopes})).body;
    let limited = Front::new(&server.client.with_key(key["key"].as_str()), "filing", "t1");
    let refused = limited.resume(json!([cancelled(&id)]));
    refused.assert_refused("FORBIDDEN");
    assert!(refused.last()["message"].as_str().unwrap().contains("runs:cancel"), "{refused:?}");
    assert_eq!(front.resume(json!([cancelled(&id)])).last()["outcome"], json!({"type": "cancelled"}));
    assert_eq!(
        front.resume(json!([cancelled(&id)])).last()["outcome"],
        json!({"type": "cancelled"}),
        "and again"
    );
}

#[test]
fn an_agent_of_another_name_does_not_take_over_a_thread_that_is_open() {
    let server = Server::start();
    front(&server, &filing()).say("u1", "File").ids();
    let other = front(&server, &gated());
    other.say("u9", "Ship").assert_refused("THREAD_BUSY");
}

#[test]
fn reading_about_a_shipped_graph_registers_nothing() {
    let server = Server::start();
    let reader = keyed(&server.client, &json!({"principal": "reader", "scopes": ["runs:read"]}));
    let shown = reader.get("/ag-ui/content-review/capabilities");
    assert_eq!((shown.status, &shown.body["identity"]["type"]), (200, &json!("workflow")), "{shown:?}");
    assert_eq!(reader.get("/ag-ui/content-review/threads/t1").status, 404);
    let ids = || {
        let listed = server.client.get("/v1/workflows").body;
        listed["workflows"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert!(!ids().contains(&json!("content-review")), "{:?}", ids());
    Front::new(&server.client, "content-review", "t1").say("u1", "cats");
    assert!(ids().contains(&json!("content-review")), "{:?}", ids());
}

#[test]
fn a_shipped_graph_is_there_before_its_first_use() {
    let server = Server::start();
    let shown = server.client.get("/ag-ui/content-review/capabilities");
    assert_eq!(shown.status, 200, "{shown:?}");
    let told = Front::new(&server.client, "content-review", "t1").say("u1", "cats");
    assert_eq!(told.0[0]["type"], "RUN_STARTED", "{told:?}");
    server.client.get("/ag-ui/content-reviews/capabilities").assert_envelope(404, "not_found");
}
