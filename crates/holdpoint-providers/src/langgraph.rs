//! Graphs on a LangGraph server: one thread per graph, and one server run for each start and each answer.
//!
//! The metadata of a server run contains the id of its attempt, so that a retry finds the run. The outcome is read from
//! the thread state. Answers are sent with the server's interrupt ids, so a late answer cannot answer another
//! interrupt.

use std::path::Path;
use std::time::Duration;

use holdpoint_core::agent::ReasoningVisibility;
use holdpoint_engine::{OperatorApproval, Tenants};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    BadProviders, LockedHandle, Probe, Provider, ProviderAnswers, ProviderError, ProviderOutcome, code,
};

mod mapping;
mod messages;
mod outcome;
mod redaction;
mod reference;
mod reviewed_action;
mod run_stream;
mod scrub;
mod server;
mod settings;

use outcome::{outcome_of_run, outcome_of_state, thread_gone};
use reference::LangGraphReference;
use run_stream::RunStream;
use server::{LangGraphServer, RunStart, ServerRun, StreamLimits, ThreadState};
pub(crate) use settings::LangGraphSettings;

/// The shortest and the longest delay between two polls if the server responds before the requested wait has passed.
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(2);

pub(crate) struct LangGraph {
    tenants: Tenants,
    approval: OperatorApproval,
    reasoning: ReasoningVisibility,
    server: LangGraphServer,
}

impl LangGraph {
    pub(crate) fn new(settings: LangGraphSettings, base: &Path) -> Result<Self, BadProviders> {
        let server = LangGraphServer::new(&settings, base)?;
        let LangGraphSettings { tenants, approval, reasoning, .. } = settings;
        Ok(Self { server, tenants, approval, reasoning })
    }

    /// Returns the state of a thread that was started. A server that was killed may have only the checkpoints, which it
    /// finds after the thread is created again.
    async fn existing_state(
        &self,
        handle: &LockedHandle,
        reference: &LangGraphReference,
    ) -> Result<ThreadState, ProviderError> {
        let mut found = self.server.state(&reference.thread).await?;
        if found.is_none() {
            tracing::info!("a server lost a thread; creating it again");
            self.server.create_thread(&reference.thread, handle.provider_graph()).await?;
            found = self.server.state(&reference.thread).await?;
        }
        let unknown = || ProviderError::permanent(code::REJECTED, "the server no longer has the graph");
        let state = found.ok_or_else(unknown)?;
        if state.is_empty() { Err(state_lost()) } else { Ok(state) }
    }

    /// Continues a thread without an answer: waits for its active run, continues from the last checkpoint, or returns
    /// the outcome of its state.
    async fn continue_thread(
        &self,
        handle: &LockedHandle,
        reference: LangGraphReference,
        state: ThreadState,
    ) -> Result<ProviderOutcome, ProviderError> {
        if state.open_interrupts().is_empty() && !state.next.is_empty() {
            let runs = self.server.runs(&reference.thread).await?;
            return match runs.iter().find(|run| run.is_active()) {
                Some(run) => self.wait_for_run(handle, reference, &run.run_id).await,
                // Without input a graph continues from its last checkpoint.
                None => self.send(handle, reference, "input", Value::Null).await,
            };
        }
        outcome_of_state(handle, reference, state).await
    }

    async fn send(
        &self,
        handle: &LockedHandle,
        reference: LangGraphReference,
        member: &str,
        content: Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        let body = json!({
            "assistant_id": handle.provider_graph(),
            member: content,
            "multitask_strategy": "reject",
            "durability": "sync",
            // The whole text of a message comes with every token: `messages`, not `messages-tuple`.
            "stream_mode": ["messages", "updates"],
            "stream_subgraphs": true,
            "metadata": { "resume_id": handle.attempt() },
        });
        let run = match self.server.create_run(&reference.thread, &body).await? {
            RunStart::Started(run) => run,
            RunStart::NoThread => return Err(thread_gone()),
            // The active run may be that of an earlier request of the same attempt.
            RunStart::Busy => {
                let runs = self.server.runs(&reference.thread).await?;
                find_run(&runs, handle).ok_or_else(busy_error)?.run_id.clone()
            }
        };
        self.wait_for_run(handle, reference, &run).await
    }

