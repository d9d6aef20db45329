//! Creates subscriptions and checks the signatures of their deliveries.

use holdpoint_client::api::ids::{AttemptOutcome, WebhookEventType};
use holdpoint_client::api::webhooks::{CreateWebhook, ListWebhookEvents};
use holdpoint_client::{Client, webhook};
use serde::Serialize;

use super::subscribers::{ReceivedDeliveries, ReceiverKind, Subscribers};
use crate::Failure;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum DeliveryMode {
    BestEffort,
    Durable,
}

#[derive(Clone, Copy)]
pub(super) struct SubscriptionKind {
    pub(super) receiver: ReceiverKind,
    pub(super) events: &'static [&'static str],
    pub(super) mode: DeliveryMode,
}

pub(super) struct Subscription {
    id: String,
    secret: String,
}

#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct SignatureCounts {
    pub(super) checked: usize,
    pub(super) bad: usize,
}

/// Events that the server reports as not delivered.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Losses {
    pub(super) dropped: u64,
    pub(super) failed: u64,
}

impl Subscription {
    pub(super) async fn create(
        client: &Client,
        subscribers: &Subscribers,
        kind: SubscriptionKind,
    ) -> Result<Self, Failure> {
        let webhook = CreateWebhook {
            url: Some(subscribers.url(kind.receiver)),
            events: Some(kind.events.iter().map(ToString::to_string).collect()),
            durable: Some(kind.mode == DeliveryMode::Durable),
            ..CreateWebhook::default()
        };
        let created = client.webhooks().create(&webhook).await.map_err(|error| {
            Failure::from(error).hint("start the measured server with --allow-private-webhooks")
        })?;
        Ok(Self { id: created.webhook.webhook_id, secret: created.secret.unwrap_or_default() })
    }

    /// Deletes the subscription. Its deliveries have ended when this returns.
    pub(super) async fn delete(self, client: &Client) -> Result<(), Failure> {
        Ok(client.webhooks().delete(&self.id).await?)
    }

    pub(super) async fn losses(&self, client: &Client) -> Result<Losses, Failure> {
        let filter = ListWebhookEvents { kind: Some(WebhookEventType::Attempted.as_str().to_owned()) };
        let attempts =
            client.webhooks().list_events(&self.id, &filter).collect(usize::MAX).await?.value.events;
        let mut losses = Losses::default();
        for attempt in attempts.into_iter().map(|event| event.payload) {
            match attempt.outcome {
                Some(AttemptOutcome::Dropped) => losses.dropped += attempt.times.unwrap_or(1),
                Some(AttemptOutcome::Delivered) => {}
                Some(_) | None => losses.failed += 1,
            }
        }
        Ok(losses)
    }
}

impl SignatureCounts {
    /// Checks that each sampled delivery is signed with the secret of the subscription that it names.
    pub(super) fn check(&mut self, arrivals: &ReceivedDeliveries, subscriptions: &[Subscription]) {
        let now = jiff::Timestamp::now().as_second();
        for (headers, body) in &arrivals.sample {
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let id = header("x-openwop-webhook-id");
            let is_genuine = subscriptions.iter().any(|known| {
                id == Some(&known.id) && webhook::verify(&known.secret, header, body, now).is_ok()
            });
            self.checked += 1;
            self.bad += usize::from(!is_genuine);
        }
    }
}
