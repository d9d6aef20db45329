//! What keeps the mailbox honest: lapsed claims are taken back, runs of ended dispatches are closed, old rows go.

use holdpoint_core::mailbox::{Fenced, Reclaimed, RunDispatch, RunDispatchStatus};
use holdpoint_core::{Command, Principal, Refusal, RunError, RunId, RunRef, Timestamp};

use crate::advance::Draft;
use crate::committer::{Guard, Mail, MailOp, Reply};
use crate::engine::{Before, Engine};
use crate::error::Error;
use crate::store::dispatches::{self, Stored};
use crate::store::{self, Statement};

/// Claims taken back, rows closed or deleted in one go.
const BATCH: usize = 100;
const PURGE_BATCH: usize = 1000;

/// Takes back claims whose lease ran out. Returns what went wrong with some of them.
pub(super) async fn reclaim(engine: &Engine) -> Result<Option<Error>, Error> {
    let now = engine.now();
    let op = MailOp::Reclaim { now, limit: BATCH, returnable: true };
    let returned = match engine.mail(op).await? {
        Reply::Rows(rows) => rows.len(),
        _ => 0,
    };
    // What is left has no attempts left: it ends, and its run with it.
    let (mut closed, mut trouble) = (0, None);
    for stored in engine.lapsed(BATCH as u64).await? {
        if stored.row.attempt_count.saturating_add(1) >= stored.row.max_attempts {
            match close(engine, &stored, Mail::Reclaim(stored.row.dispatch_id.clone())).await {
                Ok(()) => closed += 1,
                Err(error) => trouble = Some(error),
            }
        }
    }
    if returned + closed > 0 {
        tracing::warn!(returned, closed, "claims of holders that went silent are taken back");
    }
    Ok(trouble)
}

/// Sees to the runs of dispatches that ended without them. How many that were, and what went wrong with others.
pub(super) async fn reconcile(engine: &Engine) -> Result<(usize, Option<Error>), Error> {
    let (mut closed, mut trouble) = (0, None);
    for stored in &engine.unreconciled(BATCH as u64).await? {
        match close(engine, stored, Mail::Reconcile(stored.row.dispatch_id.clone())).await {
            Ok(()) => closed += 1,
            Err(error) => trouble = Some(error),
        }
    }
    Ok((closed, trouble))
}

/// Ends the run of a dispatch that is never carried out, in the change that closes the dispatch; unless the run has
/// ended already or was dispatched again.
async fn close(engine: &Engine, stored: &Stored, mail: Mail) -> Result<(), Error> {
    let row = &stored.row;
    let Ok(run) = RunId::parse(&row.run_id) else { return forget(engine, row, mail).await };
    let of = RunRef { tenant: row.tenant.clone(), run };
    loop {
        let run = match engine.load(&of).await {
            Ok(run) => run,
            Err(Error::NotFound(_)) => return forget(engine, row, mail).await,
            // Nobody can end what nobody can read; but it must not be in everybody's way.
            Err(Error::Store(error @ store::Error::Unreadable { .. })) => {
                tracing::error!(%error, run = %of.run, dispatch = row.dispatch_id, "a run cannot be read");
                return forget(engine, row, mail).await;
            }
            Err(error) => return Err(error),
        };
        let before = Before::of(&run);
        let mut draft = Draft::new(run, engine.now());
        if engine.newer(stored).await?.is_none() {
            match draft.decide(&ending(stored, draft.now)) {
                Ok(()) | Err(Refusal::RunFinished(_)) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        // A row that moved on meanwhile is not ours to close any more.
        if engine.settle(&of, before, draft, mail.clone(), None).await? != Some(Guard::Sequence) {
            return Ok(());
        }
    }
}

/// How the run of a dispatch ends that has ended, or is about to.
fn ending(stored: &Stored, now: Timestamp) -> Command {
    let row = match stored.row.reclaimed(stored.epoch, now) {
        Some(Reclaimed::Returned(row) | Reclaimed::Superseded(row)) => row,
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
            let why = why.unwrap_or_else(|| "the work was begun too often and never finished".to_owned());
            Command::Abandon { error: RunError::new("dispatch_failed", why) }
        }
    }
}

/// A dispatch of something that is no run of ours: only the row is closed.
async fn forget(engine: &Engine, row: &RunDispatch, mail: Mail) -> Result<(), Error> {
    if let Mail::Reclaim(_) = mail {
        let op = MailOp::Reclaim { now: engine.now(), limit: BATCH, returnable: false };
        engine.mail(op).await?;
    }
    let values = crate::store::params![row.dispatch_id.as_str()];
    engine.write(vec![Statement::new(dispatches::RECONCILED, values)]).await.map(|_| ())
}

/// Claimed, but not for anything that could be a run.
pub(super) async fn refuse(engine: &Engine, row: &RunDispatch) -> Result<(), Error> {
    let token = row.claim_token.as_deref().unwrap_or_default();
    let what = Fenced::DeadLetter { error: "there is no such run".to_owned() };
    engine.mailbox(&row.tenant).fenced(&row.dispatch_id, token, what, engine.now()).await?;
    Ok(())
}

/// Deletes what ended longer ago than it is kept, receipts, events and sessions that are out of date, secrets that nobody
/// needs, and what became of deliveries.
pub(super) async fn purge(engine: &Engine) {
    while one_more(engine.purge(PURGE_BATCH).await, "dispatches") {}
    while one_more(engine.purge_receipts(PURGE_BATCH).await, "receipts") {}
    while one_more(engine.purge_arrivals(PURGE_BATCH).await, "events from outside") {}
    while one_more(engine.purge_secrets().await, "secrets") {}
    while one_more(engine.purge_sessions(PURGE_BATCH).await, "sessions") {}
    while one_more(engine.purge_deliveries(PURGE_BATCH).await, "deliveries") {}
}

/// Ends graphs that nobody answered. Providers may take their time: nobody else waits for it.
pub(super) async fn expire(engine: Engine) {
    if let Err(error) = engine.expire_handles().await {
        tracing::warn!(%error, "handles could not be ended; it is tried again");
    }
}

/// Whether there may be more of it.
fn one_more(deleted: Result<usize, Error>, what: &str) -> bool {
    match deleted {
        Ok(deleted) => deleted >= PURGE_BATCH,
        Err(error) => {
            tracing::warn!(%error, "old {what} could not be deleted; it is tried again");
            false
        }
    }
}
