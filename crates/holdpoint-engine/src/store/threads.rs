//! The runs of an agent thread, read from `runs`. They run one after the other and their ids sort by time, so that
//! the log of a thread is the concatenation of the logs of its runs.

use std::collections::HashMap;

use holdpoint_core::{RunId, TenantId, WorkflowId};

use super::{Database, Error, Param, Row, params, unreadable};

/// The prefix of the scope of a thread. The runs of a thread are those of its scope.
const SCOPE: &str = "thread:";
/// Selects the run after another one.
const NEXT: &str = "SELECT run_id, seq FROM runs WHERE tenant_id = $1 AND scope_id = $2 AND run_id > $3
    ORDER BY run_id LIMIT 1";
/// Selects the newest run. Without the condition on `run_id`, SQLite scans all runs of the tenant from the last one on.
const NEWEST: &str = "SELECT run_id, seq FROM runs WHERE tenant_id = $1 AND scope_id = $2 AND run_id > ''
    ORDER BY run_id DESC LIMIT 1";
/// Selects the runs after another one, in any order.
const AFTER: &str = "SELECT r.tenant_id, r.scope_id, r.run_id FROM runs r
    WHERE r.tenant_id = $1 AND r.scope_id = $2 AND r.run_id > $3";
/// Selects a run if it belongs to the thread: by its scope, or because the thread has the id of the run.
const ONE: &str = "SELECT run_id, seq FROM runs WHERE tenant_id = $1 AND run_id = $2
    AND (scope_id = $3 OR (run_id = $4 AND COALESCE(substr(scope_id, 1, 7), '') <> 'thread:'))";

/// Counts the runs of a workflow in a thread, up to a limit.
const COUNT: &str = "SELECT COUNT(*) AS total FROM (SELECT run_id FROM runs
    WHERE tenant_id = $1 AND scope_id = $2 AND workflow_id = $3 AND run_id > '' LIMIT $4) AS counted";

/// The tenant and the id of an agent thread.
pub(crate) type ThreadKey = (TenantId, String);

pub(crate) fn scope_of(thread: &str) -> String {
    format!("{SCOPE}{thread}")
}

/// Returns a run of a thread and the number of its events; None if the run does not belong to the thread.
pub(crate) async fn one(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    run: &str,
) -> Result<Option<(RunId, u64)>, Error> {
    let values = params![tenant.as_str(), run, scope_of(thread), thread];
    db.query_one(ONE, values).await?.as_ref().map(read).transpose()
}

/// Returns the run of a thread after another one, or the first.
pub(crate) async fn next(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    after: Option<&RunId>,
) -> Result<Option<RunId>, Error> {
    let own = after.is_some_and(|after| after.as_str() == thread);
    if after.is_none()
        && let Some((run, _)) = one(db, tenant, thread, thread).await?
    {
        return Ok(Some(run));
    }
    // A run with the id of the thread is older than all other runs of the thread.
    let after = after.filter(|_| !own);
    let found = db.query_one(NEXT, next_values(tenant, thread, after)).await?;
    Ok(found.as_ref().map(read).transpose()?.map(|(run, _)| run))
}

/// Returns the query plans, for tests.
pub(crate) async fn plan(db: &Database, tenant: &TenantId, thread: &str) -> Result<Vec<String>, Error> {
    let one = params![tenant.as_str(), thread, scope_of(thread), thread];
    let newest = params![tenant.as_str(), scope_of(thread)];
    Ok(vec![
        db.plan(NEXT, next_values(tenant, thread, None)).await?,
        db.plan(ONE, one).await?,
        db.plan(NEWEST, newest).await?,
        db.plan(AFTER, next_values(tenant, thread, None)).await?,
        db.plan(super::scopes::ACTIVE, params![tenant.as_str(), scope_of(thread)]).await?,
    ])
}

fn next_values(tenant: &TenantId, thread: &str, after: Option<&RunId>) -> Vec<Param> {
    params![tenant.as_str(), scope_of(thread), after.map_or("", RunId::as_str)]
}

/// Returns the newest run in the scope of a thread. A run with the id of the thread is not in that scope.
pub(crate) async fn newest(db: &Database, tenant: &TenantId, thread: &str) -> Result<Option<RunId>, Error> {
    let found = db.query_one(NEWEST, params![tenant.as_str(), scope_of(thread)]).await?;
    Ok(found.as_ref().map(read).transpose()?.map(|(run, _)| run))
}

/// Returns the number of runs of a workflow in a thread, at most `limit`.
pub(crate) async fn count(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    workflow: &WorkflowId,
    limit: u64,
) -> Result<u64, Error> {
    let values = params![tenant.as_str(), scope_of(thread), workflow, limit];
    db.query_one(COUNT, values).await?.as_ref().map_or(Ok(0), |row| row.count("total"))
}

/// Returns the threads that have newer runs than the known ones, each with its newest run.
pub(crate) async fn grown(
    db: &Database,
    known: &HashMap<ThreadKey, String>,
) -> Result<HashMap<ThreadKey, String>, Error> {
    let values = |((tenant, thread), run): (&ThreadKey, &String)| {
        params![tenant.as_str(), scope_of(thread), run.as_str()]
    };
    let mut grown: HashMap<ThreadKey, String> = HashMap::new();
    for row in db.query_each(AFTER, known.iter().map(values).collect()).await? {
        let tenant = TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("run", error))?;
        let thread = row.text("scope_id")?.strip_prefix(SCOPE).unwrap_or_default().to_owned();
        let newest = grown.entry((tenant, thread)).or_default();
        if newest.as_str() < row.text("run_id")? {
            row.text("run_id")?.clone_into(newest);
        }
    }
    Ok(grown)
}

fn read(row: &Row) -> Result<(RunId, u64), Error> {
    let run = RunId::parse(row.text("run_id")?).map_err(|error| unreadable("run", error))?;
    Ok((run, row.count("seq")?))
}
