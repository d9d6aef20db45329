//! Decides what agents do to their run: replies, calls that wait, begin and end, and what is said to them.

use serde_json::{Value, json};

use super::ask::aside;
use super::children::carry_out;
use super::complete::variables;
use super::finish::{check_running, room};
use super::piece::told;
use super::resolve::{HOST, resolve_by_host, resumed};
use super::{check_unfinished, doubt};
use crate::agent::{Act, Agent, CallFlaw, CallStatus, Message, Reply, ResumePolicy, Ticket};
use crate::event::Event;
use crate::interrupt::{Interrupt, Kind};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{NodeId, Timestamp, WorkflowId};

/// The reason of a retraction, as agents and readers are told.
pub(crate) const SUPERSEDED: &str = "superseded by input";

pub(super) fn act(run: &Run, node: &NodeId, acts: &[Act], now: Timestamp) -> Result<Vec<Event>, Refusal> {
    check_running(run, node)?;
    let mut after = run.clone();
    let mut events = Vec::new();
    for act in acts {
        let happened = match act {
            Act::Tell(piece) => told(&after, node, piece).into_iter().collect(),
            Act::Reply(reply) => replied(&after, node, reply)?,
            Act::Decide { decision, question } => {
                doubt::decided(&after, node, decision, question.as_deref())?
            }
            Act::Overrule => doubt::overruled(&after, node)?,
            Act::Suspend { call, ticket } => suspended(&after, node, call, ticket)?,
            Act::Begin { call, arguments } => vec![begun(&after, node, call, arguments.as_ref())?],
            Act::Start { call, workflow, arguments } => {
                started(&after, node, call, workflow, arguments.as_ref())?
            }
            Act::Return { call, status, content } => vec![returned(&after, node, call, *status, content)?],
            Act::Set { name, value } => changed(&after, node, name, value.clone())?,
            Act::Add { name, value } => {
                let sum = after.variables.get(name).and_then(Value::as_i64).unwrap_or_default();
                changed(&after, node, name, json!(sum.saturating_add(*value)))?
            }
            Act::Hear(message) => heard(&after, node, std::slice::from_ref(message))?,
        };
        for event in happened {
            after.apply(&event, now);
            events.push(event);
        }
    }
    Ok(events)
}

fn replied(run: &Run, node: &NodeId, reply: &Reply) -> Result<Vec<Event>, Refusal> {
    check_size("the model's reply", &reply.message, limits::STEP_RESULT_BYTES_MAX.min(room(run)))?;
    let calls = &reply.message.calls;
    if calls.len() != reply.gates.len() || calls.len() > limits::CALLS_PER_REPLY_MAX {
        let message = format!("has {} calls; at most {}", calls.len(), limits::CALLS_PER_REPLY_MAX);
        return Err(Refusal::invalid("reply", message));
    }
    let known = agent_of(run, node);
    for (at, call) in calls.iter().enumerate() {
        let twice = calls[..at].iter().any(|other| other.id == call.id);
        if call.id.is_empty() || twice || known.is_some_and(|agent| agent.call(&call.id).is_some()) {
            return Err(Refusal::invalid("reply.calls", format!("{:?} is no name of its own", call.id)));
        }
    }
    let mut events = vec![Event::ModelReplied {
        node: node.clone(),
        message: Box::new(reply.message.clone()),
        seen: reply.seen,
        usage: reply.usage,
        model: reply.model.clone(),
        took_ms: reply.took_ms,
    }];
    events.extend(calls.iter().zip(&reply.gates).map(|(call, gate)| Event::ToolCalled {
        node: node.clone(),
        call: call.id.clone(),
        behaviour: gate.behaviour,
        why: gate.why.clone(),
        idempotent: gate.idempotent,
        client: gate.client,
    }));
    Ok(events)
}

/// The question is one like every other; the call only waits for it.
fn suspended(run: &Run, node: &NodeId, call: &str, ticket: &Ticket) -> Result<Vec<Event>, Refusal> {
    check_call(run, node, call, CallStatus::Suspended)?;
    let (interrupt, mut events) = aside(run, node, &ticket.request)?;
    events.push(Event::ToolSuspended {
        node: node.clone(),
        call: call.to_owned(),
        interrupt,
        mode: ticket.mode,
    });
    Ok(events)
}

