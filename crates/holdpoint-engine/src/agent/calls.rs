//! What becomes of calls: rules are applied, people asked, decisions carried out, tools called, and what they return is
//! written down once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdpoint_core::agent::{Act, CallStatus, Resumption, Ticket, ToolCall};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::{Interrupt, Kind, Resolution};
use serde_json::{Value, json};

use super::clearance::{Clearance, Target, check_approved, is_granted_elsewhere, uses_grants};
use super::servers::{self, Offer, wait_for_server};
use super::setup::Setup;
use super::tool::{Call, Change, Owner, Returned, ToolError};
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
    /// The toolbox whose rules were applied. None for a call that is a workflow.
    owner: Option<Owner>,
}

impl Due {
    fn is_inside(&self) -> bool {
        self.owner.as_ref().is_some_and(Owner::is_inside)
    }
}

pub(super) async fn go_on(
    context: &mut EffectContext,
    setup: &Setup,
    offer: &Offer<'_>,
    ready: Vec<Arc<ToolCall>>,
) -> Result<(), Stop> {
    let (mut due, mut away, sequential) = (Vec::new(), None, setup.definition.sequential);
    let all = ready.len();
    for call in ready {
        if call.run.is_some() {
            workflows::finish(context, &call)?;
            continue;
        }
        if let Some(why) = offer.missing(setup, &call) {
            away = Some(why);
            if sequential {
                break;
            }
            continue;
        }
        due.extend(settle(context, setup, offer, call)?);
    }
    if due.len() < all && !due.iter().all(Due::is_inside) {
        // People are asked before any server is waited for.
        context.write_down().await?;
    }
    let due = start_runs(context, setup, offer, due)?;
    if sequential {
        for one in due {
            let (one, unreached) = reached(context, vec![one]).await;
            away = unreached.or(away);
            let suspended = make(context, setup, one).await?;
            // What a tool wants to know first concerns those behind it: they are looked at again with the answer.
            if suspended || away.is_some() {
                break;
            }
        }
    } else {
        let (due, unreached) = reached(context, due).await;
        away = unreached.or(away);
        make(context, setup, due).await?;
    }
    match away {
        Some(why) => wait_for_server(context, why).await,
        None => Ok(()),
    }
}

/// Returns the calls whose servers are there, and why another one is not.
async fn reached(context: &EffectContext, due: Vec<Due>) -> (Vec<Due>, Option<String>) {
    let reach = servers::reach(context, due.iter().map(|one| one.owner.as_ref())).await;
    let (mut there, mut away) = (Vec::with_capacity(due.len()), None);
    for (one, reach) in due.into_iter().zip(reach) {
        match reach {
            // The attempt to call a server that must not be called tells the agent why.
            Ok(()) | Err(ToolError::NotCalled(_)) => there.push(one),
            Err(error) => away = Some(error.to_string()),
        }
    }
    (there, away)
}

/// Starts the runs of calls that are workflows, and returns the others. Runs hold nobody up, also where calls are made one
/// after another: like people, they may take days.
fn start_runs(
    context: &mut EffectContext,
    setup: &Setup,
    offer: &Offer<'_>,
    due: Vec<Due>,
) -> Result<Vec<Due>, Stop> {
    let mut others = Vec::with_capacity(due.len());
    for one in due {
        let spec = offer.find(&one.call.name);
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
    offer: &Offer<'_>,
    call: Arc<ToolCall>,
) -> Result<Option<Due>, Stop> {
    let spec = offer.find(&call.name);
    let owner = setup.owner(&call.name);
    if call.is_in_doubt() {
        let asking = setup.asking(owner.as_ref());
        let ticket = Ticket::outcome_unknown(key(context, &call), &call, &asking, None);
        suspend(context, &call, ticket)?;
        return Ok(None);
    }
    let Some(spec) = spec else {
        refuse(context, &call, &format!("there is no tool {}", call.name))?;
        return Ok(None);
    };
    let target = Target { spec, owner: owner.as_ref() };
    let go = match call.status {
        CallStatus::New if call.client && call.behaviour != Behaviour::Deny => {
            let ticket = Ticket::of_client(key(context, &call), &call);
            suspend(context, &call, ticket)?;
            None
        }
        CallStatus::New if call.behaviour == Behaviour::Deny => {
            deny(context, setup, &call, call.why.as_deref())?;
            None
        }
        CallStatus::New => {
            let clearance = match (call.behaviour, target.clearance(context, &call, &call.arguments)) {
                (Behaviour::Ask, Clearance::Cleared) => Clearance::Ask,
                (_, clearance) => clearance,
            };
            follow(context, setup, &call, (&target, clearance))?.then(|| (call.arguments.clone(), None))
        }
        // A copy cannot use a decision of its source: it asks again.
        CallStatus::Running if is_granted_elsewhere(context, &call) => {
            ask(context, setup, &call, &target)?;
            None
        }
        CallStatus::Running => {
            let arguments = call.effective_arguments();
            let clearance = target.clearance(context, &call, arguments);
            follow(context, setup, &call, (&target, clearance))?.then(|| (arguments.clone(), None))
        }
        CallStatus::Resuming => resume(context, setup, &target, &call)?,
        CallStatus::Suspended | CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled => None,
    };
    let idempotent = spec.idempotent;
    Ok(go.map(|(arguments, decision)| Due { call, arguments, decision, idempotent, owner }))
}

/// Asks about a call or denies it where it is not cleared. Returns whether it is.
fn follow(
    context: &mut EffectContext,
    setup: &Setup,
    call: &ToolCall,
    (target, clearance): (&Target<'_>, Clearance),
) -> Result<bool, Stop> {
    match clearance {
        Clearance::Cleared => return Ok(true),
        Clearance::Ask => ask(context, setup, call, target)?,
        Clearance::Deny(why) => deny(context, setup, call, Some(&why))?,
    }
    Ok(false)
}

/// Carries a decision out: the arguments of a call that is to be made, and what was decided.
fn resume(
    context: &mut EffectContext,
    setup: &Setup,
    target: &Target<'_>,
    call: &Arc<ToolCall>,
) -> Result<Option<(Value, Option<Value>)>, Stop> {
    let run = context.run().clone();
    let asked = call.waiting.and_then(|waiting| run.interrupt(waiting.interrupt));
    let Some((asked, resumption)) = asked.and_then(|asked| Some((asked, call.resumption(asked)?))) else {
        return Err(Stop::Broken(format!("nobody has decided about call {}", call.id)));
    };
    check_as_shown(asked)?;
    if asked.taken_over || is_granted_elsewhere(context, call) {
        return ask(context, setup, call, target).map(|()| None);
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
            } else if asked.kind == Kind::Approval && setup.asking(target.owner).as_it_is {
                return refuse(context, call, "its arguments may not be changed").map(|()| None);
            }
            // A rule that was added meanwhile still holds.
            let primary = target.spec.primary.as_deref();
            let verdict = setup.definition.permissions.judge(&call.name, primary, &arguments);
            if verdict.behaviour == Behaviour::Deny {
                return deny(context, setup, call, Some(&verdict.explained())).map(|()| None);
            }
            let clearance = target.clearance(context, call, &arguments);
            let cleared = follow(context, setup, call, (target, clearance))?;
            Ok(cleared.then(|| (arguments, decision(asked))))
        }
    }
}

