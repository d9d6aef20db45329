//! Maintenance of the mailbox: reclaims expired claims, ends the runs of ended dispatches, and deletes old rows.

use holdpoint_core::mailbox::{ClaimAction, ReclaimedDispatch, RunDispatch, RunDispatchStatus};
use holdpoint_core::{Command, Principal, Refusal, RunError, RunId, RunRef, Timestamp};

use crate::committer::{CommitReply, LapsedClaims, MailboxAction, MailboxOp, Precondition};
use crate::draft::RunDraft;
use crate::engine::{CommitOutcome, Engine};
use crate::error::Error;
use crate::store::dispatches::{self, StoredDispatch};
use crate::store::{self, Statement};

/// The maximum number of claims or rows per statement.
const BATCH: usize = 100;
const PURGE_BATCH: usize = 1000;

/// Reclaims claims with an expired lease. Returns the last error of a single row.
pub(super) async fn reclaim(engine: &Engine) -> Result<Option<Error>, Error> {
    let now = engine.now();
    let op = MailboxOp::Reclaim { now, limit: BATCH, which: LapsedClaims::Returnable };
    let returned = match engine.mail(op).await? {
        CommitReply::Rows(rows) => rows.len(),
        _ => 0,
    };
    // The remaining rows have no attempts left: they end together with their runs.
    let (mut closed, mut last_error) = (0, None);
    for stored in engine.lapsed(BATCH as u64).await? {
        if stored.row.attempt_count.saturating_add(1) >= stored.row.max_attempts {
            match close(engine, &stored, MailboxAction::Reclaim(stored.row.dispatch_id.clone())).await {
                Ok(()) => closed += 1,
                Err(error) => last_error = Some(error),
            }
        }
    }
    if returned + closed > 0 {
        tracing::warn!(returned, closed, "reclaimed claims with expired leases");
    }
    Ok(last_error)
}

/// Ends the runs of dispatches that have ended. Returns the number of closed rows, and the last error of a single row.
pub(super) async fn reconcile(engine: &Engine) -> Result<(usize, Option<Error>), Error> {
    let (mut closed, mut last_error) = (0, None);
    for stored in &engine.unreconciled(BATCH as u64).await? {
        match close(engine, stored, MailboxAction::Reconcile(stored.row.dispatch_id.clone())).await {
            Ok(()) => closed += 1,
            Err(error) => last_error = Some(error),
        }
    }
    Ok((closed, last_error))
}

/// Closes a dispatch that will not be executed, and ends its run in the same change, unless the run has ended or has a
/// newer dispatch.
async fn close(engine: &Engine, stored: &StoredDispatch, mail: MailboxAction) -> Result<(), Error> {
    let row = &stored.row;
    let Ok(run) = RunId::parse(&row.run_id) else { return close_row(engine, row, mail).await };
    let of = RunRef { tenant: row.tenant.clone(), run };
    loop {
        let run = match engine.runs().get_stored(&of).await {
            Ok(run) => run,
            Err(Error::NotFound(_)) => return close_row(engine, row, mail).await,
            // A run that cannot be read cannot be ended. Its dispatch is closed, so that it does not block the others.
            Err(Error::Store(error @ store::Error::Unreadable { .. })) => {
                tracing::error!(%error, run = %of.run, dispatch = row.dispatch_id, "a run cannot be read");
                return close_row(engine, row, mail).await;
            }
            Err(error) => return Err(error),
        };
        let mut draft = RunDraft::new(of.clone(), run, engine.now());
        if engine.newer_dispatch(stored).await?.is_none() {
            match draft.decide(&end_command(stored, draft.now)) {
                Ok(()) | Err(Refusal::RunFinished(_)) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        // A row that was changed concurrently is left as it is.
        draft.mail = mail.clone();
        if engine.commit(draft, None).await? != CommitOutcome::Conflict(Precondition::Sequence) {
            return Ok(());
        }
    }
}

/// Returns the command that ends the run of a dispatch.
fn end_command(stored: &StoredDispatch, now: Timestamp) -> Command {
    let row = match stored.row.reclaimed(stored.epoch, now) {
        Some(ReclaimedDispatch::Returned(row) | ReclaimedDispatch::Superseded(row)) => row,
        None => stored.row.clone(),
    };
    let why = row.last_error;
    match row.status {
        RunDispatchStatus::Cancelled | RunDispatchStatus::Superseded => {
            let by = Principal::named("system:upkeep");
            Command::Cancel {
                reason: Some(why.unwrap_or_else(|| "its dispatch was cancelled".to_owned())),
                by,
            }
        }
        RunDispatchStatus::Queued
        | RunDispatchStatus::Claimed
        | RunDispatchStatus::Acked
        | RunDispatchStatus::DeadLetter => {
            let why = why.unwrap_or_else(|| {
                "the dispatch exceeded its number of attempts without a result".to_owned()
            });
            Command::Abandon { error: RunError::new("dispatch_failed", why) }
        }
    }
}

/// Closes the row of a dispatch whose run does not exist or cannot be read.
async fn close_row(engine: &Engine, row: &RunDispatch, mail: MailboxAction) -> Result<(), Error> {
    if let MailboxAction::Reclaim(_) = mail {
        let op = MailboxOp::Reclaim { now: engine.now(), limit: BATCH, which: LapsedClaims::All };
        engine.mail(op).await?;
    }
    let values = crate::store::params![row.dispatch_id.as_str()];
    engine.write(vec![Statement::new(dispatches::RECONCILED, values)]).await.map(|_| ())
}

/// Dead-letters a claimed dispatch with an invalid run id.
pub(super) async fn reject_dispatch(engine: &Engine, row: &RunDispatch) -> Result<(), Error> {
    let token = row.claim_token.as_deref().unwrap_or_default();
    let what = ClaimAction::DeadLetter { error: "the run id is invalid".to_owned() };
    engine.mailbox(&row.tenant).fenced(&row.dispatch_id, token, what, engine.now()).await?;
    Ok(())
}

/// Deletes dispatches, receipts, external events, sessions and deliveries whose retention has ended, unused secrets,
/// and token counts of past days.
pub(super) async fn purge(engine: &Engine) {
    while has_more(engine.purge(PURGE_BATCH).await, "dispatches") {}
    while has_more(engine.purge_receipts(PURGE_BATCH).await, "receipts") {}
    while has_more(engine.purge_arrivals(PURGE_BATCH).await, "external events") {}
    while has_more(engine.purge_trigger_deliveries(PURGE_BATCH).await, "deliveries of triggers") {}
    while has_more(engine.purge_secrets().await, "secrets") {}
    while has_more(engine.purge_sessions(PURGE_BATCH).await, "sessions") {}
    while has_more(engine.purge_deliveries(PURGE_BATCH).await, "deliveries") {}
    while has_more(engine.purge_tokens(PURGE_BATCH).await, "token counts") {}
}

/// Does the periodic work of the extensions. Runs as a separate task, because it can be slow.
pub(super) async fn maintain_extensions(engine: Engine) {
    engine.0.extensions.upkeep(&engine).await;
}

/// Returns whether there may be more rows to delete.
fn has_more(deleted: Result<usize, Error>, what: &str) -> bool {
    match deleted {
        Ok(deleted) => deleted >= PURGE_BATCH,
        Err(error) => {
            tracing::warn!(%error, "cannot delete old {what}; retrying later");
            false
        }
    }
}
