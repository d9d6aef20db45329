//! The `dispatches` and `threads` tables: every activation of a run, waiting, claimed or ended, in its thread's queue.

use holdpoint_core::mailbox::{RunDispatch, RunDispatchStatus, RunStatus};
use holdpoint_core::{TenantId, Timestamp};

use super::{Database, Error, Param, Row, params, unreadable};

mod queries;
mod reads;

pub(crate) use queries::*;
pub(crate) use reads::*;

/// A row with what only the store knows: its place in the order of insertion and its thread's epoch now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub seq: u64,
    pub epoch: u64,
    pub row: RunDispatch,
}

/// Reads a row selected with `columns!()`.
pub(crate) fn read(row: &Row) -> Result<Stored, Error> {
    let text = |column| Ok::<_, Error>(row.text(column)?.to_owned());
    let optional = |column| Ok::<_, Error>(row.optional_text(column)?.map(str::to_owned));
    let instant = |column| Ok::<_, Error>(row.optional_int(column)?.map(Timestamp));
    let unknown = |what: &str| unreadable("dispatch", what);
    let run_status = row.optional_text(18)?.map(|text| RunStatus::parse(text).ok_or_else(|| unknown(text)));
    let termination = row.optional_text(19)?.map(serde_json::from_str).transpose();
    let dispatch = RunDispatch {
        tenant: TenantId::parse(row.text(2)?).map_err(|error| unreadable("dispatch", error))?,
        dispatch_id: text(3)?,
        thread_id: text(4)?,
        run_id: text(5)?,
        priority: row.small(6)?,
        dedupe_key: optional(7)?,
        dispatch_epoch: row.count(8)?,
        status: RunDispatchStatus::parse(row.text(9)?).ok_or_else(|| unknown("its status"))?,
        available_at: Timestamp(row.int(10)?),
        attempt_count: row.small(11)?,
        max_attempts: row.small(12)?,
        last_error: optional(13)?,
        claim_token: optional(14)?,
        claimed_by: optional(15)?,
        lease_until: instant(16)?,
        dispatch_instance_id: optional(17)?,
        run_status: run_status.transpose()?,
        termination: termination.map_err(|error| unreadable("dispatch", error))?,
        run_response: optional(20)?,
        run_error: optional(21)?,
        completed_at: instant(22)?,
        created_at: Timestamp(row.int(23)?),
        updated_at: Timestamp(row.int(24)?),
    };
    dispatch.validate().map_err(|error| unreadable("dispatch", error))?;
    Ok(Stored { seq: row.count(0)?, epoch: row.count(1)?, row: dispatch })
}

fn termination(row: &RunDispatch) -> Result<Option<String>, Error> {
    let json = row.termination.as_ref().map(serde_json::to_string).transpose();
    json.map_err(|error| unreadable("termination", error))
}

/// The values of a new row; its epoch is its thread's when it is written.
pub(crate) fn inserted(row: &RunDispatch) -> Result<Vec<Param>, Error> {
    Ok(params![
        row.tenant.as_str(),
        row.dispatch_id.as_str(),
        row.thread_id.as_str(),
        row.run_id.as_str(),
        i64::from(row.priority),
        row.dedupe_key.as_deref(),
        row.status.as_str(),
        row.available_at,
        i64::from(row.attempt_count),
        i64::from(row.max_attempts),
        row.last_error.as_deref(),
        row.dispatch_instance_id.as_deref(),
        row.run_status.map(RunStatus::as_str),
        termination(row)?.as_deref(),
        row.run_response.as_deref(),
        row.run_error.as_deref(),
        row.completed_at,
        row.created_at,
        row.updated_at
    ])
}

/// The values that turn `from` into `to`. `unreconciled` says that somebody must still see to the run.
pub(crate) fn moved(from: &RunDispatch, to: &RunDispatch, unreconciled: bool) -> Result<Vec<Param>, Error> {
    to.validate().map_err(|error| unreadable("dispatch", error))?;
    Ok(params![
        to.dispatch_epoch,
        to.status.as_str(),
        to.available_at,
        i64::from(to.attempt_count),
        to.last_error.as_deref(),
        to.claim_token.as_deref(),
        to.claimed_by.as_deref(),
        to.lease_until,
        to.dispatch_instance_id.as_deref(),
        to.run_status.map(RunStatus::as_str),
        termination(to)?.as_deref(),
        to.run_response.as_deref(),
        to.run_error.as_deref(),
        to.completed_at,
        to.updated_at,
        i64::from(unreconciled),
        from.dispatch_id.as_str(),
        from.status.as_str(),
        from.claim_token.as_deref().unwrap_or_default()
    ])
}
