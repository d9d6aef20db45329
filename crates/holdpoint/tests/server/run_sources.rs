//! The origin and the transport of runs and messages. A caller cannot choose them.

use serde_json::{Value, json};

use crate::agui::FrontEnd;
use crate::harness::{Client, gated, linear};
use crate::test_database::{TestDatabase, on_both};

on_both!(a_run_and_a_message_record_the_source_of_their_request);

/// Returns the origin and the transport in the snapshot. The first event has the same origin, and a transport that
/// OpenWOP knows.
fn source(client: &Client, run: &str) -> (Value, Value) {
    let (snapshot, events) = (client.get(&format!("/v1/runs/{run}")).body, client.events(run));
    let payload = &events[0]["payload"];
    assert_eq!(snapshot["origin"], payload["origin"]);
    let expected = match snapshot["transport"].as_str() {
        Some("rest" | "internal") => "rest",
        Some("agui" | "chat") => "ui",
        other => panic!("{other:?}"),
    };
    assert_eq!(payload["transport"], expected);
    (snapshot["origin"].clone(), snapshot["transport"].clone())
}

fn a_run_and_a_message_record_the_source_of_their_request(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let calls = linear("calls", &[("call", "core.subWorkflow", json!({"workflowId": "gated"}))]);
    client.put("/v1/workflows/calls", &calls);
    let model = json!({"provider": "scripted", "steps": [{"text": "Yes."}, {"text": "Yes."}]});
    client.put("/v1/agents/mailer", &json!({"model": model}));
    let run_of = |body: &Value| body["runId"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned();

    let forged = json!({
        "workflowId": "gated", "origin": "internal", "transport": "internal",
        "source": {"origin": "internal", "transport": "internal"},
    });
    let rest = run_of(&client.post("/v1/runs", &forged).body);
    assert_eq!(source(client, &rest), (json!("user"), json!("rest")));
    let hold = client.post("/v1/holds", &json!({"title": "Go on?"})).body;
    assert_eq!(source(client, hold["holdId"].as_str().unwrap()), (json!("user"), json!("rest")));

    let started =
        client.post("/api/v1/ai/chat", &json!({"graph": "native:gated", "stateKey": "k", "input": {}}));
    assert_eq!(started.status, 200, "{started:?}");
    let latest = client.get("/v1/runs?workflowId=gated&limit=1").body;
    assert_eq!(source(client, &run_of(&latest["runs"][0])), (json!("user"), json!("chat")));

    FrontEnd::new(client, "mailer", "t1").say("u1", "Hello").assert_success();
    let agui = run_of(&client.get("/v1/threads/t1/runs/latest").body);
    assert_eq!(source(client, &agui), (json!("user"), json!("agui")));
    let said = client.post("/v1/threads/t1/messages", &json!({"message": "And now?"}));
    assert_eq!(said.status, 202, "{said:?}");
    client.wait_for_end(&run_of(&said.body));
    let messages = client.get("/v1/threads/t1/messages").body;
    let sources: Vec<Value> = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["role"], one["origin"], one["transport"]]))
        .collect();
    assert_eq!(
        json!(sources),
        json!([
            ["user", "user", "agui"],
            ["assistant", null, null],
            ["user", "user", "rest"],
            ["assistant", null, null],
        ])
    );

    let parent = client.start_run("calls");
    client.wait_for_event(&parent, |event| event["type"] == "holdpoint.child.changed");
    let shown = client.get(&format!("/v1/runs/{parent}")).body;
    assert_eq!(source(client, &run_of(&shown["childRuns"][0])), (json!("internal"), json!("internal")));
    let fork = client.post(&format!("/v1/runs/{rest}:fork"), &json!({"mode": "replay"}));
    assert_eq!(source(client, &run_of(&fork.body)), (json!("user"), json!("rest")));
}
