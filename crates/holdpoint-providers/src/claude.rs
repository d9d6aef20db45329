//! Agents of the Claude Agent SDK. The engine starts the program of the SDK once for each start and each answer, and
//! controls it over stdin and stdout. A tool call that needs approval is deferred, which ends the program; the next
//! program makes the call or tells the agent the reason for the rejection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdpoint_core::agent::ReasoningVisibility;
use holdpoint_engine::{OperatorApproval, Tenants};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{
    BadProviders, LockedHandle, Probe, Provider, ProviderAnswers, ProviderError, ProviderOutcome, code,
};
use mapping::CallDecision;
use next_step::{AttemptPurpose, NextStep};
use reference::ClaudeReference;
use session_folder::SessionFolder;
use turn::ClaudeTurn;
use version::VersionCheck;

mod command;
mod dialogue;
mod mapping;
mod next_step;
mod orphaned_processes;
mod permission_hook;
mod process;
mod progress;
mod redaction;
mod reference;
mod session_folder;
pub(crate) mod sessions;
mod settings;
mod transcript;
mod turn;
mod turn_end;
mod version;

pub(crate) use settings::ClaudeSettings;

/// The number of calls of a cancelled turn that are rejected before the next turn.
const ABANDONED_CALLS_MAX: u32 = 5;
/// The reason of their rejection.
const ABANDONED: &str =
    "The user cancelled this request. Do not repeat the call. Wait for the next message of the user.";

pub(crate) struct Claude {
    settings: ClaudeSettings,
    /// The parent folder of the session folders.
    folder: PathBuf,
    slots: ProcessSlots,
    version: VersionCheck,
}

impl Claude {
    pub(crate) fn new(
        settings: ClaudeSettings,
        base: &Path,
        folder: &Path,
        slots: ProcessSlots,
    ) -> Result<Self, BadProviders> {
        let settings = settings.validate(base)?;
        Ok(Self { settings, folder: folder.to_owned(), slots, version: VersionCheck::default() })
    }

    /// Rejects the calls that waited for a decision when the last turn was cancelled. The program accepts no prompt
    /// before that.
    async fn reject_abandoned_calls(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let until = handle.deadline().min(Instant::now() + self.settings.turn());
        let _slot = self.slots.acquire(until).await?;
        let version = self.version.check(&self.settings).await?;
        for _ in 0..ABANDONED_CALLS_MAX {
            let mut turn = ClaudeTurn::open(&self.settings, &self.folder, handle).await?;
            turn.until = until;
            turn.reference.version = Some(version.clone());
            let Some(call) = turn.abandoned_call() else { return Ok(()) };
            let decision = CallDecision::Reject(Some(ABANDONED.to_owned()));
            turn.decide(&call, &decision).await?;
        }
        let message = "the agent repeats a call of the cancelled turn; start under another key";
        Err(ProviderError::permanent(code::GRAPH, message))
    }

    async fn attempt(
        &self,
        handle: &LockedHandle,
        purpose: &AttemptPurpose<'_>,
        prompt: Option<&str>,
    ) -> Result<ProviderOutcome, ProviderError> {
        let until = handle.deadline().min(Instant::now() + self.settings.turn());
        let _slot = self.slots.acquire(until).await?;
        let version = self.version.check(&self.settings).await?;
        let mut turn = ClaudeTurn::open(&self.settings, &self.folder, handle).await?;
        turn.until = until;
        turn.reference.version = Some(version);
        match turn.step(purpose) {
            NextStep::Begin if handle.starts_next_turn() => turn.begin_next_turn(prompt).await,
            NextStep::Begin => turn.begin(prompt).await,
            NextStep::Restart => {
                let fresh = ClaudeReference::new(self.settings.tools_digest());
                turn.reference = ClaudeReference { turn: turn.reference.turn, ..fresh };
                turn.begin(prompt).await
            }
            NextStep::Continue => turn.continue_session().await,
            NextStep::Decide(call) => match purpose {
                AttemptPurpose::Answer(decision) => turn.decide(&call, decision).await,
                AttemptPurpose::Start | AttemptPurpose::NextTurn | AttemptPurpose::Probe => {
                    Err(turn::session_lost())
                }
            },
            settled @ (NextStep::AwaitDecision(_) | NextStep::OutcomeUnknown(..) | NextStep::Done(_)) => {
                turn.outcome_without_program(settled).await?.ok_or_else(turn::session_lost)
            }
            NextStep::Lost => Err(turn::session_lost()),
        }
    }
}

impl Provider for Claude {
    fn name(&self) -> &str {
        "claude"
    }

    fn approval(&self) -> Option<&OperatorApproval> {
        Some(&self.settings.approval)
    }

    fn reasoning(&self) -> ReasoningVisibility {
        self.settings.reasoning
    }

    fn tenants(&self) -> &Tenants {
        &self.settings.tenants
    }

    fn plan(&self, _handle: &LockedHandle) -> Value {
        ClaudeReference::new(self.settings.tools_digest()).to_value()
    }

    async fn start(&self, handle: &LockedHandle, input: &Value) -> Result<ProviderOutcome, ProviderError> {
        let prompt = mapping::prompt(input)?;
        self.attempt(handle, &AttemptPurpose::Start, Some(&prompt)).await
    }

    async fn next_turn(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        let prompt = mapping::prompt(input)?;
        self.reject_abandoned_calls(handle).await?;
        self.attempt(handle, &AttemptPurpose::NextTurn, Some(&prompt)).await
    }

    async fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> Result<ProviderOutcome, ProviderError> {
        let decision = CallDecision::from_answers(answers)?;
        self.attempt(handle, &AttemptPurpose::Answer(&decision), None).await
    }

    async fn probe(&self, handle: &LockedHandle) -> Result<Probe, ProviderError> {
        let mut turn = ClaudeTurn::open(&self.settings, &self.folder, handle).await?;
        let step = turn.step(&AttemptPurpose::Probe);
        Ok(match turn.outcome_without_program(step).await? {
            Some(outcome) => Probe::Settled(outcome),
            None => Probe::NotStarted,
        })
    }

    async fn cancel(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let folder = SessionFolder::of(&self.folder, handle);
        run_blocking(move || {
            folder.kill_processes_if_exists();
            Ok(())
        })
        .await
    }

    async fn forget(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let folder = SessionFolder::of(&self.folder, handle);
        run_blocking(move || {
            folder.kill_processes_if_exists();
            folder.delete().map_err(|error| session_folder::folder_error(&error))
        })
        .await
    }
}

/// Runs work that waits for files or processes on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ProviderError::transient(code::UNREACHABLE, "the session folder cannot be used"))?
}

/// Limits the number of concurrent programs over all profiles.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSlots {
    semaphore: Arc<Semaphore>,
    most: usize,
}

impl ProcessSlots {
    pub(crate) fn new(most: Option<usize>) -> Self {
        let most = most.unwrap_or(4).max(1);
        Self { semaphore: Arc::new(Semaphore::new(most)), most }
    }

    async fn acquire(&self, until: Instant) -> Result<OwnedSemaphorePermit, ProviderError> {
        match timeout_at(until, self.semaphore.clone().acquire_owned()).await {
            Ok(Ok(slot)) if Instant::now() < until => Ok(slot),
            _ => {
                let most = self.most;
                let message = format!("the turn timed out: all {most} programs were busy (processesMax)");
                Err(ProviderError::permanent(code::TIMEOUT, message))
            }
        }
    }
}
