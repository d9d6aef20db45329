//! `GET /v1/usage`: the quotas of a tenant and their usage.

use axum::Json;
use axum::extract::State;
use holdpoint_api::admin::{Quota, Usage, UsageLimit};
use holdpoint_engine as engine;

use crate::app::App;
use crate::auth::CanReadRuns;
use crate::error::ApiError;

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
) -> Result<Json<Usage>, ApiError> {
    let limits = app.engine.limits();
    let usage = limits.usage(caller.tenant()).await?;
    let streams = quota(app.streams.open(caller.tenant()), app.streams.limit());
    Ok(Json(describe(usage, limits.quotas(), streams)))
}

fn describe(usage: engine::Usage, quotas: &engine::Quotas, streams: Quota) -> Usage {
    Usage {
        open_runs: quota(usage.open_runs, quotas.open_runs),
        stored_bytes: quota(usage.stored_bytes, quotas.stored_bytes),
        definitions: quota(usage.definitions, quotas.definitions),
        deliveries: quota(usage.deliveries, quotas.deliveries),
        streams,
        family_runs: UsageLimit { limit: limit(quotas.family_runs) },
        fork_bytes: UsageLimit { limit: limit(quotas.fork_bytes) },
        tokens_per_day: quota(usage.tokens_per_day, quotas.tokens_per_day),
    }
}

fn quota(used: u64, max: u64) -> Quota {
    Quota { used, limit: limit(max) }
}

/// Returns the limit of a quota; zero means no limit.
fn limit(max: u64) -> Option<u64> {
    (max > 0).then_some(max)
}