fn begun(run: &Run, node: &NodeId, call: &str, arguments: Option<&Value>) -> Result<Event, Refusal> {
    check_call(run, node, call, CallStatus::Running)?;
    if let Some(arguments) = arguments {
        check_size("the arguments", arguments, limits::STEP_RESULT_BYTES_MAX.min(room(run)))?;
    }
    let uses = run.usable_grants_of_call(node, call)?;
    Ok(Event::ToolBegun { node: node.clone(), call: call.to_owned(), arguments: arguments.cloned(), uses })
}

/// The run has the arguments as its inputs.
fn started(
    run: &Run,
    node: &NodeId,
    call: &str,
    workflow: &WorkflowId,
    arguments: Option<&Value>,
) -> Result<Vec<Event>, Refusal> {
    let begun = begun(run, node, call, arguments)?;
    let known = agent_of(run, node).and_then(|agent| agent.call(call));
    let known = known.ok_or_else(|| CallFlaw::Unknown(call.to_owned()))?;
    if known.run.is_some() {
        let (from, to) = (known.status, CallStatus::Running);
        return Err(CallFlaw::Illegal { call: call.to_owned(), from, to }.into());
    }
    let Some(inputs) = arguments.unwrap_or(&known.arguments).as_object() else {
        return Err(Refusal::invalid("arguments", "must be an object"));
    };
    Ok(match carry_out(run, node, call, workflow, inputs.clone()) {
        Ok(started) => vec![begun, started],
        Err(error) => {
            let content = json!({ "error": format!("{}: {}", error.code, error.message) });
            let (node, call, status) = (node.clone(), call.to_owned(), CallStatus::Failed);
            vec![Event::ToolReturned { node, call, status, content }]
        }
    })
}

fn returned(
    run: &Run,
    node: &NodeId,
    call: &str,
    status: CallStatus,
    content: &Value,
) -> Result<Event, Refusal> {
    check_call(run, node, call, status)?;
    if !status.is_terminal() {
        return Err(Refusal::invalid("status", format!("{} is no end of a call", status.as_str())));
    }
    check_size("the tool's result", content, limits::STEP_RESULT_BYTES_MAX.min(room(run)))?;
    Ok(Event::ToolReturned { node: node.clone(), call: call.to_owned(), status, content: content.clone() })
}

fn changed(run: &Run, node: &NodeId, name: &str, value: Value) -> Result<Vec<Event>, Refusal> {
    check_size("the state", &value, limits::STEP_RESULT_BYTES_MAX.min(room(run)))?;
    variables(run, node, &[(name.to_owned(), value)])
        .map_err(|error| Refusal::invalid(format!("variables.{name}"), error.message))
}

/// A call that has ended does not end again, and no other way back exists than those of the contract.
fn check_call(run: &Run, node: &NodeId, call: &str, next: CallStatus) -> Result<(), Refusal> {
    let known = agent_of(run, node).and_then(|agent| agent.call(call));
    let known = known.ok_or_else(|| CallFlaw::Unknown(call.to_owned()))?;
    if known.status.is_terminal() {
        return Err(CallFlaw::Illegal { call: call.to_owned(), from: known.status, to: next }.into());
    }
    Ok(known.check(next)?)
}

/// What is said to an agent, at the start or at work.
pub(super) fn heard(run: &Run, node: &NodeId, messages: &[Message]) -> Result<Vec<Event>, Refusal> {
    if run.workflow.position(node).is_none() {
        return Err(Refusal::invalid("node", format!("the workflow has no node {node}")));
    }
    let known = agent_of(run, node).map(|agent| agent.messages.len()).unwrap_or_default();
    if known + messages.len() > limits::MESSAGES_MAX {
        let message = format!("a run takes at most {} messages", limits::MESSAGES_MAX);
        return Err(Refusal::invalid("messages", message));
    }
    check_size("what is said", &messages, limits::RESUME_VALUE_BYTES_MAX.max(limits::STEP_RESULT_BYTES_MAX))?;
    let added =
        |message: &Message| Event::MessageAdded { node: node.clone(), message: Box::new(message.clone()) };
    Ok(messages.iter().map(added).collect())
}

