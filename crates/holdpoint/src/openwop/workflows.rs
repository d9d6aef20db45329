//! Handlers that register, show and list workflows.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::workflows::{WorkflowList, WorkflowRegistered, WorkflowSummary};
use holdpoint_core::{StrictValue, WorkflowId};
use holdpoint_engine::{Once, Registration};
use serde_json::Value;

use crate::app::App;
use crate::auth::{CanReadWorkflows, CanWriteWorkflows};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};
use crate::reserved;

/// Maximum length of the list, which has no pages. Further workflows are not listed.
const LIST_MAX: u64 = 10_000;

pub(crate) async fn put(
    State(app): State<App>,
    CanWriteWorkflows(caller): CanWriteWorkflows,
    InPath(id): InPath<String>,
    KeyedBody(key, JsonBody(StrictValue(definition))): KeyedBody<JsonBody<StrictValue>>,
) -> Result<ApiResponse, ApiError> {
    if definition.get("id").and_then(Value::as_str) != Some(id.as_str()) {
        return Err(ApiError::invalid("id", "must be the same in the path and in the definition"));
    }
    reserved::check_workflow("id", &id)?;
    let tenant = caller.tenant().clone();
    let warnings = app.engine.approvers().find_warnings(&tenant, &definition).await?;
    let register = async |once: Option<&Once<_>>| {
        Ok(app.engine.workflows().register_once(&tenant, definition, once.cloned()).await?)
    };
    key.once(&app, caller.sender(), move |made: &_| put_response(made, &warnings), register).await
}

fn put_response(Registration { workflow, stored }: &Registration, warnings: &[String]) -> ApiResponse {
    let status = if *stored && workflow.revision == 1 { StatusCode::CREATED } else { StatusCode::OK };
    let registered = WorkflowRegistered {
        id: workflow.id.clone(),
        version: workflow.version.clone(),
        revision: workflow.revision,
        warnings: (!warnings.is_empty()).then(|| warnings.to_vec()),
    };
    ApiResponse::json(status, &registered)
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadWorkflows(caller): CanReadWorkflows,
    InPath(id): InPath<String>,
) -> Result<Json<Value>, ApiError> {
    // The workflow of an agent is not shown; agents have an endpoint of their own.
    let id = Some(id).filter(|id| reserved::explain_reserved_workflow(id).is_none());
    let id = id.and_then(|id| WorkflowId::parse(&id).ok()).ok_or_else(|| ApiError::not_found("workflow"))?;
    Ok(Json(app.engine.workflows().get(caller.tenant(), &id).await?.definition))
}

pub(crate) async fn list(
    State(app): State<App>,
    CanReadWorkflows(caller): CanReadWorkflows,
) -> Result<Json<WorkflowList>, ApiError> {
    let registered = app.engine.workflows().list(caller.tenant(), LIST_MAX).await?;
    // Workflows of agents are not listed; agents have an endpoint of their own.
    let workflows =
        registered.into_iter().filter(|one| reserved::explain_reserved_workflow(one.id.as_str()).is_none());
    Ok(Json(WorkflowList { workflows: workflows.map(describe).collect() }))
}

fn describe(one: holdpoint_engine::WorkflowSummary) -> WorkflowSummary {
    WorkflowSummary {
        id: one.id,
        name: one.name,
        version: one.version,
        revision: one.revision,
        updated_at: one.created_at.into(),
    }
}
