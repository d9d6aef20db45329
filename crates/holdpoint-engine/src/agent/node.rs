//! `core.agent`: the loop. Looks at what is on record, does what comes next, and writes down what came of it, until the
//! model has nothing to add or somebody has to decide.

use std::sync::Arc;

use holdpoint_core::agent::{
    Act, Agent, CallRequest, Gate, Message, Next, Reply as Recorded, Role, in_prompt_order,
};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::workflow::Flaw;
use holdpoint_core::{Run, RunRef, workflow};
use serde_json::{Value, json};

use super::model::{Finish, ModelError, Prompt, Reply, unparsed};
use super::setup::Setup;
use super::speech::{Speech, Whole, listen, message_id};
use super::tool::{Survey, ToolSpec};
use super::{calls, client, doubt, servers, setup};
use crate::context::{EffectContext, Stop};
use crate::engine::Engine;
use crate::nodes::{Node, Outputs};

/// Characters of the name of a call: with the names around it, it is a key of an interrupt.
const CALL_ID_CHARS_MAX: usize = 96;

#[derive(Debug, Default)]
pub(crate) struct AgentNode;

impl Node for AgentNode {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        setup::flaws(node)
    }

    fn writes_first(&self) -> bool {
        true
    }

    fn stays_inside(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
        setup::stays_inside(engine, run, node)
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let setup = setup::of(context).await?;
        hear_inputs(context)?;
        doubt::check_ratified(context)?;
        let mut listed = Survey::default();
        loop {
            let agent = context.agent().cloned().unwrap_or_default();
            let next = agent.next(setup.definition.resume);
            listed = setup.survey(context, listed, &next).await?;
            let offered = Offered::new(&listed.specs, &agent);
            if let Some(why) = &listed.refused
                && needs_missing_tool(&next, &offered)
            {
                return Err(Stop::failed("connection_not_allowed", why.as_str()));
            }
            match next {
                // The model is offered all tools or is not asked.
                Next::Model => match &listed.away {
                    Some(why) => return servers::wait_for_server(context, why.clone()).await,
                    None => ask_model(context, &setup, &agent, &offered).await?,
                },
                Next::Calls(ready) => {
                    let offer = servers::Offer { specs: &offered.specs, away: listed.away.as_deref() };
                    calls::go_on(context, &setup, &offer, ready).await?;
                }
                Next::Overruled => context.act(Act::Overrule)?,
                Next::Wait => return Err(Stop::Suspended(setup.definition.resume)),
                Next::Finish => return Ok(outputs(&agent)),
            }
        }
    }
}

/// Returns whether the next step cannot be made without the tools of all servers.
fn needs_missing_tool(next: &Next, offered: &Offered) -> bool {
    match next {
        Next::Model => true,
        Next::Calls(ready) => {
            ready.iter().any(|call| call.run.is_none() && offered.find(&call.name).is_none())
        }
        Next::Overruled | Next::Wait | Next::Finish => false,
    }
}

/// The tools of the agent, and behind them those of the front end.
struct Offered {
    specs: Vec<Arc<ToolSpec>>,
    own: usize,
}

impl Offered {
    fn new(own: &[Arc<ToolSpec>], agent: &Agent) -> Self {
        let mut specs = own.to_vec();
        specs.extend(client::tools(agent, own));
        Self { specs, own: own.len() }
    }

    /// A tool by its name, and whether it is the front end's.
    fn find(&self, name: &str) -> Option<(&Arc<ToolSpec>, bool)> {
        let at = self.specs.iter().position(|spec| spec.name == name)?;
        Some((&self.specs[at], at >= self.own))
    }
}

/// An agent that a workflow calls is told what is in the node's inputs; one that was started by itself was told before.
fn hear_inputs(context: &mut EffectContext) -> Result<(), Stop> {
    if context.agent().is_some_and(|agent| !agent.messages.is_empty()) {
        return Ok(());
    }
    let mut inputs = context.inputs.clone();
    // Another agent, or a workflow, starts it as a run of its own: then the inputs are those of the run.
    if let Some(started) = context.started().filter(|_| inputs.is_empty()) {
        inputs = started.inputs.clone();
    }
    let given = ["message", "prompt", "input"].into_iter().find_map(|name| inputs.get(name));
    let content = match given {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => Value::Object(inputs).to_string(),
    };
    let id = format!("{}:input", context.node().id);
    context.act(Act::Hear(Message::new(id, Role::User, content)))
}

async fn ask_model(
    context: &mut EffectContext,
    setup: &Setup,
    agent: &Agent,
    offered: &Offered,
) -> Result<(), Stop> {
    check_limits(setup, agent)?;
    let prompt = prompt(context, setup, agent, &offered.specs).await?;
    if !setup.instant || context.has_gathered_enough() {
        context.write_down().await?;
    }
    let begun = context.clock();
    let mut speech = Speech::of(agent);
    let reply = listen(context, setup.model.as_ref(), &prompt, &mut speech).await?;
    let reply = match reply {
        Ok(reply) => reply,
        Err(error @ ModelError::Unavailable { .. }) => {
            return servers::wait_for_server(context, error.to_string()).await;
        }
        Err(error) => return Err(Stop::failed(error.code(), error.to_string())),
    };
    let took_ms = u64::try_from(context.clock().0 - begun.0).ok();
    let (text, finish, confidence) = (reply.text.clone(), reply.finish, reply.confidence);
    let recorded = record(setup, agent, offered, reply, took_ms)?;
    let (calls, model, usage) = (&recorded.message.calls, recorded.model.as_str(), recorded.usage);
    let whole = Whole { text: &text, calls, finish, model, usage: json!(usage) };
    let mut acts: Vec<Act> = speech.last(&whole).map(|last| Act::Tell(Box::new(last))).into_iter().collect();
    let decided = doubt::decided(context, setup, &recorded, confidence);
    acts.push(Act::Reply(Box::new(recorded)));
    acts.extend(decided);
    context.act_all(acts)?;
    // What was paid for is not asked for again.
    if setup.instant { Ok(()) } else { context.write_down().await }
}

