//! External events. The receiver stores an event first and then searches for interrupts that wait for it. A run stores
//! its interrupt first and then a worker searches for stored events. An event and an interrupt therefore always find
//! each other, on all nodes and after any crash.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use holdpoint_core::{
    EventReception, ExternalEvent, InterruptId, NodeId, Principal, RunId, TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::triggers::TriggeredRun;
use super::{ATTEMPTS_MAX, Engine, Events};
use crate::committer::{ArrivalCause, CommitReply, Work};
use crate::error::Error;
use crate::store::arrivals::{self, Arrival, ArrivalKey, ArrivalState, NewArrival};
use crate::store::trigger_deliveries::TriggerDelivery;
use crate::store::{Statement, awaited, params, unreadable};
use crate::work_signal::WorkSignal;

mod matching;
#[cfg(test)]
mod used_once;
mod waiting_interrupts;

pub(crate) use waiting_interrupts::SearchPositions;

/// The maximum number of interrupts that one event resolves.
const MATCHES_MAX: usize = 100;
/// The time after which a worker completes the matching of an event whose receiver stopped.
const LOOK_AFTER_MS: u64 = 5_000;
/// The minimum time for which the id of an event is stored.
const REMEMBERED_MS: u64 = 24 * 3_600_000;

/// The outcome of the reception of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventOutcome {
    /// The result: matched, kept or ignored.
    pub reception: EventReception,
    /// The interrupts that the event resolved.
    #[serde(default)]
    pub matched: Vec<WaitingInterrupt>,
    /// The interrupts that wait for such an event and rejected this one. They stay open.
    #[serde(default)]
    pub refused: Vec<EventRefusal>,
    /// True if more interrupts wait than one event can resolve or than were tried. If the event is kept, a worker
    /// offers it to the others later.
    #[serde(default)]
    pub more: bool,
    /// The end of the time for which a kept event is stored.
    #[serde(default)]
    pub kept_until: Option<Timestamp>,
    /// The runs that the event starts through triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggered: Vec<TriggeredRun>,
    /// True if the event was received before. The repeated reception had no effect.
    #[serde(skip)]
    pub repeated: bool,
}

/// An interrupt that waits for an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingInterrupt {
    /// The run.
    pub run: RunId,
    /// The node that opened the interrupt.
    pub node: NodeId,
    /// The id of the interrupt in the run.
    pub interrupt: InterruptId,
}

/// The rejection of an event by an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRefusal {
    /// The interrupt that rejected the event.
    pub by: WaitingInterrupt,
    /// The error code of the refusal.
    pub code: String,
    /// The reason. Contains no part of the payload of the event.
    pub message: String,
}

impl Events<'_> {
    /// Receives an event: resolves the interrupts that wait for it, or keeps it. A second event with the same id
    /// returns the outcome of the first one, as long as events are kept and for at least a day. It completes a
    /// reception that was interrupted and repeats no effect.
    pub async fn receive(
        self,
        tenant: &TenantId,
        event: &ExternalEvent,
        by: &Principal,
    ) -> Result<EventOutcome, Error> {
        event.check()?;
        let key = ArrivalKey { tenant: tenant.clone(), event_id: event.event_id.clone() };
        for _ in 0..ATTEMPTS_MAX {
            if self.engine.store_event(&key, event, by).await? {
                // If the caller drops this future, a worker must complete the matching.
                let unfinished = WakeWorkerOnDrop(&self.engine.bus().work);
                let received = self.engine.match_event(&key).await?;
                std::mem::forget(unfinished);
                return Ok(received);
            }
            // A missing event was deleted in the meantime.
            let Some(known) = arrivals::find(self.engine.db(), &key).await? else { continue };
            if known.body_hash != event.digest() {
                return Err(Error::EventConflict);
            }
            let known = match stored_outcome(&known)? {
                Some(outcome) => outcome,
                None => self.engine.match_event(&key).await?,
            };
            return Ok(EventOutcome { repeated: true, ..known });
        }
        Err(Error::Busy)
    }
}

impl Engine {
    /// Stores an event. Returns false if an event with this id is already stored.
    async fn store_event(
        &self,
        key: &ArrivalKey,
        event: &ExternalEvent,
        by: &Principal,
    ) -> Result<bool, Error> {
        let received = self.now();
        let kept_ms = self.0.events_kept_ms;
        let fresh = NewArrival {
            key,
            event,
            sent_by: &by.name,
            topic: &self.choose_topic(&key.tenant, event.topics()).await?,
            received,
            kept_until: received.plus_ms(kept_ms),
            forget: received.plus_ms(kept_ms.max(REMEMBERED_MS)),
            look: received.plus_ms(LOOK_AFTER_MS),
        };
        match self.0.committer.submit(Work::Each(arrivals::TAKE, vec![fresh.values()]), None).await? {
            CommitReply::Table(rows) => Ok(!rows.is_empty()),
            _ => Err(Error::Busy),
        }
    }

