//! `core.agent`: the agent loop. It derives the next step from the record, executes it and records the result, until
//! the model ends its turn or the run waits for a decision.

use std::sync::Arc;

use holdpoint_core::agent::{
    Agent, AgentAction, AgentStep, CallPolicy, CallRequest, Message, ReplyRecord, Role, in_prompt_order,
};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::workflow::DefinitionFlaw;
use holdpoint_core::{Run, RunRef, workflow};
use holdpoint_engine::{EffectContext, Engine, Node, Outputs, Stop};
use serde_json::{Value, json};

use super::model::{FinishReason, ModelError, ModelPrompt, ModelReply, unparsed_arguments};
use super::reply_stream::{FinishedReply, ReplyStream, message_id, stream_reply, unique_call_id};
use super::setup::{Setup, runtime};
use super::tool::{ToolList, ToolSpec};
use super::{budgets, calls, client_metadata, low_confidence, servers, setup};

#[derive(Debug, Default)]
pub(crate) struct AgentNode;

impl Node for AgentNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        setup::flaws(node)
    }

    fn commits_before_effects(&self) -> bool {
        true
    }

    fn begins_without_claim(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
        setup::begins_without_claim(engine, run, node)
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let ended = run_turn(context).await;
        // After the other results, the reply is committed with the outcome of the node.
        if let Err(Stop::Unavailable { .. } | Stop::Broken(_)) = &ended
            && context.has_pending_reply()
        {
            context.commit_actions().await?;
        }
        ended
    }
}

async fn run_turn(context: &mut EffectContext) -> Result<Outputs, Stop> {
    let setup = setup::load(context).await?;
    add_input_message(context)?;
    low_confidence::check_ratified(context)?;
    let mut listed = ToolList::default();
    loop {
        let agent = context.agent().cloned().unwrap_or_default();
        let next = agent.next_step(setup.definition.resume);
        listed = setup.list_tools(context, listed, &next).await?;
        let tools = AllTools::new(&listed.specs, &agent);
        if let Some(why) = &listed.refused
            && needs_missing_tool(&next, &tools)
        {
            return Err(Stop::failed("connection_not_allowed", why.as_str()));
        }
        match next {
            // The model is not called while the tools of a server are missing.
            AgentStep::Model => match &listed.unreachable {
                Some(why) => return servers::wait_for_server(context, why.clone()).await,
                None => ask_model(context, &setup, &agent, &tools).await?,
            },
            AgentStep::Calls(ready) => {
                let available = servers::AvailableTools {
                    specs: &tools.specs,
                    unreachable: listed.unreachable.as_deref(),
                };
                calls::process_calls(context, &setup, &available, ready).await?;
            }
            AgentStep::Overruled => context.apply_action(AgentAction::Overrule)?,
            AgentStep::Wait => return Err(Stop::Suspended(setup.definition.resume)),
            AgentStep::Finish => return Ok(outputs(&agent)),
        }
    }
}

/// Returns true if the next step needs tools that are not listed.
fn needs_missing_tool(next: &AgentStep, tools: &AllTools) -> bool {
    match next {
        AgentStep::Model => true,
        AgentStep::Calls(ready) => {
            ready.iter().any(|call| call.run.is_none() && tools.find(&call.name).is_none())
        }
        AgentStep::Overruled | AgentStep::Wait | AgentStep::Finish => false,
    }
}

/// The tools of the agent, followed by those of the front end.
struct AllTools {
    specs: Vec<Arc<ToolSpec>>,
    own: usize,
}

impl AllTools {
    fn new(own: &[Arc<ToolSpec>], agent: &Agent) -> Self {
        let mut specs = own.to_vec();
        specs.extend(client_metadata::tools(agent, own));
        Self { specs, own: own.len() }
    }

    /// Returns a tool by its name, and true if the front end executes it.
    fn find(&self, name: &str) -> Option<(&Arc<ToolSpec>, bool)> {
        let at = self.specs.iter().position(|spec| spec.name == name)?;
        Some((&self.specs[at], at >= self.own))
    }
}

/// Adds the inputs of the node as a user message, unless the agent already has a message because its run was started
/// with one.
fn add_input_message(context: &mut EffectContext) -> Result<(), Stop> {
    if context.agent().is_some_and(|agent| !agent.messages.is_empty()) {
        return Ok(());
    }
    let mut inputs = context.inputs.clone();
    // If another agent or a workflow started this run, the inputs are those of the run.
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
    context.apply_action(AgentAction::AddMessage(Message::new(id, Role::User, content)))
}

async fn ask_model(
    context: &mut EffectContext,
    setup: &Setup,
    agent: &Agent,
    tools: &AllTools,
) -> Result<(), Stop> {
    check_limits(setup, agent)?;
    check_attachments(setup, agent)?;
    if !setup.instant || context.has_many_pending_actions() {
        context.commit_actions().await?;
    }
    budgets::check(context, setup).await?;
    let prompt = prompt(context, setup, agent, &tools.specs).await?;
    let begun = context.clock();
    let progress = context.run().node_state(&context.node().id).and_then(|state| state.streamed);
    let mut stream = ReplyStream::new(agent, progress);
    if setup.definition.shows_reasoning {
        stream.show_reasoning();
    }
    let reply = stream_reply(context, setup.model.as_ref(), &prompt, &mut stream).await?;
    let reply = match reply {
        Ok(reply) => reply,
        Err(error @ ModelError::Unavailable { .. }) => {
            return servers::wait_for_server(context, error.to_string()).await;
        }
        Err(error) => return Err(Stop::failed(error.code(), error.to_string())),
    };
    let took_ms = u64::try_from(context.clock().0 - begun.0).ok();
    let (text, finish, confidence) = (reply.text.clone(), reply.finish, reply.confidence);
    let recorded = record(setup, agent, tools, reply, took_ms)?;
    let (calls, model, usage) = (&recorded.message.calls, recorded.model.as_str(), recorded.usage);
    let whole = FinishedReply { text: &text, calls, finish, model, usage: json!(usage) };
    let mut actions: Vec<AgentAction> =
        stream.finish(&whole).map(|last| AgentAction::Stream(Box::new(last))).into_iter().collect();
    let decided = low_confidence::build_decision(context, setup, &recorded, confidence);
    actions.push(AgentAction::Reply(Box::new(recorded)));
    actions.extend(decided);
    // The next step commits the reply before the agent waits; see `Setup::commit_reply`.
    context.apply_actions(actions)
}

