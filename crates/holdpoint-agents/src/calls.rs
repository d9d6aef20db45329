//! Processes the tool calls of an agent: applies rules and decisions, opens interrupts, calls tools, records results.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdpoint_core::agent::{AgentAction, CallStatus, Resumption, Ticket, ToolCall};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::{Kind, Resolution};
use holdpoint_engine::extension::{RunEndWatch, check_as_shown};
use holdpoint_engine::{EffectContext, Stop};
use serde_json::{Value, json};

use super::clearance::{CallTarget, Clearance, check_approved, is_granted_elsewhere, uses_grants};
use super::servers::{self, AvailableTools, wait_for_server};
use super::setup::Setup;
use super::tool::{Call, CallOutcome, StateChange, ToolError, ToolOwner};
use super::workflow_tools;

mod attempts;
mod reports;

use attempts::execute_call;
use reports::CallReports;

/// A call that is about to be made.
struct DueCall {
    call: Arc<ToolCall>,
    arguments: Value,
    decision: Option<Value>,
    idempotent: bool,
    /// The toolbox whose rules were applied. None for a call that starts a workflow.
    owner: Option<ToolOwner>,
}

impl DueCall {
    fn is_local(&self) -> bool {
        self.owner.as_ref().is_some_and(ToolOwner::is_local)
    }
}

/// Processes the calls that are ready. Returns [`Stop::Unavailable`] if one needs a server that cannot be reached.
pub(super) async fn process_calls(
    context: &mut EffectContext,
    setup: &Setup,
    tools: &AvailableTools<'_>,
    ready: Vec<Arc<ToolCall>>,
) -> Result<(), Stop> {
    let (mut due, mut unreachable, sequential) = (Vec::new(), None, setup.definition.sequential);
    let all = ready.len();
    for call in ready {
        if call.run.is_some() {
            workflow_tools::finish(context, &call)?;
            continue;
        }
        if let Some(why) = tools.missing(setup, &call) {
            unreachable = Some(why);
            if sequential {
                break;
            }
            continue;
        }
        due.extend(prepare_call(context, setup, tools, call)?);
    }
    // Interrupts and the reply are committed before the node waits for a server.
    match due.iter().all(DueCall::is_local) {
        true => {}
        false if due.len() < all => context.commit_actions().await?,
        false => setup.commit_reply(context).await?,
    }
    let due = start_runs(context, setup, tools, due)?;
    if sequential {
        for one in due {
            let (one, unreached) = split_by_reach(context, vec![one]).await;
            unreachable = unreached.or(unreachable);
            let suspended = execute_calls(context, setup, one).await?;
            // The answer to a suspended call may affect the calls after it, so they wait for the answer.
            if suspended || unreachable.is_some() {
                break;
            }
        }
    } else {
        let (due, unreached) = split_by_reach(context, due).await;
        unreachable = unreached.or(unreachable);
        execute_calls(context, setup, due).await?;
    }
    match unreachable {
        Some(why) => wait_for_server(context, why).await,
        None => Ok(()),
    }
}

/// Returns the calls whose servers can be reached, and the reason why another server cannot be reached.
async fn split_by_reach(context: &EffectContext, due: Vec<DueCall>) -> (Vec<DueCall>, Option<String>) {
    let reach = servers::reach(context, due.iter().map(|one| one.owner.as_ref())).await;
    let (mut reachable, mut unreachable) = (Vec::with_capacity(due.len()), None);
    for (one, reach) in due.into_iter().zip(reach) {
        match reach {
            // If the outgoing policy forbids the server, the call fails, and the agent sees the reason.
            Ok(()) | Err(ToolError::NotCalled(_)) => reachable.push(one),
            Err(error) => unreachable = Some(error.to_string()),
        }
    }
    (reachable, unreachable)
}

