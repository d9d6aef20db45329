//! What subscribers get: which events, which headers, which bytes; and that nobody else gets them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Client, accept, gated, keyed};
use crate::place::{Place, on_both};
use crate::receiver::{Delivered, Hook, Receiver, Reply, server_at};

on_both!(
    a_delivery_is_the_event_as_the_log_shows_it_signed_under_both_names,
    filters_by_tags_and_tenant_hold_however_broad_the_rest_is,
    nothing_is_sent_after_a_deletion_and_what_is_under_way_ends,
    a_redirect_and_every_other_answer_but_2xx_is_a_failure_that_is_not_repeated,
    four_failures_open_the_circuit_and_what_is_skipped_is_counted,
    when_the_cooldown_is_over_the_next_event_is_a_probe,
);

fn prepared(client: &Client) {
    client.put("/v1/workflows/gated", &gated("gated"));
}

/// Starts a run and carries it to its end.
fn completed(client: &Client, more: Value) -> String {
    let mut body = json!({"workflowId": "gated"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let run = client.post("/v1/runs", &body).body["runId"].as_str().unwrap().to_owned();
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
    run
}

fn a_delivery_is_the_event_as_the_log_shows_it_signed_under_both_names(place: &Place) {
    let server = server_at(place, &[]);
    let client = &server.client;
    prepared(client);
    let receiver = Receiver::start();
    let names = ["run.started", "interrupt.requested", "approval.received", "run.completed"];
    let url = format!("{}/hooks/in?a=b", receiver.url);
    let hook = Hook::add(client, &url, json!({"events": names}));
    let run = completed(client, json!({"inputs": {"title": "\u{e9}\u{1f600}"}}));
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
            assert!(!one.headers.contains_key(durable), "best effort has none");
        }
        let text = std::str::from_utf8(&one.body).unwrap();
        let start = format!("{{\"runId\":\"{run}\",\"workspaceId\":\"default\",\"event\":");
        let event = text.strip_prefix(&start).and_then(|rest| rest.strip_suffix('}'));
        let event = event.unwrap_or_else(|| panic!("{text}"));
        assert!(listed.body().contains(event), "{event} is not in {}", listed.body());
        assert_eq!(one.json()["event"]["type"], one.event_type());
    }
    let told: BTreeSet<&str> = delivered.iter().map(Delivered::event_type).collect();
    assert_eq!(told, names.into_iter().collect());
    assert_eq!(receiver.so_far().len(), names.len(), "one attempt for each, and nothing else");
    let log = hook.until(client, "/deliveries", |page| page["deliveries"].as_array().unwrap().len() == 4);
    for one in log["deliveries"].as_array().unwrap() {
        assert_eq!(
            (&one["state"], &one["attempts"][0]["status"]),
            (&json!("delivered"), &json!(200)),
            "{one}"
        );
        assert!(one["attempts"][0]["latencyMs"].is_u64());
    }
}

