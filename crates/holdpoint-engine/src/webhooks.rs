//! Telling subscribers what happens. Durable deliveries are rows that the committer writes with the events; best effort
//! is remembered here, in memory, until it was tried once. A courier carries both out. Decides nothing that the core
//! could decide, and makes no body: that is for whoever knows the wire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use holdpoint_core::webhook::{Mode, SubscriptionState};
use holdpoint_core::{TenantId, Timestamp};
use tokio::sync::Notify;

use crate::committer::Change;
use crate::outgoing::Outgoing;

mod attempt;
mod courier;
mod lane;
mod list;
mod render;
mod settings;
mod signature;

pub use courier::Courier;
pub(crate) use lane::{Lane, Notice};
pub(crate) use list::List;
pub use render::{Render, Rendered, Rendering};
pub use settings::WebhookSettings;
pub(crate) use settings::millis;
pub(crate) use signature::fresh_secret;
pub use signature::{fingerprint, sign};

/// What all of a node's dealings with subscribers share.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub settings: WebhookSettings,
    pub outgoing: Outgoing,
    list: RwLock<Arc<List>>,
    /// By the ids of their webhooks.
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
    news: Notify,
    /// Something durable may be there to be claimed.
    durable: AtomicBool,
    /// The courier waits for the next signal.
    asleep: AtomicBool,
    couriers: AtomicUsize,
}

impl Hooks {
    pub(crate) fn new(settings: WebhookSettings, outgoing: Outgoing) -> Self {
        Self {
            settings,
            outgoing,
            list: RwLock::default(),
            lanes: Mutex::default(),
            news: Notify::new(),
            durable: AtomicBool::new(true),
            asleep: AtomicBool::new(false),
            couriers: AtomicUsize::new(0),
        }
    }

    pub(crate) fn list(&self) -> Arc<List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A list that was read from the store; an older one changes nothing.
    pub(crate) fn put(&self, list: List) {
        let mut known = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if list.revision > known.revision {
            *known = Arc::new(list);
        }
    }

    /// Something was committed here.
    pub(crate) fn tell(&self, change: &Change) {
        let list = self.list();
        if list.is_empty() && !self.settings.callbacks {
            return;
        }
        let calls_back =
            || change.after.started.as_ref().is_some_and(|started| started.callback_url.is_some());
        let (mut any, mut durable) = (false, self.settings.callbacks && calls_back());
        for (known, seq, event) in list.concerned(change) {
            match known.mode {
                Mode::Durable => durable = true,
                Mode::BestEffort if known.state == SubscriptionState::Active && self.has_courier() => {
                    let notice =
                        Notice { of: change.of.clone(), seq, event: event.public_name(), at: change.at };
                    any |= self.lane(&change.of.tenant, &known.id).push(notice, self.settings.queue_max);
                }
                Mode::BestEffort => {}
            }
        }
        if durable {
            self.wake_for_durable();
        } else if any {
            self.news.notify_one();
        }
    }

    pub(crate) fn wake_for_durable(&self) {
        self.durable.store(true, Ordering::SeqCst);
        self.news.notify_one();
    }

    /// Returns whether the courier sleeps and has nothing to look for.
    pub(crate) fn is_idle(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) && !self.durable.load(Ordering::SeqCst)
    }

    fn has_courier(&self) -> bool {
        self.couriers.load(Ordering::SeqCst) > 0
    }

    fn lane(&self, tenant: &TenantId, webhook: &str) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(webhook) {
            return lane.clone();
        }
        let lane = Arc::new(Lane::new(tenant, webhook, self.settings.per_subscription));
        lanes.insert(webhook.to_owned(), lane.clone());
        lane
    }

    /// Somebody has set a subscription going again.
    pub(crate) fn reset(&self, webhook: &str) {
        if let Some(lane) = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).get(webhook) {
            lane.open();
        }
    }

    /// How many durable deliveries of a subscription may be claimed here.
    fn durable_room(&self, webhook: &str, ahead: usize, now: Timestamp) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(webhook).map_or(ahead, |lane| lane.durable_room(ahead, now))
    }

    fn lanes(&self) -> Vec<Arc<Lane>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // One that nobody holds and that has nothing to say is made again when it is needed.
        lanes.retain(|_, lane| Arc::strong_count(lane) > 1 || !lane.is_idle());
        lanes.values().cloned().collect()
    }

    /// Ends what this node does for a subscription that is no more; when this returns, nothing of it is under way here.
    pub(crate) async fn shut(&self, webhook: &str) {
        let lane = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).remove(webhook);
        if let Some(lane) = lane {
            lane.shut().await;
        }
    }
}
