//! Webhook deliveries. Durable deliveries are rows that the committer writes with the events; best-effort deliveries
//! wait in memory for one attempt. The delivery worker sends both. For each attempt it calls the courier, a function of
//! the server, which renders, signs and sends the request.

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
mod delivery_worker;
mod lane;
mod settings;
mod shared_read;
mod subscription_list;

pub use courier::{AttemptClient, AttemptResult, DeliveryJob};
pub use delivery_worker::DeliveryWorker;
use lane::CLAIMS_MIN;
pub(crate) use lane::{BestEffortEvent, DeliveryLane};
pub use settings::WebhookSettings;
pub(crate) use settings::millis;
pub(crate) use subscription_list::{SubscriptionList, callback_deliveries};

/// The webhook state of a process: subscriptions, delivery lanes, and the wake-up of the delivery worker.
#[derive(Debug)]
pub(crate) struct WebhookHub {
    pub settings: WebhookSettings,
    pub outgoing: Outgoing,
    subscriptions: RwLock<Arc<SubscriptionList>>,
    /// Delivery lanes by webhook id.
    lanes: Mutex<HashMap<String, Arc<DeliveryLane>>>,
    wakeup: Notify,
    /// True if durable deliveries may be due.
    durable_due: AtomicBool,
    /// True while the delivery worker waits for the next wake-up.
    asleep: AtomicBool,
    workers: AtomicUsize,
}

impl WebhookHub {
    pub(crate) fn new(settings: WebhookSettings, outgoing: Outgoing) -> Self {
        Self {
            settings,
            outgoing,
            subscriptions: RwLock::default(),
            lanes: Mutex::default(),
            wakeup: Notify::new(),
            durable_due: AtomicBool::new(true),
            asleep: AtomicBool::new(false),
            workers: AtomicUsize::new(0),
        }
    }

    pub(crate) fn subscriptions(&self) -> Arc<SubscriptionList> {
        self.subscriptions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list of subscriptions. Ignores a list with an older revision.
    pub(crate) fn replace_subscriptions(&self, list: SubscriptionList) {
        let mut known = self.subscriptions.write().unwrap_or_else(PoisonError::into_inner);
        if list.revision > known.revision {
            *known = Arc::new(list);
        }
    }

    /// Queues best-effort events of a committed change and wakes the delivery worker.
    pub(crate) fn notify_committed(&self, change: &Change) {
        let list = self.subscriptions();
        if list.is_empty() && !self.settings.callbacks {
            return;
        }
        let calls_back =
            || change.after.started.as_ref().is_some_and(|started| started.callback_url.is_some());
        let (mut any, mut durable) = (false, self.settings.callbacks && calls_back());
        for (known, seq, event) in list.matches(change) {
            match known.mode {
                Mode::Durable => {
                    durable |=
                        known.state == SubscriptionState::Active && self.needs_claims(&known.id, change.at);
                }
                Mode::BestEffort if known.state == SubscriptionState::Active && self.has_worker() => {
                    let notice = BestEffortEvent {
                        of: change.of.clone(),
                        seq,
                        event: event.public_name(),
                        at: change.at,
                    };
                    any |= self.lane(&change.of.tenant, &known.id).push(notice, self.settings.queue_max);
                }
                Mode::BestEffort => {}
            }
        }
        if durable {
            self.wake_for_durable();
        } else if any {
            self.wakeup.notify_one();
        }
    }

    pub(crate) fn wake_for_durable(&self) {
        self.durable_due.store(true, Ordering::SeqCst);
        self.wakeup.notify_one();
    }

    /// Returns whether the delivery worker sleeps and no durable deliveries may be due.
    pub(crate) fn is_idle(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) && !self.durable_due.load(Ordering::SeqCst)
    }

    fn has_worker(&self) -> bool {
        self.workers.load(Ordering::SeqCst) > 0
    }

    fn lane(&self, tenant: &TenantId, webhook: &str) -> Arc<DeliveryLane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(webhook) {
            return lane.clone();
        }
        let lane = Arc::new(DeliveryLane::new(tenant, webhook, self.settings.per_subscription));
        lanes.insert(webhook.to_owned(), lane.clone());
        lane
    }

    /// Resets the circuit and the backoff of a subscription that was resumed.
    pub(crate) fn reset_lane(&self, webhook: &str) {
        if let Some(lane) = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).get(webhook) {
            lane.reset();
        }
    }

    /// Records that a subscription has a new queued delivery, and returns whether the delivery worker must claim now. A
    /// lane that has enough deliveries or backs off claims later.
    fn needs_claims(&self, webhook: &str, now: Timestamp) -> bool {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lane) = lanes.get(webhook) else { return true };
        lane.mark_behind();
        lane.needs_claims(now)
    }

    /// Returns the number of further durable deliveries of a subscription that this process may claim.
    fn durable_room(&self, webhook: &str, now: Timestamp) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(webhook).map_or(CLAIMS_MIN, |lane| lane.durable_room(now))
    }

    /// Records that the delivery worker has looked at a queue with due deliveries. It may have more.
    fn record_claim(&self, webhook: &str) {
        if let Some(lane) = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).get(webhook) {
            lane.record_claim();
        }
    }

    /// Returns whether there are missed events that are not yet recorded.
    fn has_missed(&self) -> bool {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).values().any(|lane| lane.has_missed())
    }

    fn lanes(&self) -> Vec<Arc<DeliveryLane>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Drops idle lanes. They are created again on demand.
        lanes.retain(|_, lane| Arc::strong_count(lane) > 1 || !lane.is_idle());
        lanes.values().cloned().collect()
    }

    /// Ends all attempts of a deleted subscription in this process. When it returns, no attempt is in flight.
    pub(crate) async fn close_lane(&self, webhook: &str) {
        let lane = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).remove(webhook);
        if let Some(lane) = lane {
            lane.close().await;
        }
    }
}
