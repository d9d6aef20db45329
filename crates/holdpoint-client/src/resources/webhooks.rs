//! Webhook subscriptions and their deliveries.

use holdpoint_api::EmptyBody;
use holdpoint_api::ids::encode_segment;
use holdpoint_api::webhooks::{
    CreateWebhook, DeadLetters, Delivery, DeliveryList, DeliveryQueued, ListDeliveries, ListWebhookEvents,
    ReplayWindow, Replayed, RotateWebhook, Webhook, WebhookCreated, WebhookEvents, WebhookList,
};

use crate::{Client, Request};

/// Manages webhook subscriptions and their deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Webhooks<'a>(pub(super) &'a Client);

impl Webhooks<'_> {
    /// Creates a subscription. Only the first response has the secret: it is not in the response of a repeated request.
    pub fn create(self, webhook: &CreateWebhook) -> Request<WebhookCreated> {
        self.0.post("/v1/webhooks").body(webhook)
    }

    /// Lists subscriptions.
    pub fn list(self) -> Request<WebhookList> {
        self.0.get("/v1/webhooks")
    }

    /// Returns a subscription.
    pub fn get(self, webhook: &str) -> Request<Webhook> {
        self.0.get(format!("/v1/webhooks/{}", encode_segment(webhook)))
    }

    /// Deletes a subscription.
    pub fn delete(self, webhook: &str) -> Request<()> {
        self.0.delete(format!("/v1/webhooks/{}", encode_segment(webhook)))
    }

    /// Pauses a subscription.
    pub fn pause(self, webhook: &str) -> Request<Webhook> {
        self.0.post(format!("/v1/webhooks/{}:pause", encode_segment(webhook))).body(&EmptyBody {})
    }

    /// Resumes a paused subscription.
    pub fn resume(self, webhook: &str) -> Request<Webhook> {
        self.0.post(format!("/v1/webhooks/{}:resume", encode_segment(webhook))).body(&EmptyBody {})
    }

    /// Replaces the secret of a subscription. Only the first response has the new secret.
    pub fn rotate(self, webhook: &str, rotation: &RotateWebhook) -> Request<WebhookCreated> {
        self.0.post(format!("/v1/webhooks/{}:rotate", encode_segment(webhook))).body(rotation)
    }

    /// Lists the changes of state and the attempts of a subscription.
    pub fn list_events(self, webhook: &str, filter: &ListWebhookEvents) -> Request<WebhookEvents> {
        self.0.get(format!("/v1/webhooks/{}/events", encode_segment(webhook))).query(filter)
    }

    /// Lists deliveries.
    pub fn deliveries(self, webhook: &str, filter: &ListDeliveries) -> Request<DeliveryList> {
        self.0.get(format!("/v1/webhooks/{}/deliveries", encode_segment(webhook))).query(filter)
    }

    /// Lists the dead letters of a subscription.
    pub fn dead_letters(self, webhook: &str) -> Request<DeadLetters> {
        self.0.get(format!("/v1/webhooks/{}/dead-letters", encode_segment(webhook)))
    }

    /// Returns a delivery with its attempts.
    pub fn delivery(self, webhook: &str, delivery: &str) -> Request<Delivery> {
        self.0.get(format!(
            "/v1/webhooks/{}/deliveries/{}",
            encode_segment(webhook),
            encode_segment(delivery)
        ))
    }

    /// Sends a delivery again.
    pub fn replay(self, webhook: &str, delivery: &str) -> Request<DeliveryQueued> {
        self.0
            .post(format!(
                "/v1/webhooks/{}/deliveries/{}:replay",
                encode_segment(webhook),
                encode_segment(delivery)
            ))
            .body(&EmptyBody {})
    }

    /// Sends the deliveries of a time window again.
    pub fn replay_window(self, webhook: &str, window: &ReplayWindow) -> Request<Replayed> {
        self.0.post(format!("/v1/webhooks/{}:replay", encode_segment(webhook))).body(window)
    }
}
