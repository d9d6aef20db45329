//! Events from outside. One that arrives is written down first; then it is looked who waits for it. Whoever begins to
//! wait writes that down first, too, and then a worker looks whether the event is there: so they cannot miss each other,
//! wherever either of them is and whatever stops in between.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use holdpoint_core::{
    EventReception, ExternalEvent, InterruptId, NodeId, Principal, RunId, TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{ATTEMPTS_MAX, Engine};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::arrivals::{self, Arrival, Fresh, Key, State};
use crate::store::{Statement, awaited, params, unreadable};
use crate::work_signal::WorkSignal;

mod matching;
#[cfg(test)]
mod used_once;
mod waiting;

pub(crate) use waiting::Looks;

/// Interrupts that one event resolves.
const MATCHES_MAX: usize = 100;
/// After this long others finish what the sender of an event began.
const LOOK_AFTER_MS: u64 = 5_000;
/// The least time for which an id is remembered.
const REMEMBERED_MS: u64 = 24 * 3_600_000;

/// What became of an event when it arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    pub reception: EventReception,
    /// Those who got it.
    #[serde(default)]
    pub matched: Vec<Taker>,
    /// Those who wait for such an event and would not take this one. They go on waiting.
    #[serde(default)]
    pub refused: Vec<RefusedBy>,
    /// More of them wait than one event can resolve, or than were asked; of one that is kept those look later.
    #[serde(default)]
    pub more: bool,
    /// Of one that is kept.
    #[serde(default)]
    pub kept_until: Option<Timestamp>,
    /// It arrived before; nothing was done now.
    #[serde(skip)]
    pub repeated: bool,
}

/// An interrupt that waits for an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taker {
    pub run: RunId,
    pub node: NodeId,
    pub interrupt: InterruptId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedBy {
    pub by: Taker,
    /// Of the refusal.
    pub code: String,
    /// Without anything of the event's payload.
    pub message: String,
}

impl Engine {
    /// Takes an event in: whoever waits for it goes on, or it is kept. The same id again is the same event, for as
    /// long as events are kept and for a day at least; what was begun with it is then finished, and nothing is done
    /// twice.
    pub async fn receive(
        &self,
        tenant: &TenantId,
        event: &ExternalEvent,
        by: &Principal,
    ) -> Result<Received, Error> {
        event.check()?;
        let key = Key { tenant: tenant.clone(), event_id: event.event_id.clone() };
        for _ in 0..ATTEMPTS_MAX {
            if self.write_down(&key, event, by).await? {
                // If this stops, also because the caller goes away, a worker must finish it.
                let unfinished = Unfinished(&self.bus().work);
                let received = self.find_takers(&key).await?;
                std::mem::forget(unfinished);
                return Ok(received);
            }
            // Deleted just now, if it is not there.
            let Some(known) = arrivals::find(self.db(), &key).await? else { continue };
            if known.body_hash != event.digest() {
                return Err(Error::EventConflict);
            }
            let known = match told(&known)? {
                Some(told) => told,
                None => self.find_takers(&key).await?,
            };
            return Ok(Received { repeated: true, ..known });
        }
        Err(Error::Busy)
    }

    /// False when there was an event with this id before.
    async fn write_down(&self, key: &Key, event: &ExternalEvent, by: &Principal) -> Result<bool, Error> {
        let received = self.now();
        let kept_ms = self.0.events_kept_ms;
        let fresh = Fresh {
            key,
            event,
            sent_by: &by.name,
            topic: &self.rarest(&key.tenant, event.topics()).await?,
            received,
            kept_until: received.plus_ms(kept_ms),
            forget: received.plus_ms(kept_ms.max(REMEMBERED_MS)),
            look: received.plus_ms(LOOK_AFTER_MS),
        };
        match self.0.committer.submit(Work::Each(arrivals::TAKE, vec![fresh.values()]), None).await? {
            Reply::Table(rows) => Ok(!rows.is_empty()),
            _ => Err(Error::Busy),
        }
    }