fn filters_by_tags_and_tenant_hold_however_broad_the_rest_is(place: &Place) {
    let server = server_at(place, &[]);
    let client = &server.client;
    let elsewhere = &keyed(client, &json!({"tenant": "elsewhere"}));
    let receiver = Receiver::start();
    let all = Hook::add(client, &receiver.url, json!({}));
    let tagged = Hook::add(client, &receiver.url, json!({"tags": ["production", "eu"]}));
    let theirs = Hook::add(elsewhere, &receiver.url, json!({}));
    [client, elsewhere].iter().for_each(|client| prepared(client));
    let foreign = completed(elsewhere, json!({"tags": ["production"]}));
    let plain = completed(client, json!({"tags": ["staging"]}));
    let wanted = completed(client, json!({"tags": ["eu", "x"]}));
    let delivered = receiver.wait_for(4);
    let told = |hook: &Hook| -> BTreeSet<String> {
        let own = delivered.iter().filter(|one| one.header("x-openwop-webhook-id") == hook.id);
        own.map(|one| one.json()["runId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(told(&all), [plain, wanted.clone()].into());
    assert_eq!(told(&tagged), [wanted].into());
    assert_eq!(told(&theirs), [foreign].into());
    let workspaces: BTreeSet<String> = delivered
        .iter()
        .filter(|one| one.header("x-openwop-webhook-id") == theirs.id)
        .map(|one| one.json()["workspaceId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(workspaces, ["elsewhere".to_owned()].into());
}

fn nothing_is_sent_after_a_deletion_and_what_is_under_way_ends(place: &Place) {
    let server = server_at(place, &[]);
    let client = &server.client;
    prepared(client);
    for durable in [false, true] {
        let receiver = Receiver::start();
        receiver.answers(&[Reply::Hang]);
        let more = json!({"events": ["run.started"], "durable": durable});
        let hook = Hook::add(client, &receiver.url, more);
        client.start_run("gated");
        receiver.wait_for(1);
        let gone = client.send("DELETE", &hook.path(), None);
        assert_eq!((gone.status, &gone.body), (204, &json!("")));
        receiver.wait_hung_up(1);
        client.get(&hook.path()).assert_envelope(404, "subscription_not_found");
        client.get(&format!("{}/deliveries", hook.path())).assert_envelope(404, "subscription_not_found");
        let other = Hook::add(client, &receiver.url, json!({"events": ["run.started"], "durable": durable}));
        client.start_run("gated");
        let all = receiver.wait_for(2);
        assert_eq!(all[1].header("x-openwop-webhook-id"), other.id);
        assert_eq!(client.send("DELETE", &other.path(), None).status, 204);
        assert_eq!(receiver.so_far().len(), 2);
    }
}

fn a_redirect_and_every_other_answer_but_2xx_is_a_failure_that_is_not_repeated(place: &Place) {
    let server = server_at(place, &["--webhook-cooldown", "1h"]);
    let client = &server.client;
    prepared(client);
    let (receiver, trap) = (Receiver::start(), Receiver::start());
    let to: &'static str = Box::leak(format!("location: {}/", trap.url).into_boxed_str());
    receiver.answers(&[
        Reply::With(302, to),
        Reply::Status(500),
        Reply::Status(404),
        Reply::Status(204),
        Reply::With(307, to),
    ]);
    let hook = Hook::add(client, &receiver.url, json!({"events": ["run.started"]}));
    for count in 1..=5 {
        client.start_run("gated");
        receiver.wait_for(count);
        hook.until(client, "/deliveries", |page| page["deliveries"].as_array().unwrap().len() == count);
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
    assert_eq!((receiver.so_far().len(), trap.so_far().len()), (5, 0), "nothing is followed or repeated");
    assert_eq!(log["deliveries"][0]["attempts"][0]["error"], "answered 307");
}

fn four_failures_open_the_circuit_and_what_is_skipped_is_counted(place: &Place) {
    let server = server_at(place, &["--webhook-cooldown", "1h"]);
    let client = &server.client;
    prepared(client);
    let receiver = Receiver::start();
    receiver.answers(&[Reply::Status(500); 4]);
    let hook = Hook::add(client, &receiver.url, json!({"events": ["run.started"]}));
    for failures in 1..=4 {
        client.start_run("gated");
        hook.until(client, "", |hook| hook["failuresInARow"] == failures);
    }
    let open = hook.now(client);
    assert_eq!((&open["circuit"], &open["state"]), (&json!("open"), &json!("active")));
    assert!(open["circuitOpenUntil"].is_string());
    client.start_run("gated");
    let kind = "/events?type=trigger.delivery.attempted";
    let log = hook.until(client, kind, |log| log["events"][0]["payload"]["outcome"] == "dropped");
    assert_eq!(log["events"][0]["payload"]["times"], 1);
    assert_eq!(log["events"][1]["payload"]["outcome"], "failed");
    assert_eq!(receiver.so_far().len(), 4, "nothing is sent while it is open");
    let changes = client.get(&format!("{}/events", hook.path())).body;
    assert_eq!(changes["events"][0]["payload"]["reason"], "circuit-opened");
}

fn when_the_cooldown_is_over_the_next_event_is_a_probe(place: &Place) {
    let server = server_at(place, &["--webhook-cooldown", "0"]);
    let client = &server.client;
    prepared(client);
    let receiver = Receiver::start();
    receiver.answers(&[Reply::Status(500); 5]);
    let hook = Hook::add(client, &receiver.url, json!({"events": ["run.started"]}));
    for failures in 1..=5 {
        client.start_run("gated");
        hook.until(client, "", |hook| hook["failuresInARow"] == failures);
    }
    assert_eq!(hook.now(client)["circuit"], "open");
    client.start_run("gated");
    let closed = hook.until(client, "", |hook| hook["circuit"] == "closed");
    assert_eq!(closed["failuresInARow"], 0);
    assert_eq!(receiver.so_far().len(), 6);
}