/// Starts the child runs of calls whose tool is a workflow, and returns the other calls. Even with sequential
/// execution, later calls do not wait for these runs, which may take days.
fn start_runs(
    context: &mut EffectContext,
    setup: &Setup,
    tools: &AvailableTools<'_>,
    due: Vec<DueCall>,
) -> Result<Vec<DueCall>, Stop> {
    let mut others = Vec::with_capacity(due.len());
    for one in due {
        let spec = tools.find(&one.call.name);
        match setup.workflow(&one.call.name).zip(spec) {
            Some((tool, spec)) => workflow_tools::start(context, tool, spec, &one.call, one.arguments)?,
            None => others.push(one),
        }
    }
    Ok(others)
}

/// Suspends, denies or resumes a call. Returns the call if it must be made now.
fn prepare_call(
    context: &mut EffectContext,
    setup: &Setup,
    tools: &AvailableTools<'_>,
    call: Arc<ToolCall>,
) -> Result<Option<DueCall>, Stop> {
    let spec = tools.find(&call.name);
    let owner = setup.owner(&call.name);
    if call.has_unknown_outcome() {
        let approval = setup.approval(owner.as_ref());
        let ticket = Ticket::outcome_unknown(next_key(context, &call), &call, &approval, None);
        suspend(context, &call, ticket)?;
        return Ok(None);
    }
    let Some(spec) = spec else {
        refuse(context, &call, &format!("there is no tool {}", call.name))?;
        return Ok(None);
    };
    let target = CallTarget { spec, owner: owner.as_ref() };
    let ready = match call.status {
        CallStatus::New if call.client && call.behaviour != Behaviour::Deny => {
            let ticket = Ticket::client_tool(next_key(context, &call), &call);
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
            enforce(context, setup, &call, &target, clearance)?.then(|| (call.arguments.clone(), None))
        }
        // A fork cannot use a decision of its source run: it opens a new interrupt.
        CallStatus::Running if is_granted_elsewhere(context, &call) => {
            ask(context, setup, &call, &target)?;
            None
        }
        CallStatus::Running => {
            let arguments = call.effective_arguments();
            let clearance = target.clearance(context, &call, arguments);
            enforce(context, setup, &call, &target, clearance)?.then(|| (arguments.clone(), None))
        }
        CallStatus::Resuming => resume(context, setup, &target, &call)?,
        CallStatus::Suspended | CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled => None,
    };
    let idempotent = spec.idempotent;
    Ok(ready.map(|(arguments, decision)| DueCall { call, arguments, decision, idempotent, owner }))
}

/// Suspends or denies a call that is not cleared. Returns true if it is cleared.
fn enforce(
    context: &mut EffectContext,
    setup: &Setup,
    call: &ToolCall,
    target: &CallTarget<'_>,
    clearance: Clearance,
) -> Result<bool, Stop> {
    match clearance {
        Clearance::Cleared => return Ok(true),
        Clearance::Ask => ask(context, setup, call, target)?,
        Clearance::Deny(why) => deny(context, setup, call, Some(&why))?,
    }
    Ok(false)
}

/// Applies the decision of a suspended call. Returns the arguments and the decision if the call must be made.
fn resume(
    context: &mut EffectContext,
    setup: &Setup,
    target: &CallTarget<'_>,
    call: &Arc<ToolCall>,
) -> Result<Option<(Value, Option<Value>)>, Stop> {
    let run = context.run().clone();
    let found = call.interrupt.and_then(|waiting| run.interrupt(waiting.id));
    let Some((interrupt, resumption)) = found.and_then(|found| Some((found, call.resumption(found)?))) else {
        return Err(Stop::Broken(format!("call {} has no decision", call.id)));
    };
    check_as_shown(interrupt)?;
    if interrupt.taken_over || is_granted_elsewhere(context, call) {
        return ask(context, setup, call, target).map(|()| None);
    }
    let id = call.id.clone();
    match resumption {
        Resumption::Cancel { reason } => {
            let content = json!({ "cancelled": reason });
            context.apply_action(AgentAction::Return { call: id, status: CallStatus::Cancelled, content })?;
            Ok(None)
        }
        Resumption::Result(content) => {
            context.apply_action(AgentAction::Return { call: id, status: CallStatus::Succeeded, content })?;
            Ok(None)
        }
        Resumption::Run { arguments } => {
            if arguments == *call.effective_arguments() {
                check_approved(interrupt, call, &arguments)?;
            } else if interrupt.kind == Kind::Approval && setup.approval(target.owner).arguments_fixed {
                return refuse(context, call, "the arguments of this call cannot be edited").map(|()| None);
            }
            // A rule that was added after the interrupt still applies.
            let (rules, primary) = (&setup.definition.permissions, target.spec.primary.as_deref());
            let verdict = rules.evaluate(&call.name, primary, &arguments);
            if verdict.behaviour == Behaviour::Deny {
                return deny(context, setup, call, Some(&verdict.explanation())).map(|()| None);
            }
            let clearance = target.clearance(context, call, &arguments);
            let cleared = enforce(context, setup, call, target, clearance)?;
            let decision = match &interrupt.resolution {
                Some(Resolution::Answered { value, .. }) => Some(value.clone()),
                Some(Resolution::TimedOut { .. }) | None => None,
            };
            Ok(cleared.then_some((arguments, decision)))
        }
    }
}