    /// Whoever waits for an event has all of its topics, and so one of them is enough to find it: the one under which
    /// there are the fewest others to look through.
    async fn rarest(&self, tenant: &TenantId, topics: Vec<String>) -> Result<String, Error> {
        let mut rarest = (u64::MAX, String::new());
        let alone = topics.len() == 1;
        for topic in topics {
            let crowd = if alone { 0 } else { arrivals::crowd(self.db(), tenant, &topic).await? };
            if crowd < rarest.0 {
                rarest = (crowd, topic);
            }
            if rarest.0 == 0 {
                break;
            }
        }
        Ok(rarest.1)
    }

    /// Gives an open event to everybody who waits for it, or puts it aside. Whoever else is at it, it happens once.
    async fn find_takers(&self, key: &Key) -> Result<Received, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let arrival = arrivals::find(self.db(), key).await?.ok_or(Error::NotFound("event"))?;
            if let Some(told) = told(&arrival)? {
                return Ok(told);
            }
            if let Some(received) = self.try_find_takers(key, &arrival).await? {
                return Ok(received);
            }
        }
        Err(Error::Busy)
    }

    /// Nothing when something changed meanwhile.
    async fn try_find_takers(&self, key: &Key, arrival: &Arrival) -> Result<Option<Received>, Error> {
        let mut takers = self.takers(key, arrival).await?;
        let aside = takers.drafts.is_empty();
        let kept = aside && arrival.kept_until > self.now();
        if kept && !self.has_room(&key.tenant).await? {
            // As if it had never come: its sender may try again under the same id.
            self.write(vec![key.turn_away()]).await?;
            return Err(Error::TooMany("kept events"));
        }
        let mut received = takers.received(match (aside, kept) {
            (false, _) => EventReception::Matched,
            (true, true) => EventReception::Kept,
            (true, false) => EventReception::Ignored,
        });
        received.kept_until = kept.then_some(arrival.kept_until);
        let outcome = serde_json::to_string(&received).map_err(|error| unreadable("event", error))?;
        let happened = if aside {
            if let (true, Some((run, id)), Some(topic)) = (kept, &takers.last, arrival.topics.first()) {
                // Before it is put aside: whoever looks too early finds it open, and sees to it first.
                let behind = awaited::look_behind(&key.tenant, topic, (run, *id), self.now());
                self.write(vec![behind]).await?;
                self.bus().work.raise();
            }
            let aside = key.put_aside(kept, &outcome);
            matches!(self.write(vec![aside]).await?, Reply::Touched(rows) if rows > 0)
        } else {
            self.give(key, State::Open, outcome, takers.drafts).await?.is_none()
        };
        Ok(happened.then_some(received))
    }

    /// Whether the tenant may keep one more event; some more, where several nodes keep them at the same moment. Counting
    /// takes longer the more there are: half of the room that was found is used before anybody counts again.
    async fn has_room(&self, tenant: &TenantId) -> Result<bool, Error> {
        let most = self.0.events_kept_max;
        if let Some(room) = self.rooms().get_mut(tenant).filter(|room| **room > 0) {
            *room -= 1;
            return Ok(true);
        }
        let kept = arrivals::kept(self.db(), tenant, self.now(), most.saturating_add(1)).await?;
        // The one in question is there already.
        if kept > most {
            return Ok(false);
        }
        self.rooms().insert(tenant.clone(), (most - kept) / 2);
        Ok(true)
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<TenantId, u64>> {
        self.0.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes up to `limit` events that nobody can ask for any more.
    pub(crate) async fn purge_arrivals(&self, limit: usize) -> Result<usize, Error> {
        let old = Statement::new(arrivals::PURGE, params![self.now(), limit as u64]);
        match self.write(vec![old]).await? {
            Reply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}

/// Wakes the worker when it is dropped.
struct Unfinished<'s>(&'s WorkSignal);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// What the sender was told, or would have been.
fn told(arrival: &Arrival) -> Result<Option<Received>, Error> {
    let read = |text: &String| serde_json::from_str(text).map_err(|error| unreadable("event", error));
    Ok(arrival.outcome.as_ref().map(read).transpose()?)
}
