//! The node type `core.provider`: a graph that a provider executes. Every interrupt of the graph is an interrupt of the
//! run. When the node is entered again, it reads the answers in order. All except the last one were already sent.

use std::time::Duration;

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ASSIGNEE_MEMBERS, InterruptRequest, Resolution};
use holdpoint_engine::extension::{
    Handle, RunEndWatch, config_flaw, config_ms, config_text, unknown_config, wait_for_run_end,
};
use holdpoint_engine::{Context, EffectContext, Node, Outputs, Stop};
use serde_json::Value;

use super::conversion::{self, AnswerRules};
use super::{
    AnyProvider, GraphAttempt, LockedHandle, Probe, ProviderAnswers, ProviderError, ProviderInterrupt,
    ProviderOutcome, Providers, code, graphs,
};

/// The number of attempts to send a start or an answer before the error is reported.
const TRIES: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(300);
/// Default time limit of a turn.
const TURN_MS: u64 = 600_000;
/// The poll interval while another holder has the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct ProviderNode {
    /// The beginnings of the names of graphs.
    pub prefixes: Vec<String>,
}

/// The input of a turn.
enum TurnInput {
    Start(Value),
    /// Answers, and the interrupt that they answer.
    Answers(ProviderAnswers, ProviderInterrupt),
}

/// The result of a turn.
enum TurnResult {
    Done(Value),
    Interrupted(ProviderInterrupt, Option<ProviderError>),
    Failed(ProviderError),
}

impl Node for ProviderNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let known =
            [&["graph", "timeoutMs", "turnMs", conversion::QUORUM][..], &ASSIGNEE_MEMBERS[..]].concat();
        let mut flaws = unknown_config(node, &known);
        match config_text(node, "graph") {
            Ok(Some(graph)) if self.prefixes.iter().any(|prefix| graph.starts_with(prefix.as_str())) => {}
            Ok(_) => {
                let message = format!("must begin with {}", self.prefixes.join(" or "));
                flaws.push(config_flaw(node, "graph", message));
            }
            Err(flaw) => flaws.push(flaw),
        }
        flaws.extend(["timeoutMs", "turnMs"].into_iter().filter_map(|field| config_ms(node, field).err()));
        flaws.extend(
            conversion::find_assignee_flaw(&node.config)
                .map(|bad| config_flaw(node, &bad.field, bad.message)),
        );
        flaws
    }

    fn uses_handle(&self) -> bool {
        true
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let graph = config_text(context.node(), "graph").ok().flatten().unwrap_or_default().to_owned();
        let LastAnswer { input, interrupt_count, is_granted, rules } = last_answer(context)?;
        if is_granted {
            // Records the use of the approval before the provider receives the answer.
            context.step(&format!("answer.{interrupt_count}"), || async { Ok(Value::Null) }).await?;
        }
        // A replay, or a worker that lost its claim, stops here: it must not call the provider.
        context.commit_actions().await?;
        let turn = GraphTurn { graph, number: interrupt_count };
        match turn.perform(context, &input).await? {
            TurnResult::Done(output) => Ok(Outputs::from_iter([("output".to_owned(), output)])),
            TurnResult::Failed(failure) => Err(Stop::failed(failure.code, failure.message)),
            TurnResult::Interrupted(interrupt, failure) => {
                let most = Providers::of(context.engine()).limits.pauses_max;
                if interrupt_count >= most {
                    turn.give_up(context, &input).await;
                    let message = format!("the graph exceeded the limit of {most} interrupts (pausesMax)");
                    return Err(Stop::failed("too_many_pauses", message));
                }
                let artifact = format!("{}.{interrupt_count}", context.artifact_id());
                let rules = turn.rules(context).or(rules);
                let rules = rules.unwrap_or_else(|| AnswerRules::from_config(context.config()));
                let request =
                    conversion::to_request(&turn.graph, artifact, &rules, &interrupt, failure.as_ref());
                context.interrupt(request)?;
                // Not reached: a new interrupt ends the turn.
                Err(Stop::Lost)
            }
        }
    }
}

/// The start or the last answer of a graph.
struct LastAnswer {
    input: TurnInput,
    /// The number of interrupts so far.
    interrupt_count: u32,
    /// The answer approves a tool call.
    is_granted: bool,
    /// The rules for answers to the last interrupt.
    rules: Option<AnswerRules>,
}

