//! `core.provider`: a graph that runs at a provider. Every pause of it is an interrupt of the run, so that entering the
//! node again finds the answers in order, and only the last one is still to be sent.

use std::time::Duration;

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{PEOPLE, Request, Resolution};
use serde_json::Value;

use super::asking::{self, AnswerRules};
use super::{About, Answers, Case, Outcome, Pause, Probe, Provider, Trouble, code};
use crate::agent;
use crate::context::{Context, EffectContext, Stop};
use crate::nodes::{Node, Outputs, config_flaw, config_ms, config_text, unknown_config};
use crate::store::handles::HandleRow;

/// How often a start or an answer is tried before somebody is told.
const TRIES: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(300);
/// How long a turn may take where the node does not say.
const TURN_MS: u64 = 600_000;
/// How often a lock is looked at that somebody else has.
const LOCK_LOOK: Duration = Duration::from_millis(100);

pub(crate) struct ProviderNode;

/// What is sent in a turn.
enum Sent {
    Start(Value),
    /// With the pause that they answer.
    Answers(Answers, Pause),
}

/// What a turn came to.
enum Ended {
    Done(Value),
    Paused(Pause, Option<Trouble>),
    Failed(Trouble),
}

impl Node for ProviderNode {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let known = [&["graph", "timeoutMs", "turnMs", asking::QUORUM][..], &PEOPLE[..]].concat();
        let mut flaws = unknown_config(node, &known);
        match config_text(node, "graph") {
            Ok(Some(graph)) if graph.starts_with("langgraph:") || graph.starts_with("claude:") => {}
            Ok(_) => flaws.push(config_flaw(node, "graph", "must be langgraph:… or claude:…")),
            Err(flaw) => flaws.push(flaw),
        }
        flaws.extend(["timeoutMs", "turnMs"].into_iter().filter_map(|field| config_ms(node, field).err()));
        flaws.extend(asking::people_flaw(&node.config).map(|bad| config_flaw(node, &bad.field, bad.message)));
        flaws
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let graph = config_text(context.node(), "graph").ok().flatten().unwrap_or_default().to_owned();
        let LastAnswer { sent, pauses, is_granted, rules } = last_answer(context)?;
        if is_granted {
            // Records the use of the approval before the provider receives the answer.
            context.step(&format!("answer.{pauses}"), || async { Ok(Value::Null) }).await?;
        }
        // Nothing outside is touched by whoever only tells the run again, or has lost it.
        context.write_down().await?;
        let turn = Turn { graph, number: pauses };
        match turn.perform(context, &sent).await? {
            Ended::Done(output) => Ok(Outputs::from_iter([("output".to_owned(), output)])),
            Ended::Failed(trouble) => Err(Stop::failed(trouble.code, trouble.message)),
            Ended::Paused(pause, trouble) => {
                let most = context.engine().providers().limits.pauses_max;
                if pauses >= most {
                    turn.give_up(context).await;
                    let message = format!("the graph has paused {most} times, and may not pause more often");
                    return Err(Stop::failed("too_many_pauses", message));
                }
                let artifact = format!("{}.{pauses}", context.artifact_id());
                let rules = turn.rules(context).or(rules);
                let rules = rules.unwrap_or_else(|| AnswerRules::of_config(context.config()));
                let request = asking::request(&turn.graph, artifact, &rules, &pause, trouble.as_ref());
                context.interrupt(request)?;
                // It was not asked before, so that asking it ended the turn.
                Err(Stop::Lost)
            }
        }
    }
}

/// The start or the last answer of a graph.
struct LastAnswer {
    sent: Sent,
    /// The number of pauses so far.
    pauses: u32,
    /// The answer approves a tool call.
    is_granted: bool,
    /// The rules for answers to the last pause.
    rules: Option<AnswerRules>,
}

/// Goes through the answers: all of them except the last were sent.
fn last_answer(context: &mut EffectContext) -> Result<LastAnswer, Stop> {
    let mut last =
        LastAnswer { sent: Sent::Start(input(context)), pauses: 0, is_granted: false, rules: None };
    while let Some(asked) = context.next_asked().cloned() {
        if let Some(Resolution::Answered { value, .. }) = &asked.resolution {
            last.sent = Sent::Answers(asking::answers(&asked, value.clone()), asking::pause(&asked));
        }
        last.is_granted = asked.is_granted();
        last.rules = Some(AnswerRules::of_interrupt(&asked));
        context.interrupt(Request::new(asked.kind, asked.data.clone()))?;
        last.pauses += 1;
    }
    Ok(last)
}

/// What the graph is started with: `input` among the ports, or else all of them; without ports the same of variables.
fn input(context: &Context) -> Value {
    let ports = (!context.inputs.is_empty()).then(|| Value::Object(context.inputs.clone()));
    let all = ports.unwrap_or_else(|| context.variables().clone());
    all.get("input").cloned().unwrap_or(all)
}

/// One start or one answer, and what comes of it.
struct Turn {
    graph: String,
    number: u32,
}

