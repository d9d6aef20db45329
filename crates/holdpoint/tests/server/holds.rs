//! Holds over HTTP: creation, answers, outcomes, approvers and reserved names.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, client_with_key, gated};
use crate::test_database::{TestDatabase, on_both};

on_both! {
    a_hold_is_answered_like_any_interrupt,
    a_long_poll_on_a_hold_returns_at_once_when_the_hold_ends,
    the_status_of_a_hold_shows_its_outcome,
    json_members_keep_their_order,
}

pub(crate) fn hold(client: &Client, body: &Value) -> String {
    let made = client.post("/v1/holds", body);
    assert_eq!((made.status, &made.body["status"]), (201, &json!("waiting")), "{made:?}");
    made.body["holdId"].as_str().unwrap().to_owned()
}

fn shown(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/holds/{id}")).body
}

fn a_hold_is_answered_like_any_interrupt(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let id = hold(
        client,
        &json!({"title": "Deploy v2?", "description": "Now.", "data": "# Changes", "tags": ["ops"]}),
    );
    let pending = client.get("/v1/interrupts?tag=ops").body["interrupts"][0].clone();
    assert_eq!((&pending["runId"], &pending["title"]), (&json!(id), &json!("Deploy v2?")));
    assert_eq!(pending["excerpt"], "# Changes");
    let data = &client.get(&format!("/v1/runs/{id}")).body["interrupt"]["data"];
    assert_eq!(
        (&data["artifactData"], &data["artifactType"]),
        (&json!("# Changes"), &json!("text/markdown"))
    );
    let link = ann.send("POST", &format!("/v1/runs/{id}/interrupts/hold/tokens"), None).body;
    let path = format!("/v1/interrupts/{}", link["token"].as_str().unwrap());
    let visitor = client.with_key(None);
    let seen = visitor.get(&path).body;
    assert_eq!((&seen["state"], &seen["title"]), (&json!("open"), &json!("Deploy v2?")));
    assert_eq!(
        visitor.post(&path, &json!({"resumeValue": {"action": "accept", "feedback": "go"}})).status,
        200
    );
    let hold = shown(client, &id);
    assert_eq!((&hold["status"], &hold["answer"]["feedback"]), (&json!("approved"), &json!("go")), "{hold}");
    assert_eq!(client.status(&id), "completed");
    let used = visitor.get(&path);
    assert_eq!((used.status, &used.body["details"]["state"]), (409, &json!("answered")), "{used:?}");
    assert_eq!(used.body["details"]["action"], "accept");
    assert_eq!(used.body["details"]["answeredBy"], hold["answeredBy"]);
}

