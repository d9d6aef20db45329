//! The `dispatches` and `threads` tables: the mailbox. A dispatch is queued, claimed or ended, in the queue of its
//! thread.

use holdpoint_core::mailbox::{RunDispatch, RunDispatchStatus, RunStatus};
use holdpoint_core::{Run, TenantId, Timestamp};

use super::{Database, Error, Param, Row, Statement, params, unreadable};
use crate::committer::{Change, MailboxAction};

mod queries;
mod reads;

pub(crate) use queries::*;
pub(crate) use reads::*;

/// A dispatch with its insertion number and the current epoch of its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredDispatch {
    pub seq: u64,
    pub epoch: u64,
    pub row: RunDispatch,
}

/// Reads a row selected with `columns!()`.
pub(crate) fn read(row: &Row) -> Result<StoredDispatch, Error> {
    let text = |column| Ok::<_, Error>(row.text(column)?.to_owned());
    let optional = |column| Ok::<_, Error>(row.optional_text(column)?.map(str::to_owned));
    let instant = |column| Ok::<_, Error>(row.optional_int(column)?.map(Timestamp));
    let unknown = |what: &str| unreadable("dispatch", what);
    let run_status =
        row.optional_text("run_status")?.map(|text| RunStatus::parse(text).ok_or_else(|| unknown(text)));
    let termination = row.optional_text("termination")?.map(serde_json::from_str).transpose();
    let dispatch = RunDispatch {
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("dispatch", error))?,
        dispatch_id: text("dispatch_id")?,
        thread_id: text("thread_id")?,
        run_id: text("run_id")?,
        priority: row.small("priority")?,
        dedupe_key: optional("dedupe_key")?,
        dispatch_epoch: row.count("dispatch_epoch")?,
        status: RunDispatchStatus::parse(row.text("status")?).ok_or_else(|| unknown("unknown status"))?,
        available_at: Timestamp(row.int("available_ms")?),
        attempt_count: row.small("attempt_count")?,
        max_attempts: row.small("max_attempts")?,
        last_error: optional("last_error")?,
        claim_token: optional("claim_token")?,
        claimed_by: optional("claimed_by")?,
        lease_until: instant("lease_until_ms")?,
        dispatch_instance_id: optional("instance_id")?,
        run_status: run_status.transpose()?,
        termination: termination.map_err(|error| unreadable("dispatch", error))?,
        run_response: optional("run_response")?,
        run_error: optional("run_error")?,
        completed_at: instant("completed_ms")?,
        created_at: Timestamp(row.int("created_ms")?),
        updated_at: Timestamp(row.int("updated_ms")?),
    };
    dispatch.validate().map_err(|error| unreadable("dispatch", error))?;
    Ok(StoredDispatch { seq: row.count("seq")?, epoch: row.count("epoch")?, row: dispatch })
}

fn termination(row: &RunDispatch) -> Result<Option<String>, Error> {
    let json = row.termination.as_ref().map(serde_json::to_string).transpose();
    json.map_err(|error| unreadable("termination", error))
}

/// Returns the values of [`INSERT`]. The epoch of the row is that of its thread at the time of the write.
pub(crate) fn insert_values(row: &RunDispatch) -> Result<Vec<Param>, Error> {
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
        row.updated_at,
        row.claim_token.as_deref(),
        row.claimed_by.as_deref(),
        row.lease_until
    ])
}

/// The state of the run of a dispatch that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reconciliation {
    /// The run must still be reconciled with its dispatch.
    Pending,
    NotNeeded,
}

impl Reconciliation {
    /// Returns the state after a change of the dispatch alone: a run does not know of an end without an
    /// acknowledgement.
    pub(crate) fn after(row: &RunDispatch) -> Self {
        let ended = row.status.is_terminal() && row.status != RunDispatchStatus::Acked;
        if ended { Self::Pending } else { Self::NotNeeded }
    }
}

