//! Runs over HTTP: create, show, list.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_core::{Run, RunId, RunRef, Status, TIMED_OUT, WorkflowId};
use holdpoint_engine::{Done, Engine, Error, RunFilter, RunSummary, StartOptions};
use serde_json::{Value, json};

use super::snapshot::Snapshot;
use super::start_headers::{StartHeaders, check_configurable};
use super::{links, translate, wire};
use crate::app::App;
use crate::auth::{Caller, CanCreateRuns, CanReadRuns};
use crate::body::{Body, InPath, Page, Params};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};
use crate::instants::instant;

/// The allowed length of a callback secret that the caller chooses, in characters.
pub(super) const CALLBACK_SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=256;

pub(crate) async fn create(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    options: StartHeaders,
    Sent(sending, Body(body)): Sent<Body<wire::CreateRun>>,
) -> Result<Answer, ApiError> {
    // The id itself is not repeated: what a caller mistakes for an id may be a secret.
    let unknown = || ApiError::invalid("workflowId", "there is no such workflow in this tenant");
    let workflow = WorkflowId::parse(&body.workflow_id).map_err(|_| unknown())?;
    options.check(&caller)?;
    let exclusive = options.exclusive()?;
    if exclusive && body.scope_id.is_none() {
        return Err(ApiError::invalid("scopeId", "X-Dedup: enforce needs one"));
    }
    check_configurable(&caller, &body.configurable.0)?;
    if let Some(url) = &body.callback_url {
        let refused = |refused| translate::refused_url("callbackUrl", &refused);
        app.outgoing.check_url(url).map_err(refused)?;
    }
    let given = check_callback_secret(body.callback_url.is_some(), body.callback_secret.clone())?;
    let mut start = translate::start(&caller, body)?;
    (start.trace, start.trace_state) = (options.trace, options.trace_state);
    let mut made_secret = None;
    if start.callback_url.is_some() {
        let (is_given, (sealed, secret)) = (given.is_some(), app.engine.seal_callback_secret(given)?);
        start.callback_secret = Some(sealed);
        made_secret = (!is_given).then_some(secret);
    }
    let how = StartOptions { exclusive, ..StartOptions::default() };
    let begin = async |engine: Engine| match engine.start_with(&workflow, start, how).await {
        Err(Error::NotFound(_)) => Err(unknown()),
        other => Ok(Did::Run(other?)),
    };
    let mut answer = sending.carry_out(&app, &caller, created, begin).await?;
    // Added after the receipt was stored: the secret is shown once.
    if let (Some(secret), false) = (made_secret, answer.replayed)
        && let Ok(mut shown) = serde_json::from_str::<Value>(&answer.body)
        && shown.get("runId").is_some()
    {
        shown["callbackSecret"] = json!(secret);
        answer.body = shown.to_string();
    }
    Ok(answer)
}

/// Checks the callback secret that the caller chose.
fn check_callback_secret(calls_back: bool, given: Option<String>) -> Result<Option<String>, ApiError> {
    let Some(secret) = given else { return Ok(None) };
    if !calls_back {
        return Err(ApiError::invalid("callbackSecret", "requires callbackUrl"));
    }
    if !CALLBACK_SECRET_CHARS.contains(&secret.chars().count()) {
        let (least, most) = (CALLBACK_SECRET_CHARS.start(), CALLBACK_SECRET_CHARS.end());
        return Err(ApiError::invalid("callbackSecret", format!("must be {least} to {most} characters")));
    }
    Ok(Some(secret))
}

fn created(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    let status_url = format!("/v1/runs/{}", run.id);
    let shown = json!({
        "runId": run.id, "status": run.status().as_str(), "eventsUrl": format!("{status_url}/events"),
        "statusUrl": status_url,
    });
    Answer::json(StatusCode::CREATED, &shown)
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Response, ApiError> {
    let of = caller.run(&run)?;
    let run = app.engine.run(&of).await?;
    let mut shown = Snapshot::of(&run);
    if caller.may("approvals:respond") {
        match links::offered(&app, &caller, &of, &run).await {
            Ok(Some(minted)) => shown.offer(minted),
            Ok(None) => {}
            // Who is to decide must see what about. What broke was logged where it did.
            Err(error) => {
                let status = error.status().as_u16();
                tracing::warn!(status, run = %of.run, "a run is shown without a link: none could be made");
            }
        }
    }
    Ok(Json(shown).into_response())
}

fn list_row(run: &RunSummary) -> Value {
    let mut shown = json!({
        "runId": run.run, "workflowId": run.workflow, "status": run.status,
        "createdAt": run.created_at.to_string(), "updatedAt": run.updated_at.to_string(),
    });
    if let Some(scope) = &run.scope {
        shown["scopeId"] = json!(scope);
    }
    if let Some(parent) = &run.parent {
        shown["parentRunId"] = json!(parent);
    }
    if let Some(code) = &run.error_code {
        shown["errorCode"] = json!(code);
    }
    if run.timed_out {
        shown["outcome"] = json!(TIMED_OUT);
    }
    shown
}

/// Returns the rows of a list. Those of holds have the title, and the outcome: the run of a hold completes also if it is
/// rejected or times out.
async fn list_rows(app: &App, caller: &Caller, found: &[RunSummary]) -> Result<Vec<Value>, ApiError> {
    let mut rows: Vec<Value> = found.iter().map(list_row).collect();
    let is_hold = |run: &RunSummary| run.workflow.as_str() == Engine::HOLD_WORKFLOW;
    let (of, shown): (Vec<RunRef>, Vec<&mut Value>) = found
        .iter()
        .zip(&mut rows)
        .filter(|(run, _)| is_hold(run))
        .map(|(run, row)| (RunRef { tenant: caller.tenant().clone(), run: run.run.clone() }, row))
        .unzip();
    for (run, row) in app.engine.run_each(&of).await?.iter().zip(shown) {
        describe_hold(run, row);
    }
    Ok(rows)
}

fn describe_hold(run: &Run, shown: &mut Value) {
    let Some(held) = Engine::held(run) else { return };
    shown["title"] = json!(held.title());
    if run.status() == Status::Completed {
        shown["outcome"] = json!(Engine::hold_status(run, held));
    }
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
        scope: filter.scope_id,
        parent: filter.parent_run_id,
        tag: filter.tag,
        created_from: instant("createdAfter", filter.created_after.as_deref())?,
        created_to: instant("createdBefore", filter.created_before.as_deref())?,
        before: page.cursor.as_deref().map(parse_cursor).transpose()?,
        limit: page.rows()?,
    };
    let mut found = app.engine.runs(caller.tenant(), filter).await?;
    let more = page.cut(&mut found)?;
    let mut shown = json!({"runs": list_rows(&app, &caller, &found).await?});
    if let (true, Some(last)) = (more, found.last()) {
        shown["nextCursor"] = json!(format!("{BEFORE}{}", last.run));
    }
    Ok(Json(shown))
}

/// The beginning of a cursor; the id of the last run on its page follows.
const BEFORE: &str = "before-";

fn parse_cursor(text: &str) -> Result<String, ApiError> {
    let run = text.strip_prefix(BEFORE).and_then(|id| RunId::parse(id).ok());
    let run = run.ok_or_else(|| ApiError::invalid("cursor", "is not one that this server handed out"))?;
    Ok(run.to_string())
}
