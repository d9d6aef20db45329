//! Decides the commands of agents: they record model replies, suspend, begin and end tool calls, and add messages.

use serde_json::{Value, json};

use super::activity::report_activity;
use super::children::start_child_for_call;
use super::complete::variable_changes;
use super::finish::{check_running, remaining_bytes};
use super::interrupt_request::request_without_suspension;
use super::message_chunk::chunk_event;
use super::provider_report::report_events;
use super::resolve::{HOST, resolve_by_host, resume_waiting_nodes};
use super::{check_unfinished, low_confidence};
use crate::agent::{
    Agent, AgentAction, CallStatus, Message, ReplyRecord, ResumePolicy, Ticket, ToolCallError,
    is_content_parts,
};
use crate::event::Event;
use crate::interrupt::{Interrupt, Kind};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{NodeId, Timestamp, WorkflowId};

/// The recorded reason of interrupts and calls that a new message supersedes. Agents and clients read it.
pub(crate) const SUPERSEDED: &str = "superseded by input";

/// Decides the actions of an agent in order. Each action is decided on the state after the actions before it.
pub(super) fn act(
    run: &Run,
    node: &NodeId,
    acts: &[AgentAction],
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    check_running(run, node)?;
    let mut after = run.clone();
    let mut events = Vec::new();
    for act in acts {
        let happened = match act {
            AgentAction::Stream(piece) => chunk_event(&after, node, piece).into_iter().collect(),
            AgentAction::Report(report) => report_activity(&after, node, report)?.into_iter().collect(),
            AgentAction::Reply(reply) => record_reply(&after, node, reply)?,
            AgentAction::Decide { decision, question } => {
                low_confidence::record_decision(&after, node, decision, question.as_deref())?
            }
            AgentAction::Overrule => low_confidence::overrule_reply(&after, node)?,
            AgentAction::Suspend { call, ticket } => suspend_call(&after, node, call, ticket)?,
            AgentAction::Begin { call, arguments } => {
                vec![begin_call(&after, node, call, arguments.as_ref())?]
            }
            AgentAction::StartRun { call, workflow, arguments } => {
                start_call_run(&after, node, call, workflow, arguments.as_ref())?
            }
            AgentAction::Return { call, status, content } => {
                vec![return_call(&after, node, call, *status, content)?]
            }
            AgentAction::SetVariable { name, value } => change_variable(&after, node, name, value.clone())?,
            AgentAction::AddToVariable { name, value } => {
                let sum = after.variables.get(name).and_then(Value::as_i64).unwrap_or_default();
                change_variable(&after, node, name, json!(sum.saturating_add(*value)))?
            }
            AgentAction::AddMessage(message) => add_messages(&after, node, std::slice::from_ref(message))?,
            AgentAction::ReportFromProvider(report) => report_events(&after, node, report),
        };
        for event in happened {
            after.apply(&event, now);
            events.push(event);
        }
    }
    Ok(events)
}

fn record_reply(run: &Run, node: &NodeId, reply: &ReplyRecord) -> Result<Vec<Event>, Refusal> {
    check_size("the model's reply", &reply.message, limits::STEP_RESULT_BYTES_MAX.min(remaining_bytes(run)))?;
    let calls = &reply.message.calls;
    if calls.len() != reply.policies.len() || calls.len() > limits::CALLS_PER_REPLY_MAX {
        let message =
            format!("has {} calls; at most {} are accepted", calls.len(), limits::CALLS_PER_REPLY_MAX);
        return Err(Refusal::invalid("reply", message));
    }
    let known = agent_of(run, node);
    for (at, call) in calls.iter().enumerate() {
        let twice = calls[..at].iter().any(|other| other.id == call.id);
        if call.id.is_empty() || twice || known.is_some_and(|agent| agent.call(&call.id).is_some()) {
            return Err(Refusal::invalid(
                "reply.calls",
                format!("the call id {:?} is empty or not unique", call.id),
            ));
        }
    }
    let mut events = vec![Event::ModelReplied {
        node: node.clone(),
        message: Box::new(reply.message.clone()),
        seen: reply.seen,
        usage: reply.usage,
        model: reply.model.clone(),
        took_ms: reply.took_ms,
        provider: false,
    }];
    events.extend(calls.iter().zip(&reply.policies).map(|(call, policy)| Event::ToolCalled {
        node: node.clone(),
        call: call.id.clone(),
        behaviour: policy.behaviour,
        why: policy.why.clone(),
        idempotent: policy.idempotent,
        client: policy.client,
    }));
    Ok(events)
}

