//! What becomes of calls: rules are applied, people asked, decisions carried out, tools called, and what they return is
//! written down once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdpoint_core::agent::{Act, CallStatus, Resumption, Ticket, ToolCall};
use holdpoint_core::permission::{Behaviour, call_digest};
use holdpoint_core::{Interrupt, Resolution};
use serde_json::{Value, json};

use super::setup::Setup;
use super::tool::{Call, Change, Returned, ToolError, ToolSpec};
use super::watch::Watch;
use super::workflows;
use crate::approved::check_as_shown;
use crate::context::{EffectContext, Stop};

/// How often a call in doubt is made again that may be made twice.
const TRIES_MAX: u32 = 3;

/// A call that is about to be made.
struct Due {
    call: Arc<ToolCall>,
    arguments: Value,
    decision: Option<Value>,
    idempotent: bool,
}

pub(super) async fn go_on(
    context: &mut EffectContext,
    setup: &Setup,
    specs: &[Arc<ToolSpec>],
    ready: Vec<Arc<ToolCall>>,
) -> Result<(), Stop> {
    let mut due = Vec::new();
    for call in ready {
        if call.run.is_some() {
            workflows::finish(context, &call)?;
            continue;
        }
        due.extend(settle(context, setup, specs, call)?);
    }
    let due = start_runs(context, setup, specs, due)?;
    if setup.definition.sequential {
        for one in due {
            let suspended = make(context, setup, vec![one]).await?;
            // What a tool wants to know first concerns those behind it: they are looked at again with the answer.
            if suspended {
                return Ok(());
            }
        }
        return Ok(());
    }
    make(context, setup, due).await.map(|_| ())
}

/// Starts the runs of calls that are workflows, and returns the others. Runs hold nobody up, also where calls are made one
/// after another: like people, they may take days.
fn start_runs(
    context: &mut EffectContext,
    setup: &Setup,
    specs: &[Arc<ToolSpec>],
    due: Vec<Due>,
) -> Result<Vec<Due>, Stop> {
    let mut others = Vec::with_capacity(due.len());
    for one in due {
        let spec = specs.iter().find(|spec| spec.name == one.call.name);
        match setup.workflow(&one.call.name).zip(spec) {
            Some((tool, spec)) => workflows::start(context, (tool, spec), &one.call, one.arguments)?,
            None => others.push(one),
        }
    }
    Ok(others)
}

/// Does what needs no tool, and returns the call if it is to be made.
fn settle(
    context: &mut EffectContext,
    setup: &Setup,
    specs: &[Arc<ToolSpec>],
    call: Arc<ToolCall>,
) -> Result<Option<Due>, Stop> {
    let spec = specs.iter().find(|spec| spec.name == call.name);
    if call.is_in_doubt() {
        let ticket = Ticket::outcome_unknown(key(context, &call), &call, &setup.definition.asking, None);
        suspend(context, &call, ticket)?;
        return Ok(None);
    }
    let Some(spec) = spec else {
        refuse(context, &call, &format!("there is no tool {}", call.name))?;
        return Ok(None);
    };
    let due = |arguments: Value, decision| {
        Some(Due { idempotent: spec.idempotent, call: call.clone(), arguments, decision })
    };
    match call.status {
        CallStatus::New if call.client && call.behaviour != Behaviour::Deny => {
            let ticket = Ticket::of_client(key(context, &call), &call);
            suspend(context, &call, ticket)?;
            Ok(None)
        }
        CallStatus::New => match call.behaviour {
            Behaviour::Allow => Ok(due(call.arguments.clone(), None)),
            Behaviour::Ask => {
                let ticket = Ticket::permission(key(context, &call), &call, &setup.definition.asking);
                suspend(context, &call, ticket)?;
                Ok(None)
            }
            Behaviour::Deny => deny(context, setup, &call, call.why.as_deref()).map(|()| None),
        },
        // A copy cannot use a decision of its source: it asks again.
        CallStatus::Running if is_granted_elsewhere(context, &call) => {
            ask_again(context, setup, &call).map(|()| None)
        }
        CallStatus::Running => Ok(due(call.effective_arguments().clone(), None)),
        CallStatus::Resuming => resume(context, setup, spec, &call)
            .map(|go| go.and_then(|(arguments, value)| due(arguments, value))),
        CallStatus::Suspended | CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled => {
            Ok(None)
        }
    }
}

