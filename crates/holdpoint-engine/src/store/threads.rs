//! Which runs stand in a thread, read from `runs`. They come one after another and their ids sort by time, so that the
//! log of a thread is the logs of its runs, end to end.

use std::collections::HashMap;

use holdpoint_core::{RunId, TenantId};

use super::{Database, Error, Param, Row, params, unreadable};

/// Runs of a thread are those of a scope with this word before its name.
const SCOPE: &str = "thread:";
/// The run behind another.
const NEXT: &str = "SELECT run_id, seq FROM runs WHERE tenant_id = $1 AND scope_id = $2 AND run_id > $3
    ORDER BY run_id LIMIT 1";
/// Without the word about run ids, SQLite looks through all runs of the tenant from the last one on.
const NEWEST: &str = "SELECT run_id, seq FROM runs WHERE tenant_id = $1 AND scope_id = $2 AND run_id > ''
    ORDER BY run_id DESC LIMIT 1";
/// Runs behind another, in any order.
const BEHIND: &str = "SELECT r.tenant_id, r.scope_id, r.run_id FROM runs r
    WHERE r.tenant_id = $1 AND r.scope_id = $2 AND r.run_id > $3";
/// A run, if it stands in the thread: by its scope, or because it is alone in a thread with its own name.
const ONE: &str = "SELECT run_id, seq FROM runs WHERE tenant_id = $1 AND run_id = $2
    AND (scope_id = $3 OR (run_id = $4 AND COALESCE(substr(scope_id, 1, 7), '') <> 'thread:'))";

/// A thread of a tenant.
pub(crate) type Thread = (TenantId, String);

pub(crate) fn scope_of(thread: &str) -> String {
    format!("{SCOPE}{thread}")
}

/// A run of a thread and how many events it has; nothing where it is none.
pub(crate) async fn one(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    run: &str,
) -> Result<Option<(RunId, u64)>, Error> {
    let values = params![tenant.as_str(), run, scope_of(thread), thread];
    db.query_one(ONE, values).await?.as_ref().map(read).transpose()
}

/// The first run of a thread behind another, or the very first.
pub(crate) async fn next(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    behind: Option<&RunId>,
) -> Result<Option<RunId>, Error> {
    let own = behind.is_some_and(|behind| behind.as_str() == thread);
    if behind.is_none()
        && let Some((run, _)) = one(db, tenant, thread, thread).await?
    {
        return Ok(Some(run));
    }
    // Whoever has the thread's own name was there before the thread had any other run.
    let behind = behind.filter(|_| !own);
    let found = db.query_one(NEXT, next_values(tenant, thread, behind)).await?;
    Ok(found.as_ref().map(read).transpose()?.map(|(run, _)| run))
}

/// How the database finds it. For tests.
pub(crate) async fn plan(db: &Database, tenant: &TenantId, thread: &str) -> Result<Vec<String>, Error> {
    let one = params![tenant.as_str(), thread, scope_of(thread), thread];
    let newest = params![tenant.as_str(), scope_of(thread)];
    Ok(vec![
        db.plan(NEXT, next_values(tenant, thread, None)).await?,
        db.plan(ONE, one).await?,
        db.plan(NEWEST, newest).await?,
        db.plan(BEHIND, next_values(tenant, thread, None)).await?,
        db.plan(super::scopes::ACTIVE, params![tenant.as_str(), scope_of(thread)]).await?,
    ])
}

fn next_values(tenant: &TenantId, thread: &str, behind: Option<&RunId>) -> Vec<Param> {
    params![tenant.as_str(), scope_of(thread), behind.map_or("", RunId::as_str)]
}

/// The newest run that was begun in a thread; of a thread with the name of a run, not that one.
pub(crate) async fn newest(db: &Database, tenant: &TenantId, thread: &str) -> Result<Option<RunId>, Error> {
    let found = db.query_one(NEWEST, params![tenant.as_str(), scope_of(thread)]).await?;
    Ok(found.as_ref().map(read).transpose()?.map(|(run, _)| run))
}

/// Threads with runs behind the one that each is known to have, and the newest of these.
pub(crate) async fn grown(
    db: &Database,
    known: &HashMap<Thread, String>,
) -> Result<HashMap<Thread, String>, Error> {
    let values = |((tenant, thread), run): (&Thread, &String)| {
        params![tenant.as_str(), scope_of(thread), run.as_str()]
    };
    let mut grown: HashMap<Thread, String> = HashMap::new();
    for row in db.query_each(BEHIND, known.iter().map(values).collect()).await? {
        let tenant = TenantId::parse(row.text(0)?).map_err(|error| unreadable("run", error))?;
        let thread = row.text(1)?.strip_prefix(SCOPE).unwrap_or_default().to_owned();
        let newest = grown.entry((tenant, thread)).or_default();
        if newest.as_str() < row.text(2)? {
            row.text(2)?.clone_into(newest);
        }
    }
    Ok(grown)
}

fn read(row: &Row) -> Result<(RunId, u64), Error> {
    let run = RunId::parse(row.text(0)?).map_err(|error| unreadable("run", error))?;
    Ok((run, row.count(1)?))
}