/// Opens the interrupt of a tool call and suspends the call until the interrupt is resolved.
fn suspend_call(run: &Run, node: &NodeId, call: &str, ticket: &Ticket) -> Result<Vec<Event>, Refusal> {
    check_call(run, node, call, CallStatus::Suspended)?;
    let (interrupt, mut events) = request_without_suspension(run, node, &ticket.request)?;
    events.push(Event::ToolSuspended {
        node: node.clone(),
        call: call.to_owned(),
        interrupt,
        mode: ticket.mode,
    });
    Ok(events)
}

fn begin_call(run: &Run, node: &NodeId, call: &str, arguments: Option<&Value>) -> Result<Event, Refusal> {
    check_call(run, node, call, CallStatus::Running)?;
    if let Some(arguments) = arguments {
        check_size("the arguments", arguments, limits::STEP_RESULT_BYTES_MAX.min(remaining_bytes(run)))?;
    }
    let uses = run.usable_grants_of_call(node, call)?;
    Ok(Event::ToolBegun { node: node.clone(), call: call.to_owned(), arguments: arguments.cloned(), uses })
}

/// Begins a tool call that a child run executes. The arguments of the call are the inputs of the child run.
fn start_call_run(
    run: &Run,
    node: &NodeId,
    call: &str,
    workflow: &WorkflowId,
    arguments: Option<&Value>,
) -> Result<Vec<Event>, Refusal> {
    let begun = begin_call(run, node, call, arguments)?;
    let known = agent_of(run, node).and_then(|agent| agent.call(call));
    let known = known.ok_or_else(|| ToolCallError::Unknown(call.to_owned()))?;
    if known.run.is_some() {
        let (from, to) = (known.status, CallStatus::Running);
        return Err(ToolCallError::InvalidTransition { call: call.to_owned(), from, to }.into());
    }
    let Some(inputs) = arguments.unwrap_or(&known.arguments).as_object() else {
        return Err(Refusal::invalid("arguments", "must be an object"));
    };
    Ok(match start_child_for_call(run, node, call, workflow, inputs.clone()) {
        Ok(started) => vec![begun, started],
        Err(error) => {
            let content = json!({ "error": format!("{}: {}", error.code, error.message) });
            let (node, call, status) = (node.clone(), call.to_owned(), CallStatus::Failed);
            vec![Event::ToolReturned { node, call, status, content }]
        }
    })
}

fn return_call(
    run: &Run,
    node: &NodeId,
    call: &str,
    status: CallStatus,
    content: &Value,
) -> Result<Event, Refusal> {
    check_call(run, node, call, status)?;
    if !status.is_terminal() {
        return Err(Refusal::invalid(
            "status",
            format!("{} is not a terminal status of a tool call", status.as_str()),
        ));
    }
    let max = if is_content_parts(content) {
        limits::CONTENT_PARTS_BYTES_MAX
    } else {
        limits::STEP_RESULT_BYTES_MAX
    };
    check_size("the tool's result", content, max.min(remaining_bytes(run)))?;
    Ok(Event::ToolReturned { node: node.clone(), call: call.to_owned(), status, content: content.clone() })
}