    /// Reads the stream of a run until it ends, or waits for its end in calls of limited length if the server cannot
    /// stream it. Stops the run at the deadline. Tolerates a temporary outage of the server.
    async fn wait_for_run(
        &self,
        handle: &LockedHandle,
        reference: LangGraphReference,
        run: &str,
    ) -> Result<ProviderOutcome, ProviderError> {
        let until = handle.deadline().min(Instant::now() + self.server.timeouts.run);
        let (mut poll, mut last_response) = (POLL_MIN, Instant::now());
        let redaction = self.server.redaction(&reference.thread, run);
        let (mut stream, mut can_stream) = (RunStream::new(handle, redaction), true);
        loop {
            let call_started = Instant::now();
            let left = until.saturating_duration_since(call_started);
            let within = self.server.timeouts.wait.min(left);
            // The result of the calls does not matter: the status of the run decides.
            if can_stream {
                let limits = StreamLimits { within: left, idle: within };
                let read = self.server.read_stream(&reference.thread, run, limits, &mut stream).await;
                can_stream = read.unwrap_or(true);
                last_response = stream.last_event().map_or(last_response, |at| at.max(last_response));
            }
            if !can_stream {
                let _ = self.server.join(&reference.thread, run, within).await;
            }
            match self.server.run(&reference.thread, run).await {
                Ok(Some(found)) if found.is_active() => last_response = Instant::now(),
                Ok(Some(found)) => return outcome_of_run(&self.server, handle, reference, &found).await,
                Ok(None) => return Err(thread_gone()),
                Err(failure)
                    if failure.is_transient && last_response.elapsed() < self.server.timeouts.outage => {}
                Err(failure) => return Err(failure),
            }
            if Instant::now() >= until {
                return self.stop_late_run(handle, reference, run).await;
            }
            if call_started.elapsed() < within {
                tokio::time::sleep(poll).await;
                poll = (poll * 2).min(POLL_MAX);
            } else {
                poll = POLL_MIN;
            }
        }
    }

    /// Stops a run at its deadline. Returns the outcome of a run that ended before it could be stopped.
    async fn stop_late_run(
        &self,
        handle: &LockedHandle,
        reference: LangGraphReference,
        run: &str,
    ) -> Result<ProviderOutcome, ProviderError> {
        self.server.cancel_run(&reference.thread, run).await?;
        match self.server.run(&reference.thread, run).await? {
            Some(found) if found.status != "interrupted" && !found.is_active() => {
                outcome_of_run(&self.server, handle, reference, &found).await
            }
            _ => Err(ProviderError::permanent(
                code::TIMEOUT,
                "the graph exceeded its time limit and was stopped",
            )),
        }
    }
}

impl Provider for LangGraph {
    fn name(&self) -> &str {
        "langgraph"
    }

    fn approval(&self) -> Option<&OperatorApproval> {
        Some(&self.approval)
    }

    fn reasoning(&self) -> ReasoningVisibility {
        self.reasoning
    }

    fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    fn plan(&self, handle: &LockedHandle) -> Value {
        LangGraphReference::new(handle).json()
    }

    async fn start(&self, handle: &LockedHandle, input: &Value) -> Result<ProviderOutcome, ProviderError> {
        self.server.check_version().await?;
        let reference = LangGraphReference::of(handle)?;
        if !self.server.create_thread(&reference.thread, handle.provider_graph()).await? {
            let runs = self.server.runs(&reference.thread).await?;
            if let Some(run) = find_run(&runs, handle) {
                return self.wait_for_run(handle, reference, &run.run_id).await;
            }
            if !runs.is_empty() {
                let message = "the thread of the graph has runs of another client";
                return Err(ProviderError::permanent(code::BUSY, message));
            }
        }
        // A server that was killed can lose the thread and the run but keep the checkpoints.
        // A server without the graph returns no state. This is no error here: the server rejects the start of the run.
        let state = self.server.state(&reference.thread).await?.unwrap_or_default();
        if state.is_empty() {
            let input = if input.is_null() { json!({}) } else { input.clone() };
            return self.send(handle, reference, "input", input).await;
        }
        self.continue_thread(handle, reference, state).await
    }

