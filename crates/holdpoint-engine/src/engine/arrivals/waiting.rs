//! The other side: somebody waits for an event, and it may be there already.

use std::collections::HashMap;

use holdpoint_core::{Interrupt, Principal, RunRef, Timestamp};

use super::matching::{Drafts, Verdict};
use super::{ATTEMPTS_MAX, Engine};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::arrivals::{self, Key, Place, State};
use crate::store::awaited::{self, Wait};

/// Waits and events looked at in one go.
const LOOKS_MAX: u64 = 256;
/// Events that are offered to one interrupt in one go, for each of its topics; some more where they are read together.
const OFFERS_MAX: usize = 100;
/// How long a look that failed is left alone.
const PAUSE_MS: u64 = 10_000;

/// How far those have come who look through more events than are offered in one go. Whoever forgets it begins anew.
#[derive(Debug, Default)]
pub(crate) struct Looks(HashMap<(RunRef, u32), Place>);

/// Places that are remembered at once.
const PLACES_MAX: usize = 10_000;

impl Engine {
    /// Sees to it that events and those who wait for them meet: where a sender went away, and where somebody began to
    /// wait. How many of them were looked at, and what went wrong with others.
    pub(crate) async fn arrange_meetings(&self, looks: &mut Looks) -> Result<(usize, Option<Error>), Error> {
        let now = self.now();
        let (mut looked, mut trouble) = (0, None);
        for key in arrivals::to_look(self.db(), now, LOOKS_MAX).await? {
            match self.find_takers(&key).await {
                // Without room for it, nobody was told that it is kept.
                Ok(_) | Err(Error::NotFound(_) | Error::TooMany(_)) => looked += 1,
                Err(error) => {
                    trouble = Some(error);
                    let later = key.look_again(now.plus_ms(PAUSE_MS));
                    self.look_again(arrivals::LOOK_AGAIN, vec![later]).await?;
                }
            }
        }
        let waits = awaited::to_look(self.db(), now, LOOKS_MAX).await?;
        let expected = awaited::expected(self.db(), &waits).await?;
        let mut ends = Vec::with_capacity(waits.len());
        for wait in &waits {
            let under = expected.get(&(wait.of.clone(), wait.id.0));
            let end = match under {
                _ if wait.is_unnamed() => self.adopt(wait).await.map(|()| None),
                Some(topics) => self.look_for(wait, topics, looks, now).await,
                None => Ok(None),
            };
            looked += usize::from(end.is_ok());
            let again = end.as_ref().map_or_else(|_| Some(now.plus_ms(PAUSE_MS)), |again| *again);
            trouble = end.err().or(trouble);
            ends.push(wait.look_again(again));
        }
        self.look_again(awaited::LOOK_AGAIN, ends).await?;
        Ok((looked, trouble))
    }

    async fn look_again(
        &self,
        sql: &'static str,
        sets: Vec<Vec<crate::store::Param>>,
    ) -> Result<Reply, Error> {
        if sets.is_empty() {
            return Ok(Reply::Done);
        }
        self.0.committer.submit(Work::Each(sql, sets), None).await
    }

    /// An interrupt that is older than the table gets its rows.
    async fn adopt(&self, wait: &Wait) -> Result<(), Error> {
        let run = match self.load(&wait.of).await {
            Ok(run) => Some(run),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let open = run.as_ref().filter(|run| !run.finished()).and_then(|run| run.interrupt(wait.id));
        let topics = open.filter(|interrupt| interrupt.is_open()).map(Interrupt::topics);
        self.write(wait.adopt(&topics.unwrap_or_default())).await.map(|_| ())
    }

    /// Offers the events that are there, oldest first, until it takes one: those behind the last ones. When somebody must
    /// go on with the rest, if there is more of it.
    async fn look_for(
        &self,
        wait: &Wait,
        under: &[String],
        looks: &mut Looks,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let tenant = &wait.of.tenant;
        let who = (wait.of.clone(), wait.id.0);
        let after = looks.0.remove(&who);
        let topics = (under, &wait.topics);
        let (found, rest) =
            arrivals::expected(self.db(), tenant, topics, (after.as_ref(), now), OFFERS_MAX).await?;
        for (_, event_id) in found {
            let key = Key { tenant: tenant.clone(), event_id };
            if self.take(&key, wait).await? {
                return Ok(None);
            }
        }
        let Some(rest) = rest else { return Ok(None) };
        if looks.0.len() >= PLACES_MAX {
            // Those who are forgotten begin anew; so many are at it at the same time only when something is wrong.
            looks.0.clear();
        }
        looks.0.insert(who, rest);
        Ok(Some(now))
    }

    /// Takes an event that was kept. One that is still open is for everybody who waits, and only then for those who
    /// come later. False when the interrupt goes on waiting.
    async fn take(&self, key: &Key, wait: &Wait) -> Result<bool, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(arrival) = arrivals::find(self.db(), key).await? else { return Ok(false) };
            match arrival.state {
                State::Open => match self.find_takers(key).await {
                    Ok(_) => continue,
                    Err(Error::TooMany(_)) => return Ok(false),
                    Err(error) => return Err(error),
                },
                State::Kept if arrival.kept_until > self.now() => {}
                State::Kept | State::Over => return Ok(false),
            }
            let Some(event) = &arrival.event else { return Ok(false) };
            let by = Principal::named(arrival.sent_by.as_str());
            let mut drafts = Drafts::new();
            match self.offer(&mut drafts, &wait.of, wait.id, (event, &by)).await? {
                Verdict::Takes(_) => {}
                Verdict::Refuses(_) | Verdict::WaitsForAnother => return Ok(false),
                Verdict::Gone => return Ok(true),
            }
            // What the sender was told stays said.
            let told = arrival.outcome.unwrap_or_default();
            if self.give(key, State::Kept, told, drafts).await?.is_none() {
                return Ok(true);
            }
        }
        Err(Error::Busy)
    }
}
