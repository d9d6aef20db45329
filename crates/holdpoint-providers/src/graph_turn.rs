//! One turn of a graph: takes the lock of its handle, sends the start or the answer, records the progress, and returns the
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::extension::{Handle, RunEndWatch, wait_for_run_end};
use holdpoint_engine::{EffectContext, Stop};
use serde_json::Value;
use tokio::time::Instant;

use super::conversion::AnswerRules;
use super::metrics::KindMetrics;
use super::turn_reports::TurnReports;
use super::{
    AnyProvider, GraphAttempt, LockedHandle, Probe, ProviderAnswers, ProviderError, ProviderInterrupt,
    ProviderOutcome, ProviderProgress, Providers, code, graphs,
};

/// The number of attempts to send a start or an answer before the error is reported.
const TRIES: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(300);
/// Default time limit of a turn.
const TURN_MS: u64 = 600_000;
/// The poll interval while another holder has the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The input of a turn.
pub(crate) enum TurnInput {
    Start(Value),
    /// Answers, and the interrupt that they answer.
    Answers(ProviderAnswers, ProviderInterrupt),
}

/// The result of a turn.
pub(crate) enum TurnResult {
    Done(Value),
    Interrupted(ProviderInterrupt, Option<ProviderError>),
    Failed(ProviderError),
}

/// One start or one answer of a graph.
pub(crate) struct GraphTurn {
    pub graph: String,
    /// The number of answers before it.
    pub number: u32,
}

impl GraphTurn {
    /// Performs the turn, and records its progress.
    pub(crate) async fn perform(
        &self,
        context: &mut EffectContext,
        input: &TurnInput,
    ) -> Result<TurnResult, Stop> {
        let found = Providers::of(context.engine()).find(&self.graph, &context.of().tenant);
        let (provider, name) = match found {
            Ok(found) => found,
            Err(failure) => return Ok(failed_turn(input, failure)),
        };
        let row = graphs::find_handle(context.engine(), &context.of(), &self.graph).await.map_err(to_stop)?;
        let Some(row) = row else { return Ok(failed_turn(input, conversation_ended())) };
        let mut handle = self.open(context, &row, name, input).await?;
        if handle.row().settled_at.is_some() {
            handle.close().await;
            // If the run has ended, the node gets its stop, not the error about the conversation.
            RunEndWatch::of(context).check_open().await?;
            return Ok(failed_turn(input, conversation_ended()));
        }
        let outcome = self.execute(context, &provider, &mut handle, input).await;
        if !matches!(outcome, Err(Stop::Broken(_))) {
            handle.close().await;
        }
        Ok(match outcome? {
            Ok(ProviderOutcome::Completed(output)) => TurnResult::Done(output),
            Ok(ProviderOutcome::Interrupted(interrupt)) => TurnResult::Interrupted(interrupt, None),
            Ok(ProviderOutcome::Cancelled) => TurnResult::Failed(ProviderError::permanent(
                "provider_cancelled",
                "the graph was cancelled at the provider",
            )),
            Err(failure) => failed_turn(input, failure),
        })
    }

    /// Sends the input under the lock, waits for the outcome, and records the progress until then.
    async fn execute(
        &self,
        context: &mut EffectContext,
        provider: &AnyProvider,
        handle: &mut LockedHandle,
        input: &TurnInput,
    ) -> Result<Result<ProviderOutcome, ProviderError>, Stop> {
        let (engine, of) = (context.engine().clone(), context.of());
        // Subscribes before the first check, so that the end of the run is not missed.
        let mut news = engine.events().subscribe(&of);
        RunEndWatch::of(context).check_open().await?;
        let (metrics, begun) = (Providers::of(&engine).metrics.of_graph(&self.graph), Instant::now());
        let streamed = context.run().node_state(&context.node().id).and_then(|state| state.streamed);
        let agent = context.agent().map(Arc::as_ref);
        let mut reports = TurnReports::new(agent, streamed, handle.collect_reports(provider.reasoning()));
        let handle = &*handle;
        let work = async {
            tokio::select! {
                outcome = send_with_retries(provider, handle, input, &metrics) => Ok(outcome),
                () = handle.lock_lost() => Err(lock_lost()),
                stop = wait_for_run_end(&engine, &of, &mut news) => Err(stop),
            }
        };
        let outcome = match reports.record_during(context, handle, work).await {
            Ok(Ok(Err(failure))) if failure.code == code::LOCK_LOST => return Err(lock_lost()),
            Ok(Ok(outcome)) => outcome,
            // The graph continues: another worker has the claim, or this one claims the run again.
            Ok(Err(stop @ Stop::Broken(_))) | Err(stop) if stop != Stop::Cancelled => return Err(stop),
            Ok(Err(stop)) | Err(stop) => {
                cancel_graph(provider, handle).await;
                return Err(stop);
            }
        };
        metrics.count_turn(&outcome, begun.elapsed());
        reports.count(&metrics, begun);
        context.apply_actions(reports.finish(handle))?;
        if has_executed(&outcome) {
            // If this write fails, a turn after a lost state starts the graph from its beginning.
            let _ = handle.record_execution().await;
        }
        if matches!(outcome, Ok(ProviderOutcome::Completed(_) | ProviderOutcome::Cancelled)) {
            // On failure, the handle expires at its deadline.
            let _ = handle.expire_after_retention().await;
        }
        Ok(outcome)
    }

