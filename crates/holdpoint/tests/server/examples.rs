//! Objects for the tests that call every route.

use serde_json::{Value, json};

use crate::harness::Client;

/// The body of a trigger that does not fire during a test.
pub(crate) fn trigger_body() -> Value {
    json!({"source": "schedule", "workflowId": "gated", "schedule": {"cron": "0 0 29 2 *"}})
}

/// Creates a trigger and returns its id.
pub(crate) fn create_trigger(client: &Client) -> String {
    let created = client.post("/v1/trigger-subscriptions", &trigger_body()).body;
    let id = created["subscriptionId"].as_str().unwrap_or_else(|| panic!("no trigger: {created}"));
    id.to_owned()
}

/// Creates a webhook and, if `waits`, a delivery that stays queued because the webhook is paused. No request is sent.
pub(crate) fn create_webhook(client: &Client, waits: bool) -> (String, String) {
    let event = if waits { "run.started" } else { "cap.breached" };
    let body = json!({"url": "https://8.8.8.8/", "events": [event], "durable": true});
    let webhook = client.post("/v1/webhooks", &body).body["webhookId"].as_str().unwrap().to_owned();
    if !waits {
        return (webhook, String::new());
    }
    client.send("POST", &format!("/v1/webhooks/{webhook}:pause"), None);
    client.start_run("gated");
    let found = client.get(&format!("/v1/webhooks/{webhook}/deliveries")).body;
    (webhook, found["deliveries"][0]["deliveryId"].as_str().unwrap().to_owned())
}
