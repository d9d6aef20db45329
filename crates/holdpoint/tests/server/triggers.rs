//! Triggers over HTTP and on the command line: the program starts runs at times and for events.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, client_with_key, gated, linear};
use crate::tool_server::wait_until;

const PATH: &str = "/v1/trigger-subscriptions";

fn on_event(workflow: &str) -> Value {
    json!({
        "source": "event", "workflowId": workflow,
        "event": {"eventType": "paid", "correlation": {"shop": "north"}, "payload": {"/state": "done"}},
        "inputMapping": {"order": {"$from": "/payload/order"}, "note": {"$from": "/payload/note", "default": "none"}},
        "tags": ["paid"], "retryPolicy": {"maxAttempts": 3},
    })
}

fn paid(id: &str) -> Value {
    let payload = json!({"state": "done", "order": "o-7"});
    json!({"eventType": "paid", "eventId": id, "correlation": {"shop": "north"}, "payload": payload})
}

fn key(admin: &Client, principal: &str, scopes: &[&str]) -> Client {
    client_with_key(admin, &json!({"principal": principal, "scopes": scopes}))
}

fn wait_for_run(client: &Client, run: &str) {
    wait_until("the run starts", || (client.get(&format!("/v1/runs/{run}")).status == 200).then_some(()));
}

#[test]
fn an_event_starts_a_run_with_the_delivery_as_its_cause() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/refund", &linear("refund", &[("step", "core.noop", json!({}))]));
    let created = admin.post(PATH, &on_event("refund"));
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.body["subscriptionId"].as_str().unwrap();
    assert_eq!((&created.body["state"], &created.body["source"]), (&json!("active"), &json!("event")));
    let sent = admin.post("/v1/events", &paid("e1"));
    let triggered = &sent.body["triggered"][0];
    assert_eq!(triggered["subscriptionId"], id, "{sent:?}");
    let run = triggered["runId"].as_str().unwrap();
    wait_for_run(admin, run);
    let log = admin.wait_for_end(run);
    assert_eq!(log[0]["causationId"], triggered["deliveryId"]);
    assert!(log[1..].iter().all(|event| event.get("causationId").is_none()), "{log:?}");
    let snapshot = admin.get(&format!("/v1/runs/{run}")).body;
    assert_eq!(snapshot["inputs"], json!({"order": "o-7", "note": "none"}));
    assert_eq!((&snapshot["origin"], &snapshot["tags"]), (&json!("internal"), &json!(["paid"])));
    let expected = json!({"subscriptionId": id, "deliveryId": triggered["deliveryId"]});
    assert_eq!(snapshot["trigger"], expected);
    assert_eq!(admin.post("/v1/events", &paid("e1")).body["triggered"], sent.body["triggered"]);
    let listed = admin.get(&format!("{PATH}/{id}/deliveries")).body;
    assert_eq!(listed["deliveries"].as_array().unwrap().len(), 1);
    assert_eq!(listed["deliveries"][0]["state"], "delivered");
    let events = admin.get(&format!("{PATH}/{id}/events?type=trigger.delivery.attempted")).body;
    assert_eq!(events["events"][0]["payload"]["outcome"], "delivered");
    assert!(!events.to_string().contains("o-7"), "events have no content: {events}");
    assert_eq!(admin.get(&format!("{PATH}/{id}")).body["lastRunId"], run);
    // Other runs have neither member.
    let other = admin.start_run("refund");
    assert!(admin.events(&other)[0].get("causationId").is_none());
    assert!(admin.get(&format!("/v1/runs/{other}")).body.get("trigger").is_none());
}

