//! The routes of webhooks.

use holdpoint_api::webhooks::{
    CreateWebhook, DeadLetters, DeleteWebhook, Delivery, DeliveryList, DeliveryQueued, ListDeliveries,
    ListWebhookEvents, ReplayWindow, Replayed, RotateWebhook, Webhook, WebhookCreated, WebhookEvents,
    WebhookList,
};
use holdpoint_api::{EmptyBody, Page};

use super::{create, deliveries, events, list, pause, remove, resume, rotate, show};
use crate::routes::Content;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [subscription_routes(), delivery_routes()].into_iter().flatten().collect()
}

fn subscription_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/webhooks", "createWebhook", create)
            .summary("Create a webhook; the secret is shown once")
            .body::<CreateWebhook>()
            .response::<WebhookCreated>(201)
            .without_errors(&[404]),
        Route::get("/v1/webhooks", "listWebhooks", list)
            .summary("List the webhooks of the tenant, oldest first, without their secrets")
            .query::<Page>()
            .response::<WebhookList>(200),
        Route::get("/v1/webhooks/{webhookId}", "getWebhook", show)
            .summary("Get a webhook, without its secret")
            .response::<Webhook>(200),
        Route::delete("/v1/webhooks/{webhookId}", "deleteWebhook", remove)
            .summary("Delete a webhook; no delivery is sent to it after the response")
            .query::<DeleteWebhook>()
            .response_content(204, Content::Empty),
        Route::post("/v1/webhooks/{webhookId}:pause", "pauseWebhook", pause)
            .summary("Pause a webhook; durable deliveries stay queued")
            .optional_body::<EmptyBody>()
            .response::<Webhook>(200),
        Route::post("/v1/webhooks/{webhookId}:resume", "resumeWebhook", resume)
            .summary("Resume a paused or failed webhook; the caller becomes its owner")
            .optional_body::<EmptyBody>()
            .response::<Webhook>(200),
        Route::post("/v1/webhooks/{webhookId}:rotate", "rotateWebhook", rotate)
            .summary(
                "Rotate the secret of a webhook; deliveries are signed with both secrets during an overlap",
            )
            .optional_body::<RotateWebhook>()
            .response::<WebhookCreated>(200),
        Route::get("/v1/webhooks/{webhookId}/events", "listWebhookEvents", events)
            .summary(
                "List the events of a webhook: changes of state, oldest first, or attempts, newest first",
            )
            .query::<Page>()
            .query::<ListWebhookEvents>()
            .response::<WebhookEvents>(200),
    ]
}

fn delivery_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/webhooks/{webhookId}/deliveries", "listDeliveries", deliveries::list)
            .summary("List the deliveries of a webhook with their last attempts, newest first")
            .query::<Page>()
            .query::<ListDeliveries>()
            .response::<DeliveryList>(200),
        Route::get("/v1/webhooks/{webhookId}/dead-letters", "listDeadLetters", deliveries::dead_letters)
            .summary("List the dead letters of a webhook, newest first")
            .query::<Page>()
            .response::<DeadLetters>(200),
        Route::get("/v1/webhooks/{webhookId}/deliveries/{deliveryId}", "getDelivery", deliveries::show)
            .summary("Get a delivery with its attempts, newest first")
            .response::<Delivery>(200),
        Route::post(
            "/v1/webhooks/{webhookId}/deliveries/{deliveryId}:replay",
            "replayDelivery",
            deliveries::replay,
        )
        .summary("Send a delivery again under the same ids")
        .optional_body::<EmptyBody>()
        .response::<DeliveryQueued>(202),
        Route::post("/v1/webhooks/{webhookId}:replay", "replayDeliveries", deliveries::replay_window)
            .summary("Send all deliveries again whose events happened in a window of time")
            .body::<ReplayWindow>()
            .response::<Replayed>(202),
    ]
}