fn change_variable(run: &Run, node: &NodeId, name: &str, value: Value) -> Result<Vec<Event>, Refusal> {
    check_size("the state", &value, limits::STEP_RESULT_BYTES_MAX.min(remaining_bytes(run)))?;
    variable_changes(run, node, &[(name.to_owned(), value)])
        .map_err(|error| Refusal::invalid(format!("variables.{name}"), error.message))
}

/// Rejects a status change of a call that has ended, and every change that `ToolCall::check_transition` rejects.
fn check_call(run: &Run, node: &NodeId, call: &str, next: CallStatus) -> Result<(), Refusal> {
    let known = agent_of(run, node).and_then(|agent| agent.call(call));
    let known = known.ok_or_else(|| ToolCallError::Unknown(call.to_owned()))?;
    if known.status.is_terminal() {
        return Err(
            ToolCallError::InvalidTransition { call: call.to_owned(), from: known.status, to: next }.into()
        );
    }
    Ok(known.check_transition(next)?)
}

/// Adds messages to the thread of an agent. Rejects an unknown node, and more or larger messages than the limits allow.
pub(super) fn add_messages(run: &Run, node: &NodeId, messages: &[Message]) -> Result<Vec<Event>, Refusal> {
    if run.workflow.position(node).is_none() {
        return Err(Refusal::invalid("node", format!("the workflow has no node {node}")));
    }
    let known = agent_of(run, node).map(|agent| agent.messages.len()).unwrap_or_default();
    if known + messages.len() > limits::MESSAGES_MAX {
        let message = format!("a run accepts at most {} messages", limits::MESSAGES_MAX);
        return Err(Refusal::invalid("messages", message));
    }
    check_size(
        "the message list",
        &messages,
        limits::RESUME_VALUE_BYTES_MAX.max(limits::STEP_RESULT_BYTES_MAX),
    )?;
    let added =
        |message: &Message| Event::MessageAdded { node: node.clone(), message: Box::new(message.clone()) };
    Ok(messages.iter().map(added).collect())
}

/// Adds messages to an agent whose node has not ended. They supersede a reply that waits for ratification, suspended
/// calls, and calls that a child run executes: all of these are cancelled, because the model replies only after all
/// calls have ended.
pub(super) fn say(
    run: &Run,
    node: &NodeId,
    messages: &[Message],
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    check_accepts_messages(run, node, messages)?;
    let mut events = low_confidence::supersede_reply(run, node, now)?;
    let mut after = run.clone();
    events.iter().for_each(|event| after.apply(event, now));
    let waiting: Vec<_> = agent_of(run, node)
        .into_iter()
        .flat_map(Agent::suspended_calls)
        .filter_map(|call| Some((call.id.clone(), call.interrupt?.id)))
        .collect();
    for (call, interrupt) in waiting {
        let Some(asked) = after.interrupt(interrupt).filter(|asked| asked.is_open()) else { continue };
        let mut retraction = vec![retract_interrupt(asked)];
        retraction.extend(resume_waiting_nodes(&after, interrupt));
        retraction.push(cancel_superseded_call(node, &call));
        for event in retraction {
            after.apply(&event, now);
            events.push(event);
        }
    }
    let agent = agent_of(run, node);
    for call in agent.iter().flat_map(|agent| &agent.calls).filter(|call| call.unfinished_run().is_some()) {
        let event = cancel_superseded_call(node, &call.id);
        after.apply(&event, now);
        events.push(event);
    }
    events.extend(add_messages(&after, node, messages)?);
    Ok(events)
}

/// Adds messages for the agent's next step. Open interrupts and suspended calls stay as they are.
pub(super) fn queue(run: &Run, node: &NodeId, messages: &[Message]) -> Result<Vec<Event>, Refusal> {
    check_accepts_messages(run, node, messages)?;
    add_messages(run, node, messages)
}

