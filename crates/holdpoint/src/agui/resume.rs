//! Judges a whole resume array before anything is done: all of it is carried out, or nothing. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_api::agui::{ResumeEntry, ResumeStatus};
use holdpoint_core::{End, Interrupt, InterruptId, Refusal, Resolution, Run, RunId, Timestamp};
use serde_json::Value;

use super::answers::{self, Cancel};
use super::{ids, interrupts};

/// What a client did that the contract does not allow. Told in the stream; nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub code: &'static str,
    pub message: String,
}

impl Violation {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub answers: BTreeMap<InterruptId, Said>,
    /// Cancelled when their time was over: only time has to be told so.
    pub expired: Vec<InterruptId>,
    /// Something was cancelled that nobody can decline.
    pub cancels_run: bool,
    /// The same, whether or not the run has ended by it already.
    cancelled_run: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    pub value: Value,
    /// How the decision's name begins.
    pub name: String,
    /// Of what the client says it has shown.
    pub digest: Option<String>,
}

impl Plan {
    /// Everything was said before.
    pub(super) fn is_replay(&self) -> bool {
        self.answers.is_empty() && self.expired.is_empty() && !self.cancels_run
    }
}

/// `runs` are those of the thread that entries name; the latest run of the thread is the one that can be open.
pub(super) fn plan(
    latest: Option<&Run>,
    runs: &BTreeMap<RunId, Arc<Run>>,
    entries: &[ResumeEntry],
    now: Timestamp,
) -> Result<Plan, Violation> {
    let mut named = BTreeSet::new();
    if let Some(twice) = entries.iter().find(|entry| !named.insert(entry.interrupt_id.as_str())) {
        let message = format!("interrupt {:?} is there twice", twice.interrupt_id);
        return Err(Violation::new("DUPLICATE_INTERRUPT_ID", message));
    }
    // An array that has ended its run says so again, with all that is in it.
    let ends_run = |entry: &ResumeEntry| {
        entry.status == ResumeStatus::Cancelled
            && find(runs, entry).is_ok_and(|(_, asked)| answers::cancel(asked) == Cancel::Run)
    };
    let mut plan = Plan { cancelled_run: entries.iter().any(ends_run), ..Plan::default() };
    for entry in entries {
        let (run, asked) = find(runs, entry)?;
        // Of a thread only the newest run can be open; whatever else is, is answered where it is shown.
        if asked.is_open() && !run.finished() && latest.is_none_or(|latest| latest.id != run.id) {
            return Err(unknown(entry));
        }
        plan.add(run, asked, entry, now)?;
    }
    let open = latest
        .into_iter()
        .flat_map(|run| interrupts::open(run).map(|asked| ids::interrupt(&run.id, asked.id)));
    let missing: Vec<String> = open.filter(|id| !named.contains(id.as_str())).collect();
    if !missing.is_empty() && !plan.is_replay() {
        let message = format!("resume must address every open interrupt; missing: {}", missing.join(", "));
        return Err(Violation::new("PARTIAL_RESUME", message));
    }
    Ok(plan)
}

fn find<'a>(
    runs: &'a BTreeMap<RunId, Arc<Run>>,
    entry: &ResumeEntry,
) -> Result<(&'a Run, &'a Interrupt), Violation> {
    let found = ids::parse_interrupt(&entry.interrupt_id).and_then(|(run, id)| {
        let run = runs.get(&run)?;
        let asked = run.interrupt(id).filter(|asked| interrupts::is_for_people(asked))?;
        Some((run.as_ref(), asked))
    });
    found.ok_or_else(|| unknown(entry))
}

fn unknown(entry: &ResumeEntry) -> Violation {
    let message = format!("there is no interrupt {:?} in this thread", entry.interrupt_id);
    Violation::new("UNKNOWN_INTERRUPT_ID", message)
}

impl Plan {
    fn add(
        &mut self,
        run: &Run,
        asked: &Interrupt,
        entry: &ResumeEntry,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let cancelled = entry.status == ResumeStatus::Cancelled;
        let expired = || {
            let message = format!("the time of interrupt {:?} is over", entry.interrupt_id);
            Violation::new("INTERRUPT_EXPIRED", message)
        };
        let is_over = asked.expires_at().is_some_and(|at| at <= now);
        match &asked.resolution {
            Some(Resolution::TimedOut { .. }) if cancelled => return Ok(()),
            Some(Resolution::TimedOut { .. }) => return Err(expired()),
            Some(Resolution::Answered { .. }) if answers::is_said_again(asked, entry) => return Ok(()),
            Some(Resolution::Answered { .. }) => return Err(answered(entry)),
            None if run.finished() && (cancelled || (self.cancelled_run && was_cancelled(run))) => {
                return Ok(());
            }
            None if is_over && cancelled => {
                self.expired.push(asked.id);
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
                    let message = format!("the payload for {:?} does not fit: {why}", entry.interrupt_id);
                    Violation::new("INVALID_PAYLOAD", message)
                })?
            }
            ResumeStatus::Cancelled => match answers::cancel(asked) {
                Cancel::Answer(value) => value,
                Cancel::Run => {
                    self.cancels_run = true;
                    return Ok(());
                }
            },
        };
        let digest = entry.metadata.as_ref().and_then(|given| given.0.get("digest")?.as_str());
        let said = Said { value, name: answers::name(entry), digest: digest.map(str::to_owned) };
        self.answers.insert(asked.id, said);
        Ok(())
    }
}

fn was_cancelled(run: &Run) -> bool {
    matches!(run.end, Some(End::Cancelled { .. }))
}

fn answered(entry: &ResumeEntry) -> Violation {
    let message = format!("interrupt {:?} was answered before, and not like this", entry.interrupt_id);
    Violation::new("ALREADY_ANSWERED", message)
}

/// Why the core does not take an answer; nothing where somebody was faster, and the plan is to be made again.
pub(super) fn refused(refusal: &Refusal) -> Option<Violation> {
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
        | Refusal::MayNotReply(_)
        | Refusal::UnknownName(_)
        | Refusal::KeyRequired => "FORBIDDEN",
        Refusal::AlreadyVoted(_) => "ALREADY_ANSWERED",
        _ => "INVALID_PAYLOAD",
    };
    Some(Violation::new(code, refusal.to_string()))
}

#[cfg(test)]
mod tests;