/// Asks whether a call may be made.
fn ask(context: &mut EffectContext, setup: &Setup, call: &ToolCall, target: &Target<'_>) -> Result<(), Stop> {
    let ticket = Ticket::permission(key(context, call), call, &setup.asking(target.owner));
    let verdict = setup.judge(&call.name, target.spec.primary.as_deref(), call.effective_arguments());
    let asks = verdict.behaviour == Behaviour::Ask;
    let ticket = if asks { ticket.with_rule(&verdict.note) } else { ticket };
    suspend(context, call, ticket.with_schema(&target.spec.parameters))
}

fn decision(asked: &Interrupt) -> Option<Value> {
    match &asked.resolution {
        Some(Resolution::Answered { value, .. }) => Some(value.clone()),
        Some(Resolution::TimedOut { .. }) | None => None,
    }
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
    let inside = due.iter().all(Due::is_inside);
    let unnoticed = inside && !context.replays() && !context.has_gathered_enough();
    if !unnoticed {
        context.write_down().await?;
    }
    let calls: Vec<(Due, Call)> =
        due.into_iter().map(|one| (call_of(context, &one), one)).map(|(call, one)| (one, call)).collect();
    let mut running: FuturesUnordered<_> = calls.iter().map(|(one, call)| made(one, call)).collect();
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

fn made<'a>(one: &'a Due, call: &'a Call) -> Made<'a> {
    Box::pin(async move {
        let Some(owner) = &one.owner else {
            return (one, Err(ToolError::NotCalled(format!("there is no tool {}", call.name))));
        };
        let mut tried = 1;
        loop {
            match owner.call(call).await {
                Err(ToolError::Unknown(_)) if one.idempotent && tried < TRIES_MAX => tried += 1,
                // An earlier try may have been heard.
                Err(ToolError::Unreachable(why)) if tried > 1 => return (one, Err(ToolError::Unknown(why))),
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
            let asking = setup.asking(one.owner.as_ref());
            let ticket = Ticket::of_tool(key(context, &one.call), &one.call, &asking, &wanted);
            return suspend(context, &one.call, ticket).map(|()| true);
        }
        Err(ToolError::Unknown(why)) if !one.idempotent => {
            let call = begun_call(context, &id)?;
            let asking = setup.asking(one.owner.as_ref());
            let ticket = Ticket::outcome_unknown(key(context, &call), &call, &asking, Some(&why));
            return suspend(context, &call, ticket).map(|()| true);
        }
        // An approved call is not lost: the approver is asked again and can have it made later.
        Err(ToolError::Unreachable(why)) if uses_grants(context, &one.call) => {
            let call = begun_call(context, &id)?;
            let asking = setup.asking(one.owner.as_ref());
            let ticket = Ticket::not_made(key(context, &call), &call, &asking, &why);
            return suspend(context, &call, ticket).map(|()| true);
        }
        Err(error) => (CallStatus::Failed, json!({ "error": error.to_string() })),
    };
    context.act(Act::Return { call: id, status, content }).map(|()| false)
}

/// Returns the call as it was begun, with the arguments that an approver has edited.
fn begun_call(context: &EffectContext, id: &str) -> Result<ToolCall, Stop> {
    let call = context.agent().and_then(|agent| agent.call(id)).cloned();
    call.ok_or_else(|| Stop::Broken(format!("call {id} is not known")))
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