/// Reads the answers in order. All of them except the last were sent.
fn last_answer(context: &mut EffectContext) -> Result<LastAnswer, Stop> {
    let mut last = LastAnswer {
        input: TurnInput::Start(start_input(context)),
        interrupt_count: 0,
        is_granted: false,
        rules: None,
    };
    while let Some(run_interrupt) = context.next_interrupt().cloned() {
        if let Some(Resolution::Answered { value, .. }) = &run_interrupt.resolution {
            last.input = TurnInput::Answers(
                conversion::to_provider_answers(&run_interrupt, value.clone()),
                conversion::to_provider_interrupt(&run_interrupt),
            );
        }
        last.is_granted = run_interrupt.is_granted();
        last.rules = Some(AnswerRules::from_interrupt(&run_interrupt));
        context.interrupt(InterruptRequest::new(run_interrupt.kind, Value::clone(&run_interrupt.data)))?;
        last.interrupt_count += 1;
    }
    Ok(last)
}

/// Returns the start input: the port `input`, or all ports. Without ports, the variable `input`, or all variables.
fn start_input(context: &Context) -> Value {
    let ports = (!context.inputs.is_empty()).then(|| Value::Object(context.inputs.clone()));
    let all = ports.unwrap_or_else(|| context.variables().clone());
    all.get("input").cloned().unwrap_or(all)
}

/// One start or one answer of a graph.
struct GraphTurn {
    graph: String,
    number: u32,
}

impl GraphTurn {
    async fn perform(&self, context: &mut EffectContext, input: &TurnInput) -> Result<TurnResult, Stop> {
        let found = Providers::of(context.engine()).find(&self.graph, &context.of().tenant);
        let (provider, name) = match found {
            Ok(found) => found,
            Err(failure) => return Ok(failed_turn(input, failure)),
        };
        // Subscribes before the first check, so that the end of the run is not missed.
        let mut news = context.engine().events().subscribe(&context.of());
        let row = graphs::find_handle(context.engine(), &context.of(), &self.graph).await.map_err(to_stop)?;
        let Some(row) = row else { return Ok(failed_turn(input, conversation_ended())) };
        let handle = self.open(context, &row, name, input).await?;
        let ended = RunEndWatch::of(context).check_open().await;
        if handle.row().settled_at.is_some() || ended.is_err() {
            handle.close().await;
            return ended.map(|()| failed_turn(input, conversation_ended()));
        }
        let (engine, of) = (context.engine().clone(), context.of());
        let outcome = tokio::select! {
            outcome = send_with_retries(&provider, &handle, input) => outcome,
            () = handle.lock_lost() => Err(ProviderError::transient(code::LOCK_LOST, "another process has taken over the graph")),
            stop = wait_for_run_end(&engine, &of, &mut news) => {
                cancel_graph(&provider, &handle).await;
                handle.close().await;
                return Err(stop);
            }
        };
        if outcome.as_ref().is_err_and(|failure| failure.code == code::LOCK_LOST) {
            return Err(Stop::Broken("another process executes the graph".to_owned()));
        }
        if has_executed(&outcome) {
            // On failure, a turn after a lost state starts anew.
            let _ = handle.record_execution().await;
        }
        if matches!(outcome, Ok(ProviderOutcome::Completed(_) | ProviderOutcome::Cancelled)) {
            // On failure, the handle expires at its deadline.
            let _ = handle.expire_after_retention().await;
        }
        handle.close().await;
        Ok(match outcome {
            Ok(ProviderOutcome::Completed(output)) => TurnResult::Done(output),
            Ok(ProviderOutcome::Interrupted(interrupt)) => TurnResult::Interrupted(interrupt, None),
            Ok(ProviderOutcome::Cancelled) => TurnResult::Failed(ProviderError::permanent(
                "provider_cancelled",
                "the graph was cancelled at the provider",
            )),
            Err(failure) => failed_turn(input, failure),
        })
    }

    /// Waits for the lock until its holder releases it or it expires.
    async fn open(
        &self,
        context: &EffectContext,
        row: &Handle,
        name: String,
        input: &TurnInput,
    ) -> Result<LockedHandle, Stop> {
        loop {
            let attempt = GraphAttempt {
                starts_turn: matches!(input, TurnInput::Start(_)),
                ..self.attempt(context, name.clone())
            };
            let opened = LockedHandle::open(context.engine(), row, attempt).await;
            if let Some(handle) = opened.map_err(to_stop)? {
                return Ok(handle);
            }
            RunEndWatch::of(context).check_open().await?;
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        }
    }

    /// Returns the rules for answers: those of the node joined with those of the provider. Returns None if the
    /// operator's file no longer has the provider; then the rules of the last interrupt still apply.
    fn rules(&self, context: &EffectContext) -> Option<AnswerRules> {
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
    async fn give_up(&self, context: &EffectContext, input: &TurnInput) {
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

async fn cancel_graph(provider: &AnyProvider, handle: &LockedHandle) {
    if let Err(failure) = provider.cancel(handle).await {
        tracing::warn!(provider = provider.name(), code = failure.code, "cannot cancel a graph");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn to_stop(error: holdpoint_engine::Error) -> Stop {
    Stop::Broken(error.to_string())
}
