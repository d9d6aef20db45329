//! Who is to be told of what, as the committer needs to know it: every subscription of every tenant, without URLs and
//! secrets. A list is of one revision and never changes.

use std::collections::HashMap;

use holdpoint_core::webhook::{DeadReason, DeliveryState, Filter, Mode, SubscriptionState};
use holdpoint_core::{Event, ForkMode, TenantId};

use crate::committer::Change;
use crate::store::deliveries::{Delivery, DeliveryKind};
use crate::store::webhooks::{parsed, word};
use crate::store::{Error, Row, unreadable};

/// Callbacks of one run are one queue; the address of another may be dead.
const CALLBACK: &str = "callback:";

#[derive(Debug, Default)]
pub(crate) struct List {
    pub revision: u64,
    tenants: HashMap<TenantId, Vec<Known>>,
}

#[derive(Debug)]
pub(crate) struct Known {
    pub id: String,
    filter: Filter,
    pub mode: Mode,
    ordered: bool,
    pub state: SubscriptionState,
}

impl List {
    pub(crate) fn read(revision: u64, rows: &[Row]) -> Result<Self, Error> {
        let mut tenants: HashMap<TenantId, Vec<Known>> = HashMap::new();
        for row in rows {
            let tenant = TenantId::parse(row.text(0)?).map_err(|error| unreadable("webhook", error))?;
            let known = Known {
                id: row.text(1)?.to_owned(),
                filter: Filter { events: parsed(row.text(2)?)?, tags: parsed(row.text(3)?)? },
                mode: word(row.text(4)?, Mode::parse)?,
                ordered: row.int(5)? == 1,
                state: word(row.text(6)?, SubscriptionState::parse)?,
            };
            tenants.entry(tenant).or_default().push(known);
        }
        Ok(Self { revision, tenants })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Subscriptions whose queues nobody will ever serve.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = (&TenantId, &Known)> {
        let all =
            self.tenants.iter().flat_map(|(tenant, known)| known.iter().map(move |known| (tenant, known)));
        all.filter(|(_, known)| known.state.begins() == DeliveryState::DeadLettered)
    }

    /// Who is to be told of which events of a change, with their numbers.
    pub(crate) fn concerned<'l>(
        &'l self,
        change: &'l Change,
    ) -> impl Iterator<Item = (&'l Known, u64, &'l Event)> {
        let known = self.tenants.get(&change.of.tenant).map(Vec::as_slice).unwrap_or_default();
        let tags = change.after.started.as_ref().map(|started| started.tags.as_slice()).unwrap_or_default();
        let known = known.iter().filter(move |known| known.filter.wants_run(tags));
        known.flat_map(move |known| {
            let wanted = told(change).filter(move |(_, event)| wants(known, event));
            wanted.map(move |(seq, event)| (known, seq, event))
        })
    }

    /// What is written with a change.
    pub(crate) fn deliveries(&self, change: &Change, callbacks: bool) -> Vec<Delivery> {
        let durable = self.concerned(change).filter(|(known, ..)| known.mode == Mode::Durable);
        let mut rows: Vec<Delivery> =
            durable.map(|(known, seq, event)| of_event(known, change, seq, event)).collect();
        if callbacks && change.after.started.as_ref().is_some_and(|started| started.callback_url.is_some()) {
            let asked = told(change).filter(|(_, event)| matches!(event, Event::InterruptRequested { .. }));
            let queue = format!("{CALLBACK}{}", change.of.run);
            rows.extend(asked.map(|(seq, event)| {
                Delivery::new(&change.of, &queue, (seq, event.name()), DeliveryKind::Callback, change.at)
            }));
        }
        rows
    }
}

/// Returns whether a subscription includes an event, by its name in the log or by the name that protocols show.
fn wants(known: &Known, event: &Event) -> bool {
    known.filter.wants_event(event.name()) || known.filter.wants_event(event.public_name())
}

/// The events of a change that are news, with their numbers. What a copy repeats of another run is none.
fn told(change: &Change) -> impl Iterator<Item = (u64, &Event)> {
    let fork = change.after.started.as_ref().and_then(|started| started.fork.as_ref());
    let repeats = change.is_birth() && fork.is_some_and(|fork| fork.mode == ForkMode::Replay);
    let events = if repeats { &[][..] } else { &*change.events };
    (change.after.seq - change.events.len() as u64..).zip(events)
}

fn of_event(known: &Known, change: &Change, seq: u64, event: &Event) -> Delivery {
    let about = (seq, event.public_name());
    let new = Delivery::new(&change.of, &known.id, about, DeliveryKind::Event, change.at);
    let state = known.state.begins();
    let ended = state.ended();
    Delivery {
        state,
        ordered: known.ordered,
        ended_at: ended.then_some(change.at),
        reason: ended.then(|| DeadReason::SubscriptionEnded.as_str().to_owned()),
        ..new
    }
}