/// Suspends a call until it is approved.
fn ask(
    context: &mut EffectContext,
    setup: &Setup,
    call: &ToolCall,
    target: &CallTarget<'_>,
) -> Result<(), Stop> {
    let ticket = Ticket::permission(next_key(context, call), call, &setup.approval(target.owner));
    let verdict = setup.judge(&call.name, target.spec.primary.as_deref(), call.effective_arguments());
    let ticket = if verdict.behaviour == Behaviour::Ask { ticket.with_rule(&verdict.note) } else { ticket };
    suspend(context, call, ticket.with_schema(&target.spec.parameters))
}

/// Makes calls concurrently. Returns true if one of them was suspended.
async fn execute_calls(context: &mut EffectContext, setup: &Setup, due: Vec<DueCall>) -> Result<bool, Stop> {
    if due.is_empty() {
        return Ok(false);
    }
    // The calls may have effects, so the `Begin` actions are committed first. Calls of local tools can be repeated.
    let is_local = due.iter().all(DueCall::is_local);
    let is_repeatable = is_local && !context.is_replay() && !context.has_many_pending_actions();
    if !is_repeatable {
        context.require_claim()?;
    }
    for one in &due {
        let edits = one.arguments != one.call.arguments;
        if one.idempotent && !edits && !uses_grants(context, &one.call) {
            continue;
        }
        let (call, arguments) = (one.call.id.clone(), edits.then(|| one.arguments.clone()));
        context.apply_action(AgentAction::Begin { call, arguments })?;
    }
    if !is_repeatable {
        context.commit_actions().await?;
    }
    // Local calls end at once.
    let mut reports = if is_repeatable { CallReports::none() } else { CallReports::new() };
    let calls: Vec<(DueCall, Call)> = due
        .into_iter()
        .map(|one| (build_call(context, &one, &reports), one))
        .map(|(call, one)| (one, call))
        .collect();
    let mut running: FuturesUnordered<_> = calls.iter().map(|(one, call)| execute_call(one, call)).collect();
    let (mut suspended, mut left, watch) = (false, calls.len(), RunEndWatch::of(context));
    loop {
        let ended = tokio::select! {
            biased;
            ended = watch.unless_ended(running.next()) => ended?,
            reported = reports.take() => {
                context.apply_actions(reported)?;
                context.commit_actions().await?;
                continue;
            }
        };
        let Some((one, result)) = ended else { break };
        left -= 1;
        suspended |= record_result(context, setup, one, result)?;
        // The last result is committed together with the next step.
        if left > 0 && !is_repeatable {
            context.commit_actions().await?;
        }
    }
    Ok(suspended)
}

fn build_call(context: &EffectContext, one: &DueCall, reports: &CallReports) -> Call {
    let run = context.run();
    let idempotency_key = format!("{}:{}:{}:{}", run.id, context.node().id, context.visit(), one.call.id);
    Call {
        of: context.of(),
        id: one.call.id.clone(),
        name: one.call.name.clone(),
        arguments: one.arguments.clone(),
        idempotency_key,
        decision: one.decision.clone(),
        reporter: reports.reporter(&one.call.id),
    }
}

