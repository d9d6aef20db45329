//! One attempt in its session folder: updates the conversation, runs the program at most once, and stores the outcome
//! before it returns.

use std::path::Path;

use tokio::time::Instant;

use super::super::{LockedHandle, ProviderError, ProviderInterrupt, ProviderOutcome, code};
use super::command::{SessionMode, command};
use super::dialogue::Dialogue;
use super::mapping::{self, CallDecision};
use super::next_step::{AttemptPurpose, NextStep, next_step, step_of_next_turn};
use super::permission_hook::{PendingDecision, PermissionHook};
use super::process::AgentProcess;
use super::progress::AgentProgress;
use super::redaction::Redactor;
use super::reference::{ClaudeReference, DeferredCall, TurnStart};
use super::run_blocking;
use super::session_folder::{FolderLock, SessionFolder, folder_error};
use super::settings::ClaudeSettings;
use super::transcript::Transcript;
use super::turn_end::{TurnEnd, interpret, output_from_transcript};
use super::version::start_error;

/// The prompt that continues a session without an answer.
const CONTINUE_PROMPT: &str = "Continue from where you left off.";

pub(super) struct ClaudeTurn<'a> {
    settings: &'a ClaudeSettings,
    handle: &'a LockedHandle,
    folder: SessionFolder,
    // Keeps other programs out of the folder.
    _held: FolderLock,
    pub(super) reference: ClaudeReference,
    transcript: Option<Transcript>,
    /// The part of the conversation since this attempt began, if the attempt starts a further turn.
    since_turn: Option<Transcript>,
    /// The length of the conversation.
    bytes: usize,
    pub(super) until: Instant,
}

impl<'a> ClaudeTurn<'a> {
    pub(super) async fn open(
        settings: &'a ClaudeSettings,
        all: &Path,
        handle: &'a LockedHandle,
    ) -> Result<Self, ProviderError> {
        let reference = ClaudeReference::of(handle)?;
        let mut folder = SessionFolder::of(all, handle);
        let (folder, held) = run_blocking(move || {
            let held = folder.lock().map_err(|error| folder_error(&error))?;
            Ok((folder, held))
        })
        .await?;
        let busy =
            || ProviderError::transient(code::BUSY, "another process of this machine uses the session");
        let _held = held.ok_or_else(busy)?;
        let until = handle.deadline();
        let mut turn = Self {
            settings,
            handle,
            folder,
            _held,
            reference,
            transcript: None,
            since_turn: None,
            bytes: 0,
            until,
        };
        turn.catch_up().await?;
        Ok(turn)
    }

