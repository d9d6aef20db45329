//! The routes of triggers.

use holdpoint_api::triggers::{
    CreateTrigger, PreviewTrigger, Trigger, TriggerDelivery, TriggerDeliveryList, TriggerList, TriggerPreview,
};
use holdpoint_api::webhooks::{ListDeliveries, ListWebhookEvents, WebhookEvents};
use holdpoint_api::{EmptyBody, Page};

use super::{create, deliveries, events, list, pause, preview, remove, requeue, resume, show};
use crate::routes::Content;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/trigger-subscriptions", "createTrigger", create)
            .summary("Create a trigger, which starts runs at times or for events")
            .body::<CreateTrigger>()
            .response::<Trigger>(201)
            .errors(&[409])
            .without_errors(&[404]),
        Route::get("/v1/trigger-subscriptions", "listTriggers", list)
            .summary("List the triggers of the tenant, oldest first")
            .query::<Page>()
            .response::<TriggerList>(200),
        Route::get("/v1/trigger-subscriptions:preview", "previewTrigger", preview)
            .summary("Compute the next instants of a schedule; creates nothing")
            .query::<PreviewTrigger>()
            .response::<TriggerPreview>(200),
        Route::get("/v1/trigger-subscriptions/{triggerId}", "getTrigger", show)
            .summary("Get a trigger")
            .response::<Trigger>(200),
        Route::delete("/v1/trigger-subscriptions/{triggerId}", "deleteTrigger", remove)
            .summary("Delete a trigger and drop its queued deliveries")
            .response_content(204, Content::Empty),
        Route::post("/v1/trigger-subscriptions/{triggerId}:pause", "pauseTrigger", pause)
            .summary("Pause a trigger; its instants and events start no runs")
            .optional_body::<EmptyBody>()
            .response::<Trigger>(200)
            .errors(&[409]),
        Route::post("/v1/trigger-subscriptions/{triggerId}:resume", "resumeTrigger", resume)
            .summary("Resume a paused or failed trigger; the caller becomes its owner")
            .optional_body::<EmptyBody>()
            .response::<Trigger>(200),
        Route::get("/v1/trigger-subscriptions/{triggerId}/deliveries", "listTriggerDeliveries", deliveries)
            .summary("List the deliveries of a trigger, newest first")
            .query::<Page>()
            .query::<ListDeliveries>()
            .response::<TriggerDeliveryList>(200),
        Route::post(
            "/v1/trigger-subscriptions/{triggerId}/deliveries/{deliveryId}:requeue",
            "requeueTriggerDelivery",
            requeue,
        )
        .summary("Queue a dead letter of a trigger again")
        .optional_body::<EmptyBody>()
        .response::<TriggerDelivery>(202)
        .errors(&[409]),
        Route::get("/v1/trigger-subscriptions/{triggerId}/events", "listTriggerEvents", events)
            .summary(
                "List the events of a trigger: changes of state, oldest first, or attempts, newest first",
            )
            .query::<Page>()
            .query::<ListWebhookEvents>()
            .response::<WebhookEvents>(200),
    ]
}
