//! Commands: decided on a run by the core and committed.

use std::sync::Arc;

use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::{Command, Event, Principal, Refusal, Run, RunRef};

use super::audit::AuditEntries;
use super::commit::{CommitOutcome, CommitPlan};
use super::{ATTEMPTS_MAX, Engine, Once, Runs};
use crate::committer::Precondition;
use crate::draft::RunDraft;
use crate::error::Error;
use crate::extension::DecidedChange;
use crate::store::Statement;

mod several_runs;

pub use several_runs::RunCommands;

/// One attempt to execute commands on a run.
pub(super) struct Attempt<'a> {
    pub draft: RunDraft,
    pub commands: &'a [Command],
    pub source: RunSource,
    /// Rejects the start of a run while another run of its scope is unfinished.
    pub exclusive: bool,
    pub once: Option<&'a Once<Run>>,
    /// Further statements that are written with the change.
    pub rows: Vec<Statement>,
}

/// Options of an execution of commands.
#[derive(Clone, Debug, Default)]
pub struct ExecuteOptions<'a> {
    /// The request whose receipt is written with the change.
    pub once: Option<&'a Once<Run>>,
    /// The options of the dispatch that the change creates. They have no effect if the run has a live dispatch, except
    /// for the deduplication key, which is refused if a live dispatch has it. A delay is refused: only a start has one.
    pub dispatch: DispatchOptions,
}

impl<'a> From<Option<&'a Once<Run>>> for ExecuteOptions<'a> {
    fn from(once: Option<&'a Once<Run>>) -> Self {
        Self { once, ..Self::default() }
    }
}

/// The source of the run that an attempt begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunSource {
    /// The cache, which may lag behind the store.
    Cache,
    Store,
    /// The run has no events yet.
    New,
}

/// The outcome of one attempt to execute commands.
pub(super) enum CommandOutcome {
    Done(Arc<Run>),
    /// The core refused the command and the refusal is recorded in the run.
    Denied(Refusal),
    /// The run has changed since it was read.
    Conflict(Precondition),
}

impl Runs<'_> {
    /// Executes a command and commits the change, or the refusal if the run records it.
    pub async fn execute(self, of: &RunRef, command: &Command) -> Result<Arc<Run>, Error> {
        self.execute_once(of, std::slice::from_ref(command), ExecuteOptions::default()).await
    }

    /// Executes commands in one change, all or none, and writes a receipt. Stops at a refusal that the run records.
    pub async fn execute_once<'o>(
        self,
        of: &RunRef,
        commands: &[Command],
        options: impl Into<ExecuteOptions<'o>>,
    ) -> Result<Arc<Run>, Error> {
        let options = options.into();
        options.dispatch.check_started(self.engine.now())?;
        let once = options.once;
        // The committer rejects a change that was decided on an outdated run.
        let (mut run, mut source) = (self.engine.events().cached_run(of).await?, RunSource::Cache);
        for _ in 0..ATTEMPTS_MAX {
            let mut draft = RunDraft::new(of.clone(), run, self.engine.now());
            draft.options = options.dispatch.clone();
            let attempt = Attempt { draft, commands, source, exclusive: false, once, rows: Vec::new() };
            match self.engine.attempt(attempt).await {
                Ok(CommandOutcome::Done(run)) => return Ok(run),
                Ok(CommandOutcome::Denied(refusal)) => return Err(refusal.into()),
                Ok(CommandOutcome::Conflict(_)) => {}
                // The cache can lag behind the store; only a committed refusal or one on the stored run is final.
                Err(Error::Refused(_)) if source == RunSource::Cache => {}
                Err(error) => return Err(error),
            }
            (run, source) = (self.get_stored(of).await?, RunSource::Store);
        }
        Err(Error::Busy)
    }

    /// Cancels a run. Has no effect on a run that has already ended.
    pub async fn cancel(self, of: &RunRef, reason: Option<String>, by: Principal) -> Result<Arc<Run>, Error> {
        self.cancel_once(of, reason, by, None).await
    }

    /// Cancels a run and writes a receipt.
    pub async fn cancel_once(
        self,
        of: &RunRef,
        reason: Option<String>,
        by: Principal,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        match self.execute_once(of, &[Command::Cancel { reason, by }], once).await {
            Err(Error::Refused(Refusal::RunFinished(_))) => {
                let run = self.get(of).await?;
                self.engine.keep_unchanged(once, &run).await?;
                Ok(run)
            }
            other => other,
        }
    }
}

impl Engine {
    /// Decides commands, advances the run if they wake it, and commits the change. Starts, timers and all other
    /// commands enter here.
    pub(super) async fn attempt(&self, attempt: Attempt<'_>) -> Result<CommandOutcome, Error> {
        let Attempt { mut draft, commands, source, exclusive, once, rows } = attempt;
        let denial = self.decide_all(&mut draft, commands).await?;
        // A change without events is not committed, so that the committer cannot detect an outdated run.
        if draft.events.is_empty() && source == RunSource::Cache && self.is_shared() {
            return Ok(CommandOutcome::Conflict(Precondition::Sequence));
        }
        let (of, after, entries) = (draft.of.clone(), draft.run.clone(), AuditEntries::of(&draft.events));
        // A refused command was not executed, so that it leaves no receipt.
        let receipt = if denial.is_none() { self.new_receipt(once, &*after) } else { None };
        if let CommitOutcome::Conflict(failed) =
            self.commit(CommitPlan { exclusive, rows, ..CommitPlan::from(draft) }, receipt).await?
        {
            return Ok(CommandOutcome::Conflict(failed));
        }
        entries.write(&of);
        Ok(denial.map_or(CommandOutcome::Done(after), CommandOutcome::Denied))
    }

    /// Decides commands and advances the run if they wake it. Stops at a refusal that the run records, and returns it.
    async fn decide_all(&self, draft: &mut RunDraft, commands: &[Command]) -> Result<Option<Refusal>, Error> {
        for command in commands {
            draft.decide(command)?;
            if draft.events.iter().any(|event| event.denial().is_some()) {
                break;
            }
        }
        let change = DecidedChange { engine: self, of: &draft.of, run: &draft.run, events: &draft.events };
        self.0.extensions.check(change).await?;
        let denial = draft.events.iter().find_map(Event::denial);
        if denial.is_none() {
            self.activate(draft).await?;
        }
        Ok(denial)
    }
}