    /// Fetches the conversation if another machine has continued it.
    async fn catch_up(&mut self) -> Result<(), ProviderError> {
        let (folder, session) = (self.folder.clone(), self.reference.session.clone());
        let behind = folder.turn() < self.reference.turn;
        if behind && let Some(content) = self.handle.attachment().await? {
            let (folder, turn) = (self.folder.clone(), self.reference.turn);
            run_blocking(move || {
                folder.restore(&session, &content)?;
                folder.record_turn(turn).map_err(|error| folder_error(&error))
            })
            .await?;
        }
        self.read().await.map(drop)
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, ProviderError> {
        let (folder, session) = (self.folder.clone(), self.reference.session.clone());
        let content = run_blocking(move || folder.conversation(&session)).await?;
        self.transcript = content.as_deref().map(Transcript::read);
        self.bytes = content.as_ref().map_or(0, Vec::len);
        let own = self.reference.next_turn.as_ref().filter(|turn| turn.attempt == self.handle.attempt());
        self.since_turn = own.map(|turn| {
            let since = content.as_deref().and_then(|content| content.get(turn.bytes..));
            Transcript::read(since.unwrap_or_default())
        });
        Ok(content)
    }

    pub(super) fn step(&self, purpose: &AttemptPurpose<'_>) -> NextStep {
        if self.handle.starts_next_turn() {
            return step_of_next_turn(&self.reference, self.since_turn.as_ref(), self.handle.attempt());
        }
        next_step(&self.reference, self.transcript.as_ref(), self.handle.attempt(), purpose, self.settings)
    }

    /// Returns the outcome of a step that needs no program, or None.
    pub(super) async fn outcome_without_program(
        &mut self,
        step: NextStep,
    ) -> Result<Option<ProviderOutcome>, ProviderError> {
        let redactor = self.redactor();
        let content = self.read().await?;
        if let Some(own) = content.as_deref().and_then(|content| self.part_of_turn(content)) {
            // The process that ran the program may have ended before it recorded the messages.
            AgentProgress::new(self.handle, self.redactor()).report_transcript(own);
        }
        Ok(match step {
            NextStep::AwaitDecision(call) => {
                self.attach(content.as_deref()).await?;
                Some(ProviderOutcome::Interrupted(self.record_interrupt(call).await?))
            }
            NextStep::OutcomeUnknown(call, input) => Some(ProviderOutcome::Interrupted(
                mapping::outcome_unknown_interrupt(&call, input.as_ref(), &redactor)
                    .about_call(Some(self.handle.call_id(&call.id))),
            )),
            NextStep::Done(words) => {
                Some(ProviderOutcome::Completed(redactor.redact(&output_from_transcript(&words))))
            }
            NextStep::Begin
            | NextStep::Restart
            | NextStep::Continue
            | NextStep::Decide(_)
            | NextStep::Lost => None,
        })
    }

    /// Returns the part of the conversation that belongs to the current turn. The runs of earlier turns have recorded the
    /// part before it. Returns None if the turn has not reached the program.
    fn part_of_turn<'c>(&self, content: &'c [u8]) -> Option<&'c [u8]> {
        if self.handle.starts_next_turn() && self.since_turn.is_none() {
            return None;
        }
        content.get(self.reference.next_turn.as_ref().map_or(0, |turn| turn.bytes)..)
    }

    pub(super) async fn begin(self, prompt: Option<&str>) -> Result<ProviderOutcome, ProviderError> {
        let session = self.reference.session.clone();
        self.run(&SessionMode::New(&session), prompt, None).await
    }

    /// Returns the call that waited for a decision when the last turn was cancelled.
    pub(super) fn abandoned_call(&self) -> Option<DeferredCall> {
        let earlier = self.transcript.as_ref().filter(|_| self.since_turn.is_none())?;
        earlier.open_call().cloned()
    }

    /// Sends the prompt of a further turn to the session, or begins the session if no turn has reached the program.
    pub(super) async fn begin_next_turn(
        mut self,
        prompt: Option<&str>,
    ) -> Result<ProviderOutcome, ProviderError> {
        if self.reference.is_too_large {
            let message = "the conversation of the agent is too large for another turn";
            return Err(ProviderError::permanent(code::STATE_LOST, message));
        }
        let is_new = self.transcript.is_none();
        if is_new && self.handle.has_executed() {
            return Err(session_lost());
        }
        (self.reference.deferred, self.reference.allowed) = (None, None);
        let attempt = self.handle.attempt().to_owned();
        self.reference.next_turn = Some(TurnStart { attempt, bytes: self.bytes });
        let session = self.reference.session.clone();
        let mode = if is_new { SessionMode::New(&session) } else { SessionMode::Resumed(&session) };
        self.run(&mode, prompt, None).await
    }

    pub(super) async fn continue_session(self) -> Result<ProviderOutcome, ProviderError> {
        let session = self.reference.session.clone();
        self.run(&SessionMode::Resumed(&session), Some(CONTINUE_PROMPT), None).await
    }

    pub(super) async fn decide(
        self,
        call: &DeferredCall,
        decision: &CallDecision,
    ) -> Result<ProviderOutcome, ProviderError> {
        let before = self.reference.allowed_call(&call.id);
        let input = match decision {
            CallDecision::Edit(input) => Some(self.redactor().restore(input)),
            CallDecision::Retry => before.and_then(|allowed| allowed.input.clone()),
            CallDecision::Approve | CallDecision::Reject(_) | CallDecision::Reply(_) => None,
        };
        let decided = PendingDecision { call, decision, repeated: before.is_some(), input };
        let session = self.reference.session.clone();
        self.run(&SessionMode::Resumed(&session), None, Some(decided)).await
    }

    async fn run(
        mut self,
        which: &SessionMode<'_>,
        prompt: Option<&str>,
        decided: Option<PendingDecision<'_>>,
    ) -> Result<ProviderOutcome, ProviderError> {
        self.reference.keep(self.handle).await?;
        let command = command(self.settings, &self.folder, which).await?;
        let running = AgentProcess::start(command, self.folder.root().to_owned())
            .map_err(|error| start_error(&error))?;
        if let Some(pid) = running.pid() {
            self.folder.record_process(pid).map_err(|error| folder_error(&error))?;
        }
        let progress = AgentProgress::new(self.handle, self.redactor());
        let dialogue = Dialogue {
            handle: self.handle,
            reference: &mut self.reference,
            hook: PermissionHook::new(self.settings, decided),
            progress,
            until: self.until,
            first_event: self.settings.first_event(),
        };
        let program_output = dialogue.run(running, prompt).await?;
        let settled = interpret(&program_output);
        let content = self.read().await;
        if let Ok(TurnEnd::Done(output)) = settled {
            match content {
                Ok(content) => self.attach(content.as_deref()).await?,
                // The size matters only for the next turn.
                Err(_) => {
                    self.reference.is_too_large = true;
                    self.reference.keep(self.handle).await?;
                }
            }
            return Ok(ProviderOutcome::Completed(self.redactor().redact(&output)));
        }
        self.attach(content?.as_deref()).await?;
        match settled {
            Ok(TurnEnd::Deferred(call)) => {
                Ok(ProviderOutcome::Interrupted(self.record_interrupt(call).await?))
            }
            Ok(TurnEnd::Done(output)) => Ok(ProviderOutcome::Completed(output)),
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Adds to an error message that the decision was carried out, or that the tools have changed, if this is the case.
    fn explain(&self, mut failure: ProviderError) -> ProviderError {
        let pending = self.reference.deferred.as_ref().zip(self.transcript.as_ref());
        let made = pending.is_some_and(|(call, transcript)| transcript.has_result(&call.id));
        if made {
            failure
                .message
                .push_str("; the decision was carried out, and any further answer continues the session");
        }
        if failure.code == code::MISCONFIGURED && self.reference.tools != self.settings.tools_digest() {
            failure.message.push_str("; the profile's tools or servers have changed since the session began");
        }
        failure
    }

    /// Stores the conversation, so that any machine can continue it.
    async fn attach(&mut self, content: Option<&[u8]>) -> Result<(), ProviderError> {
        let Some(content) = content else { return Ok(()) };
        self.handle.keep_attachment(content).await?;
        self.reference.turn += 1;
        self.reference.keep(self.handle).await?;
        self.folder.record_turn(self.reference.turn).map_err(|error| folder_error(&error))
    }

    async fn record_interrupt(&mut self, mut call: DeferredCall) -> Result<ProviderInterrupt, ProviderError> {
        call.attempt = self.handle.attempt().to_owned();
        let interrupt =
            mapping::to_interrupt(&call, &self.redactor()).about_call(Some(self.handle.call_id(&call.id)));
        self.reference.deferred = Some(call);
        self.reference.keep(self.handle).await?;
        Ok(interrupt)
    }

    fn redactor(&self) -> Redactor {
        Redactor::new(self.folder.root(), &self.folder.work(), &self.reference.session)
    }
}

pub(super) fn session_lost() -> ProviderError {
    ProviderError::permanent(
        code::STATE_LOST,
        "the conversation of the agent is missing or does not wait for this answer",
    )
}
