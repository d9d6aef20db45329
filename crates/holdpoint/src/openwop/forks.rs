//! Handler that forks a run.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::runs::{ForkRun, RunForked};
use holdpoint_core::{ForkMode, Run};
use holdpoint_engine::{ForkRequest, Once, Overlay};

use super::start_headers::check_configurable;
use crate::app::App;
use crate::auth::{Caller, CanForkRuns};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) async fn fork(
    State(app): State<App>,
    CanForkRuns(caller): CanForkRuns,
    InPath(run): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<ForkRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    check_configurable(&caller, &body.run_options_overlay.configurable.0)?;
    let request = fork_request(&caller, body)?;
    let fork = async |once: Option<&Once<_>>| {
        Ok(app.engine.runs().fork(&of, ForkRequest { once: once.cloned(), ..request }).await?)
    };
    key.once(&app, caller.sender(), fork_response, fork).await
}

fn fork_request(caller: &Caller, body: ForkRun) -> Result<ForkRequest, ApiError> {
    let from_seq = match (body.from_seq, body.mode) {
        (Some(from), _) => {
            u64::try_from(from).map_err(|_| ApiError::invalid("fromSeq", "must be 0 or more"))?
        }
        (None, ForkMode::Replay) => 0,
        (None, ForkMode::Branch) => return Err(ApiError::invalid("fromSeq", "is required for a branch")),
    };
    let overlay = body.run_options_overlay;
    let overlay = Overlay {
        configurable: overlay.configurable.0,
        tags: overlay.tags,
        metadata: overlay.metadata.map(|metadata| metadata.0),
    };
    let (by, credential) = (caller.0.principal.clone(), Some(caller.0.lineage.clone()));
    Ok(ForkRequest { by, credential, mode: body.mode, from_seq, overlay, once: None })
}

fn fork_response(run: &Run) -> ApiResponse {
    let Some(fork) = run.started.as_ref().and_then(|started| started.fork.as_ref()) else {
        return ApiResponse::empty();
    };
    let status_url = format!("/v1/runs/{}", run.id);
    let forked = RunForked {
        run_id: run.id.clone(),
        source_run_id: fork.source.clone(),
        from_seq: fork.from_seq,
        mode: fork.mode,
        status: run.status(),
        events_url: format!("{status_url}/events"),
        status_url,
    };
    ApiResponse::json(StatusCode::CREATED, &forked)
}
