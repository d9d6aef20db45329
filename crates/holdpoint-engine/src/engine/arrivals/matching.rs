//! Matching of an event with the interrupts that wait for it. One commit resolves all interrupts that accept it.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::{
    Command, EventReception, ExternalEvent, InterruptId, Principal, Refusal, Run, RunId, RunRef,
};

use super::{EventOutcome, EventRefusal, MATCHES_MAX, WaitingInterrupt};
use crate::committer::ArrivalCause;
use crate::draft::RunDraft;
use crate::engine::commit::CommitPlan;
use crate::engine::{CommitOutcome, Engine};
use crate::error::Error;
use crate::store::arrivals::{Arrival, ArrivalKey};
use crate::store::{self, Statement, awaited, unreadable};

/// The maximum number of interrupts that one event is offered to, including those that reject it. If all of them reject
/// it, a worker offers the event to the others.
const INTERRUPTS_READ_MAX: usize = 1000;
/// The number of rows of the first query, small because one interrupt is the usual case. Later queries double it.
const ROWS_FIRST: u64 = 128;
const ROWS_MAX: u64 = 4096;

/// The runs that an event changes, with their uncommitted changes.
pub(super) type RunDrafts = BTreeMap<RunId, RunDraft>;

/// The interrupts that an event resolves or that reject it.
#[derive(Default)]
pub(super) struct EventMatches {
    pub drafts: RunDrafts,
    matched: Vec<WaitingInterrupt>,
    refused: Vec<EventRefusal>,
    more: bool,
    /// The last interrupt that was tried, if more are waiting.
    pub last: Option<(RunId, InterruptId)>,
}

impl EventMatches {
    pub(super) fn take_outcome(&mut self, reception: EventReception) -> EventOutcome {
        let (matched, refused) = (std::mem::take(&mut self.matched), std::mem::take(&mut self.refused));
        EventOutcome {
            reception,
            matched,
            refused,
            more: self.more,
            kept_until: None,
            triggered: Vec::new(),
            repeated: false,
        }
    }
}

/// The outcome of an offer of an event to an interrupt.
pub(super) enum OfferOutcome {
    /// The event resolves the interrupt in the draft.
    Accepted(WaitingInterrupt),
    Refused(EventRefusal),
    /// The interrupt waits for a different event. The topic index can match more than the interrupt accepts.
    NotMatching,
    /// The interrupt is no longer open.
    Closed,
}

impl Engine {
    /// Offers an event to the interrupts that wait for it, those of the oldest runs first.
    pub(super) async fn find_matches(
        &self,
        key: &ArrivalKey,
        arrival: &Arrival,
    ) -> Result<EventMatches, Error> {
        let event = arrival.event.as_ref().ok_or_else(|| unreadable("event", "its content was deleted"))?;
        let by = Principal::named(arrival.sent_by.as_str());
        let mut matches = EventMatches::default();
        let mut search = awaited::AwaitedSearch::new(&key.tenant, arrival.topics.clone());
        let (mut looked_at, mut rows, mut last) = (0, ROWS_FIRST, None);
        while let Some(found) = search.next(self.db(), rows).await? {
            rows = (rows * 2).min(ROWS_MAX);
            for (run, interrupt) in found {
                if matches.matched.len() >= MATCHES_MAX || looked_at >= INTERRUPTS_READ_MAX {
                    matches.more = true;
                    matches.last = last;
                    return Ok(matches);
                }
                looked_at += 1;
                last = Some((run.clone(), interrupt));
                let of = RunRef { tenant: key.tenant.clone(), run };
                match self.offer_event(&mut matches.drafts, &of, interrupt, event, &by).await? {
                    OfferOutcome::Accepted(interrupt_ref) => matches.matched.push(interrupt_ref),
                    OfferOutcome::Refused(refused) if matches.refused.len() < MATCHES_MAX => {
                        matches.refused.push(refused);
                    }
                    OfferOutcome::Refused(_) | OfferOutcome::NotMatching | OfferOutcome::Closed => {}
                }
            }
        }
        Ok(matches)
    }