/// Somebody says something to an agent at work. Calls that wait for a decision are taken back, and so are those that a run
/// carries out, which is cancelled: whoever goes on talking has something else in mind, and gets no reply before all calls
/// have ended.
pub(super) fn say(
    run: &Run,
    node: &NodeId,
    messages: &[Message],
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    check_listens(run, node, messages)?;
    let mut events = doubt::superseded(run, node, now)?;
    let mut after = run.clone();
    events.iter().for_each(|event| after.apply(event, now));
    let waiting: Vec<_> = agent_of(run, node)
        .into_iter()
        .flat_map(Agent::suspended)
        .filter_map(|call| Some((call.id.clone(), call.waiting?.interrupt)))
        .collect();
    for (call, interrupt) in waiting {
        let Some(asked) = after.interrupt(interrupt).filter(|asked| asked.is_open()) else { continue };
        let mut taken_back = vec![retracted(asked)];
        taken_back.extend(resumed(&after, interrupt));
        taken_back.push(superseded(node, &call));
        for event in taken_back {
            after.apply(&event, now);
            events.push(event);
        }
    }
    let agent = agent_of(run, node);
    for call in agent.iter().flat_map(|agent| &agent.calls).filter(|call| call.run_under_way().is_some()) {
        let event = superseded(node, &call.id);
        after.apply(&event, now);
        events.push(event);
    }
    events.extend(heard(&after, node, messages)?);
    Ok(events)
}

/// Adds messages for the agent's next step. An agent that waits goes on waiting.
pub(super) fn queue(run: &Run, node: &NodeId, messages: &[Message]) -> Result<Vec<Event>, Refusal> {
    check_listens(run, node, messages)?;
    heard(run, node, messages)
}

fn check_listens(run: &Run, node: &NodeId, messages: &[Message]) -> Result<(), Refusal> {
    check_unfinished(run)?;
    if messages.is_empty() {
        return Err(Refusal::invalid("messages", "is empty"));
    }
    match run.node_state(node) {
        Some(state) if state.status.has_ended() => Err(Refusal::NodeNotRunning),
        Some(_) | None => Ok(()),
    }
}

fn superseded(node: &NodeId, call: &str) -> Event {
    let (status, content) = (CallStatus::Cancelled, json!({ "cancelled": SUPERSEDED }));
    Event::ToolReturned { node: node.clone(), call: call.to_owned(), status, content }
}

/// Told as an answer of the host's, so that nobody takes it for a person's.
pub(super) fn retracted(asked: &Interrupt) -> Event {
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

/// The agent waits for the oldest of its open questions, or else for the oldest of its runs; that it waits for the others as
/// well is in its calls.
pub(super) fn suspend(run: &Run, node: NodeId, policy: ResumePolicy) -> Result<Event, Refusal> {
    let agent = agent_of(run, &node).ok_or(Refusal::NodeNotRunning)?;
    // What was decided or ended meanwhile is found by entering the node again.
    if resumes(agent, policy) {
        return Err(Refusal::NodeNotRunning);
    }
    let doubted = agent.doubt.filter(|doubt| !doubt.overruled).map(|doubt| doubt.interrupt);
    let open = agent.suspended().filter_map(|call| call.waiting).map(|waiting| waiting.interrupt).min();
    if let Some(interrupt) = doubted.or(open) {
        return Ok(Event::NodeSuspended { node, interrupt, all: policy == ResumePolicy::WaitAll });
    }
    let child = agent.calls.iter().find_map(|call| call.run_under_way()).ok_or(Refusal::NodeNotRunning)?;
    Ok(Event::NodeAwaiting { node, child: child.clone() })
}

fn resumes(agent: &Agent, policy: ResumePolicy) -> bool {
    let decided = policy == ResumePolicy::AsDecided || agent.suspended().next().is_none();
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

/// An agent that was told something since its last reply has not finished.
pub(super) fn check_heard(run: &Run, node: &NodeId) -> Result<(), Refusal> {
    let Some(agent) = agent_of(run, node) else { return Ok(()) };
    let open = agent.doubt.is_some() || agent.calls.iter().any(|call| !call.status.is_terminal());
    if open || (agent.steps > 0 && agent.has_unseen()) { Err(Refusal::NodeNotRunning) } else { Ok(()) }
}

pub(super) fn agent_of<'a>(run: &'a Run, node: &NodeId) -> Option<&'a Agent> {
    run.node_state(node).and_then(|state| state.agent.as_deref())
}