/// Carries a decision out: the arguments of a call that is to be made, and what was decided.
fn resume(
    context: &mut EffectContext,
    setup: &Setup,
    spec: &ToolSpec,
    call: &Arc<ToolCall>,
) -> Result<Option<(Value, Option<Value>)>, Stop> {
    let run = context.run().clone();
    let asked = call.waiting.and_then(|waiting| run.interrupt(waiting.interrupt));
    let Some((asked, resumption)) = asked.and_then(|asked| Some((asked, call.resumption(asked)?))) else {
        return Err(Stop::Broken(format!("nobody has decided about call {}", call.id)));
    };
    check_as_shown(asked)?;
    if asked.taken_over || is_granted_elsewhere(context, call) {
        return ask_again(context, setup, call).map(|()| None);
    }
    match resumption {
        Resumption::Cancel { reason } => {
            let content = json!({ "cancelled": reason });
            context.act(Act::Return { call: call.id.clone(), status: CallStatus::Cancelled, content })?;
            Ok(None)
        }
        Resumption::Result(content) => {
            context.act(Act::Return { call: call.id.clone(), status: CallStatus::Succeeded, content })?;
            Ok(None)
        }
        Resumption::Run { arguments } => {
            if arguments == *call.effective_arguments() {
                check_approved(asked, call, &arguments)?;
            }
            // A rule that was added meanwhile still holds.
            let verdict = setup.definition.permissions.judge(&call.name, spec.primary.as_deref(), &arguments);
            if verdict.behaviour == Behaviour::Deny {
                return deny(context, setup, call, Some(&verdict.why)).map(|()| None);
            }
            Ok(Some((arguments, decision(asked))))
        }
    }
}

/// Asks about a call whose decision belongs to the run that this one was copied from.
fn ask_again(context: &mut EffectContext, setup: &Setup, call: &Arc<ToolCall>) -> Result<(), Stop> {
    let ticket = Ticket::permission(key(context, call), call, &setup.definition.asking);
    suspend(context, call, ticket)
}

/// Returns whether a decision that the call depends on belongs to another run.
fn is_granted_elsewhere(context: &EffectContext, call: &ToolCall) -> bool {
    context.run().usable_grants_of_call(&context.node().id, &call.id).is_err()
}

/// An approval is good for the call that was shown, and for no other.
fn check_approved(asked: &Interrupt, call: &ToolCall, arguments: &Value) -> Result<(), Stop> {
    let shown = asked.data.get("callDigest").and_then(Value::as_str);
    if shown.is_none_or(|shown| shown == call_digest(&call.name, arguments)) {
        return Ok(());
    }
    let message = format!("call {} is not the one that was approved", call.id);
    Err(Stop::failed("approval_mismatch", message))
}

fn decision(asked: &Interrupt) -> Option<Value> {
    match &asked.resolution {
        Some(Resolution::Answered { value, .. }) => Some(value.clone()),
        Some(Resolution::TimedOut { .. }) | None => None,
    }
}

/// Returns whether the call uses grants, so that its begin must be recorded.
fn uses_grants(context: &EffectContext, call: &ToolCall) -> bool {
    let grants = context.run().usable_grants_of_call(&context.node().id, &call.id);
    grants.is_ok_and(|grants| !grants.is_empty())
}

/// Makes calls, all at once, and says whether one of them wants something first.
async fn make(context: &mut EffectContext, setup: &Setup, due: Vec<Due>) -> Result<bool, Stop> {
    if due.is_empty() {
        return Ok(false);
    }
    for one in &due {
        let edits = one.arguments != one.call.arguments;
        if one.idempotent && !edits && !uses_grants(context, &one.call) {
            continue;
        }
        let edited = edits.then(|| one.arguments.clone());
        context.act(Act::Begin { call: one.call.id.clone(), arguments: edited })?;
    }
    // From here on the world may change.
    let inside = due.iter().all(|one| setup.is_inside(&one.call.name));
    let unnoticed = inside && !context.replays() && !context.has_gathered_enough();
    if !unnoticed {
        context.write_down().await?;
    }
    let calls: Vec<(Due, Call)> =
        due.into_iter().map(|one| (call_of(context, &one), one)).map(|(call, one)| (one, call)).collect();
    let mut running: FuturesUnordered<_> = calls.iter().map(|(one, call)| made(setup, one, call)).collect();
    let (mut suspended, mut left) = (false, calls.len());
    let watch = Watch::of(context);
    while let Some((one, result)) = watch.unless_ended(running.next()).await? {
        left -= 1;
        suspended |= note(context, setup, one, result)?;
        // The last one goes with what comes next.
        if left > 0 && !unnoticed {
            context.write_down().await?;
        }
    }
    Ok(suspended)
}

