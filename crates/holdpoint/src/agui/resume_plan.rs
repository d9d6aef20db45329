//! Validates a resume array and plans its answers. The array is executed completely or not at all. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_api::agui::{ResumeEntry, ResumeStatus};
use holdpoint_core::{Interrupt, InterruptId, Refusal, Resolution, Run, RunEnd, RunId, Timestamp};
use holdpoint_engine::OpenInterrupt;
use serde_json::{Map, Value};

use super::answers::{self, CancelEffect};
use super::ids;
use super::open_interrupts::{is_shown, wire_id};

/// The code of a violation: an open interrupt has no entry.
pub(super) const PARTIAL_RESUME: &str = "PARTIAL_RESUME";

/// A violation of the AG-UI contract by a client. It is sent in the stream, and the request has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgUiViolation {
    pub code: &'static str,
    pub message: String,
}

impl AgUiViolation {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The effects of a resume array.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ResumePlan {
    pub answers: BTreeMap<InterruptPlace, PlannedAnswer>,
    /// Cancelled interrupts whose deadline has passed: they only have to expire.
    pub expired: Vec<InterruptPlace>,
    /// True if a cancelled interrupt cannot be declined: then the run is cancelled.
    pub cancels_run: bool,
    /// True if the array has an entry that cancels the run. Unlike `cancels_run`, also for a repeated array, after the
    /// run was cancelled.
    has_cancelled_run: bool,
}

/// The place of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InterruptPlace {
    pub run: RunId,
    /// The id of the interrupt in its run.
    pub id: InterruptId,
}

/// A run that an entry of a resume array names.
#[derive(Clone, Debug)]
pub(super) struct NamedRun {
    pub run: Arc<Run>,
    /// The run of the thread: the run itself, or the first run above it.
    pub root: RunId,
}

/// The runs and interrupts of the thread that a resume array can be about.
#[derive(Clone, Debug)]
pub(super) struct ResumeTarget<'a> {
    /// The only run of the thread that can be open.
    pub latest: Option<&'a Run>,
    /// The open interrupts of this run and of its child runs that an array must address.
    pub open: &'a [OpenInterrupt],
    /// The runs that the entries name.
    pub named: &'a BTreeMap<RunId, NamedRun>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedAnswer {
    pub value: Value,
    /// The prefix of the id of the decision.
    pub decision_prefix: String,
    /// The digest of the payload that the client has shown.
    pub digest: Option<String>,
    /// The metadata of the entry, which is recorded and never trusted.
    pub metadata: Map<String, Value>,
}

impl ResumePlan {
    /// Returns whether all entries were executed before.
    pub(super) fn is_replay(&self) -> bool {
        self.answers.is_empty() && self.expired.is_empty() && !self.cancels_run
    }
}

/// Plans a resume array.
pub(super) fn plan(
    target: &ResumeTarget<'_>,
    entries: &[ResumeEntry],
    now: Timestamp,
) -> Result<ResumePlan, AgUiViolation> {
    let ResumeTarget { latest, named: runs, .. } = target;
    let mut named = BTreeSet::new();
    if let Some(twice) = entries.iter().find(|entry| !named.insert(entry.interrupt_id.as_str())) {
        let message = format!("interrupt {:?} occurs twice in resume", twice.interrupt_id);
        return Err(AgUiViolation::new("DUPLICATE_INTERRUPT_ID", message));
    }
    // If an array that cancelled its run is repeated, all its entries are replays.
    let ends_run = |entry: &ResumeEntry| {
        entry.status == ResumeStatus::Cancelled
            && find(runs, entry).is_ok_and(|(_, asked)| answers::cancel(asked) == CancelEffect::Run)
    };
    let mut plan = ResumePlan { has_cancelled_run: entries.iter().any(ends_run), ..ResumePlan::default() };
    for entry in entries {
        let (named, asked) = find(runs, entry)?;
        // AG-UI answers only the latest run of a thread. Other open runs must be answered over another interface.
        let is_of_latest = latest.is_some_and(|latest| latest.id == named.root);
        if asked.is_open() && !named.run.finished() && !is_of_latest {
            return Err(unknown(entry));
        }
        plan.add(&named.run, asked, entry, now)?;
    }
    let missing: Vec<String> =
        target.open.iter().map(wire_id).filter(|id| !named.contains(id.as_str())).collect();
    if !missing.is_empty() && !plan.is_replay() {
        let message = format!("resume must address every open interrupt; missing: {}", missing.join(", "));
        return Err(AgUiViolation::new(PARTIAL_RESUME, message));
    }
    Ok(plan)
}

