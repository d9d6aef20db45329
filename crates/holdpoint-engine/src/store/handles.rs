//! The `execution_state_handles` table: references to state outside of the database, by the state key of their callers.
//! A worker locks the row, and each of its writes requires that it still holds the lock.

use std::fmt;

use holdpoint_core::{RunId, RunRef, TenantId, Timestamp};

use super::{Database, Error, Row, Statement, params, unreadable};
use crate::committer::Change;

const INSERT: &str = "INSERT INTO execution_state_handles (tenant_id, state_key, run_id, graph, start_digest, \
    created_ms, expires_ms, thread) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
/// Selects all columns of the rows with a condition.
macro_rules! select {
    ($like:literal) => {
        concat!(
            "SELECT tenant_id, state_key, run_id, graph, start_digest, provider_ref, locked_until, created_ms, \
             expires_ms, settled_ms, thread, closed_ms FROM execution_state_handles WHERE ",
            $like
        )
    };
}
const BY_KEY: &str = select!("tenant_id = $1 AND state_key = $2");
const BY_RUN: &str = select!("tenant_id = $1 AND run_id = $2");
const BY_THREAD: &str =
    select!("tenant_id = $1 AND thread = $2 AND graph = $3 ORDER BY created_ms DESC LIMIT 1");
const DUE: &str = select!("expires_ms <= $1 ORDER BY expires_ms LIMIT $2");
const LOCK: &str = "UPDATE execution_state_handles SET locked_by = $1, locked_until = $2 \
    WHERE tenant_id = $3 AND state_key = $4 AND run_id = $5 AND (locked_until IS NULL OR locked_until <= $6)";
const RENEW: &str = "UPDATE execution_state_handles SET locked_until = $1 \
    WHERE tenant_id = $2 AND state_key = $3 AND locked_by = $4";
const RELEASE: &str = "UPDATE execution_state_handles SET locked_by = NULL, locked_until = NULL \
    WHERE tenant_id = $1 AND state_key = $2 AND locked_by = $3";
const KEEP: &str = "UPDATE execution_state_handles SET provider_ref = $1, expires_ms = $2 \
    WHERE tenant_id = $3 AND state_key = $4 AND locked_by = $5";
const SETTLE: &str = "UPDATE execution_state_handles SET settled_ms = $1, expires_ms = $2 \
    WHERE tenant_id = $3 AND state_key = $4 AND locked_by = $5";
const POSTPONE: &str = "UPDATE execution_state_handles SET expires_ms = $1 \
    WHERE tenant_id = $2 AND state_key = $3 AND locked_by = $4";
/// Releases all locks. For a database whose workers have all ended.
pub(crate) const RELEASE_ALL: &str =
    "UPDATE execution_state_handles SET locked_by = NULL, locked_until = NULL WHERE locked_by IS NOT NULL";
const EXPIRE_AT: &str = "UPDATE execution_state_handles SET expires_ms = $1 \
    WHERE tenant_id = $2 AND (run_id = $3 OR thread = $4) AND expires_ms > $1 AND settled_ms IS NULL";
const LOOK_LATER: &str = "UPDATE execution_state_handles SET expires_ms = $1 \
    WHERE tenant_id = $2 AND state_key = $3 AND run_id = $4";
const PROLONG: &str = "UPDATE execution_state_handles SET expires_ms = $1 WHERE tenant_id = $2 AND run_id = $3 \
    AND expires_ms < $1 AND settled_ms IS NULL AND closed_ms IS NULL";
const CLOSE: &str = "UPDATE execution_state_handles SET closed_ms = $1, expires_ms = $1 \
    WHERE tenant_id = $2 AND state_key = $3 AND run_id = $4 AND closed_ms IS NULL AND settled_ms IS NULL";
const DELETE: &str =
    "DELETE FROM execution_state_handles WHERE tenant_id = $1 AND state_key = $2 AND run_id = $3";
const ATTACH: &str = "INSERT INTO execution_state_attachments (tenant_id, state_key, slot, content) \
    SELECT tenant_id, state_key, CAST($1 AS TEXT), CAST($2 AS TEXT) FROM execution_state_handles \
    WHERE tenant_id = $3 AND state_key = $4 AND locked_by = $5 \
    ON CONFLICT (tenant_id, state_key, slot) DO UPDATE SET content = excluded.content";
