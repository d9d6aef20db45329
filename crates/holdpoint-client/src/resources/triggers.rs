//! Triggers, which start runs at times or for events.

use holdpoint_api::EmptyBody;
use holdpoint_api::ids::encode_segment;
use holdpoint_api::triggers::{
    CreateTrigger, PreviewTrigger, Trigger, TriggerDelivery, TriggerDeliveryList, TriggerList, TriggerPreview,
};
use holdpoint_api::webhooks::{ListDeliveries, ListWebhookEvents, WebhookEvents};

use crate::{Client, Request};

/// Manages triggers and their deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Triggers<'a>(pub(super) &'a Client);

impl Triggers<'_> {
    /// Creates a trigger.
    pub fn create(self, trigger: &CreateTrigger) -> Request<Trigger> {
        self.0.post("/v1/trigger-subscriptions").body(trigger)
    }

    /// Computes the next instants of a schedule. Creates nothing.
    pub fn preview(self, schedule: &PreviewTrigger) -> Request<TriggerPreview> {
        self.0.get("/v1/trigger-subscriptions:preview").query(schedule)
    }

    /// Lists triggers.
    pub fn list(self) -> Request<TriggerList> {
        self.0.get("/v1/trigger-subscriptions")
    }

    /// Returns a trigger.
    pub fn get(self, trigger: &str) -> Request<Trigger> {
        self.0.get(path(trigger))
    }

    /// Deletes a trigger.
    pub fn delete(self, trigger: &str) -> Request<()> {
        self.0.delete(path(trigger))
    }

    /// Pauses a trigger.
    pub fn pause(self, trigger: &str) -> Request<Trigger> {
        self.0.post(format!("{}:pause", path(trigger))).body(&EmptyBody {})
    }

    /// Resumes a paused or failed trigger.
    pub fn resume(self, trigger: &str) -> Request<Trigger> {
        self.0.post(format!("{}:resume", path(trigger))).body(&EmptyBody {})
    }

    /// Lists deliveries.
    pub fn deliveries(self, trigger: &str, filter: &ListDeliveries) -> Request<TriggerDeliveryList> {
        self.0.get(format!("{}/deliveries", path(trigger))).query(filter)
    }

    /// Queues a dead letter again.
    pub fn requeue(self, trigger: &str, delivery: &str) -> Request<TriggerDelivery> {
        let path = format!("{}/deliveries/{}:requeue", path(trigger), encode_segment(delivery));
        self.0.post(path).body(&EmptyBody {})
    }

    /// Lists the changes of state and the attempts of a trigger.
    pub fn list_events(self, trigger: &str, filter: &ListWebhookEvents) -> Request<WebhookEvents> {
        self.0.get(format!("{}/events", path(trigger))).query(filter)
    }
}

fn path(trigger: &str) -> String {
    format!("/v1/trigger-subscriptions/{}", encode_segment(trigger))
}
