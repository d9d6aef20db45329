//! Deliveries of best-effort webhooks: events, headers, bodies, filters, failures and the circuit breaker.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Client, accept, client_with_key, gated};
use crate::receiver::{Hook, ReceivedRequest, Receiver, Reply, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_delivery_contains_the_logged_event_and_is_signed_in_both_headers,
    webhooks_filter_by_tags_and_tenant,
    a_deleted_webhook_sends_no_request_and_ends_the_one_in_flight,
    redirects_and_other_responses_than_2xx_fail_and_are_not_repeated,
    four_failures_open_the_circuit_and_skipped_events_are_counted,
    the_first_event_after_the_cooldown_is_a_probe,
);

fn register_workflow(client: &Client) {
    client.put("/v1/workflows/gated", &gated("gated"));
}

/// Starts a run and completes it.
fn complete_run(client: &Client, more: Value) -> String {
    let mut body = json!({"workflowId": "gated"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let run = client.post("/v1/runs", &body).body["runId"].as_str().unwrap().to_owned();
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
    run
}

fn a_delivery_contains_the_logged_event_and_is_signed_in_both_headers(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    register_workflow(client);
    let receiver = Receiver::start();
    let names = ["run.started", "interrupt.requested", "approval.received", "run.completed"];
    let url = format!("{}/hooks/in?a=b", receiver.url);
    let hook = Hook::create(client, &url, json!({"events": names}));
    let run = complete_run(client, json!({"inputs": {"title": "\u{e9}\u{1f600}"}}));
    let delivered = receiver.wait_for(names.len());
    let listed =
        client.exchange("GET", &format!("/v1/runs/{run}/events"), None, &[("accept", "application/json")]);
    let now = jiff::Timestamp::now().as_second();
    for one in &delivered {
        assert_eq!((one.path.as_str(), one.header("content-type")), ("/hooks/in?a=b", "application/json"));
        let agent = format!("openwop-webhook-dispatcher/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(one.header("user-agent"), agent);
        assert_eq!(one.header("x-openwop-webhook-id"), hook.id);
        assert_eq!(one.header("x-openwop-signature-algorithm"), "v1");
        let at: i64 = one.header("x-openwop-timestamp").parse().unwrap();
        assert!((now - 60..=now + 1).contains(&at), "{at}");
        assert!(one.is_signed_with(&hook.secret) && !one.is_signed_with("another"));
        for name in ["webhook-id", "event-type", "timestamp", "signature", "signature-algorithm"] {
            assert_eq!(one.header(&format!("openwop-{name}")), one.header(&format!("x-openwop-{name}")));
        }
        for durable in ["x-openwop-delivery-id", "x-openwop-dedup-key"] {
            assert!(!one.headers.contains_key(durable), "a best-effort delivery has no such header");
        }
        let text = std::str::from_utf8(&one.body).unwrap();
        let start = format!("{{\"runId\":\"{run}\",\"workspaceId\":\"default\",\"event\":");
        let event = text.strip_prefix(&start).and_then(|rest| rest.strip_suffix('}'));
        let event = event.unwrap_or_else(|| panic!("{text}"));
        assert!(listed.body().contains(event), "{event} is not in {}", listed.body());
        assert_eq!(one.json()["event"]["type"], one.event_type());
    }
    let types: BTreeSet<&str> = delivered.iter().map(ReceivedRequest::event_type).collect();
    assert_eq!(types, names.into_iter().collect());
    assert_eq!(receiver.requests().len(), names.len(), "one request for each event");
    let log =
        hook.wait_until(client, "/deliveries", |page| page["deliveries"].as_array().unwrap().len() == 4);
    for one in log["deliveries"].as_array().unwrap() {
        assert_eq!(
            (&one["state"], &one["attempts"][0]["status"]),
            (&json!("delivered"), &json!(200)),
            "{one}"
        );
        assert!(one["attempts"][0]["latencyMs"].is_u64());
    }
}

fn webhooks_filter_by_tags_and_tenant(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let other_tenant = &client_with_key(client, &json!({"tenant": "elsewhere"}));
    let receiver = Receiver::start();
    let all = Hook::create(client, &receiver.url, json!({}));
    let tagged = Hook::create(client, &receiver.url, json!({"tags": ["production", "eu"]}));
    let theirs = Hook::create(other_tenant, &receiver.url, json!({}));
    [client, other_tenant].iter().for_each(|client| register_workflow(client));
    let foreign = complete_run(other_tenant, json!({"tags": ["production"]}));
    let plain = complete_run(client, json!({"tags": ["staging"]}));
    let wanted = complete_run(client, json!({"tags": ["eu", "x"]}));
    let delivered = receiver.wait_for(4);
    let runs_of = |hook: &Hook| -> BTreeSet<String> {
        let own = delivered.iter().filter(|one| one.header("x-openwop-webhook-id") == hook.id);
        own.map(|one| one.json()["runId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(runs_of(&all), [plain, wanted.clone()].into());
    assert_eq!(runs_of(&tagged), [wanted].into());
    assert_eq!(runs_of(&theirs), [foreign].into());
    let workspaces: BTreeSet<String> = delivered
        .iter()
        .filter(|one| one.header("x-openwop-webhook-id") == theirs.id)
        .map(|one| one.json()["workspaceId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(workspaces, ["elsewhere".to_owned()].into());
}

fn a_deleted_webhook_sends_no_request_and_ends_the_one_in_flight(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    register_workflow(client);
    for durable in [false, true] {
        let receiver = Receiver::start();
        receiver.queue_replies(&[Reply::Hang]);
        let more = json!({"events": ["run.started"], "durable": durable});
        let hook = Hook::create(client, &receiver.url, more);
        client.start_run("gated");
        receiver.wait_for(1);
        let deleted = client.send("DELETE", &hook.path(), None);
        assert_eq!((deleted.status, &deleted.body), (204, &json!("")));
        receiver.wait_for_hang_ups(1);
        client.get(&hook.path()).assert_envelope(404, "subscription_not_found");
        client.get(&format!("{}/deliveries", hook.path())).assert_envelope(404, "subscription_not_found");
        let other =
            Hook::create(client, &receiver.url, json!({"events": ["run.started"], "durable": durable}));
        client.start_run("gated");
        let all = receiver.wait_for(2);
        assert_eq!(all[1].header("x-openwop-webhook-id"), other.id);
        assert_eq!(client.send("DELETE", &other.path(), None).status, 204);
        assert_eq!(receiver.requests().len(), 2);
    }
}

fn redirects_and_other_responses_than_2xx_fail_and_are_not_repeated(database: &TestDatabase) {
    let server = server_at(database, &["--webhook-cooldown", "1h"]);
    let client = &server.client;
    register_workflow(client);
    let (receiver, trap) = (Receiver::start(), Receiver::start());
    let to: &'static str = Box::leak(format!("location: {}/", trap.url).into_boxed_str());
    receiver.queue_replies(&[
        Reply::With(302, to),
        Reply::Status(500),
        Reply::Status(404),
        Reply::Status(204),
        Reply::With(307, to),
    ]);
    let hook = Hook::create(client, &receiver.url, json!({"events": ["run.started"]}));
    for count in 1..=5 {
        client.start_run("gated");
        receiver.wait_for(count);
        hook.wait_until(client, "/deliveries", |page| page["deliveries"].as_array().unwrap().len() == count);
    }
    let log = client.get(&format!("{}/deliveries", hook.path())).body;
    let seen: Vec<(&str, u64)> = log["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["state"].as_str().unwrap(), one["attempts"][0]["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [("dropped", 307), ("delivered", 204), ("dropped", 404), ("dropped", 500), ("dropped", 302)]
    );
    assert_eq!(
        (receiver.requests().len(), trap.requests().len()),
        (5, 0),
        "no redirect is followed and no request repeated"
    );
    assert_eq!(log["deliveries"][0]["attempts"][0]["error"], "answered 307");
}

fn four_failures_open_the_circuit_and_skipped_events_are_counted(database: &TestDatabase) {
    let server = server_at(database, &["--webhook-cooldown", "1h"]);
    let client = &server.client;
    register_workflow(client);
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(500); 4]);
    let hook = Hook::create(client, &receiver.url, json!({"events": ["run.started"]}));
    for failures in 1..=4 {
        client.start_run("gated");
        hook.wait_until(client, "", |hook| hook["failuresInARow"] == failures);
    }
    let open = hook.fetch(client);
    assert_eq!((&open["circuit"], &open["state"]), (&json!("open"), &json!("active")));
    assert!(open["circuitOpenUntil"].is_string());
    client.start_run("gated");
    let kind = "/events?type=trigger.delivery.attempted";
    let log = hook.wait_until(client, kind, |log| log["events"][0]["payload"]["outcome"] == "dropped");
    assert_eq!(log["events"][0]["payload"]["times"], 1);
    assert_eq!(log["events"][1]["payload"]["outcome"], "failed");
    assert_eq!(receiver.requests().len(), 4, "no request is sent while the circuit is open");
    let changes = client.get(&format!("{}/events", hook.path())).body;
    assert_eq!(changes["events"][0]["payload"]["reason"], "circuit-opened");
}

fn the_first_event_after_the_cooldown_is_a_probe(database: &TestDatabase) {
    let server = server_at(database, &["--webhook-cooldown", "0"]);
    let client = &server.client;
    register_workflow(client);
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(500); 5]);
    let hook = Hook::create(client, &receiver.url, json!({"events": ["run.started"]}));
    for failures in 1..=5 {
        client.start_run("gated");
        hook.wait_until(client, "", |hook| hook["failuresInARow"] == failures);
    }
    assert_eq!(hook.fetch(client)["circuit"], "open");
    client.start_run("gated");
    let closed = hook.wait_until(client, "", |hook| hook["circuit"] == "closed");
    assert_eq!(closed["failuresInARow"], 0);
    assert_eq!(receiver.requests().len(), 6);
}
