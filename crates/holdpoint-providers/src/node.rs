//! The node type `core.provider`: a graph that a provider executes. Every interrupt of the graph is an interrupt of the
//! run. When the node is entered again, it reads the answers in order. All except the last one were already sent.

use std::sync::Arc;

use holdpoint_core::agent::CallRequest;
use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ASSIGNEE_MEMBERS, InterruptRequest, Resolution};
use holdpoint_engine::extension::{config_flaw, config_ms, config_text, unknown_config};
use holdpoint_engine::{Context, EffectContext, Node, Outputs, Stop};
use serde_json::Value;

use super::conversion::{self, AnswerRules};
use super::graph_turn::{GraphTurn, TurnInput, TurnResult};
use super::turn_reports::request_of_call;
use super::{ProviderInterrupt, Providers};

pub(crate) struct ProviderNode {
    /// The beginnings of the names of graphs.
    pub prefixes: Vec<String>,
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
                show_calls(context, &interrupt)?;
                let mut request =
                    conversion::to_request(&turn.graph, artifact, &rules, &interrupt, failure.as_ref());
                conversion::bind_to_call(&mut request, &interrupt, context.agent().map(Arc::as_ref));
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

/// Records a message for each call of the interrupt that no message has, so that readers know the call.
fn show_calls(context: &mut EffectContext, interrupt: &ProviderInterrupt) -> Result<(), Stop> {
    let is_new = |call: &CallRequest| context.agent().is_none_or(|agent| agent.call(&call.id).is_none());
    let calls: Vec<_> = interrupt.items.iter().filter_map(conversion::call_of).filter(is_new).collect();
    if calls.is_empty() {
        return Ok(());
    }
    context.apply_actions(calls.into_iter().map(request_of_call).collect())
}