fn check_accepts_messages(run: &Run, node: &NodeId, messages: &[Message]) -> Result<(), Refusal> {
    check_unfinished(run)?;
    if messages.is_empty() {
        return Err(Refusal::invalid("messages", "must not be empty"));
    }
    match run.node_state(node) {
        Some(state) if state.status.has_ended() => Err(Refusal::NodeNotRunning),
        // A provider does not read the messages of the run.
        Some(state) if state.agent.as_ref().is_some_and(|agent| agent.at_provider) => {
            Err(Refusal::NodeNotRunning)
        }
        Some(_) | None => Ok(()),
    }
}

fn cancel_superseded_call(node: &NodeId, call: &str) -> Event {
    let (status, content) = (CallStatus::Cancelled, json!({ "cancelled": SUPERSEDED }));
    Event::ToolReturned { node: node.clone(), call: call.to_owned(), status, content }
}

/// Returns the event with which the host closes a superseded interrupt. Its `by` is the host, so readers can
/// distinguish it from the answer of a person.
pub(super) fn retract_interrupt(asked: &Interrupt) -> Event {
    let value = match asked.kind {
        Kind::Approval => json!({ "action": "reject", "feedback": SUPERSEDED, "decidedBy": HOST }),
        Kind::Clarification
        | Kind::ExternalEvent
        | Kind::Custom
        | Kind::ConversationStart
        | Kind::ConversationExchange
        | Kind::ConversationClose
        | Kind::LowConfidence => json!({ "action": "cancel", "reason": SUPERSEDED }),
    };
    resolve_by_host(asked.id, value)
}

/// Suspends the node of an agent on the interrupt that must ratify its reply, otherwise on its oldest open interrupt,
/// otherwise on its oldest child run. The calls of the agent record all interrupts and child runs that it waits for.
pub(super) fn suspend_agent(run: &Run, node: NodeId, policy: ResumePolicy) -> Result<Event, Refusal> {
    let agent = agent_of(run, &node).ok_or(Refusal::NodeNotRunning)?;
    // The worker enters the node again and reads the decisions and results that arrived in the meantime.
    if can_resume(agent, policy) {
        return Err(Refusal::NodeNotRunning);
    }
    let unratified = agent.unratified.filter(|reply| !reply.overruled).map(|reply| reply.interrupt);
    let open = agent.suspended_calls().filter_map(|call| call.interrupt).map(|waiting| waiting.id).min();
    if let Some(interrupt) = unratified.or(open) {
        return Ok(Event::NodeSuspended { node, interrupt, all: policy == ResumePolicy::WaitAll });
    }
    let child = agent.calls.iter().find_map(|call| call.unfinished_run()).ok_or(Refusal::NodeNotRunning)?;
    Ok(Event::NodeAwaiting { node, child: child.clone() })
}

fn can_resume(agent: &Agent, policy: ResumePolicy) -> bool {
    let decided = policy == ResumePolicy::AsDecided || agent.suspended_calls().next().is_none();
    agent.calls.iter().any(|call| match call.status {
        CallStatus::Resuming => decided,
        CallStatus::Running => call.run.as_ref().is_some_and(|run| run.ended),
        CallStatus::New
        | CallStatus::Suspended
        | CallStatus::Succeeded
        | CallStatus::Failed
        | CallStatus::Cancelled => false,
    })
}

/// Rejects the completion of an agent that has open calls, an unratified reply or messages that the model has not seen.
/// An agent at a provider completes with the outcome that the provider reports.
pub(super) fn check_agent_finished(run: &Run, node: &NodeId) -> Result<(), Refusal> {
    let Some(agent) = agent_of(run, node).filter(|agent| !agent.at_provider) else { return Ok(()) };
    let open = agent.unratified.is_some() || agent.calls.iter().any(|call| !call.status.is_terminal());
    if open || (agent.steps > 0 && agent.has_unseen()) { Err(Refusal::NodeNotRunning) } else { Ok(()) }
}

pub(super) fn agent_of<'a>(run: &'a Run, node: &NodeId) -> Option<&'a Agent> {
    run.node_state(node).and_then(|state| state.agent.as_deref())
}