fn find<'a>(
    runs: &'a BTreeMap<RunId, NamedRun>,
    entry: &ResumeEntry,
) -> Result<(&'a NamedRun, &'a Interrupt), AgUiViolation> {
    let found = ids::parse_interrupt_id(&entry.interrupt_id).and_then(|(run, id)| {
        let named = runs.get(&run)?;
        let asked = named.run.interrupt(id).filter(|asked| is_shown(&named.root, &named.run, asked))?;
        Some((named, asked))
    });
    found.ok_or_else(|| unknown(entry))
}

fn unknown(entry: &ResumeEntry) -> AgUiViolation {
    let message = format!("no interrupt {:?} in this thread", entry.interrupt_id);
    AgUiViolation::new("UNKNOWN_INTERRUPT_ID", message)
}

impl ResumePlan {
    fn add(
        &mut self,
        run: &Run,
        asked: &Interrupt,
        entry: &ResumeEntry,
        now: Timestamp,
    ) -> Result<(), AgUiViolation> {
        let cancelled = entry.status == ResumeStatus::Cancelled;
        let expired = || {
            let message = format!("interrupt {:?} has expired", entry.interrupt_id);
            AgUiViolation::new("INTERRUPT_EXPIRED", message)
        };
        let is_over = asked.expires_at().is_some_and(|at| at <= now);
        match &asked.resolution {
            Some(Resolution::TimedOut { .. }) if cancelled => return Ok(()),
            Some(Resolution::TimedOut { .. }) => return Err(expired()),
            Some(Resolution::Answered { .. }) if answers::is_repeated(asked, entry) => return Ok(()),
            Some(Resolution::Answered { .. }) => return Err(answered(entry)),
            None if run.finished() && (cancelled || (self.has_cancelled_run && was_cancelled(run))) => {
                return Ok(());
            }
            None if is_over && cancelled => {
                self.expired.push(InterruptPlace { run: run.id.clone(), id: asked.id });
                return Ok(());
            }
            None if is_over => return Err(expired()),
            None if run.finished() => return Err(answered(entry)),
            None => {}
        }
        let value = match entry.status {
            ResumeStatus::Resolved => {
                let payload = entry.payload.as_ref().map(|given| &given.0);
                answers::answer(asked, payload).map_err(|why| {
                    let message = format!("invalid payload for interrupt {:?}: {why}", entry.interrupt_id);
                    AgUiViolation::new("INVALID_PAYLOAD", message)
                })?
            }
            ResumeStatus::Cancelled => match answers::cancel(asked) {
                CancelEffect::Answer(value) => value,
                CancelEffect::Run => {
                    self.cancels_run = true;
                    return Ok(());
                }
            },
        };
        let metadata = entry.metadata.as_ref().and_then(|given| given.0.as_object());
        let digest = metadata.and_then(|given| given.get("digest")?.as_str());
        let answer = PlannedAnswer {
            value,
            decision_prefix: answers::decision_prefix(entry),
            digest: digest.map(str::to_owned),
            metadata: metadata.cloned().unwrap_or_default(),
        };
        self.answers.insert(InterruptPlace { run: run.id.clone(), id: asked.id }, answer);
        Ok(())
    }
}

fn was_cancelled(run: &Run) -> bool {
    matches!(run.end, Some(RunEnd::Cancelled { .. }))
}

fn answered(entry: &ResumeEntry) -> AgUiViolation {
    let message = format!("interrupt {:?} already has another answer", entry.interrupt_id);
    AgUiViolation::new("ALREADY_ANSWERED", message)
}

/// Returns the violation for a refusal of the core. Returns None after a concurrent change; the caller must plan again.
pub(super) fn violation_of(refusal: &Refusal) -> Option<AgUiViolation> {
    let code = match refusal {
        Refusal::AlreadyResolved
        | Refusal::InterruptCancelled
        | Refusal::InterruptGone
        | Refusal::RunFinished(_)
        | Refusal::DecisionConflict(_) => return None,
        Refusal::Expired => "INTERRUPT_EXPIRED",
        Refusal::InterruptNotFound => "UNKNOWN_INTERRUPT_ID",
        Refusal::NotAnApprover(_)
        | Refusal::NotAuthorized(_)
        | Refusal::OwnRequest(_)
        | Refusal::MayNotActFor(_)
        | Refusal::MayNotAnswerSideQuestion(_)
        | Refusal::UnknownName(_)
        | Refusal::KeyRequired => "FORBIDDEN",
        Refusal::AlreadyVoted(_) => "ALREADY_ANSWERED",
        _ => "INVALID_PAYLOAD",
    };
    Some(AgUiViolation::new(code, refusal.to_string()))
}

#[cfg(test)]
mod tests;
