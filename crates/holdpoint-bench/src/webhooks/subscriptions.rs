//! Subscriptions over HTTP, as a benchmark makes and removes them; and whether what they were sent is signed.

use hyper::Method;
use serde_json::{Value, json};

use super::super::driver::Driver;
use super::subscribers::{Heard, Subscribers, Whom};
use holdpoint_cli::failure::Failure;
use holdpoint_client::webhook;

const PAGE: usize = 200;

/// Who wants to be told of what.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) whom: Whom,
    pub(super) events: &'static [&'static str],
    pub(super) durable: bool,
}

pub(super) struct Subscription {
    id: String,
    secret: String,
}

/// Signatures that were looked at, and those that were wrong.
#[derive(Clone, Copy, Default)]
pub(super) struct Signatures {
    pub(super) checked: usize,
    pub(super) bad: usize,
}

/// What a server says of attempts that did not end well.
#[derive(Clone, Copy, Default)]
pub(super) struct Missed {
    pub(super) dropped: u64,
    pub(super) failed: u64,
}

impl Subscription {
    pub(super) async fn add(
        driver: &Driver,
        subscribers: &Subscribers,
        wanted: Wanted,
    ) -> Result<Self, Failure> {
        let body =
            json!({"url": subscribers.url(wanted.whom), "events": wanted.events, "durable": wanted.durable});
        let made = driver.exchange(Method::POST, "/v1/webhooks", &body).await.map_err(|failure| {
            failure.hint("a server that is measured with webhooks is started with --allow-private-webhooks")
        })?;
        let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
        Ok(Self { id: text("webhookId"), secret: text("secret") })
    }

    /// When this returns, nothing of it is under way any more.
    pub(super) async fn remove(self, driver: &Driver) -> Result<(), Failure> {
        driver.exchange(Method::DELETE, &format!("/v1/webhooks/{}", self.id), &Value::Null).await.map(drop)
    }

    /// What the server itself says it did not deliver.
    pub(super) async fn missed(&self, driver: &Driver) -> Result<Missed, Failure> {
        let list = format!("/v1/webhooks/{}/events?type=trigger.delivery.attempted&limit={PAGE}", self.id);
        let (mut missed, mut path) = (Missed::default(), list.clone());
        loop {
            let page = driver.exchange(Method::GET, &path, &Value::Null).await?;
            for attempt in page["events"].as_array().into_iter().flatten() {
                let attempt = &attempt["payload"];
                match attempt["outcome"].as_str() {
                    Some("dropped") => missed.dropped += attempt["times"].as_u64().unwrap_or(1),
                    Some("delivered") => {}
                    Some(_) | None => missed.failed += 1,
                }
            }
            let Some(next) = page["nextCursor"].as_str() else { return Ok(missed) };
            path = format!("{list}&cursor={next}");
        }
    }
}

impl Signatures {
    /// Each delivery of the sample was signed with the secret of the subscription that it names.
    pub(super) fn check(&mut self, heard: &Heard, subscriptions: &[Subscription]) {
        let now = jiff::Timestamp::now().as_second();
        for kept in &heard.sample {
            let named = kept.headers.iter().find(|(name, _)| name == "x-openwop-webhook-id");
            let of = |(_, id): &(String, String)| subscriptions.iter().find(|known| known.id == *id);
            let header = |name: &str| {
                kept.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
            };
            let genuine = named
                .and_then(of)
                .is_some_and(|known| webhook::verify(&known.secret, header, &kept.body, now).is_ok());
            self.checked += 1;
            self.bad += usize::from(!genuine);
        }
    }
}
