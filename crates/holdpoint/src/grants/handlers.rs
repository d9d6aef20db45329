//! Handlers that show and consume grants.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::{GrantUse, Interrupt, InterruptId, Resolution, RunRef, WorkflowId};
use holdpoint_engine::GrantRecord;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::{Caller, CanCreateRuns, CanReadRuns, CanReadWorkflows};
use crate::body::{Body, InPath};
use crate::error::ApiError;
use crate::idempotency::{Answer, Sent};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConsumeGrant {
    /// The digest of the payload that the client acts on.
    digest: String,
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(id): InPath<String>,
) -> Result<Json<Value>, ApiError> {
    let (of, interrupt) = parse(&caller, &id)?;
    Ok(Json(shown(&found(app.engine.grant(&of, interrupt).await)?)))
}

/// Uses a grant. The use is stored permanently, and a receipt answers the same request again. A refusal is not stored,
/// because the decision may still be made.
pub(crate) async fn consume(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(id): InPath<String>,
    Sent(sending, Body(body)): Sent<Body<ConsumeGrant>>,
) -> Result<Answer, ApiError> {
    let key = sending.key_of(&caller).ok_or_else(|| {
        ApiError::invalid("Idempotency-Key", "is required; the same key identifies the same use of the grant")
    })?;
    let (of, interrupt) = parse(&caller, &id)?;
    let by = caller.principal().name;
    let consume = async {
        let used = app.engine.consume_grant(&of, interrupt, &body.digest, (&by, key)).await;
        match found(used) {
            Ok(used) => (Answer::json(StatusCode::OK, &shown(&used)), true),
            Err(error) => (Answer::json(error.status(), &error.body()), false),
        }
    };
    sending.carry_out_in_parts(&app, &caller, consume).await
}

pub(crate) async fn of_workflow(
    State(app): State<App>,
    CanReadWorkflows(caller): CanReadWorkflows,
    InPath(id): InPath<String>,
) -> Result<Json<Value>, ApiError> {
    let missing = || ApiError::not_found("workflow");
    let id = WorkflowId::parse(&id).map_err(|_| missing())?;
    let workflow = app.engine.latest(caller.tenant(), &id).await?.ok_or_else(missing)?;
    let gates = workflow.nodes.iter().map(|node| (node, app.engine.permits(&workflow, &node.id)));
    let gates = gates.filter(|(_, permits)| !permits.is_empty());
    let gates: Vec<Value> =
        gates.map(|(gate, permits)| json!({"nodeId": gate.id, "permits": super::shown(&permits)})).collect();
    let notes = app.engine.grant_notes(&workflow).into_iter();
    let notes: Vec<Value> = notes.map(|note| json!({"nodeId": note.node, "message": note.message})).collect();
    Ok(Json(
        json!({"workflowId": workflow.id, "revision": workflow.revision, "gates": gates, "notes": notes}),
    ))
}

/// A grant id is the id of a run and the number of its interrupt: `<run>:i1`.
fn parse(caller: &Caller, id: &str) -> Result<(RunRef, InterruptId), ApiError> {
    let parsed = id.rsplit_once(":i").and_then(|(run, number)| {
        let number = number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)?;
        Some((caller.run(run).ok()?, InterruptId(number)))
    });
    parsed.ok_or_else(|| ApiError::not_found("grant"))
}

fn found(granted: Result<GrantRecord, holdpoint_engine::Error>) -> Result<GrantRecord, ApiError> {
    match granted {
        Err(holdpoint_engine::Error::NotFound(_)) => Err(ApiError::not_found("grant")),
        other => Ok(other?),
    }
}

fn shown(granted: &GrantRecord) -> Value {
    let run = &granted.run;
    let Some(asked) = run.interrupt(granted.interrupt) else { return Value::Null };
    let mut shown = json!({
        "grantId": run.grant_id(asked.id), "runId": run.id, "nodeId": asked.node,
        "interruptId": run.interrupt_name(asked.id), "visit": asked.visit, "deciders": asked.deciders(),
        "digest": asked.granted_digest(), "transferred": asked.taken_over,
        "uses": asked.uses.iter().map(used).collect::<Vec<_>>(),
    });
    for (member, value) in [
        ("decidedAt", decided_at(asked).map(Value::String)),
        ("shownDigest", asked.digest.as_ref().map(|digest| json!(digest))),
        ("callId", asked.call_id().map(|call| json!(call))),
        ("covers", asked.data.get("covers").cloned()),
    ] {
        if let Some(value) = value {
            shown[member] = value;
        }
    }
    if let Some(used) = &granted.consumed {
        shown["consumed"] = json!({"by": used.by, "at": used.at.to_string()});
    }
    shown
}

fn used(used: &GrantUse) -> Value {
    let mut shown = json!({"nodeId": used.node, "visit": used.visit, "at": used.at.to_string()});
    if let Some(call) = &used.call {
        shown["callId"] = json!(call);
    }
    shown
}

fn decided_at(asked: &Interrupt) -> Option<String> {
    match &asked.resolution {
        Some(Resolution::Answered { at, .. } | Resolution::TimedOut { at }) => Some(at.to_string()),
        None => None,
    }
}
