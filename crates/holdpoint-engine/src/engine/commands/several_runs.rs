//! Commands for several runs in one change.

use std::sync::Arc;

use holdpoint_core::{Command, Refusal, Run, RunRef};

use super::super::audit::AuditEntries;
use super::super::commit::{CommitOutcome, CommitPlan};
use super::super::{ATTEMPTS_MAX, Engine, Interrupts, Once};
use crate::draft::RunDraft;
use crate::error::Error;

/// Commands for one run.
#[derive(Clone, Debug)]
pub struct RunCommands {
    /// The run.
    pub of: RunRef,
    /// The commands, in the order of their execution.
    pub commands: Vec<Command>,
}

impl Interrupts<'_> {
    /// Executes answers, and commands beside them, on several runs of one tenant in one change, all or none, and writes
    /// a receipt. Returns the first run after the change. If a run records a refusal, only the refusal is committed.
    pub async fn answer_each(
        self,
        changes: &[RunCommands],
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        let Some(first) = changes.first() else { return Err(Error::NotFound("run")) };
        if let [RunCommands { of, commands }] = changes {
            return self.engine.runs().execute_once(of, commands, once).await;
        }
        for _ in 0..ATTEMPTS_MAX {
            let (drafts, denial) = self.engine.decide_each(changes).await?;
            let receipt = match (&denial, drafts.first()) {
                (None, Some(draft)) => self.engine.new_receipt(once, &*draft.run),
                (Some(_), _) | (None, None) => None,
            };
            let entries: Vec<_> =
                drafts.iter().map(|draft| (draft.of.clone(), AuditEntries::of(&draft.events))).collect();
            let plan = CommitPlan { drafts, ..CommitPlan::default() };
            if let CommitOutcome::Conflict(_) = self.engine.commit(plan, receipt).await? {
                continue;
            }
            entries.into_iter().for_each(|(of, entries)| entries.write(&of));
            return match denial {
                Some(refusal) => Err(refusal.into()),
                None => self.engine.runs().get(&first.of).await,
            };
        }
        Err(Error::Busy)
    }
}

impl Engine {
    /// Decides the commands of each run and advances the runs. Stops at a refusal that a run records; the result is then
    /// only the draft of that run.
    async fn decide_each(&self, changes: &[RunCommands]) -> Result<(Vec<RunDraft>, Option<Refusal>), Error> {
        let (now, mut drafts) = (self.now(), Vec::with_capacity(changes.len()));
        for RunCommands { of, commands } in changes {
            let mut draft = RunDraft::new(of.clone(), self.runs().get_stored(of).await?, now);
            if let Some(denial) = self.decide_all(&mut draft, commands).await? {
                return Ok((vec![draft], Some(denial)));
            }
            drafts.push(draft);
        }
        Ok((drafts, None))
    }
}
