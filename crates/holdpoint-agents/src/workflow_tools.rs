//! Tool calls that start workflows. A child run executes each call. The call begins in the commit that starts the child
//! run, so its outcome is always known. The agent uses no resources while the child run is open.

use std::sync::Arc;

use holdpoint_core::agent::{AgentAction, CallStatus, ToolCall};
use holdpoint_core::{ChildRunState, Status, TenantId, Workflow, compile_checker};
use holdpoint_engine::{EffectContext, Engine, Stop};
use serde_json::{Map, Value, json};

use super::calls::refuse;
use super::tool::{ToolSpec, WorkflowTool};

/// Returns the specs of workflow tools as models see them.
pub(super) async fn specs(
    engine: &Engine,
    tenant: &TenantId,
    tools: &[WorkflowTool],
) -> Result<Vec<Arc<ToolSpec>>, Stop> {
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        let parameters = match &tool.parameters {
            Some(parameters) => parameters.clone(),
            None => {
                let found = engine.workflows().latest(tenant, &tool.workflow).await;
                let found = found.map_err(|error| Stop::Broken(error.to_string()))?;
                // A workflow that does not exist may be registered later. Until then its calls fail.
                found.map_or_else(|| json!({ "type": "object" }), |workflow| inputs_of(&workflow))
            }
        };
        specs.push(Arc::new(ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters,
            idempotent: true,
            primary: None,
        }));
    }
    Ok(specs)
}

/// Returns the JSON Schema of the variables that a workflow declares. The workflow accepts other inputs as well.
fn inputs_of(workflow: &Workflow) -> Value {
    let mut schema = json!({ "type": "object" });
    let typed = workflow.variables.iter();
    let typed: Map<String, Value> =
        typed.map(|one| (one.name.clone(), json!({ "type": one.kind.as_str() }))).collect();
    if !typed.is_empty() {
        schema["properties"] = Value::Object(typed);
    }
    let needed = workflow.variables.iter().filter(|one| one.required && one.default.is_none());
    let needed: Vec<&str> = needed.map(|one| one.name.as_str()).collect();
    if !needed.is_empty() {
        schema["required"] = json!(needed);
    }
    schema
}

pub(super) fn start(
    context: &mut EffectContext,
    tool: &WorkflowTool,
    spec: &ToolSpec,
    call: &ToolCall,
    arguments: Value,
) -> Result<(), Stop> {
    let wrong = match compile_checker(&spec.parameters) {
        Ok(check) => check(&arguments).err(),
        Err(why) => Some(why),
    };
    let wrong = wrong.or_else(|| (!arguments.is_object()).then(|| "they must be an object".to_owned()));
    if let Some(why) = wrong {
        return refuse(context, call, &format!("the arguments are wrong: {why}"));
    }
    let arguments = (arguments != call.arguments).then_some(arguments);
    context.apply_action(AgentAction::StartRun {
        call: call.id.clone(),
        workflow: tool.workflow.clone(),
        arguments,
    })
}

/// Records the result of the child run of a call.
pub(super) fn finish(context: &mut EffectContext, call: &ToolCall) -> Result<(), Stop> {
    let run = context.run().clone();
    let child = call.run.as_ref().and_then(|started| run.child(&started.id));
    let Some(child) = child else { return Err(Stop::Broken(format!("call {} has no run", call.id))) };
    let (status, content) = result_of(child);
    context.apply_action(AgentAction::Return { call: call.id.clone(), status, content })
}

fn result_of(child: &ChildRunState) -> (CallStatus, Value) {
    let result = child.result.as_deref();
    match child.status {
        Status::Completed => {
            let outputs = result.map(|result| result.outputs.clone()).unwrap_or_default();
            let content = if outputs.is_empty() { json!({ "status": "completed" }) } else { json!(outputs) };
            (CallStatus::Succeeded, content)
        }
        Status::Cancelled => {
            let why = format!("run {} of workflow {} was cancelled", child.run, child.workflow);
            (CallStatus::Cancelled, json!({ "cancelled": why }))
        }
        Status::Failed
        | Status::Pending
        | Status::Running
        | Status::Paused
        | Status::WaitingApproval
        | Status::WaitingInput
        | Status::WaitingExternal => {
            let error = result.and_then(|result| result.error.as_ref());
            let why = error.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
            let why = format!("run {} of workflow {} failed{why}", child.run, child.workflow);
            (CallStatus::Failed, json!({ "error": why }))
        }
    }
}
