//! The routes of webhooks.

use super::{create, deliveries, events, list, pause, remove, resume, rotate, show};
use crate::routes::Content::Nothing;
use crate::routes::Json;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [subscriptions(), told()].into_iter().flatten().collect()
}

fn subscriptions() -> Vec<Route> {
    vec![
        Route::post("/v1/webhooks", "createWebhook", create)
            .says("Have events sent to an address as they happen; the secret is shown this once")
            .body_named("CreateWebhook")
            .answers(201, Json("WebhookCreated"))
            .never_fails(&[404])
            .private(),
        Route::get("/v1/webhooks", "listWebhooks", list)
            .says("The webhooks of this tenant, oldest first, without their secrets")
            .takes(&["limit", "cursor"])
            .answers(200, Json("Webhooks")),
        Route::get("/v1/webhooks/{webhookId}", "getWebhook", show)
            .says("One webhook, without its secret")
            .answers(200, Json("Webhook")),
        Route::delete("/v1/webhooks/{webhookId}", "deleteWebhook", remove)
            .says("End a webhook: after the answer nothing is sent to it")
            .takes(&["tenantId"])
            .answers(204, Nothing),
        Route::post("/v1/webhooks/{webhookId}:pause", "pauseWebhook", pause)
            .says("Send nothing for a while; what is durable waits")
            .optional_body_named("Nothing")
            .answers(200, Json("Webhook")),
        Route::post("/v1/webhooks/{webhookId}:resume", "resumeWebhook", resume)
            .says("Resume a paused or failed webhook; the caller becomes its owner")
            .optional_body_named("Nothing")
            .answers(200, Json("Webhook")),
        Route::post("/v1/webhooks/{webhookId}:rotate", "rotateWebhook", rotate)
            .says("Make a new secret, shown this once; deliveries are signed with both for an overlap")
            .optional_body_named("RotateWebhook")
            .answers(200, Json("WebhookCreated"))
            .private(),
        Route::get("/v1/webhooks/{webhookId}/events", "listWebhookEvents", events)
            .says(
                "What became of a webhook: changes of its state, oldest first, or its attempts, newest first",
            )
            .takes(&["limit", "cursor", "webhookEventType"])
            .answers(200, Json("WebhookEvents")),
    ]
}

fn told() -> Vec<Route> {
    vec![
        Route::get("/v1/webhooks/{webhookId}/deliveries", "listDeliveries", deliveries::list)
            .says("What a webhook was told, newest first, with the last attempts of each")
            .takes(&["limit", "cursor", "deliveryState"])
            .answers(200, Json("Deliveries")),
        Route::get("/v1/webhooks/{webhookId}/dead-letters", "listDeadLetters", deliveries::dead_letters)
            .says("What was given up, newest first, until it is removed")
            .takes(&["limit", "cursor"])
            .answers(200, Json("DeadLetters")),
        Route::get("/v1/webhooks/{webhookId}/deliveries/{deliveryId}", "getDelivery", deliveries::show)
            .says("One delivery with its attempts, newest first")
            .answers(200, Json("Delivery")),
        Route::post(
            "/v1/webhooks/{webhookId}/deliveries/{deliveryId}:replay",
            "replayDelivery",
            deliveries::replay,
        )
        .says("Send something once more, under the same ids")
        .optional_body_named("Nothing")
        .answers(202, Json("DeliveryQueued")),
        Route::post("/v1/webhooks/{webhookId}:replay", "replayDeliveries", deliveries::replay_window)
            .says("Send everything once more whose event happened in a window of time")
            .body_named("ReplayWindow")
            .answers(202, Json("Replayed")),
    ]
}