/// Returns the statement that cancels the delayed dispatch of a run whose start was delayed, if the change ends the run
/// before that instant. Returns `None` for all other changes.
pub(crate) fn cancel_delayed(change: &Change) -> Option<Statement> {
    let started = change.after.started.as_ref().filter(|_| change.after.finished())?;
    if !started.dispatch.is_delayed(change.at) {
        return None;
    }
    let other = match &change.mail {
        MailboxAction::Cancel(id) => id.as_str(),
        MailboxAction::None
        | MailboxAction::Activated
        | MailboxAction::Enqueue(_)
        | MailboxAction::HandOff(_)
        | MailboxAction::Performed(_)
        | MailboxAction::ClaimAction { .. }
        | MailboxAction::Reclaim(_)
        | MailboxAction::Reconcile(_) => "",
    };
    let (thread, run) = (change.after.thread(), change.of.run.as_str());
    let values = params![change.at, &change.of.tenant, thread, run, other];
    Some(Statement::new(CANCEL_DELAYED, values))
}

/// Returns the statement that updates the dispatch `from` to `to`.
pub(crate) fn update(
    from: &RunDispatch,
    to: &StoredDispatch,
    reconciliation: Reconciliation,
) -> Result<Statement, Error> {
    let (seq, to) = (to.seq, &to.row);
    to.validate().map_err(|error| unreadable("dispatch", error))?;
    let unreconciled = reconciliation == Reconciliation::Pending;
    let plain = !unreconciled && seq > 0 && same_but_claim(from, to);
    let token = |row: &RunDispatch| row.claim_token.as_deref().unwrap_or_default().to_owned();
    if plain && (from.status, to.status) == (RunDispatchStatus::Queued, RunDispatchStatus::Claimed) {
        let values = params![token(to), to.claimed_by.as_deref(), to.lease_until, to.updated_at, seq];
        return Ok(Statement::new(CLAIM, values));
    }
    if plain && (from.status, to.status) == (RunDispatchStatus::Claimed, RunDispatchStatus::Acked) {
        return Ok(Statement::new(ACK, params![to.completed_at, to.updated_at, seq, token(from)]));
    }
    let values = params![
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
        token(from)
    ];
    Ok(Statement::new(UPDATE, values))
}

/// Returns true if the rows are equal except for the status, the claim and the timestamps.
fn same_but_claim(from: &RunDispatch, to: &RunDispatch) -> bool {
    from.dispatch_epoch == to.dispatch_epoch
        && from.available_at == to.available_at
        && from.attempt_count == to.attempt_count
        && from.last_error == to.last_error
        && from.dispatch_instance_id == to.dispatch_instance_id
        && from.run_status == to.run_status
        && from.termination == to.termination
        && from.run_response == to.run_response
        && from.run_error == to.run_error
}

#[cfg(test)]
mod tests {
    use holdpoint_core::mailbox::ClaimAction;

    use super::*;

    fn stored(row: &RunDispatch) -> StoredDispatch {
        StoredDispatch { seq: 7, epoch: 0, row: row.clone() }
    }

    #[test]
    fn only_a_claim_or_an_ack_without_other_changes_uses_the_short_statements() {
        let now = Timestamp(1);
        let tenant = TenantId::parse("t").unwrap();
        let queued = RunDispatch::queued(&tenant, "d", "th", "r", now);
        let claimed = queued.claimed("token".to_owned(), "worker", Timestamp(9), now);
        let started = ClaimAction::RecordStart { instance_id: "i".to_owned() };
        let started = claimed.apply_claim_action("token", &started, 0, now).unwrap();
        let acked = claimed.apply_claim_action("token", &ClaimAction::Ack, 0, now).unwrap();
        let statement = |from: &RunDispatch, to: &RunDispatch| {
            update(from, &stored(to), Reconciliation::NotNeeded).unwrap().sql
        };
        assert_eq!(statement(&queued, &claimed), CLAIM);
        assert_eq!(statement(&claimed, &acked), ACK);
        let unreconciled = update(&claimed, &stored(&acked), Reconciliation::Pending).unwrap();
        assert_eq!(unreconciled.sql, UPDATE);
        assert_eq!(statement(&claimed, &started), UPDATE);
        // Two steps in one batch: the columns of the first step must be written too.
        let ended = started.apply_claim_action("token", &ClaimAction::Ack, 0, now).unwrap();
        assert_eq!(statement(&claimed, &ended), UPDATE);
        assert_eq!(statement(&started, &ended), ACK);
    }
}
