//! Rows of the routes of webhooks, sessions and the inbox.

use serde_json::json;

use super::{Row, row};
use crate::examples::trigger_body;
use crate::harness::KEY;

const MANAGE: &str = "webhooks:manage";
const SUBSCRIBE: &str = "webhooks:manage and runs:read";

pub(super) fn of_webhooks() -> Vec<Row> {
    vec![
        Row {
            body: Some(json!({"url": "https://8.8.8.8/", "events": ["cap.breached"]})),
            ..row("createWebhook", SUBSCRIBE, 201, 201)
        },
        row("listWebhooks", MANAGE, 200, 200),
        row("getWebhook", MANAGE, 200, 404),
        row("deleteWebhook", MANAGE, 204, 404),
        row("pauseWebhook", MANAGE, 200, 404),
        // The webhook is active already, so no request is sent.
        row("resumeWebhook", SUBSCRIBE, 200, 404),
        row("rotateWebhook", MANAGE, 200, 404),
        row("listWebhookEvents", MANAGE, 200, 404),
        row("listDeliveries", MANAGE, 200, 404),
        row("listDeadLetters", MANAGE, 200, 404),
        row("getDelivery", MANAGE, 200, 404),
        row("replayDelivery", MANAGE, 202, 404),
        Row {
            body: Some(json!({"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"})),
            ..row("replayDeliveries", MANAGE, 202, 404)
        },
    ]
}

/// Rows of triggers. The schedule does not fire during the test.
pub(super) fn of_triggers() -> Vec<Row> {
    const MANAGE: &str = "triggers:manage";
    const OWN: &str = "triggers:manage and runs:create";
    vec![
        // The tenant of the foreign caller has no such workflow.
        Row { body: Some(trigger_body()), ..row("createTrigger", OWN, 201, 400) },
        row("listTriggers", MANAGE, 200, 200),
        Row { query: "?cron=@daily", ..row("previewTrigger", MANAGE, 200, 200) },
        row("getTrigger", MANAGE, 200, 404),
        row("deleteTrigger", MANAGE, 204, 404),
        row("pauseTrigger", MANAGE, 200, 404),
        row("resumeTrigger", OWN, 200, 404),
        row("listTriggerDeliveries", MANAGE, 200, 404),
        row("listTriggerEvents", MANAGE, 200, 404),
        // The delivery of the path is that of a webhook.
        row("requeueTriggerDelivery", MANAGE, 404, 404),
    ]
}

/// Rows of sessions, holds and the stream of counts. Any key may sign in; no key ends a session of another key.
pub(super) fn of_inbox() -> Vec<Row> {
    vec![
        Row { body: Some(json!({"key": KEY})), ..row("createSession", "", 201, 201) },
        row("getSession", "", 200, 200),
        row("endSession", "", 204, 204),
        row("createSessionLink", "", 201, 201),
        row("listSessions", "", 200, 200),
        row("revokeSession", "", 404, 404),
        Row { body: Some(json!({"title": "Go on?"})), ..row("createHold", "runs:create", 201, 201) },
        row("getHold", "runs:read", 200, 404),
        row("cancelHold", "runs:cancel", 200, 404),
        Row { query: "?seconds=1", ..row("streamPending", "approvals:respond or runs:read", 200, 200) },
    ]
}