/// Records the result of a call. Returns true if the call was suspended.
fn record_result(
    context: &mut EffectContext,
    setup: &Setup,
    one: &DueCall,
    result: Result<CallOutcome, ToolError>,
) -> Result<bool, Stop> {
    let id = one.call.id.clone();
    let (status, content) = match result {
        Ok(CallOutcome::Result(content)) => (CallStatus::Succeeded, content),
        Ok(CallOutcome::Changed { result, changes }) => {
            for change in changes {
                context.apply_action(match change {
                    StateChange::Set(name, value) => AgentAction::SetVariable { name, value },
                    StateChange::Add(name, value) => AgentAction::AddToVariable { name, value },
                })?;
            }
            (CallStatus::Succeeded, result)
        }
        Ok(CallOutcome::Failed(content)) => (CallStatus::Failed, content),
        Ok(CallOutcome::Suspended(wanted)) => {
            let approval = setup.approval(one.owner.as_ref());
            let ticket = Ticket::tool_suspension(next_key(context, &one.call), &one.call, &approval, &wanted);
            return suspend(context, &one.call, ticket).map(|()| true);
        }
        Err(ToolError::Unknown(why)) if !one.idempotent => {
            let call = begun_call(context, &id)?;
            let approval = setup.approval(one.owner.as_ref());
            let ticket = Ticket::outcome_unknown(next_key(context, &call), &call, &approval, Some(&why));
            return suspend(context, &call, ticket).map(|()| true);
        }
        // The approved call was not made. A new interrupt lets an approver repeat it later.
        Err(ToolError::Unreachable(why)) if uses_grants(context, &one.call) => {
            let call = begun_call(context, &id)?;
            let approval = setup.approval(one.owner.as_ref());
            let ticket = Ticket::call_not_made(next_key(context, &call), &call, &approval, &why);
            return suspend(context, &call, ticket).map(|()| true);
        }
        Err(error) => (CallStatus::Failed, json!({ "error": error.to_string() })),
    };
    context.apply_action(AgentAction::Return { call: id, status, content }).map(|()| false)
}

/// Returns the recorded call. Its arguments are the edited ones if an approver edited them.
fn begun_call(context: &EffectContext, id: &str) -> Result<ToolCall, Stop> {
    let call = context.agent().and_then(|agent| agent.call(id)).cloned();
    call.ok_or_else(|| Stop::Broken(format!("call {id} is not known")))
}

fn suspend(context: &mut EffectContext, call: &ToolCall, ticket: Ticket) -> Result<(), Stop> {
    context.apply_action(AgentAction::Suspend { call: call.id.clone(), ticket: Box::new(ticket) })
}

pub(super) fn refuse(context: &mut EffectContext, call: &ToolCall, why: &str) -> Result<(), Stop> {
    let content = json!({ "error": why });
    context.apply_action(AgentAction::Return { call: call.id.clone(), status: CallStatus::Failed, content })
}

fn deny(context: &mut EffectContext, setup: &Setup, call: &ToolCall, why: Option<&str>) -> Result<(), Stop> {
    let why = format!("{} is not allowed: {}", call.name, why.unwrap_or("a rule denies it"));
    if setup.definition.block_run_on_deny {
        return Err(Stop::failed("tool_denied", why));
    }
    refuse(context, call, &why)
}

/// Returns the key of the next interrupt about a call. Each interrupt about the call has its own key.
fn next_key(context: &EffectContext, call: &ToolCall) -> String {
    let run = context.run();
    let (visit, node) = (context.visit(), run.workflow.position(&context.node().id).unwrap_or_default());
    let stem = format!("{}:tool:{node}.{visit}:{}:", run.id, call.id);
    let count = run.interrupts.iter().filter(|interrupt| interrupt.key.starts_with(&stem)).count();
    format!("{stem}{count}")
}
