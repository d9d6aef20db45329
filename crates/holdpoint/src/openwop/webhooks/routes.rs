//! The routes of webhooks.

use holdpoint_api::webhooks::{
    CreateWebhook, DeadLetters, DeleteWebhook, Delivery, DeliveryList, DeliveryQueued, ListDeliveries,
    ListWebhookEvents, ReplayWindow, Replayed, RotateWebhook, Webhook, WebhookCreated, WebhookEvents,
    WebhookList,
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
            .says("Create a webhook; the secret is shown once")
            .body::<CreateWebhook>()
            .response::<WebhookCreated>(201)
            .never_fails(&[404])
            .private(),
        Route::get("/v1/webhooks", "listWebhooks", list)
            .says("List the webhooks of the tenant, oldest first, without their secrets")
            .query::<Page>()
            .response::<WebhookList>(200),
        Route::get("/v1/webhooks/{webhookId}", "getWebhook", show)
            .says("Get a webhook, without its secret")
            .response::<Webhook>(200),
        Route::delete("/v1/webhooks/{webhookId}", "deleteWebhook", remove)
            .says("Delete a webhook; nothing is sent to it after the response")
            .query::<DeleteWebhook>()
            .answers(204, Content::Nothing),
        Route::post("/v1/webhooks/{webhookId}:pause", "pauseWebhook", pause)
            .says("Pause a webhook; durable deliveries stay queued")
            .optional_body::<Nothing>()
            .response::<Webhook>(200),
        Route::post("/v1/webhooks/{webhookId}:resume", "resumeWebhook", resume)
            .says("Resume a paused or failed webhook; the caller becomes its owner")
            .optional_body::<Nothing>()
            .response::<Webhook>(200),
        Route::post("/v1/webhooks/{webhookId}:rotate", "rotateWebhook", rotate)
            .says("Rotate the secret of a webhook; deliveries are signed with both secrets during an overlap")
            .optional_body::<RotateWebhook>()
            .response::<WebhookCreated>(200)
            .private(),
        Route::get("/v1/webhooks/{webhookId}/events", "listWebhookEvents", events)
            .says("List the events of a webhook: changes of state, oldest first, or attempts, newest first")
            .query::<Page>()
            .query::<ListWebhookEvents>()
            .response::<WebhookEvents>(200),
    ]
}

fn told() -> Vec<Route> {
    vec![
        Route::get("/v1/webhooks/{webhookId}/deliveries", "listDeliveries", deliveries::list)
            .says("List the deliveries of a webhook with their last attempts, newest first")
            .query::<Page>()
            .query::<ListDeliveries>()
            .response::<DeliveryList>(200),
        Route::get("/v1/webhooks/{webhookId}/dead-letters", "listDeadLetters", deliveries::dead_letters)
            .says("List the dead letters of a webhook, newest first")
            .query::<Page>()
            .response::<DeadLetters>(200),
        Route::get("/v1/webhooks/{webhookId}/deliveries/{deliveryId}", "getDelivery", deliveries::show)
            .says("Get a delivery with its attempts, newest first")
            .response::<Delivery>(200),
        Route::post(
            "/v1/webhooks/{webhookId}/deliveries/{deliveryId}:replay",
            "replayDelivery",
            deliveries::replay,
        )
        .says("Send a delivery again under the same ids")
        .optional_body::<Nothing>()
        .response::<DeliveryQueued>(202),
        Route::post("/v1/webhooks/{webhookId}:replay", "replayDeliveries", deliveries::replay_window)
            .says("Send all deliveries again whose events happened in a window of time")
            .body::<ReplayWindow>()
            .response::<Replayed>(202),
    ]
}