    /// Offers an event to an interrupt. Continues the draft of a run that accepted the event for another interrupt.
    pub(super) async fn offer_event(
        &self,
        drafts: &mut RunDrafts,
        of: &RunRef,
        interrupt: InterruptId,
        event: &ExternalEvent,
        by: &Principal,
    ) -> Result<OfferOutcome, Error> {
        let mut draft = match drafts.remove(&of.run) {
            Some(begun) => begun,
            None => {
                // Tries a cached run first: many interrupts may wait, and few accept the event.
                let Some(seen) = find_readable(of, self.runs().get(of).await)? else {
                    return Ok(OfferOutcome::Closed);
                };
                let outcome =
                    offer_to_draft(&mut RunDraft::new(of.clone(), seen, self.now()), interrupt, event, by);
                if !matches!(outcome, OfferOutcome::Accepted(_)) {
                    return Ok(outcome);
                }
                let Some(run) = find_readable(of, self.runs().get_stored(of).await)? else {
                    return Ok(OfferOutcome::Closed);
                };
                RunDraft::new(of.clone(), run, self.now())
            }
        };
        let outcome = offer_to_draft(&mut draft, interrupt, event, by);
        if !draft.events.is_empty() {
            drafts.insert(of.run.clone(), draft);
        }
        Ok(outcome)
    }

    /// Commits the changes of runs by an event, and further statements, and marks the event as used.
    pub(super) async fn commit_delivery(
        &self,
        cause: ArrivalCause,
        drafts: RunDrafts,
        rows: Vec<Statement>,
    ) -> Result<CommitOutcome, Error> {
        let mut drafts: Vec<RunDraft> = drafts.into_values().collect();
        for draft in &mut drafts {
            self.activate(draft).await?;
        }
        let cause = Some(Box::new(cause));
        self.commit(CommitPlan { drafts, cause, rows, ..CommitPlan::default() }, None).await
    }
}

/// Returns `None` for a run that does not exist or cannot be read, so that it does not block other runs.
fn find_readable(of: &RunRef, run: Result<Arc<Run>, Error>) -> Result<Option<Arc<Run>>, Error> {
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

fn offer_to_draft(
    draft: &mut RunDraft,
    id: InterruptId,
    event: &ExternalEvent,
    by: &Principal,
) -> OfferOutcome {
    let Some(interrupt) = draft.run.interrupt(id) else { return OfferOutcome::Closed };
    if !interrupt.awaits(event) {
        return OfferOutcome::NotMatching;
    }
    let interrupt_ref =
        WaitingInterrupt { run: draft.run.id.clone(), node: interrupt.node.clone(), interrupt: id };
    let command = Command::Deliver { interrupt: id, event: Box::new(event.clone()), by: by.clone() };
    match draft.decide(&command) {
        Ok(()) => OfferOutcome::Accepted(interrupt_ref),
        Err(
            Refusal::AlreadyResolved
            | Refusal::Expired
            | Refusal::InterruptCancelled
            | Refusal::InterruptGone
            | Refusal::InterruptNotFound
            | Refusal::RunFinished(_),
        ) => OfferOutcome::Closed,
        Err(refusal) => OfferOutcome::Refused(EventRefusal {
            by: interrupt_ref,
            code: refusal.code().to_string(),
            message: refusal_message(&refusal),
        }),
    }
}

/// Returns the message of a refusal for the sender of an event. The message about an invalid value is replaced, because
/// it would show the value to the sender.
fn refusal_message(refusal: &Refusal) -> String {
    match refusal {
        Refusal::InvalidRequest { field, .. } => {
            format!("{field}: does not match the schema of the interrupt")
        }
        other => other.to_string(),
    }
}
