//! Who gets an event: everybody who waits for it and takes it, in one commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::{
    Command, EventReception, ExternalEvent, InterruptId, Principal, Refusal, Run, RunId, RunRef, TenantId,
};

use super::{MATCHES_MAX, Received, RefusedBy, Taker};
use crate::advance::Draft;
use crate::committer::{Cause, Guard, Mail};
use crate::engine::{Before, Engine};
use crate::error::Error;
use crate::store::arrivals::{Arrival, Key, State};
use crate::store::{self, awaited, unreadable};

/// Interrupts looked at for one event, those that will not take it included. When nobody of them does, the others look for
/// themselves.
const LOOKED_AT_MAX: usize = 1000;
/// Rows read in one go: few at first, because one is the usual number, and more when those were not enough.
const ROWS_FIRST: u64 = 128;
const ROWS_MAX: u64 = 4096;

/// Runs that an event carries on, as they are then.
pub(super) type Drafts = BTreeMap<RunId, (Before, Draft)>;

/// Who takes an event.
#[derive(Default)]
pub(super) struct Takers {
    pub drafts: Drafts,
    matched: Vec<Taker>,
    refused: Vec<RefusedBy>,
    more: bool,
    /// The last who was looked at, where there are more.
    pub last: Option<(RunId, InterruptId)>,
}

impl Takers {
    pub(super) fn received(&mut self, reception: EventReception) -> Received {
        let (matched, refused) = (std::mem::take(&mut self.matched), std::mem::take(&mut self.refused));
        Received { reception, matched, refused, more: self.more, kept_until: None, repeated: false }
    }
}

/// What an interrupt has to say to an event.
pub(super) enum Verdict {
    /// It is resolved, in the draft.
    Takes(Taker),
    Refuses(RefusedBy),
    /// It never waited for this one, though it looks so from afar.
    WaitsForAnother,
    /// It waits no more.
    Gone,
}

impl Engine {
    /// The oldest runs come first.
    pub(super) async fn takers(&self, key: &Key, arrival: &Arrival) -> Result<Takers, Error> {
        let event = arrival.event.as_ref().ok_or_else(|| unreadable("event", "it is gone"))?;
        let by = Principal::named(arrival.sent_by.as_str());
        let mut takers = Takers::default();
        let mut search = awaited::Search::new(&key.tenant, arrival.topics.clone());
        let (mut looked_at, mut rows, mut last) = (0, ROWS_FIRST, None);
        while let Some(found) = search.next(self.db(), rows).await? {
            rows = (rows * 2).min(ROWS_MAX);
            for (run, interrupt) in found {
                if takers.matched.len() >= MATCHES_MAX || looked_at >= LOOKED_AT_MAX {
                    takers.more = true;
                    takers.last = last;
                    return Ok(takers);
                }
                looked_at += 1;
                last = Some((run.clone(), interrupt));
                let of = RunRef { tenant: key.tenant.clone(), run };
                match self.offer(&mut takers.drafts, &of, interrupt, (event, &by)).await? {
                    Verdict::Takes(taker) => takers.matched.push(taker),
                    Verdict::Refuses(refused) if takers.refused.len() < MATCHES_MAX => {
                        takers.refused.push(refused);
                    }
                    Verdict::Refuses(_) | Verdict::WaitsForAnother | Verdict::Gone => {}
                }
            }
        }
        Ok(takers)
    }

    /// Offers an event to an interrupt of a run that is stored, or of one that got it already for another interrupt.
    pub(super) async fn offer(
        &self,
        drafts: &mut Drafts,
        of: &RunRef,
        interrupt: InterruptId,
        (event, by): (&ExternalEvent, &Principal),
    ) -> Result<Verdict, Error> {
        let (before, mut draft) = match drafts.remove(&of.run) {
            Some(begun) => begun,
            None => {
                // Whoever will not take it need not be read in full: many may wait, and few take it.
                let Some(seen) = there(of, self.run(of).await)? else { return Ok(Verdict::Gone) };
                let verdict = put_to(&mut Draft::new(seen, self.now()), interrupt, event, by);
                if !matches!(verdict, Verdict::Takes(_)) {
                    return Ok(verdict);
                }
                let Some(run) = there(of, self.load(of).await)? else { return Ok(Verdict::Gone) };
                (Before::of(&run), Draft::new(run, self.now()))
            }
        };
        let verdict = put_to(&mut draft, interrupt, event, by);
        if !draft.events.is_empty() {
            drafts.insert(of.run.clone(), (before, draft));
        }
        Ok(verdict)
    }

    /// Commits what an event has done to runs and to all around them, and that it is used up. Names what was no longer
    /// so, if something was not.
    pub(super) async fn give(
        &self,
        key: &Key,
        state: State,
        outcome: String,
        drafts: Drafts,
    ) -> Result<Option<Guard>, Error> {
        let mut seeds = Vec::with_capacity(drafts.len());
        for (run, (before, mut draft)) in drafts {
            let wakes = before.wakes(&draft);
            let of = RunRef { tenant: key.tenant.clone(), run: run.clone() };
            let mail = if wakes { self.activate(&of, &mut draft).await? } else { Mail::None };
            seeds.push((run, before, draft, mail));
        }
        let mut changes = match self.families(TenantId::clone(&key.tenant), seeds).await? {
            Ok(changes) => changes,
            Err(guard) => return Ok(Some(guard)),
        };
        if let Some(first) = changes.first_mut() {
            first.cause = Some(Box::new(Cause { key: key.clone(), state, outcome }));
        }
        self.commit(changes, None).await
    }
}

/// A run that somebody can carry on. What nobody can read must not be in everybody's way.
fn there(of: &RunRef, run: Result<Arc<Run>, Error>) -> Result<Option<Arc<Run>>, Error> {
    match run {
        Ok(run) => Ok(Some(run)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(Error::Store(error @ store::Error::Unreadable { .. })) => {
            tracing::error!(%error, run = %of.run, "a run that waits for an event cannot be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn put_to(draft: &mut Draft, id: InterruptId, event: &ExternalEvent, by: &Principal) -> Verdict {
    let Some(interrupt) = draft.run.interrupt(id) else { return Verdict::Gone };
    if !interrupt.awaits(event) {
        return Verdict::WaitsForAnother;
    }
    let taker = Taker { run: draft.run.id.clone(), node: interrupt.node.clone(), interrupt: id };
    let command = Command::Deliver { interrupt: id, event: Box::new(event.clone()), by: by.clone() };
    match draft.decide(&command) {
        Ok(()) => Verdict::Takes(taker),
        Err(
            Refusal::AlreadyResolved
            | Refusal::Expired
            | Refusal::InterruptCancelled
            | Refusal::InterruptGone
            | Refusal::InterruptNotFound
            | Refusal::RunFinished(_),
        ) => Verdict::Gone,
        Err(refusal) => Verdict::Refuses(RefusedBy {
            by: taker,
            code: refusal.code().to_string(),
            message: message(&refusal),
        }),
    }
}

/// What is wrong with a value begins with the value, which is nobody's business here.
fn message(refusal: &Refusal) -> String {
    match refusal {
        Refusal::InvalidRequest { field, .. } => format!("{field}: is not what the interrupt asks for"),
        other => other.to_string(),
    }
}
