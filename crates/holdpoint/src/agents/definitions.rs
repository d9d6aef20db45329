//! Handlers that register and show definitions of agents.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_agents::EngineAgents;
use holdpoint_api::agents::{Agent, AgentList, AgentRegistered, ListedAgent};
use holdpoint_core::StrictValue;
use holdpoint_engine::{Error, Once, Registration};
use serde_json::Value;

use super::translate::{agent_of, workflow_of};
use crate::app::App;
use crate::auth::{CanReadWorkflows, CanWriteWorkflows};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

/// Maximum length of the list, which has no pages. Further agents are not listed.
const LIST_MAX: u64 = 10_000;

pub(crate) async fn put(
    State(app): State<App>,
    CanWriteWorkflows(caller): CanWriteWorkflows,
    InPath(id): InPath<String>,
    KeyedBody(key, JsonBody(StrictValue(mut definition))): KeyedBody<JsonBody<StrictValue>>,
) -> Result<ApiResponse, ApiError> {
    add_id(&mut definition, &id)?;
    check_objects(&definition)?;
    let tenant = caller.tenant().clone();
    app.engine.approvers().check_agent(&tenant, &definition).await?;
    let register = async |once: Option<&Once<_>>| {
        Ok(app.engine.agents().put(&tenant, definition, once.cloned()).await?)
    };
    key.once(&app, caller.sender(), respond_registered, register).await
}

/// Adds the id in the path to a definition without one. Rejects another id.
fn add_id(definition: &mut Value, id: &str) -> Result<(), ApiError> {
    let Some(members) = definition.as_object_mut() else { return Ok(()) };
    if members.entry("agentId").or_insert_with(|| Value::from(id)).as_str() != Some(id) {
        return Err(ApiError::invalid("agentId", "must be the same in the path and in the definition"));
    }
    Ok(())
}

/// Checks that members which the engine reads only during a run are objects.
fn check_objects(definition: &Value) -> Result<(), ApiError> {
    let object = |field: &str, value: &Value| match value {
        Value::Object(_) => Ok(()),
        _ => Err(ApiError::invalid(field, "must be an object")),
    };
    for field in ["model", "limits"] {
        definition.get(field).map_or(Ok(()), |value| object(field, value))?;
    }
    let tools = definition.get("tools").and_then(Value::as_array).into_iter().flatten();
    tools.enumerate().try_for_each(|(at, tool)| object(&format!("tools[{at}]"), tool))
}

fn respond_registered(Registration { workflow, stored }: &Registration) -> ApiResponse {
    let status = if *stored && workflow.revision == 1 { StatusCode::CREATED } else { StatusCode::OK };
    let agent_id = agent_of(workflow.id.as_str()).unwrap_or_default().to_owned();
    ApiResponse::json(status, &AgentRegistered { agent_id, revision: workflow.revision })
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadWorkflows(caller): CanReadWorkflows,
    InPath(id): InPath<String>,
) -> Result<Json<Agent>, ApiError> {
    let found = app.engine.workflows().get(caller.tenant(), &workflow_of(&id)?).await;
    let found = found.map_err(|error| match error {
        Error::NotFound(_) => ApiError::not_found("agent"),
        other => other.into(),
    })?;
    let definition = found.definition.pointer("/nodes/0/config").cloned().unwrap_or_default();
    let (revision, updated_at) = (found.revision, found.created_at.into());
    Ok(Json(Agent { agent_id: id, revision, updated_at, definition }))
}

pub(crate) async fn list(
    State(app): State<App>,
    CanReadWorkflows(caller): CanReadWorkflows,
) -> Result<Json<AgentList>, ApiError> {
    let registered = app.engine.workflows().list(caller.tenant(), LIST_MAX).await?;
    let agents = registered.iter().filter_map(|one| {
        Some(ListedAgent {
            agent_id: agent_of(one.id.as_str())?.to_owned(),
            name: one.name.clone(),
            revision: one.revision,
            updated_at: one.created_at.into(),
        })
    });
    Ok(Json(AgentList { agents: agents.collect(), next_cursor: None }))
}
