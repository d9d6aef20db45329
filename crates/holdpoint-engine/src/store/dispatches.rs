//! The `dispatches` table: every activation of a run, waiting, claimed or done.

use holdpoint_core::{RunId, RunRef, TenantId, Timestamp};

use super::{Database, Error, Guard, Row, Statement, params, unreadable};

const INSERT: &str =
    "INSERT INTO dispatches (dispatch_id, tenant_id, run_id, status, available_ms, created_ms,
    updated_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)";
const FENCE: &str = "UPDATE dispatches SET updated_ms = $1
    WHERE dispatch_id = $2 AND claim_token = $3 AND status = 'claimed'";
const CLOSE: &str =
    "UPDATE dispatches SET status = $1, available_ms = $2, attempt_count = $3, last_error = $4,
    updated_ms = $5, claim_token = NULL, claimed_by = NULL, lease_until_ms = NULL
    WHERE dispatch_id = $6 AND claim_token = $7 AND status = 'claimed'";
/// Takes up to $6 rows that are due. A run has at most one live row, so no run is taken twice.
pub(crate) const CLAIM: &str = "UPDATE dispatches SET status = 'claimed', claim_token = $1 || dispatch_id,
    claimed_by = $2, lease_until_ms = $3, updated_ms = $4
    WHERE dispatch_id IN (SELECT dispatch_id FROM dispatches WHERE status = 'queued' AND available_ms <= $5
        ORDER BY available_ms, created_ms, dispatch_id LIMIT $6)
    RETURNING dispatch_id, tenant_id, run_id, attempt_count, claim_token";
/// Only for a database that no other process can have open: whoever held these claims is gone.
pub(crate) const RECLAIM_ALL: &str =
    "UPDATE dispatches SET status = 'queued', claim_token = NULL, claimed_by = NULL,
    lease_until_ms = NULL WHERE status = 'claimed'";
const NEXT: &str = "SELECT MIN(available_ms) FROM dispatches WHERE status = 'queued'";

/// A dispatch that a worker holds; the token fences everything it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub dispatch_id: String,
    pub run: RunRef,
    pub attempts: u64,
    pub token: String,
}

/// What a change does to the mailbox.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    /// Nothing: the run has nothing to do, or a live dispatch will find it.
    None,
    /// A worker must pick the run up.
    Enqueue(String),
    /// The activation was carried out in this very change.
    Performed(String),
    /// Progress under a claim, which goes on.
    Progress(Claim),
    /// The claimed work is done.
    Ack(Claim),
    /// The claimed work failed and is tried again.
    Retry { claim: Claim, at: Timestamp, error: String },
    /// The claimed work failed for good.
    DeadLetter { claim: Claim, error: String },
}

pub(crate) fn write(of: &RunRef, mail: &Mail, now: Timestamp) -> Option<Statement> {
    let insert = |id: &str, status: &str| {
        let values = params![id, of.tenant.as_str(), of.run.as_str(), status, now, now, now];
        Some(Statement::new(INSERT, values))
    };
    let close = |claim: &Claim, status: &str, at: Timestamp, attempts: u64, error: Option<&str>| {
        let values =
            params![status, at, attempts, error, now, claim.dispatch_id.as_str(), claim.token.as_str()];
        Some(Statement::guarded(CLOSE, values, Guard::Claim))
    };
    match mail {
        Mail::None => None,
        Mail::Enqueue(id) => insert(id, "queued"),
        Mail::Performed(id) => insert(id, "acked"),
        Mail::Progress(claim) => {
            let values = params![now, claim.dispatch_id.as_str(), claim.token.as_str()];
            Some(Statement::guarded(FENCE, values, Guard::Claim))
        }
        Mail::Ack(claim) => close(claim, "acked", now, claim.attempts, None),
        Mail::Retry { claim, at, error } => close(claim, "queued", *at, claim.attempts + 1, Some(error)),
        Mail::DeadLetter { claim, error } => {
            close(claim, "dead_letter", now, claim.attempts + 1, Some(error))
        }
    }
}

pub(crate) fn read_claim(row: &Row) -> Result<Claim, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("dispatch", error);
    let tenant = TenantId::parse(row.text(1)?).map_err(bad)?;
    let run = RunId::parse(row.text(2)?).map_err(bad)?;
    Ok(Claim {
        dispatch_id: row.text(0)?.to_owned(),
        run: RunRef { tenant, run },
        attempts: row.count(3)?,
        token: row.text(4)?.to_owned(),
    })
}

pub(crate) async fn next_available(db: &Database) -> Result<Option<Timestamp>, Error> {
    match db.query_one(NEXT, Vec::new()).await? {
        Some(row) => Ok(row.optional_int(0)?.map(Timestamp)),
        None => Ok(None),
    }
}