const ATTACHED: &str = "SELECT content FROM execution_state_attachments \
    WHERE tenant_id = $1 AND state_key = $2 AND slot = $3";
/// Deletes the attachments of a handle, unless another handle has its key by now.
const DETACH: &str = "DELETE FROM execution_state_attachments WHERE tenant_id = $1 AND state_key = $2 \
    AND EXISTS (SELECT 1 FROM execution_state_handles h WHERE h.tenant_id = $1 AND h.state_key = $2 AND h.run_id = $3)";

/// Sealed content. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealedRef(pub String);

impl fmt::Debug for SealedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// A reference to state outside of the database. It belongs to a run, and its caller can address it by a state key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handle {
    /// The tenant.
    pub tenant: TenantId,
    /// The state key, unique within the tenant.
    pub state_key: String,
    /// The run.
    pub run: RunId,
    /// The name of the graph that the state belongs to.
    pub graph: String,
    /// The digest of the start request. Empty if a node created the handle.
    pub start_digest: String,
    pub(crate) content: Option<SealedRef>,
    /// The time at which the lock expires, if the handle is locked.
    pub locked_until: Option<Timestamp>,
    /// The time of the creation.
    pub created_at: Timestamp,
    /// The time at which [`Handles::due`](crate::Handles::due) returns the handle.
    pub expires_at: Timestamp,
    /// The time at which the state outside of the database was deleted.
    pub settled_at: Option<Timestamp>,
    /// The thread whose runs are the turns of the handle. None if the handle belongs to one node of one run.
    pub thread: Option<String>,
    /// The time at which a caller ended the conversation.
    pub closed_at: Option<Timestamp>,
}

impl Handle {
    /// Returns a new handle of a run.
    pub fn new(
        of: &RunRef,
        state_key: impl Into<String>,
        created_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        Self {
            tenant: of.tenant.clone(),
            state_key: state_key.into(),
            run: of.run.clone(),
            graph: String::new(),
            start_digest: String::new(),
            content: None,
            locked_until: None,
            created_at,
            expires_at,
            settled_at: None,
            thread: None,
            closed_at: None,
        }
    }

    /// Returns the tenant and the id of the run.
    pub fn of(&self) -> RunRef {
        RunRef { tenant: self.tenant.clone(), run: self.run.clone() }
    }
}

/// The key of a locked row and the owner of the lock.
#[derive(Clone, Debug)]
pub(crate) struct LockKey {
    pub tenant: TenantId,
    pub state_key: String,
    pub owner: String,
}

/// Inserts a row, unless the key is in use.
pub(crate) fn insert(row: &Handle) -> Statement {
    let values = params![
        row.tenant.as_str(),
        row.state_key.as_str(),
        row.run.as_str(),
        row.graph.as_str(),
        row.start_digest.as_str(),
        row.created_at,
        row.expires_at,
        row.thread.as_deref()
    ];
    Statement::new(INSERT, values)
}

/// Takes the lock of a handle if it is free or has expired.
pub(crate) fn lock(name: &LockKey, run: &RunId, until: Timestamp, now: Timestamp) -> Statement {
    let (tenant, key, run) = (name.tenant.as_str(), name.state_key.as_str(), run.as_str());
    let values = params![name.owner.as_str(), until, tenant, key, run, now];
    Statement::new(LOCK, values)
}

pub(crate) fn renew(name: &LockKey, until: Timestamp) -> Statement {
    let values = params![until, name.tenant.as_str(), name.state_key.as_str(), name.owner.as_str()];
    Statement::new(RENEW, values)
}

pub(crate) fn release(name: &LockKey) -> Statement {
    Statement::new(RELEASE, params![name.tenant.as_str(), name.state_key.as_str(), name.owner.as_str()])
}

/// Stores the sealed content and the time of the cleanup.
pub(crate) fn keep(name: &LockKey, sealed: &str, expires_at: Timestamp) -> Statement {
    let values =
        params![sealed, expires_at, name.tenant.as_str(), name.state_key.as_str(), name.owner.as_str()];
    Statement::new(KEEP, values)
}

/// Marks the outside state as deleted. The row is deleted at `until`.
pub(crate) fn settle(name: &LockKey, at: Timestamp, until: Timestamp) -> Statement {
    let values = params![at, until, name.tenant.as_str(), name.state_key.as_str(), name.owner.as_str()];
    Statement::new(SETTLE, values)
}

