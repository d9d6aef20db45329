//! Durable webhooks over HTTP: retries, dead letters, replays, restarts, order.

use serde_json::{Value, json};

use crate::harness::{Client, accept, gated};
use crate::receiver::{Hook, Receiver, Reply, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_durable_delivery_is_retried_with_the_same_ids_until_it_succeeds,
    a_delivery_without_attempts_left_is_a_dead_letter_that_can_be_replayed,
    a_410_response_ends_the_webhook,
    durable_deliveries_survive_kill_9_and_wait_while_the_webhook_is_paused,
    events_of_a_run_are_delivered_in_order,
    a_hanging_receiver_does_not_delay_other_webhooks,
);

fn durable(client: &Client, url: &str, policy: Value) -> Hook {
    client.put("/v1/workflows/gated", &gated("gated"));
    Hook::create(client, url, json!({"events": ["run.started"], "durable": true, "retryPolicy": policy}))
}

fn quick(attempts: u32) -> Value {
    json!({"maxAttempts": attempts, "backoff": "none"})
}

fn delivery(hook: &Hook, client: &Client, state: &str) -> Value {
    let found = hook.wait_until(client, "/deliveries", |page| page["deliveries"][0]["state"] == state);
    found["deliveries"][0].clone()
}

fn a_durable_delivery_is_retried_with_the_same_ids_until_it_succeeds(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(500), Reply::With(302, "location: /x")]);
    let hook = durable(client, &receiver.url, quick(5));
    assert_eq!((&hook.shown["mode"], &hook.shown["durable"]), (&json!("durable"), &json!(true)));
    let run = client.start_run("gated");
    let all = receiver.wait_for(3);
    for one in &all {
        assert!(one.is_signed_with(&hook.secret));
        assert_eq!(one.body, all[0].body, "each attempt has the same body");
        for name in ["delivery-id", "dedup-key"] {
            let value = one.header(&format!("x-openwop-{name}"));
            assert_eq!(value, one.header(&format!("openwop-{name}")));
            assert_eq!(value, all[0].header(&format!("x-openwop-{name}")));
        }
    }
    let delivered = delivery(&hook, client, "delivered");
    assert_eq!((&delivered["runId"], &delivered["eventType"]), (&json!(run), &json!("run.started")));
    assert_eq!(delivered["deliveryId"], all[0].header("x-openwop-delivery-id"));
    assert_eq!(delivered["dedupKey"], all[0].header("x-openwop-dedup-key"));
    let one =
        client.get(&format!("{}/deliveries/{}", hook.path(), delivered["deliveryId"].as_str().unwrap())).body;
    let attempts: Vec<(u64, u64, &str)> = one["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["attempt"].as_u64().unwrap(),
                one["status"].as_u64().unwrap(),
                one["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(attempts, [(3, 200, "delivered"), (2, 302, "retrying"), (1, 500, "retrying")]);
    client.get(&format!("{}/deliveries/dl_0", hook.path())).assert_envelope(404, "not_found");
}

fn a_delivery_without_attempts_left_is_a_dead_letter_that_can_be_replayed(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(503); 2]);
    let hook = durable(client, &receiver.url, quick(2));
    let before = jiff::Timestamp::now();
    let run = client.start_run("gated");
    let dead = delivery(&hook, client, "dead-lettered");
    assert_eq!(dead["reason"], "retries_exhausted");
    let letters = client.get(&format!("{}/dead-letters", hook.path())).body;
    let letter = &letters["deliveries"][0];
    assert_eq!((&letter["subscriptionId"], &letter["runId"]), (&json!(hook.id), &json!(run)));
    assert_eq!((&letter["attempt"], &letter["reason"]), (&json!(2), &json!("retries_exhausted")));
    let at = |name: &str| letter[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let retention_seconds = at("expiresAt").as_second() - at("deadLetteredAt").as_second();
    assert_eq!(retention_seconds, 30 * 24 * 3600);
    let log = client.get(&format!("{}/events?type=trigger.delivery.attempted", hook.path())).body;
    assert_eq!(log["events"][0]["eventId"], letter["attemptEventId"]);
    assert_eq!(log["events"][0]["payload"]["outcome"], "dead-lettered");
    for shown in [&letters, &log] {
        assert!(!shown.to_string().contains(&receiver.url), "no address: {shown}");
    }
    assert_eq!(hook.fetch(client)["state"], "active", "one dead letter does not end the webhook");
    let id = dead["deliveryId"].as_str().unwrap();
    let replayed = client.send("POST", &format!("{}/deliveries/{id}:replay", hook.path()), None);
    assert_eq!((replayed.status, &replayed.body["deliveryId"]), (202, &json!(id)));
    let all = receiver.wait_for(3);
    assert_eq!(all[2].header("x-openwop-dedup-key"), all[0].header("x-openwop-dedup-key"));
    delivery(&hook, client, "delivered");
    assert_eq!(client.get(&format!("{}/dead-letters", hook.path())).body["deliveries"], json!([]));
    let window = json!({"from": before.to_string(), "to": "2100-01-01T00:00:00Z"});
    let path = format!("{}:replay", hook.path());
    let replayed = client.post(&path, &window);
    assert_eq!((replayed.status, &replayed.body["replayed"]), (202, &json!(1)));
    receiver.wait_for(4);
    delivery(&hook, client, "delivered");
    let mut none = window.clone();
    none["events"] = json!(["run.failed"]);
    assert_eq!(client.post(&path, &none).body["replayed"], 0);
    none["events"] = json!(["unknown"]);
    client.post(&path, &none).assert_envelope(400, "validation_error");
    client.post(&path, &json!({"from": before.to_string()})).assert_envelope(400, "validation_error");
    let reversed = json!({"from": "2100-01-01T00:00:00Z", "to": before.to_string()});
    client.post(&path, &reversed).assert_envelope(400, "validation_error");
}