fn json_members_keep_their_order(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let data: Value =
        serde_json::from_str(r#"{"zeta": 1, "alpha": {"y": [], "x": null}, "mid": true}"#).unwrap();
    let expected = r#"{"zeta":1,"alpha":{"y":[],"x":null},"mid":true}"#;
    let id = hold(client, &json!({"title": "Go?", "data": data, "requesterMayNotApprove": false}));
    let asked = &client.get(&format!("/v1/runs/{id}")).body["interrupt"]["data"]["artifactData"];
    assert_eq!(asked.to_string(), expected);
    let events = client.get(&format!("/v1/runs/{id}/events/poll")).body;
    assert!(events.to_string().contains(expected), "{events}");
    let excerpt = client.get("/v1/interrupts").body["interrupts"][0]["excerpt"].clone();
    assert!(excerpt.as_str().is_some_and(|text| text.find("zeta") < text.find("alpha")), "{excerpt}");
    let answer = client.answer(&id, "hold", &json!({"action": "accept", "feedback": "fine"}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = shown(client, &id)["answer"].clone();
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(members[..2], ["action", "feedback"], "{answer}");
}

fn the_status_of_a_hold_shows_its_outcome(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let choice = hold(client, &json!({"title": "Where?", "choices": ["eu", "us"]}));
    let wrong = ann.answer(&choice, "hold", &json!({"answers": {"answer": "mars"}}));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    assert_eq!(ann.answer(&choice, "hold", &json!({"answers": {"answer": "us"}})).status, 200);
    let chosen = shown(client, &choice);
    assert_eq!((&chosen["status"], &chosen["answer"]), (&json!("answered"), &json!("us")));
    let schema =
        json!({"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}});
    let form = hold(client, &json!({"title": "How many?", "schema": schema}));
    assert_eq!(ann.answer(&form, "hold", &json!({"answers": {"answer": {"count": "x"}}})).status, 400);
    assert_eq!(ann.answer(&form, "hold", &json!({"answers": {"answer": {"count": 3}}})).status, 200);
    assert_eq!(shown(client, &form)["answer"], json!({"count": 3}));
    let no = hold(client, &json!({"title": "Really?"}));
    ann.answer(&no, "hold", &json!({"action": "reject", "feedback": "not today"}));
    let rejected = shown(client, &no);
    assert_eq!(
        (&rejected["status"], &rejected["answer"]["feedback"]),
        (&json!("rejected"), &json!("not today"))
    );
    let late = hold(client, &json!({"title": "Quick?", "timeoutMs": 50}));
    let late = client.get(&format!("/v1/holds/{late}?wait=30")).body;
    assert_eq!((&late["status"], late.get("answer")), (&json!("timed_out"), None));
    let back = hold(client, &json!({"title": "Never mind?"}));
    let path = format!("/v1/holds/{back}");
    assert_eq!(client.send("DELETE", &path, None).body["status"], "cancelled");
    assert_eq!(shown(client, &back)["status"], "cancelled");
    let answered = client.send("DELETE", &format!("/v1/holds/{no}"), None);
    assert_eq!(answered.body["status"], "rejected", "an answered hold cannot be cancelled");
}

fn a_long_poll_on_a_hold_returns_at_once_when_the_hold_ends(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let id = hold(client, &json!({"title": "Go on?"}));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get(&format!("/v1/holds/{id}?wait=60")).body);
        assert_eq!(client.get(&format!("/v1/holds/{id}?wait=1")).body["status"], "waiting");
        assert_eq!(ann.answer(&id, "hold", &accept()).status, 200);
        assert_eq!(waiting.join().unwrap()["status"], "approved");
    });
}

#[test]
fn only_named_approvers_may_answer_a_hold() {
    let server = Server::start();
    let client = &server.client;
    let of = |name: &str| client_with_key(client, &json!({"principal": name}));
    let id = hold(client, &json!({"title": "Pay?", "approvers": ["ann"]}));
    assert_eq!(of("bob").answer(&id, "hold", &accept()).status, 403);
    assert_eq!(of("ann").answer(&id, "hold", &accept()).status, 200);
    assert_eq!(shown(client, &id)["answeredBy"], "ann");
    // The same applies to questions: only the assignee sees it in the list and may answer, also over a link.
    for more in [json!({"choices": ["eu", "us"]}), json!({"schema": {"type": "string"}})] {
        let mut body = json!({"title": "Where?", "approvers": ["ann"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let id = hold(client, &body);
        let lists = |name: &str| {
            let mine = of(name).get("/v1/interrupts?assignee=me&kind=clarification").body;
            mine["interrupts"].as_array().unwrap().iter().any(|one| one["runId"] == id.as_str())
        };
        assert_eq!((lists("ann"), lists("bob")), (true, false));
        let listed = client.get("/v1/interrupts?kind=clarification").body["interrupts"][0].clone();
        assert_eq!(listed["assignees"], json!(["ann"]), "{listed}");
        let answer = json!({"answers": {"answer": "eu"}});
        of("bob").answer(&id, "hold", &answer).assert_envelope(403, "forbidden");
        let link = of("bob").send("POST", &format!("/v1/runs/{id}/interrupts/hold/tokens"), None).body;
        let token = link["token"].as_str().unwrap();
        let by_link =
            client.with_key(None).post(&format!("/v1/interrupts/{token}"), &json!({"resumeValue": answer}));
        assert_eq!(by_link.status, 403, "{by_link:?}");
        assert_eq!(of("ann").answer(&id, "hold", &answer).status, 200);
        assert_eq!(shown(client, &id)["answeredBy"], "ann");
        assert!(!lists("ann"));
        // The principal that answers for another one is recorded.
        body["requesterMayNotApprove"] = json!(false);
        let id = hold(client, &body);
        let made = json!({"for": "ann"});
        let link = client.post(&format!("/v1/runs/{id}/interrupts/hold/tokens"), &made).body;
        let path = format!("/v1/interrupts/{}", link["token"].as_str().unwrap());
        assert_eq!(client.with_key(None).post(&path, &json!({"resumeValue": answer})).status, 200);
        let asked = client.get(&format!("/v1/runs/{id}/interrupts")).body["interrupts"][0].clone();
        let decision = &asked["decision"];
        assert_eq!(
            (&decision["by"], &decision["value"]["actedBy"]),
            (&json!("ann"), &json!("bootstrap")),
            "{asked}"
        );
    }
}

#[test]
fn other_runs_are_not_holds_and_the_hold_workflow_name_is_reserved() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    for id in [run.as_str(), "unknown", "%00"] {
        client.get(&format!("/v1/holds/{id}")).assert_envelope(404, "not_found");
        assert_eq!(client.send("DELETE", &format!("/v1/holds/{id}"), None).status, 404, "{id}");
    }
    assert_eq!(client.status(&run), "waiting-approval");
    assert_eq!(client.put("/v1/workflows/holdpoint-hold", &gated("holdpoint-hold")).status, 400);
    for body in [
        json!({}),
        json!({"title": ""}),
        json!({"title": "a", "choices": ["b"], "schema": {}}),
        json!({"title": "a", "schema": {"type": "nonsense"}}),
        json!({"title": "a", "odd": 1}),
    ] {
        assert_eq!(client.post("/v1/holds", &body).status, 400, "{body}");
    }
    client.get(&format!("/v1/holds/{run}?wait=61")).assert_envelope(400, "validation_error");
}