    /// Returns the topic under which the event is stored. An interrupt that waits for the event has all of its topics,
    /// so that one is enough: the topic with the fewest stored events.
    async fn choose_topic(&self, tenant: &TenantId, topics: Vec<String>) -> Result<String, Error> {
        let mut rarest = (u64::MAX, String::new());
        let alone = topics.len() == 1;
        for topic in topics {
            let count = if alone { 0 } else { arrivals::count_by_topic(self.db(), tenant, &topic).await? };
            if count < rarest.0 {
                rarest = (count, topic);
            }
            if rarest.0 == 0 {
                break;
            }
        }
        Ok(rarest.1)
    }

    /// Resolves all interrupts that wait for an open event, or keeps the event. Concurrent calls have this effect once.
    async fn match_event(&self, key: &ArrivalKey) -> Result<EventOutcome, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let arrival = arrivals::find(self.db(), key).await?.ok_or(Error::NotFound("event"))?;
            if let Some(outcome) = stored_outcome(&arrival)? {
                return Ok(outcome);
            }
            if let Some(received) = self.try_match_event(key, &arrival).await? {
                return Ok(received);
            }
        }
        Err(Error::Busy)
    }

    /// Returns `None` if a concurrent change interfered.
    async fn try_match_event(
        &self,
        key: &ArrivalKey,
        arrival: &Arrival,
    ) -> Result<Option<EventOutcome>, Error> {
        let mut matches = self.find_matches(key, arrival).await?;
        let unmatched = matches.drafts.is_empty();
        let kept = unmatched && arrival.kept_until > self.now();
        if kept && !self.has_room(&key.tenant).await? {
            // Deletes the event, so that the sender can retry with the same id.
            self.write(vec![key.discard()]).await?;
            return Err(Error::TooMany("kept events"));
        }
        let mut received = matches.take_outcome(match (unmatched, kept) {
            (false, _) => EventReception::Matched,
            (true, true) => EventReception::Kept,
            (true, false) => EventReception::Ignored,
        });
        received.kept_until = kept.then_some(arrival.kept_until);
        let deliveries = self.deliveries_of_event(key, arrival).await?;
        received.triggered = deliveries.iter().map(TriggeredRun::from).collect();
        let mut rows: Vec<Statement> = deliveries.iter().flat_map(TriggerDelivery::insert).collect();
        let outcome = serde_json::to_string(&received).map_err(|error| unreadable("event", error))?;
        let happened = if unmatched {
            if let (true, Some((run, id)), Some(topic)) = (kept, &matches.last, arrival.topics.first()) {
                // Scheduled before the event is kept: a worker that runs in between finds the event open and
                // matches it first.
                let search = awaited::schedule_after(&key.tenant, topic, run, *id, self.now());
                self.write(vec![search]).await?;
                self.bus().work.raise();
            }
            let update = if kept { key.keep(&outcome) } else { key.ignore(&outcome) };
            // If a concurrent matching of the event was first, it has inserted the deliveries under the same keys.
            if !rows.is_empty() {
                rows.insert(0, key.lock());
            }
            rows.push(update);
            matches!(self.write(rows).await?, CommitReply::Touched(rows) if rows > 0)
        } else {
            let cause = ArrivalCause { key: key.clone(), state: ArrivalState::Open, outcome };
            self.commit_delivery(cause, matches.drafts, rows).await?.is_written()
        };
        if happened && !deliveries.is_empty() {
            self.bus().work.raise();
        }
        Ok(happened.then_some(received))
    }

    /// Returns whether the tenant may keep one more event. Several nodes that keep events at the same time can exceed
    /// the limit slightly. Counting is slow for many events, so that a node uses half of the room it found before it
    /// counts again.
    async fn has_room(&self, tenant: &TenantId) -> Result<bool, Error> {
        let most = self.0.events_kept_max;
        if let Some(room) = self.kept_event_room().get_mut(tenant).filter(|room| **room > 0) {
            *room -= 1;
            return Ok(true);
        }
        let kept = arrivals::count_kept(self.db(), tenant, self.now(), most.saturating_add(1)).await?;
        // The count includes the new event.
        if kept > most {
            return Ok(false);
        }
        self.kept_event_room().insert(tenant.clone(), (most - kept) / 2);
        Ok(true)
    }

    fn kept_event_room(&self) -> MutexGuard<'_, HashMap<TenantId, u64>> {
        self.0.kept_event_room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes up to `limit` events whose ids are no longer needed.
    pub(crate) async fn purge_arrivals(&self, limit: usize) -> Result<usize, Error> {
        let old = Statement::new(arrivals::PURGE, params![self.now(), limit as u64]);
        match self.write(vec![old]).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}

/// Wakes the worker when it is dropped.
struct WakeWorkerOnDrop<'s>(&'s WorkSignal);

impl Drop for WakeWorkerOnDrop<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// Returns the stored outcome of an event, if it was matched before.
fn stored_outcome(arrival: &Arrival) -> Result<Option<EventOutcome>, Error> {
    let read = |text: &String| serde_json::from_str(text).map_err(|error| unreadable("event", error));
    Ok(arrival.outcome.as_ref().map(read).transpose()?)
}