type Made<'a> = Pin<Box<dyn Future<Output = (&'a Due, Result<Returned, ToolError>)> + Send + 'a>>;

fn made<'a>(setup: &'a Setup, one: &'a Due, call: &'a Call) -> Made<'a> {
    Box::pin(async move {
        let mut tried = 1;
        loop {
            match setup.call(call).await {
                Err(ToolError::Unknown(_)) if one.idempotent && tried < TRIES_MAX => tried += 1,
                result => return (one, result),
            }
        }
    })
}

fn call_of(context: &EffectContext, one: &Due) -> Call {
    let run = context.run();
    let of = context.of();
    let idempotency_key = format!("{}:{}:{}:{}", run.id, context.node().id, context.visit(), one.call.id);
    Call {
        of,
        id: one.call.id.clone(),
        name: one.call.name.clone(),
        arguments: one.arguments.clone(),
        idempotency_key,
        decision: one.decision.clone(),
    }
}

/// Writes down what a call came to; says whether it waits now.
fn note(
    context: &mut EffectContext,
    setup: &Setup,
    one: &Due,
    result: Result<Returned, ToolError>,
) -> Result<bool, Stop> {
    let id = one.call.id.clone();
    let (status, content) = match result {
        Ok(Returned::Result(content)) => (CallStatus::Succeeded, content),
        Ok(Returned::Changed { result, changes }) => {
            for change in changes {
                context.act(match change {
                    Change::Set(name, value) => Act::Set { name, value },
                    Change::Add(name, value) => Act::Add { name, value },
                })?;
            }
            (CallStatus::Succeeded, result)
        }
        Ok(Returned::Failed(content)) => (CallStatus::Failed, content),
        Ok(Returned::Suspended(wanted)) => {
            let ticket =
                Ticket::of_tool(key(context, &one.call), &one.call, &setup.definition.asking, &wanted);
            return suspend(context, &one.call, ticket).map(|()| true);
        }
        Err(ToolError::Unknown(why)) if !one.idempotent => {
            let call = context.agent().and_then(|agent| agent.call(&id)).cloned();
            let Some(call) = call else { return Err(Stop::Broken(format!("call {id} is not known"))) };
            let asking = &setup.definition.asking;
            let ticket = Ticket::outcome_unknown(key(context, &call), &call, asking, Some(&why));
            return suspend(context, &call, ticket).map(|()| true);
        }
        Err(error) => (CallStatus::Failed, json!({ "error": error.to_string() })),
    };
    context.act(Act::Return { call: id, status, content }).map(|()| false)
}

fn suspend(context: &mut EffectContext, call: &ToolCall, ticket: Ticket) -> Result<(), Stop> {
    context.act(Act::Suspend { call: call.id.clone(), ticket: Box::new(ticket) })
}

pub(super) fn refuse(context: &mut EffectContext, call: &ToolCall, why: &str) -> Result<(), Stop> {
    let content = json!({ "error": why });
    context.act(Act::Return { call: call.id.clone(), status: CallStatus::Failed, content })
}

fn deny(context: &mut EffectContext, setup: &Setup, call: &ToolCall, why: Option<&str>) -> Result<(), Stop> {
    let why = format!("{} is not allowed: {}", call.name, why.unwrap_or("a rule denies it"));
    if setup.definition.block_run_on_deny {
        return Err(Stop::failed("tool_denied", why));
    }
    refuse(context, call, &why)
}

/// Another one for each time that somebody is asked about a call.
fn key(context: &EffectContext, call: &ToolCall) -> String {
    let run = context.run();
    let (visit, node) = (context.visit(), run.workflow.position(&context.node().id).unwrap_or_default());
    let stem = format!("{}:tool:{node}.{visit}:{}:", run.id, call.id);
    let asked = run.interrupts.iter().filter(|asked| asked.key.starts_with(&stem)).count();
    format!("{stem}{asked}")
}
