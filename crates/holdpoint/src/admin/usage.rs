//! `GET /v1/usage`: the quotas of a tenant and what it uses of them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::auth::CanReadRuns;
use crate::error::ApiError;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    open_runs: Quota,
    stored_bytes: Quota,
    definitions: Quota,
    deliveries: Quota,
    streams: Quota,
    family_runs: Quota,
    fork_bytes: Quota,
}

#[derive(Debug, Serialize)]
struct Quota {
    /// Absent for limits of a single run or request.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
    /// Null if there is no limit.
    limit: Option<u64>,
}

impl Quota {
    fn of(used: u64, limit: u64) -> Self {
        Self { used: Some(used), ..Self::each(limit) }
    }

    fn each(limit: u64) -> Self {
        Self { used: None, limit: (limit > 0).then_some(limit) }
    }
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
) -> Result<Json<Usage>, ApiError> {
    let (usage, quotas) = (app.engine.usage(caller.tenant()).await?, app.engine.quotas());
    Ok(Json(Usage {
        open_runs: Quota::of(usage.open_runs, quotas.open_runs),
        stored_bytes: Quota::of(usage.stored_bytes, quotas.stored_bytes),
        definitions: Quota::of(usage.definitions, quotas.definitions),
        deliveries: Quota::of(usage.deliveries, quotas.deliveries),
        streams: Quota::of(app.streams.open(caller.tenant()), app.streams.limit()),
        family_runs: Quota::each(quotas.family_runs),
        fork_bytes: Quota::each(quotas.fork_bytes),
    }))
}