    async fn next_turn(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        self.server.check_version().await?;
        let reference = LangGraphReference::of(handle)?;
        self.server.create_thread(&reference.thread, handle.provider_graph()).await?;
        let runs = self.server.runs(&reference.thread).await?;
        if let Some(run) = find_run(&runs, handle) {
            return self.wait_for_run(handle, reference, &run.run_id).await;
        }
        let state = self.server.state(&reference.thread).await?.unwrap_or_default();
        if state.is_empty() && handle.has_executed() {
            return Err(state_lost());
        }
        let checkpoint = state.checkpoint_id();
        // A server that was killed can lose the run but keep its checkpoints: then the input was received.
        if reference.checkpoint_before(handle.attempt()).is_some_and(|before| before != checkpoint) {
            return self.continue_thread(handle, reference, state).await;
        }
        let reference = reference.with_checkpoint(handle.attempt(), checkpoint);
        handle.keep(reference.json()).await?;
        let input = if input.is_null() { json!({}) } else { input.clone() };
        self.send(handle, reference, "input", input).await
    }

    async fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> Result<ProviderOutcome, ProviderError> {
        self.server.check_version().await?;
        let reference = LangGraphReference::of(handle)?;
        let state = self.existing_state(handle, &reference).await?;
        let named = to_server_ids(&reference, handle, answers)?;
        let mut open = Map::new();
        for server_interrupt in state.open_interrupts() {
            if let Some(answer) = named.get(&server_interrupt.id) {
                let answer = server_interrupt.to_graph_answer(answer.clone());
                open.insert(server_interrupt.id, answer);
            }
        }
        if open.is_empty() {
            // All interrupts are answered: an earlier attempt was successful.
            return self.continue_thread(handle, reference, state).await;
        }
        self.send(handle, reference, "command", json!({ "resume": open })).await
    }

    async fn probe(&self, handle: &LockedHandle) -> Result<Probe, ProviderError> {
        let reference = LangGraphReference::of(handle)?;
        let runs = self.server.runs(&reference.thread).await?;
        let Some(run) = find_run(&runs, handle) else { return Ok(Probe::NotStarted) };
        if run.is_active() {
            return Ok(Probe::Running);
        }
        outcome_of_run(&self.server, handle, reference, run).await.map(Probe::Settled)
    }

    async fn cancel(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let Some(thread) = thread_of(handle) else { return Ok(()) };
        for run in self.server.runs(&thread).await?.iter().filter(|run| run.is_active()) {
            self.server.cancel_run(&thread, &run.run_id).await?;
        }
        Ok(())
    }

    async fn forget(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let Some(thread) = thread_of(handle) else { return Ok(()) };
        self.server.delete_thread(&thread).await
    }
}

fn find_run<'a>(runs: &'a [ServerRun], handle: &LockedHandle) -> Option<&'a ServerRun> {
    runs.iter().find(|run| run.is_for(handle.attempt()))
}

/// Returns the answers by the server's interrupt ids. A single interrupt is shown without a key, so its answer is not
/// looked up by key: it may be the last of several interrupts and have a key other than `i0`.
fn to_server_ids(
    reference: &LangGraphReference,
    handle: &LockedHandle,
    answers: &ProviderAnswers,
) -> Result<Map<String, Value>, ProviderError> {
    let ids = reference.ids_answered_by(handle.attempt());
    let only = ids.values().next().filter(|_| ids.len() == 1 && answers.len() == 1);
    let named = answers.iter().map(|(key, value)| match only.or_else(|| ids.get(key)) {
        Some(name) => Ok((name.clone(), value.clone())),
        None => Err(ProviderError::permanent(
            code::REJECTED,
            format!("answer: there is no open interrupt {key:?}"),
        )),
    });
    named.collect()
}

fn thread_of(handle: &LockedHandle) -> Option<String> {
    LangGraphReference::of(handle).ok().map(|reference| reference.thread)
}

fn state_lost() -> ProviderError {
    ProviderError::permanent(code::STATE_LOST, "the server no longer has the state of the graph")
}

fn busy_error() -> ProviderError {
    ProviderError::transient(code::BUSY, "another client runs the graph")
}