#[test]
fn the_creator_of_a_trigger_cannot_approve_its_runs() {
    let server = Server::start();
    let admin = &server.client;
    let mut guarded = gated("guarded");
    guarded["nodes"][1]["config"]["requesterMayNotApprove"] = json!(true);
    admin.put("/v1/workflows/guarded", &guarded);
    let scopes = ["triggers:manage", "runs:create", "runs:read", "approvals:respond", "events:send"];
    let [ann, bob, shop] = ["ann", "bob", "shop"].map(|name| key(admin, name, &scopes));
    let body = json!({"source": "event", "workflowId": "guarded", "event": {"eventType": "paid"}});
    assert_eq!(ann.post(PATH, &body).status, 201);
    let sent = shop.post("/v1/events", &json!({"eventType": "paid", "eventId": "e1"})).body;
    let run = sent["triggered"][0]["runId"].as_str().unwrap();
    wait_for_run(admin, run);
    assert_eq!(admin.status(run), "waiting-approval");
    for requester in [&ann, &shop] {
        let refused = requester.answer(run, "gate", &accept());
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    assert_eq!(bob.answer(run, "gate", &accept()).status, 200);
}

#[test]
fn invalid_triggers_are_refused() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let schedule = |members: Value| {
        let mut body = json!({"source": "schedule", "workflowId": "gated", "schedule": {"cron": "@daily"}});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    for (body, field) in [
        (json!({}), "workflowId"),
        (json!({"workflowId": "gated"}), "source"),
        (schedule(json!({"source": "webhook"})), "source"),
        (schedule(json!({"source": "event"})), "schedule"),
        (schedule(json!({"event": {"eventType": "e"}})), "event"),
        (json!({"source": "event", "workflowId": "gated"}), "event"),
        (schedule(json!({"workflowId": "unknown"})), "workflowId"),
        (schedule(json!({"schedule": {"cron": "* * * * * *"}})), "schedule.cron"),
        (schedule(json!({"schedule": {"cron": "0 0 30 2 *"}})), "schedule.cron"),
        (schedule(json!({"schedule": {"cron": "@daily", "timeZone": "Mars"}})), "schedule.timeZone"),
        (schedule(json!({"schedule": {"cron": "@daily", "missed": "x"}})), "schedule.missed"),
        (schedule(json!({"schedule": {"cron": "@daily", "overlap": "x"}})), "schedule.overlap"),
        (schedule(json!({"schedule": {"cron": "@daily", "missed": "all"}})), "schedule.overlap"),
        (schedule(json!({"inputMapping": {"a": {"$from": "x"}}})), "inputMapping.a"),
        (schedule(json!({"inputMapping": {"a": "x".repeat(20_000)}})), "inputMapping"),
        (schedule(json!({"dispatch": {"delayMs": 1}})), "dispatch"),
        (schedule(json!({"dispatch": {"dedupeKey": "k"}})), "dispatch.dedupeKey"),
        (schedule(json!({"dedupEnabled": false})), "dedupEnabled"),
        (schedule(json!({"retryPolicy": {"maxAttempts": 0}})), "retryPolicy.maxAttempts"),
        (schedule(json!({"tags": ["x".repeat(300)]})), "tags"),
    ] {
        let refused = admin.post(PATH, &body);
        assert_eq!(
            (refused.status, &refused.body["details"]["field"]),
            (400, &json!(field)),
            "{body}: {refused:?}"
        );
    }
    assert_eq!(admin.get(PATH).body, json!({"triggers": []}));
    let reserved = admin.post("/v1/runs", &json!({"workflowId": "gated", "scopeId": "trigger:trg_1"}));
    assert_eq!((reserved.status, &reserved.body["details"]["field"]), (400, &json!("scopeId")));
}

#[test]
fn an_urgent_trigger_needs_the_scope_to_prioritize() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let ann = key(admin, "ann", &["triggers:manage", "runs:create"]);
    let body = json!({
        "source": "schedule", "workflowId": "gated", "schedule": {"cron": "@daily"}, "dispatch": {"priority": 5},
    });
    let refused = ann.post(PATH, &body);
    assert_eq!((refused.status, &refused.body["details"]["scopeRequired"]), (403, &json!("runs:prioritize")));
    let urgent = admin.post(PATH, &body).body;
    let resume = format!("{PATH}/{}:resume", urgent["subscriptionId"].as_str().unwrap());
    let refused = ann.post(&resume, &json!({}));
    assert_eq!((refused.status, &refused.body["details"]["scopeRequired"]), (403, &json!("runs:prioritize")));
}

#[test]
fn triggers_are_managed_on_the_command_line() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = |arguments: &[&str]| {
        let output = server.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let instants = run(&["triggers", "test", "30 2 29 3 *", "--time-zone", "Europe/Berlin", "--count", "2"]);
    assert_eq!(instants.lines().count(), 2, "{instants}");
    let created = run(&["triggers", "create", "gated", "--cron", "@daily", "--time-zone", "Asia/Tokyo"]);
    assert!(created.contains("@daily Asia/Tokyo") && created.contains("active"), "{created}");
    let listed = server.client.get(PATH).body;
    let id = listed["triggers"][0]["subscriptionId"].as_str().unwrap();
    assert!(
        listed["triggers"][0]["nextFireAt"].as_str().is_some_and(|at| at.ends_with("T15:00:00.000Z")),
        "{listed}"
    );
    assert!(run(&["triggers", "list"]).contains(id));
    assert!(run(&["triggers", "pause", id]).contains("paused"));
    assert!(run(&["triggers", "show", id]).contains("operator-paused"));
    assert!(run(&["triggers", "resume", id]).contains("active"));
    assert!(run(&["triggers", "deliveries", id]).contains("no deliveries"));
    assert!(run(&["triggers", "delete", id]).contains("deleted"));
    assert_eq!(server.client.get(PATH).body, json!({"triggers": []}));
}
