//! The routes of webhooks.

use holdpoint_api::webhooks::{
    CreateWebhook, DeadLetters, DeleteWebhook, Deliveries, Delivery, DeliveryQueued, ListDeliveries,
    ListWebhookEvents, ReplayWindow, Replayed, RotateWebhook, Webhook, WebhookCreated, WebhookEvents,
    Webhooks,
};
use holdpoint_api::{Nothing, Page};

use super::{create, deliveries, events, list, pause, remove, resume, rotate, show};
use crate::routes::Content;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [subscriptions(), told()].into_iter().flatten().collect()
}

fn subscriptions() -> Vec<Route> {
    vec![
        Route::post("/v1/webhooks", "createWebhook", create)
            .says("Have events sent to an address as they happen; the secret is shown this once")
            .body::<CreateWebhook>()
            .response::<WebhookCreated>(201)
            .never_fails(&[404])
            .private(),
        Route::get("/v1/webhooks", "listWebhooks", list)
            .says("The webhooks of this tenant, oldest first, without their secrets")
            .query::<Page>()
            .response::<Webhooks>(200),
        Route::get("/v1/webhooks/{webhookId}", "getWebhook", show)
            .says("One webhook, without its secret")
            .response::<Webhook>(200),
        Route::delete("/v1/webhooks/{webhookId}", "deleteWebhook", remove)
            .says("End a webhook: after the answer nothing is sent to it")
            .query::<DeleteWebhook>()
            .answers(204, Content::Nothing),
        Route::post("/v1/webhooks/{webhookId}:pause", "pauseWebhook", pause)
            .says("Send nothing for a while; what is durable waits")
            .optional_body::<Nothing>()
            .response::<Webhook>(200),
        Route::post("/v1/webhooks/{webhookId}:resume", "resumeWebhook", resume)
            .says("Resume a paused or failed webhook; the caller becomes its owner")
            .optional_body::<Nothing>()
            .response::<Webhook>(200),
        Route::post("/v1/webhooks/{webhookId}:rotate", "rotateWebhook", rotate)
            .says("Make a new secret, shown this once; deliveries are signed with both for an overlap")
            .optional_body::<RotateWebhook>()
            .response::<WebhookCreated>(200)
            .private(),
        Route::get("/v1/webhooks/{webhookId}/events", "listWebhookEvents", events)
            .says(
                "What became of a webhook: changes of its state, oldest first, or its attempts, newest first",
            )
            .query::<Page>()
            .query::<ListWebhookEvents>()
            .response::<WebhookEvents>(200),
    ]
}

fn told() -> Vec<Route> {
    vec![
        Route::get("/v1/webhooks/{webhookId}/deliveries", "listDeliveries", deliveries::list)
            .says("What a webhook was told, newest first, with the last attempts of each")
            .query::<Page>()
            .query::<ListDeliveries>()
            .response::<Deliveries>(200),
        Route::get("/v1/webhooks/{webhookId}/dead-letters", "listDeadLetters", deliveries::dead_letters)
            .says("What was given up, newest first, until it is removed")
            .query::<Page>()
            .response::<DeadLetters>(200),
        Route::get("/v1/webhooks/{webhookId}/deliveries/{deliveryId}", "getDelivery", deliveries::show)
            .says("One delivery with its attempts, newest first")
            .response::<Delivery>(200),
        Route::post(
            "/v1/webhooks/{webhookId}/deliveries/{deliveryId}:replay",
            "replayDelivery",
            deliveries::replay,
        )
        .says("Send something once more, under the same ids")
        .optional_body::<Nothing>()
        .response::<DeliveryQueued>(202),
        Route::post("/v1/webhooks/{webhookId}:replay", "replayDeliveries", deliveries::replay_window)
            .says("Send everything once more whose event happened in a window of time")
            .body::<ReplayWindow>()
            .response::<Replayed>(202),
    ]
}