/// Postpones the cleanup of a locked handle.
pub(crate) fn postpone(name: &LockKey, until: Timestamp) -> Statement {
    let values = params![until, name.tenant.as_str(), name.state_key.as_str(), name.owner.as_str()];
    Statement::new(POSTPONE, values)
}

/// Schedules the cleanup of the handle of a run that fails or is cancelled, or of its thread. For a completed run, the
/// node schedules a later cleanup.
pub(crate) fn write(of: &RunRef, change: &Change) -> Option<Statement> {
    let thread = || change.after.started.as_ref().and_then(|started| started.thread.as_deref());
    let values = || params![change.at, of.tenant.as_str(), of.run.as_str(), thread()];
    change.expires_handle.then(|| Statement::new(EXPIRE_AT, values()))
}

/// Sets the time of the cleanup of a handle, without its lock.
pub(crate) fn look_later(row: &Handle, at: Timestamp) -> Statement {
    Statement::new(LOOK_LATER, params![at, row.tenant.as_str(), row.state_key.as_str(), row.run.as_str()])
}

/// Postpones the cleanup of the handle of a run, if it is scheduled earlier.
pub(crate) fn prolong(of: &RunRef, until: Timestamp) -> Statement {
    Statement::new(PROLONG, params![until, of.tenant.as_str(), of.run.as_str()])
}

/// Ends the conversation of a handle. Its cleanup is due at once.
pub(crate) fn close(row: &Handle, at: Timestamp) -> Statement {
    Statement::new(CLOSE, params![at, row.tenant.as_str(), row.state_key.as_str(), row.run.as_str()])
}

pub(crate) fn delete(row: &Handle) -> [Statement; 2] {
    let whole = || params![row.tenant.as_str(), row.state_key.as_str(), row.run.as_str()];
    [Statement::new(DETACH, whole()), Statement::new(DELETE, whole())]
}

pub(crate) fn attach(name: &LockKey, slot: &str, sealed: &str) -> Statement {
    let values = params![slot, sealed, name.tenant.as_str(), name.state_key.as_str(), name.owner.as_str()];
    Statement::new(ATTACH, values)
}

pub(crate) async fn attached(db: &Database, name: &LockKey, slot: &str) -> Result<Option<String>, Error> {
    let rows = db.query(ATTACHED, params![name.tenant.as_str(), name.state_key.as_str(), slot]).await?;
    rows.first().map(|row| row.text("content").map(str::to_owned)).transpose()
}

pub(crate) async fn by_key(
    db: &Database,
    tenant: &TenantId,
    state_key: &str,
) -> Result<Option<Handle>, Error> {
    db.query(BY_KEY, params![tenant.as_str(), state_key]).await?.first().map(read).transpose()
}

pub(crate) async fn by_run(db: &Database, of: &RunRef) -> Result<Option<Handle>, Error> {
    db.query(BY_RUN, params![of.tenant.as_str(), of.run.as_str()]).await?.first().map(read).transpose()
}

/// Returns the newest handle of a graph in a thread.
pub(crate) async fn by_thread(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    graph: &str,
) -> Result<Option<Handle>, Error> {
    db.query(BY_THREAD, params![tenant.as_str(), thread, graph]).await?.first().map(read).transpose()
}

/// Returns the handles whose cleanup is due, the oldest first.
pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<Handle>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Handle, Error> {
    Ok(Handle {
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("tenant", error))?,
        state_key: row.text("state_key")?.to_owned(),
        run: RunId::parse(row.text("run_id")?).map_err(|error| unreadable("run", error))?,
        graph: row.text("graph")?.to_owned(),
        start_digest: row.text("start_digest")?.to_owned(),
        content: row.optional_text("provider_ref")?.map(|text| SealedRef(text.to_owned())),
        locked_until: row.optional_int("locked_until")?.map(Timestamp),
        created_at: Timestamp(row.int("created_ms")?),
        expires_at: Timestamp(row.int("expires_ms")?),
        settled_at: row.optional_int("settled_ms")?.map(Timestamp),
        thread: row.optional_text("thread")?.map(str::to_owned),
        closed_at: row.optional_int("closed_ms")?.map(Timestamp),
    })
}
