//! The `tenant_usage` table: open runs and bytes of events of each tenant. Each writer adds to a row of its own, so
//! that writers do not wait for each other. The usage is the sum of the rows.

use std::collections::BTreeMap;

use holdpoint_core::{RunId, RunRef, TenantId};
use uuid::Uuid;

use super::{Database, Error, Param, params};

/// Adds to the row of a writer.
pub(crate) const ADD: &str = "INSERT INTO tenant_usage (tenant_id, shard, open_runs, event_bytes)
    VALUES ($1, $2, $3, $4) ON CONFLICT (tenant_id, shard) DO UPDATE SET
    open_runs = tenant_usage.open_runs + excluded.open_runs,
    event_bytes = tenant_usage.event_bytes + excluded.event_bytes";
const OF_TENANT: &str = "SELECT CAST(COALESCE(SUM(open_runs), 0) AS BIGINT) AS open_runs,
    CAST(COALESCE(SUM(event_bytes), 0) AS BIGINT) AS event_bytes FROM tenant_usage WHERE tenant_id = $1";
/// Counts no further than $2: the caller only needs to know whether a limit is reached.
const DELIVERIES: &str = "SELECT COUNT(*) AS total FROM (SELECT 1 FROM deliveries
    WHERE tenant_id = $1 AND ended_ms IS NULL LIMIT $2) AS waiting";
/// Counts revisions: they are numbered from 1 without gaps, so that the sum of the latest numbers is their count.
const DEFINITIONS: &str =
    "SELECT CAST(COALESCE(SUM(revision), 0) AS BIGINT) AS total FROM workflow_summaries WHERE tenant_id = $1";
const FAMILY: &str = "SELECT COUNT(*) AS total FROM (SELECT 1 FROM runs
    WHERE tenant_id = $1 AND run_id > $2 AND run_id < $3 AND parent_run_id <> $4 LIMIT $5) AS family";
const LOG_BYTES: &str = "SELECT CAST(COALESCE(SUM(OCTET_LENGTH(events)), 0) AS BIGINT) AS total FROM events
    WHERE tenant_id = $1 AND run_id = $2";

/// The maximum number of rows for the usage of a tenant.
const SHARDS: u8 = 64;

/// A change of a tenant's usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageDelta {
    pub open_runs: i64,
    pub event_bytes: i64,
}

/// Changes of the usage of some tenants, in the order in which their rows are locked.
pub(crate) type UsageDeltas = BTreeMap<TenantId, UsageDelta>;

/// Returns the shard that a writer adds to.
pub(crate) fn random_shard() -> i64 {
    let [.., last] = Uuid::now_v7().into_bytes();
    i64::from(last % SHARDS)
}

/// Returns the values of [`ADD`] for each tenant whose usage changes.
pub(crate) fn additions(deltas: UsageDeltas, shard: i64) -> impl Iterator<Item = Vec<Param>> {
    let changed = deltas.into_iter().filter(|(_, delta)| *delta != UsageDelta::default());
    changed.map(move |(tenant, delta)| params![&tenant, shard, delta.open_runs, delta.event_bytes])
}

/// Returns the number of open runs and the bytes of events of a tenant.
pub(crate) async fn of_tenant(db: &Database, tenant: &TenantId) -> Result<(u64, u64), Error> {
    let row = db.query_one(OF_TENANT, params![tenant]).await?;
    let sum = |column: &str| row.as_ref().map_or(Ok(0), |row| row.int(column));
    let count = |sum: i64| u64::try_from(sum).unwrap_or(0);
    Ok((count(sum("open_runs")?), count(sum("event_bytes")?)))
}

/// Counts the unfinished deliveries of a tenant, up to `limit`.
pub(crate) async fn deliveries(db: &Database, tenant: &TenantId, limit: u64) -> Result<u64, Error> {
    count(db, DELIVERIES, params![tenant, limit]).await
}

/// Counts the stored revisions of workflows and agents.
pub(crate) async fn definitions(db: &Database, tenant: &TenantId) -> Result<u64, Error> {
    count(db, DEFINITIONS, params![tenant]).await
}

/// Counts the descendants of a run, up to `limit`, without the children of `parent`. The id of a child run is the id
/// of its parent with a dot and a number.
pub(crate) async fn family(db: &Database, root: &RunRef, parent: &RunId, limit: u64) -> Result<u64, Error> {
    let (from, to) = (format!("{}.", root.run), format!("{}/", root.run));
    count(db, FAMILY, params![&root.tenant, from, to, parent.as_str(), limit]).await
}

/// Returns the bytes of the events of a run.
pub(crate) async fn log_bytes(db: &Database, of: &RunRef) -> Result<u64, Error> {
    count(db, LOG_BYTES, params![&of.tenant, &of.run]).await
}

async fn count(db: &Database, sql: &'static str, values: Vec<Param>) -> Result<u64, Error> {
    db.query_one(sql, values).await?.map_or(Ok(0), |row| row.count("total"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tenants_whose_usage_changes_are_written() {
        let tenant = |name: &str| TenantId::parse(name).unwrap();
        let changed = UsageDelta { open_runs: -1, event_bytes: 20 };
        let deltas = UsageDeltas::from([(tenant("a"), UsageDelta::default()), (tenant("b"), changed)]);
        let written: Vec<_> = additions(deltas, 3).collect();
        assert_eq!(written, [params!["b", 3_i64, -1_i64, 20_i64]]);
    }
}