    /// Waits for the lock until its holder releases it or it expires.
    async fn open(
        &self,
        context: &EffectContext,
        row: &Handle,
        name: String,
        input: &TurnInput,
    ) -> Result<LockedHandle, Stop> {
        let begun = Instant::now();
        loop {
            let attempt = GraphAttempt {
                starts_turn: matches!(input, TurnInput::Start(_)),
                ..self.attempt(context, name.clone())
            };
            let opened = LockedHandle::open(context.engine(), row, attempt).await;
            if let Some(handle) = opened.map_err(to_stop)? {
                let metrics = Providers::of(context.engine()).metrics.of_graph(&self.graph);
                metrics.count_lock_wait(begun.elapsed());
                return Ok(handle);
            }
            RunEndWatch::of(context).check_open().await?;
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        }
    }

    /// Returns the rules for answers: those of the node joined with those of the provider. Returns None if the
    /// operator's file no longer has the provider; then the rules of the last interrupt still apply.
    pub(crate) fn rules(&self, context: &EffectContext) -> Option<AnswerRules> {
        let found = Providers::of(context.engine()).find(&self.graph, &context.of().tenant);
        let own = AnswerRules::from_config(context.config());
        found.ok().map(|(provider, _)| match provider.approval() {
            Some(approval) => own.joined(approval, &self.graph),
            None => own,
        })
    }

    fn attempt(&self, context: &EffectContext, name: String) -> GraphAttempt {
        let slot = format!("{}/{}", context.node().id, context.visit());
        let attempt = format!("{}/{slot}/{}", context.run_id(), self.number);
        let turn_ms = context.config().get("turnMs").and_then(Value::as_u64).unwrap_or(TURN_MS);
        let within = Duration::from_millis(turn_ms);
        GraphAttempt { graph: self.graph.clone(), name, slot, attempt, starts_turn: false, within }
    }

    /// Cancels the graph. Ignores errors.
    pub(crate) async fn give_up(&self, context: &EffectContext, input: &TurnInput) {
        let Ok((provider, name)) = Providers::of(context.engine()).find(&self.graph, &context.of().tenant)
        else {
            return;
        };
        let found = graphs::find_handle(context.engine(), &context.of(), &self.graph).await;
        let Ok(Some(row)) = found else { return };
        if let Ok(handle) = self.open(context, &row, name, input).await {
            cancel_graph(&provider, &handle).await;
            handle.close().await;
        }
    }
}

/// Sends the input and retries transient errors. A retry probes the provider first.
async fn send_with_retries(
    provider: &AnyProvider,
    handle: &LockedHandle,
    input: &TurnInput,
    metrics: &KindMetrics,
) -> Result<ProviderOutcome, ProviderError> {
    if matches!(input, TurnInput::Answers(..)) && handle.reference().is_none() {
        let message = "the provider has no state for this run; a fork has no graph of its own";
        return Err(ProviderError::permanent(code::STATE_LOST, message));
    }
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match send_once(provider, handle, input).await {
            Err(failure) if failure.is_transient && failure.code != code::LOCK_LOST => {
                tracing::info!(
                    provider = provider.name(),
                    code = failure.code,
                    "retrying a call to a provider"
                );
                handle.report(ProviderProgress::Restarted);
                metrics.count_retry();
                tokio::time::sleep(wait).await;
                wait *= 4;
            }
            other => return other,
        }
    }
    send_once(provider, handle, input).await
}

async fn send_once(
    provider: &AnyProvider,
    handle: &LockedHandle,
    input: &TurnInput,
) -> Result<ProviderOutcome, ProviderError> {
    if handle.may_have_been_sent() {
        if let Probe::Settled(outcome) = provider.probe(handle).await? {
            return Ok(outcome);
        }
    } else {
        let reference = handle.reference().unwrap_or_else(|| provider.plan(handle));
        handle.begin(reference).await?;
    }
    match input {
        TurnInput::Start(input) if handle.starts_next_turn() => provider.next_turn(handle, input).await,
        TurnInput::Start(input) => provider.start(handle, input).await,
        TurnInput::Answers(answers, _) => provider.resume(handle, answers).await,
    }
}

/// Returns the result of a failed turn. After an answer the interrupt is opened again, unless another answer cannot
/// help.
fn failed_turn(input: &TurnInput, failure: ProviderError) -> TurnResult {
    let is_final = [code::GRAPH, code::STATE_LOST, code::TOO_LARGE].contains(&failure.code);
    match input {
        TurnInput::Answers(_, interrupt) if !is_final => {
            TurnResult::Interrupted(interrupt.clone(), Some(failure))
        }
        TurnInput::Start(_) | TurnInput::Answers(..) => TurnResult::Failed(failure),
    }
}

/// Returns whether the provider has executed the graph, so that it has a state of it.
fn has_executed(outcome: &Result<ProviderOutcome, ProviderError>) -> bool {
    match outcome {
        Ok(ProviderOutcome::Completed(_) | ProviderOutcome::Interrupted(_)) => true,
        Ok(ProviderOutcome::Cancelled) => false,
        Err(failure) => failure.code == code::GRAPH,
    }
}

fn conversation_ended() -> ProviderError {
    let message = "the conversation was deleted or has expired; start a new one under another stateKey";
    ProviderError::permanent(code::STATE_LOST, message)
}

fn lock_lost() -> Stop {
    Stop::Broken("another process executes the graph".to_owned())
}

async fn cancel_graph(provider: &AnyProvider, handle: &LockedHandle) {
    if let Err(failure) = provider.cancel(handle).await {
        tracing::warn!(provider = provider.name(), code = failure.code, "cannot cancel a graph");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn to_stop(error: holdpoint_engine::Error) -> Stop {
    Stop::Broken(error.to_string())
}
