//! The subscriptions of all tenants, without URLs and secrets. The committer uses the list to write deliveries. A list
//! belongs to one revision and is immutable.

use std::collections::HashMap;

use holdpoint_core::webhook::{DeadReason, DeliveryState, Filter, Mode, SubscriptionState};
use holdpoint_core::{Event, ForkMode, TenantId};

use crate::committer::Change;
use crate::store::deliveries::{Delivery, DeliveryKind, EventName};
use crate::store::webhooks::{parsed, word};
use crate::store::{Error, Row, unreadable};

/// Prefix of the queue of a run's callbacks. Each run has its own queue, because its address may be unreachable.
const CALLBACK: &str = "callback:";

/// The subscriptions of all tenants at one revision.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionList {
    pub revision: u64,
    tenants: HashMap<TenantId, Vec<SubscriptionSummary>>,
}

/// A subscription without URL and secrets.
#[derive(Debug)]
pub(crate) struct SubscriptionSummary {
    pub id: String,
    filter: Filter,
    pub mode: Mode,
    ordered: bool,
    pub state: SubscriptionState,
}

impl SubscriptionList {
    pub(crate) fn read(revision: u64, rows: &[Row]) -> Result<Self, Error> {
        let mut tenants: HashMap<TenantId, Vec<SubscriptionSummary>> = HashMap::new();
        for row in rows {
            let tenant =
                TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("webhook", error))?;
            let known = SubscriptionSummary {
                id: row.text("webhook_id")?.to_owned(),
                filter: Filter { events: parsed(row.text("events")?)?, tags: parsed(row.text("tags")?)? },
                mode: word(row.text("mode")?, Mode::parse)?,
                ordered: row.int("ordered")? == 1,
                state: word(row.text("state")?, SubscriptionState::parse)?,
            };
            tenants.entry(tenant).or_default().push(known);
        }
        Ok(Self { revision, tenants })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Returns the subscriptions whose deliveries become dead letters immediately.
    pub(crate) fn ended_subscriptions(&self) -> impl Iterator<Item = (&TenantId, &SubscriptionSummary)> {
        let all =
            self.tenants.iter().flat_map(|(tenant, known)| known.iter().map(move |known| (tenant, known)));
        all.filter(|(_, known)| known.state.first_delivery_state() == DeliveryState::DeadLettered)
    }

    /// Returns the subscriptions and the events of a change that they match, with the sequence of each event.
    pub(crate) fn matches<'l>(
        &'l self,
        change: &'l Change,
    ) -> impl Iterator<Item = (&'l SubscriptionSummary, u64, &'l Event)> {
        let known = self.tenants.get(&change.of.tenant).map(Vec::as_slice).unwrap_or_default();
        let tags = change.after.started.as_ref().map(|started| started.tags.as_slice()).unwrap_or_default();
        let known = known.iter().filter(move |known| known.filter.matches_run(tags));
        known.flat_map(move |known| {
            let wanted = new_events(change).filter(move |(_, event)| wants(known, event));
            wanted.map(move |(seq, event)| (known, seq, event))
        })
    }

    /// Returns the durable deliveries of a change, which the committer writes in the same transaction.
    pub(crate) fn deliveries(&self, change: &Change) -> Vec<Delivery> {
        let durable = self.matches(change).filter(|(known, ..)| known.mode == Mode::Durable);
        durable.map(|(known, seq, event)| event_delivery(known, change, seq, event)).collect()
    }
}

/// Returns the callbacks of a change, one for each interrupt that it opens, if its run has a callback address.
pub(crate) fn callback_deliveries(change: &Change) -> Vec<Delivery> {
    if change.after.started.as_ref().is_none_or(|started| started.callback_url.is_none()) {
        return Vec::new();
    }
    let asked = new_events(change).filter(|(_, event)| matches!(event, Event::InterruptRequested { .. }));
    let queue = format!("{CALLBACK}{}", change.of.run);
    let callback = |(seq, event): (u64, &Event)| {
        let event = EventName { seq, name: event.name() };
        Delivery::new(&change.of, &queue, event, DeliveryKind::Callback, change.at)
    };
    asked.map(callback).collect()
}

/// Returns whether a subscription includes an event, by its name in the log or by the name that protocols show.
fn wants(known: &SubscriptionSummary, event: &Event) -> bool {
    known.filter.matches_event(event.name()) || known.filter.matches_event(event.public_name())
}

/// Returns the events of a change with their sequences, without those that a fork copies. The change that starts a
/// replay has none.
fn new_events(change: &Change) -> impl Iterator<Item = (u64, &Event)> {
    let fork = change.after.started.as_ref().and_then(|started| started.fork.as_ref());
    let repeats = change.starts_run() && fork.is_some_and(|fork| fork.mode == ForkMode::Replay);
    let events = if repeats { &[][..] } else { &*change.events };
    (change.after.seq - change.events.len() as u64..).zip(events)
}

fn event_delivery(known: &SubscriptionSummary, change: &Change, seq: u64, event: &Event) -> Delivery {
    let event = EventName { seq, name: event.public_name() };
    let new = Delivery::new(&change.of, &known.id, event, DeliveryKind::Event, change.at);
    let state = known.state.first_delivery_state();
    let ended = state.ended();
    Delivery {
        state,
        ordered: known.ordered,
        ended_at: ended.then_some(change.at),
        reason: ended.then(|| DeadReason::SubscriptionEnded.as_str().to_owned()),
        ..new
    }
}