fn check_limits(setup: &Setup, agent: &Agent) -> Result<(), Stop> {
    let definition = &setup.definition;
    if agent.steps >= definition.steps_max {
        let message =
            format!("limits.steps: the model has replied {} times, which is the limit", agent.steps);
        return Err(Stop::failed("agent_step_limit", message));
    }
    match definition.tokens_max {
        Some(most) if agent.usage.total() >= most => {
            let message =
                format!("limits.tokens: {} tokens were used; the limit is {most}", agent.usage.total());
            Err(Stop::failed("agent_token_limit", message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks the attachments of the messages that the model has not seen. Those of earlier messages become texts in the
/// prompt, so that the thread can continue after an attachment that is not accepted.
fn check_attachments(setup: &Setup, agent: &Agent) -> Result<(), Stop> {
    for message in agent.messages.iter().skip(agent.seen).filter(|message| message.role == Role::User) {
        setup.model.check_content(&message.content).map_err(|why| {
            let message = format!("message {}: {why}", message.id);
            Stop::failed("attachment_not_accepted", message)
        })?;
    }
    Ok(())
}

async fn prompt(
    context: &EffectContext,
    setup: &Setup,
    agent: &Agent,
    specs: &[Arc<ToolSpec>],
) -> Result<ModelPrompt, Stop> {
    let run = context.run();
    let mut messages = Vec::new();
    if let Some(thread) = run.started.as_ref().and_then(|started| started.thread.as_deref())
        && let Some(owner) = run.owner()
    {
        let of = RunRef { tenant: owner.tenant.clone(), run: run.id.clone() };
        let engine = context.engine();
        let limit = setup.definition.history_max;
        let earlier = runtime(engine).history.load(engine, &of, thread, limit).await;
        messages = earlier.map_err(|error| Stop::Broken(error.to_string()))?;
    }
    messages.extend(agent.messages.iter().cloned());
    Ok(ModelPrompt {
        instructions: instructions(setup, agent),
        messages: in_prompt_order(&messages),
        tools: specs.iter().filter(|spec| !setup.hides(&spec.name)).cloned().collect(),
        options: serde_json::Map::new(),
        step: agent.steps,
    })
}

fn instructions(setup: &Setup, agent: &Agent) -> Option<String> {
    let own = setup.definition.instructions.clone();
    match client_metadata::context(agent) {
        None => own,
        Some(context) => Some(format!("{}\n\nFrom the front end:\n{context}", own.unwrap_or_default())),
    }
}

/// Builds the record of a reply. Each call in it has a unique id and the policy that follows from the rules.
fn record(
    setup: &Setup,
    agent: &Agent,
    tools: &AllTools,
    reply: ModelReply,
    took_ms: Option<u64>,
) -> Result<ReplyRecord, Stop> {
    if reply.finish == FinishReason::Length && reply.calls.is_empty() && reply.text.is_empty() {
        return Err(Stop::failed(
            "model_bad_reply",
            "the reply reached its token limit before it had any content",
        ));
    }
    let with_unique_id = |(at, call): (usize, CallRequest)| {
        let id = unique_call_id(&call.id, agent, at);
        CallRequest { id, ..call }
    };
    let calls: Vec<CallRequest> = reply.calls.into_iter().enumerate().map(with_unique_id).collect();
    let policies = calls.iter().map(|call| decide_policy(setup, tools, call)).collect();
    let mut message = Message::new(message_id(agent), Role::Assistant, reply.text);
    // The prompt order can differ from the order of arrival: a tool result can arrive after a user message that follows
    // it in the prompt.
    message.after = in_prompt_order(&agent.messages).last().map(|last| last.id.clone());
    message.calls = calls;
    message.reasoning = reply.reasoning;
    message.reasoning.iter_mut().for_each(|part| part.shown = setup.definition.shows_reasoning);
    let seen = agent.messages.len();
    Ok(ReplyRecord { message, policies, usage: reply.usage, model: reply.model, seen, took_ms })
}

fn decide_policy(setup: &Setup, tools: &AllTools, call: &CallRequest) -> CallPolicy {
    let denied = |why: &str| CallPolicy {
        behaviour: Behaviour::Deny,
        why: Some(why.to_owned()),
        idempotent: true,
        client: false,
    };
    let Some((spec, client)) = tools.find(&call.name) else { return denied("there is no such tool") };
    if unparsed_arguments(&call.arguments).is_some() {
        return denied("its arguments are not a JSON object");
    }
    let verdict = setup.judge(&call.name, spec.primary.as_deref(), &call.arguments);
    CallPolicy {
        behaviour: verdict.behaviour,
        why: Some(verdict.explanation()),
        idempotent: spec.idempotent,
        client,
    }
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
