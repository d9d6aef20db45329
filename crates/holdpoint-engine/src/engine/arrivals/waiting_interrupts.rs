//! Matching of waiting interrupts with events that were stored before.

use std::collections::HashMap;

use holdpoint_core::{Interrupt, Principal, RunRef, Timestamp};

use super::matching::{OfferOutcome, RunDrafts};
use super::{ATTEMPTS_MAX, Engine};
use crate::committer::{ArrivalCause, CommitReply, Work};
use crate::error::Error;
use crate::store::arrivals::{self, ArrivalCursor, ArrivalKey, ArrivalSearch, ArrivalState};
use crate::store::awaited::{self, AwaitedEvent};

/// The number of interrupts and of events in one batch.
const BATCH_MAX: u64 = 256;
/// The number of events per topic that one batch offers to an interrupt. It can be exceeded if one query reads
/// several topics.
const OFFERS_MAX: usize = 100;
/// The delay before a failed match is retried.
const RETRY_AFTER_MS: u64 = 10_000;

/// The positions of interrupts that have more stored events than one batch offers. An interrupt without a position
/// starts at its first event.
#[derive(Debug, Default)]
pub(crate) struct SearchPositions(HashMap<(RunRef, u32), ArrivalCursor>);

/// The maximum number of positions in memory.
const POSITIONS_MAX: usize = 10_000;

impl Engine {
    /// Matches stored events with waiting interrupts: events whose receiver stopped, and interrupts that opened
    /// recently. Returns the number of processed items and the last error.
    pub(crate) async fn match_waiting_interrupts(
        &self,
        positions: &mut SearchPositions,
    ) -> Result<(usize, Option<Error>), Error> {
        let now = self.now();
        let (mut processed, mut last_error) = (0, None);
        for key in arrivals::due(self.db(), now, BATCH_MAX).await? {
            match self.match_event(&key).await {
                // An event without room was deleted. Its sender got no outcome and can retry.
                Ok(_) | Err(Error::NotFound(_) | Error::TooMany(_)) => processed += 1,
                Err(error) => {
                    last_error = Some(error);
                    let later = key.reschedule(now.plus_ms(RETRY_AFTER_MS));
                    self.reschedule_matching(arrivals::RESCHEDULE, vec![later]).await?;
                }
            }
        }
        let waits = awaited::due(self.db(), now, BATCH_MAX).await?;
        let expected = awaited::expected(self.db(), &waits).await?;
        let mut ends = Vec::with_capacity(waits.len());
        for wait in &waits {
            let under = expected.get(&(wait.of.clone(), wait.id.0));
            let end = match under {
                _ if wait.has_no_topic() => self.index_old_interrupt(wait).await.map(|()| None),
                Some(topics) => self.offer_stored_events(wait, topics, positions, now).await,
                None => Ok(None),
            };
            processed += usize::from(end.is_ok());
            let again = end.as_ref().map_or_else(|_| Some(now.plus_ms(RETRY_AFTER_MS)), |again| *again);
            last_error = end.err().or(last_error);
            ends.push(wait.reschedule(again));
        }
        self.reschedule_matching(awaited::RESCHEDULE, ends).await?;
        Ok((processed, last_error))
    }

    async fn reschedule_matching(
        &self,
        sql: &'static str,
        sets: Vec<Vec<crate::store::Param>>,
    ) -> Result<CommitReply, Error> {
        if sets.is_empty() {
            return Ok(CommitReply::Done);
        }
        self.0.committer.submit(Work::Each(sql, sets), None).await
    }

    /// Writes the topics of an interrupt that was opened before the table existed.
    async fn index_old_interrupt(&self, wait: &AwaitedEvent) -> Result<(), Error> {
        let run = match self.runs().get_stored(&wait.of).await {
            Ok(run) => Some(run),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let open = run.as_ref().filter(|run| !run.finished()).and_then(|run| run.interrupt(wait.id));
        let topics = open.filter(|interrupt| interrupt.is_open()).map(Interrupt::topics);
        self.write(wait.insert_topics(&topics.unwrap_or_default())).await.map(|_| ())
    }

    /// Offers stored events to an interrupt, oldest first, until it accepts one. Continues after the last position.
    /// Returns the time of the next batch if there are more events.
    async fn offer_stored_events(
        &self,
        wait: &AwaitedEvent,
        under: &[String],
        positions: &mut SearchPositions,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let tenant = &wait.of.tenant;
        let position_key = (wait.of.clone(), wait.id.0);
        let after = positions.0.remove(&position_key);
        let (topics, after) = (&wait.topics, after.as_ref());
        let search = ArrivalSearch { tenant, under, topics, after, now, limit: OFFERS_MAX };
        let page = search.page(self.db()).await?;
        for event in page.events {
            let key = ArrivalKey { tenant: tenant.clone(), event_id: event.event_id };
            if self.take_kept_event(&key, wait).await? {
                return Ok(None);
            }
        }
        let Some(next) = page.next else { return Ok(None) };
        if positions.0.len() >= POSITIONS_MAX {
            // The interrupts start at their first event again. This many positions are not expected.
            positions.0.clear();
        }
        positions.0.insert(position_key, next);
        Ok(Some(now))
    }

    /// Resolves an interrupt with a kept event. An open event is first matched with all waiting interrupts. Returns
    /// false if the interrupt stays open.
    async fn take_kept_event(&self, key: &ArrivalKey, wait: &AwaitedEvent) -> Result<bool, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(arrival) = arrivals::find(self.db(), key).await? else { return Ok(false) };
            match arrival.state {
                ArrivalState::Open => match self.match_event(key).await {
                    Ok(_) => continue,
                    Err(Error::TooMany(_)) => return Ok(false),
                    Err(error) => return Err(error),
                },
                ArrivalState::Kept if arrival.kept_until > self.now() => {}
                ArrivalState::Kept | ArrivalState::Over => return Ok(false),
            }
            let Some(event) = &arrival.event else { return Ok(false) };
            let by = Principal::named(arrival.sent_by.as_str());
            let mut drafts = RunDrafts::new();
            match self.offer_event(&mut drafts, &wait.of, wait.id, event, &by).await? {
                OfferOutcome::Accepted(_) => {}
                OfferOutcome::Refused(_) | OfferOutcome::NotMatching => return Ok(false),
                OfferOutcome::Closed => return Ok(true),
            }
            // The outcome that the sender received does not change.
            let outcome = arrival.outcome.unwrap_or_default();
            let cause = ArrivalCause { key: key.clone(), state: ArrivalState::Kept, outcome };
            if self.commit_delivery(cause, drafts, Vec::new()).await?.is_written() {
                return Ok(true);
            }
        }
        Err(Error::Busy)
    }
}