fn check_limits(setup: &Setup, agent: &Agent) -> Result<(), Stop> {
    let definition = &setup.definition;
    if agent.steps >= definition.steps_max {
        let message = format!("the model has replied {} times, as often as limits.steps allows", agent.steps);
        return Err(Stop::failed("agent_step_limit", message));
    }
    match definition.tokens_max {
        Some(most) if agent.usage.total() >= most => {
            let message = format!("{} tokens were used; limits.tokens allows {most}", agent.usage.total());
            Err(Stop::failed("agent_token_limit", message))
        }
        Some(_) | None => Ok(()),
    }
}

async fn prompt(
    context: &EffectContext,
    setup: &Setup,
    agent: &Agent,
    specs: &[Arc<ToolSpec>],
) -> Result<Prompt, Stop> {
    let run = context.run();
    let mut said = Vec::new();
    if let Some(thread) = run.started.as_ref().and_then(|started| started.thread.as_deref())
        && let Some(owner) = run.owner()
    {
        let of = RunRef { tenant: owner.tenant.clone(), run: run.id.clone() };
        let engine = context.engine();
        let earlier = engine.agents().earlier.of(engine.db(), &of, thread).await;
        said.extend(earlier.map_err(|error| Stop::Broken(error.to_string()))?.iter().cloned());
    }
    said.extend(agent.messages.iter().cloned());
    Ok(Prompt {
        instructions: instructions(setup, agent),
        messages: in_prompt_order(&said),
        tools: specs.iter().filter(|spec| !setup.hides(&spec.name)).cloned().collect(),
        options: serde_json::Map::new(),
        step: agent.steps,
    })
}

fn instructions(setup: &Setup, agent: &Agent) -> Option<String> {
    let own = setup.definition.instructions.clone();
    match client::context(agent) {
        None => own,
        Some(context) => Some(format!("{}\n\nFrom the front end:\n{context}", own.unwrap_or_default())),
    }
}

/// The reply as it is kept: every call with a name of its own, and with what the rules say of it.
fn record(
    setup: &Setup,
    agent: &Agent,
    offered: &Offered,
    reply: Reply,
    took_ms: Option<u64>,
) -> Result<Recorded, Stop> {
    if reply.finish == Finish::Length && reply.calls.is_empty() && reply.text.is_empty() {
        return Err(Stop::failed("model_bad_reply", "the model was cut off before it said anything"));
    }
    let step = agent.steps + 1;
    let calls: Vec<CallRequest> =
        reply.calls.into_iter().enumerate().map(|(at, call)| named(call, step, at, agent)).collect();
    let gates = calls.iter().map(|call| gate(setup, offered, call)).collect();
    let mut message = Message::new(message_id(agent), Role::Assistant, reply.text);
    // The last in the order that the model was shown: a result may have come behind what was said meanwhile.
    message.after = in_prompt_order(&agent.messages).last().map(|last| last.id.clone());
    message.calls = calls;
    let seen = agent.messages.len();
    Ok(Recorded { message, gates, usage: reply.usage, model: reply.model, seen, took_ms })
}

/// Models leave names out, repeat them, and make them longer than a key may be.
fn named(call: CallRequest, step: u32, at: usize, agent: &Agent) -> CallRequest {
    let fits = !call.id.is_empty() && call.id.chars().count() <= CALL_ID_CHARS_MAX;
    let taken = agent.call(&call.id).is_some();
    if fits && !taken { call } else { CallRequest { id: format!("call-{step}-{at}"), ..call } }
}

fn gate(setup: &Setup, offered: &Offered, call: &CallRequest) -> Gate {
    let denied = |why: &str| Gate {
        behaviour: Behaviour::Deny,
        why: Some(why.to_owned()),
        idempotent: true,
        client: false,
    };
    let Some((spec, client)) = offered.find(&call.name) else { return denied("there is no such tool") };
    if unparsed(&call.arguments).is_some() {
        return denied("its arguments are no JSON object");
    }
    let verdict = setup.judge(&call.name, spec.primary.as_deref(), &call.arguments);
    Gate { behaviour: verdict.behaviour, why: Some(verdict.explained()), idempotent: spec.idempotent, client }
}

fn outputs(agent: &Agent) -> Outputs {
    let text = agent.last_reply().map(Message::text).unwrap_or_default();
    let usage = json!({ "inputTokens": agent.usage.input_tokens, "outputTokens": agent.usage.output_tokens });
    Outputs::from_iter([
        ("text".to_owned(), json!(text)),
        ("steps".to_owned(), json!(agent.steps)),
        ("usage".to_owned(), usage),
    ])
}
