//! Runs over HTTP: create, show, list, cancel.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_core::{Status, WorkflowId};
use holdpoint_engine::{Error, RunFilter};
use serde_json::{Value, json};

use super::snapshot::Snapshot;
use super::{translate, wire};
use crate::app::App;
use crate::auth::{CanCancelRuns, CanCreateRuns, CanReadRuns};
use crate::body::{Body, InPath, OptionalBody, Page, Params};
use crate::error::ApiError;

pub(crate) async fn create(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    Body(body): Body<wire::CreateRun>,
) -> Result<Response, ApiError> {
    // The id itself is not repeated: what a caller mistakes for an id may be a secret.
    let unknown = || ApiError::invalid("workflowId", "there is no such workflow in this tenant");
    let workflow = WorkflowId::parse(&body.workflow_id).map_err(|_| unknown())?;
    let start = translate::start(&caller, body)?;
    let run = match app.engine.start(&workflow, start).await {
        Err(Error::NotFound(_)) => return Err(unknown()),
        other => other?,
    };
    let status_url = format!("/v1/runs/{}", run.id);
    let events_url = format!("{status_url}/events");
    let created = wire::Created { run_id: &run.id, status: run.status().as_str(), events_url, status_url };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Response, ApiError> {
    let run = app.engine.run(&caller.run(&run)?).await?;
    Ok(Json(Snapshot::of(&run)).into_response())
}

pub(crate) async fn list(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    Params(page): Params<Page>,
    Params(filter): Params<wire::ListRuns>,
) -> Result<Json<Value>, ApiError> {
    if let Some(status) = &filter.status
        && Status::parse(status).is_none()
    {
        let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        return Err(ApiError::invalid("status", format!("must be one of {}", known.join(", "))));
    }
    let filter = RunFilter {
        status: filter.status,
        workflow: filter.workflow_id,
        before: page.cursor.clone(),
        limit: page.rows()?,
        ..RunFilter::default()
    };
    let mut found = app.engine.runs(caller.tenant(), filter).await?;
    let more = page.cut(&mut found)?;
    let shown: Vec<Value> = found
        .iter()
        .map(|run| {
            json!({
                "runId": run.run, "workflowId": run.workflow, "status": run.status,
                "createdAt": run.created_at.to_string(), "updatedAt": run.updated_at.to_string(),
            })
        })
        .collect();
    let mut shown = json!({"runs": shown});
    if let (true, Some(last)) = (more, found.last()) {
        shown["nextCursor"] = json!(last.run);
    }
    Ok(Json(shown))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    OptionalBody(body): OptionalBody<wire::Cancel>,
) -> Result<Json<Value>, ApiError> {
    let of = caller.run(&run)?;
    let run = app.engine.cancel(&of, body.reason, caller.principal()).await?;
    Ok(Json(json!({"runId": run.id, "status": run.status().as_str()})))
}