impl Turn {
    async fn perform(&self, context: &mut EffectContext, sent: &Sent) -> Result<Ended, Stop> {
        let found = context.engine().providers().find(&self.graph, &context.of().tenant);
        let (provider, name) = match found {
            Ok(found) => found,
            Err(trouble) => return Ok(ended(sent, trouble)),
        };
        // From here on an end of the run is heard, whenever it comes.
        let mut news = context.engine().subscribe(&context.of());
        let row = context.engine().handle_of(&context.of(), &self.graph).await.map_err(broken)?;
        let case = self.open(context, &row, name).await?;
        if case.row().settled_at.is_some() || has_ended(context).await? {
            case.close().await;
            return Err(Stop::Lost);
        }
        let (engine, of) = (context.engine().clone(), context.of());
        let outcome = tokio::select! {
            outcome = tried(&provider, &case, sent) => outcome,
            () = case.lost() => Err(Trouble::passing(code::LOCK_LOST, "another node has taken over")),
            () = agent::ended(&engine, &of, &mut news) => {
                stop(&provider, &case).await;
                case.close().await;
                return Err(Stop::Lost);
            }
        };
        if outcome.as_ref().is_err_and(|trouble| trouble.code == code::LOCK_LOST) {
            return Err(Stop::Broken("another node is at work on the graph".to_owned()));
        }
        if matches!(outcome, Ok(Outcome::Completed(_) | Outcome::Cancelled)) {
            // If this is lost, it goes when its time is up.
            let _ = case.retire().await;
        }
        case.close().await;
        Ok(match outcome {
            Ok(Outcome::Completed(output)) => Ended::Done(output),
            Ok(Outcome::Paused(pause)) => Ended::Paused(pause, None),
            Ok(Outcome::Cancelled) => {
                Ended::Failed(Trouble::lasting("provider_cancelled", "the graph was stopped at its provider"))
            }
            Err(trouble) => ended(sent, trouble),
        })
    }

    /// Waits until whoever has the lock gives it back or goes silent.
    async fn open(&self, context: &EffectContext, row: &HandleRow, name: String) -> Result<Case, Stop> {
        loop {
            let opened = Case::open(context.engine(), row, self.about(context, name.clone())).await;
            if let Some(case) = opened.map_err(broken)? {
                return Ok(case);
            }
            if has_ended(context).await? {
                return Err(Stop::Lost);
            }
            tokio::time::sleep(LOCK_LOOK).await;
        }
    }

    /// Returns the rules for answers: those of the node joined with those of the provider. None if the operator's file
    /// has no such provider any longer; then the rules of the last pause still hold.
    fn rules(&self, context: &EffectContext) -> Option<AnswerRules> {
        let found = context.engine().providers().find(&self.graph, &context.of().tenant);
        let own = AnswerRules::of_config(context.config());
        found.ok().map(|(provider, _)| own.joined(provider.approval(), &self.graph))
    }

    fn about(&self, context: &EffectContext, name: String) -> About {
        let slot = format!("{}/{}", context.node().id, context.visit());
        let attempt = format!("{}/{slot}/{}", context.run_id(), self.number);
        let turn_ms = context.config().get("turnMs").and_then(Value::as_u64).unwrap_or(TURN_MS);
        let within = Duration::from_millis(turn_ms);
        About { graph: self.graph.clone(), name, slot, attempt, within }
    }

    /// Stops the graph, as far as it can be.
    async fn give_up(&self, context: &EffectContext) {
        let Ok((provider, name)) = context.engine().providers().find(&self.graph, &context.of().tenant)
        else {
            return;
        };
        let Ok(row) = context.engine().handle_of(&context.of(), &self.graph).await else { return };
        if let Ok(case) = self.open(context, &row, name).await {
            stop(&provider, &case).await;
            case.close().await;
        }
    }
}

async fn has_ended(context: &EffectContext) -> Result<bool, Stop> {
    Ok(context.engine().load(&context.of()).await.map_err(broken)?.finished())
}

/// Sends it, a few times if need be. Before anything is sent again the provider is asked how far it came.
async fn tried(provider: &Provider, case: &Case, sent: &Sent) -> Result<Outcome, Trouble> {
    if matches!(sent, Sent::Answers(..)) && case.reference().is_none() {
        let message =
            "there is nothing to go on with at the provider; a copy of a run has no graph of its own";
        return Err(Trouble::lasting(code::STATE_LOST, message));
    }
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match once(provider, case, sent).await {
            Err(trouble) if trouble.passing && trouble.code != code::LOCK_LOST => {
                tracing::info!(provider = provider.name(), code = trouble.code, "a provider is tried again");
                tokio::time::sleep(wait).await;
                wait *= 4;
            }
            other => return other,
        }
    }
    once(provider, case, sent).await
}

async fn once(provider: &Provider, case: &Case, sent: &Sent) -> Result<Outcome, Trouble> {
    if case.has_begun() {
        if let Probe::Settled(outcome) = provider.probe(case).await? {
            return Ok(outcome);
        }
    } else {
        let reference = case.reference().unwrap_or_else(|| provider.plan(case));
        case.begin(reference).await?;
    }
    match sent {
        Sent::Start(input) => provider.start(case, input).await,
        Sent::Answers(answers, _) => provider.resume(case, answers).await,
    }
}

/// Whoever answered can answer again, unless that could not change anything.
fn ended(sent: &Sent, trouble: Trouble) -> Ended {
    let hopeless = [code::GRAPH, code::STATE_LOST, code::TOO_LARGE].contains(&trouble.code);
    match sent {
        Sent::Answers(_, pause) if !hopeless => Ended::Paused(pause.clone(), Some(trouble)),
        Sent::Start(_) | Sent::Answers(..) => Ended::Failed(trouble),
    }
}

async fn stop(provider: &Provider, case: &Case) {
    if let Err(trouble) = provider.cancel(case).await {
        tracing::warn!(provider = provider.name(), code = trouble.code, "a graph could not be stopped");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn broken(error: crate::error::Error) -> Stop {
    Stop::Broken(error.to_string())
}
