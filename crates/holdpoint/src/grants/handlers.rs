//! Handlers that show and consume grants.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::grants::{ConsumeGrant, Gate, Grant, GrantConsumed, GrantNote, GrantUse, WorkflowGrants};
use holdpoint_core::{Interrupt, InterruptId, Resolution, RunRef, Timestamp, Workflow, WorkflowId};
use holdpoint_engine::{Engine, GrantRecord};

use crate::app::App;
use crate::auth::{Caller, CanCreateRuns, CanReadRuns, CanReadWorkflows};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody, WorkResponse};

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(id): InPath<String>,
) -> Result<Json<Grant>, ApiError> {
    let (of, interrupt) = parse(&caller, &id)?;
    Ok(Json(describe(&require_grant(app.engine.grants().get(&of, interrupt).await)?)?))
}

/// Uses a grant. The use is stored permanently, and a repeated request with the same key gets the stored response. A
/// refusal is not stored, because the decision may still be made.
pub(crate) async fn consume(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(id): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<ConsumeGrant>>,
) -> Result<ApiResponse, ApiError> {
    let key_hash = key.hash_for(caller.sender()).ok_or_else(|| {
        ApiError::invalid("Idempotency-Key", "is required; the same key identifies the same use of the grant")
    })?;
    let (of, interrupt) = parse(&caller, &id)?;
    let by = caller.name().to_owned();
    let consume = async {
        let used = app.engine.grants().consume(&of, interrupt, &body.digest, &by, key_hash).await;
        Ok(WorkResponse::Final(ApiResponse::json(StatusCode::OK, &describe(&require_grant(used)?)?)))
    };
    key.once_in_parts(&app, caller.sender(), consume).await
}

pub(crate) async fn of_workflow(
    State(app): State<App>,
    CanReadWorkflows(caller): CanReadWorkflows,
    InPath(id): InPath<String>,
) -> Result<Json<WorkflowGrants>, ApiError> {
    let missing = || ApiError::not_found("workflow");
    let id = WorkflowId::parse(&id).map_err(|_| missing())?;
    let workflow = app.engine.workflows().latest(caller.tenant(), &id).await?.ok_or_else(missing)?;
    Ok(Json(describe_workflow(&app.engine, &workflow)))
}

fn describe_workflow(engine: &Engine, workflow: &Workflow) -> WorkflowGrants {
    let gates = workflow.nodes.iter().filter_map(|node| {
        let permits = engine.workflows().permits(workflow, &node.id);
        let permits: Vec<_> = permits.into_iter().map(super::permit).collect();
        (!permits.is_empty()).then(|| Gate { node_id: node.id.clone(), permits })
    });
    let notes = engine.workflows().grant_notes(workflow).into_iter();
    WorkflowGrants {
        workflow_id: workflow.id.clone(),
        revision: workflow.revision,
        gates: gates.collect(),
        notes: notes.map(|note| GrantNote { node_id: note.node, message: note.message }).collect(),
    }
}

/// A grant id is the id of a run and the number of its interrupt: `<run>:i1`.
fn parse(caller: &Caller, id: &str) -> Result<(RunRef, InterruptId), ApiError> {
    let parsed = id.rsplit_once(":i").and_then(|(run, number)| {
        let number = number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)?;
        Some((caller.run(run).ok()?, InterruptId(number)))
    });
    parsed.ok_or_else(|| ApiError::not_found("grant"))
}

fn require_grant(granted: Result<GrantRecord, holdpoint_engine::Error>) -> Result<GrantRecord, ApiError> {
    match granted {
        Err(holdpoint_engine::Error::NotFound(_)) => Err(ApiError::not_found("grant")),
        other => Ok(other?),
    }
}

fn describe(granted: &GrantRecord) -> Result<Grant, ApiError> {
    let run = &granted.run;
    let asked = run.interrupt(granted.interrupt).ok_or_else(|| ApiError::not_found("grant"))?;
    Ok(Grant {
        grant_id: run.grant_id(asked.id),
        run_id: run.id.clone(),
        node_id: asked.node.clone(),
        interrupt_id: run.interrupt_name(asked.id),
        visit: asked.visit,
        call_id: asked.call_id().map(str::to_owned),
        deciders: asked.deciders().into_iter().map(str::to_owned).collect(),
        decided_at: decided_at(asked).map(Into::into),
        digest: asked.granted_digest(),
        shown_digest: asked.digest.clone(),
        covers: asked.data.get("covers").cloned(),
        transferred: asked.taken_over,
        uses: asked.uses.iter().map(describe_use).collect(),
        consumed: granted
            .consumed
            .as_ref()
            .map(|used| GrantConsumed { by: used.by.clone(), at: used.at.into() }),
    })
}

fn describe_use(used: &holdpoint_core::GrantUse) -> GrantUse {
    GrantUse { node_id: used.node.clone(), visit: used.visit, call_id: used.call.clone(), at: used.at.into() }
}

fn decided_at(asked: &Interrupt) -> Option<Timestamp> {
    match &asked.resolution {
        Some(Resolution::Answered { at, .. } | Resolution::TimedOut { at }) => Some(*at),
        None => None,
    }
}