#[test]
fn dead_letters_are_kept_for_the_configured_time() {
    let database = TestDatabase::sqlite();
    let server = server_at(&database, &["--webhook-dead-letter-retention", "90d"]);
    let client = &server.client;
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(503)]);
    let hook = durable(client, &receiver.url, quick(1));
    client.start_run("gated");
    delivery(&hook, client, "dead-lettered");
    let letter = &client.get(&format!("{}/dead-letters", hook.path())).body["deliveries"][0];
    let at = |name: &str| letter[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(at("expiresAt").as_second() - at("deadLetteredAt").as_second(), 90 * 24 * 3600);
    assert_eq!(client.get("/.well-known/openwop").body["deadLetter"]["retentionDays"], 90);
}

fn a_410_response_ends_the_webhook(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(410)]);
    let hook = durable(client, &receiver.url, quick(5));
    client.start_run("gated");
    hook.wait_until(client, "", |hook| hook["state"] == "dead-lettered");
    let log = client.get(&format!("{}/events", hook.path())).body;
    assert_eq!(log["events"][0]["payload"]["reason"], "source-removed");
    let refused = client.send("POST", &format!("{}:resume", hook.path()), None);
    refused.assert_envelope(409, "wrong_subscription_state");
    assert_eq!(refused.body["details"]["state"], "dead-lettered");
    let refused = client.send("POST", &format!("{}:pause", hook.path()), None);
    refused.assert_envelope(409, "wrong_subscription_state");
    client.start_run("gated");
    let letters =
        hook.wait_until(client, "/dead-letters", |page| page["deliveries"].as_array().unwrap().len() == 2);
    assert_eq!(letters["deliveries"][0]["reason"], "subscription_ended");
    assert_eq!(letters["deliveries"][0].get("attemptEventId"), None);
    assert_eq!(receiver.requests().len(), 1);
}

fn durable_deliveries_survive_kill_9_and_wait_while_the_webhook_is_paused(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let receiver = Receiver::start();
    let hook = durable(&server.client, &receiver.url, quick(5));
    let paused = server.client.send("POST", &format!("{}:pause", hook.path()), None);
    assert_eq!(paused.status, 200);
    let runs: Vec<String> = (0..3).map(|_| server.client.start_run("gated")).collect();
    let mut killed = server;
    killed.kill();
    let server = server_at(database, &[]);
    let client = &server.client;
    let waiting = client.get(&format!("{}/deliveries?state=queued", hook.path())).body;
    assert_eq!(waiting["deliveries"].as_array().unwrap().len(), 3);
    assert!(waiting["deliveries"][0]["nextAttemptAt"].is_string());
    assert_eq!(receiver.requests().len(), 0);
    let resumed = client.send("POST", &format!("{}:resume", hook.path()), None);
    assert_eq!(resumed.status, 200);
    let mut delivered: Vec<String> =
        receiver.wait_for(3).iter().map(|one| one.json()["runId"].as_str().unwrap().to_owned()).collect();
    delivered.sort();
    assert_eq!(delivered, runs, "the secret is readable after a restart, and no delivery is lost");
    assert!(receiver.requests().iter().all(|one| one.is_signed_with(&hook.secret)));
}

fn events_of_a_run_are_delivered_in_order(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(500); 3]);
    let names =
        ["run.started", "node.completed", "interrupt.requested", "interrupt.resolved", "run.completed"];
    let more = json!({"events": names, "durable": true, "retryPolicy": quick(9)});
    Hook::create(client, &receiver.url, more);
    let run = client.start_run("gated");
    client.answer(&run, "gate", &accept());
    let is_last = |one: &crate::receiver::ReceivedRequest| one.event_type() == "run.completed";
    let all = receiver.wait("the end of the run", |all| all.iter().any(is_last));
    let order: Vec<u64> = all.iter().map(|one| one.json()["event"]["sequence"].as_u64().unwrap()).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(order, sorted);
    assert_eq!(
        order.iter().filter(|seq| **seq == order[0]).count(),
        4,
        "the first event has three failures and a success"
    );
}

fn a_hanging_receiver_does_not_delay_other_webhooks(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let (dead, alive) = (Receiver::start(), Receiver::start());
    dead.queue_replies(&[Reply::Hang; 64]);
    durable(client, &dead.url, quick(2));
    durable(client, &alive.url, quick(2));
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        client.start_run("gated");
    }
    alive.wait_for(20);
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(4),
        "before the first attempt to the hanging receiver times out"
    );
}
