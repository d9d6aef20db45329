//! Returns a claim whose dispatch could not be executed: to the queue, or as a dead letter.

use std::sync::Arc;

use holdpoint_core::mailbox::{ClaimAction, backoff_ms, outage_delay_ms};
use holdpoint_core::{Command, NodeId, Refusal, RunError};

use crate::committer::{Claim, MailboxAction, Precondition};
use crate::draft::RunDraft;
use crate::engine::{CommitOutcome, Engine};
use crate::error::Error;
use crate::store;

/// The reason why a claim is returned.
#[derive(Clone, Debug)]
pub(super) enum ReturnReason {
    /// An attempt failed.
    Failed(String),
    /// A server that the node needs is unavailable. This does not count as an attempt.
    Unavailable { node: NodeId, why: String, outage_ms: u64 },
}

impl From<Error> for ReturnReason {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable { node, why, outage_ms } => Self::Unavailable { node, why, outage_ms },
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Returns the claim. Retries if the run was changed concurrently, because an open claim blocks the run until its lease
/// expires.
pub(super) async fn return_claim(
    engine: &Engine,
    claim: Arc<Claim>,
    reason: ReturnReason,
) -> Result<(), Error> {
    if let ReturnReason::Failed(why) = &reason {
        let attempts = claim.attempts.saturating_add(1);
        tracing::warn!(run = %claim.run.run, attempts, why, "a dispatch failed");
    }
    let of = claim.run.clone();
    loop {
        let run = match engine.runs().get_stored(&of).await {
            Ok(run) => run,
            // The run can never be executed.
            Err(Error::NotFound(_) | Error::Store(store::Error::Unreadable { .. })) => {
                let (ReturnReason::Failed(why) | ReturnReason::Unavailable { why, .. }) = reason;
                return dead_letter(engine, &claim, why).await;
            }
            Err(error) => return Err(error),
        };
        let mut draft = RunDraft::new(of.clone(), run, engine.now());
        let what = match reason.clone() {
            ReturnReason::Failed(why) => nack(&mut draft, &claim, why)?,
            ReturnReason::Unavailable { node, why, outage_ms } => {
                match postpone(&mut draft, node, &why, outage_ms)? {
                    Some(what) => what,
                    None => nack(&mut draft, &claim, why)?,
                }
            }
        };
        draft.mail = MailboxAction::ClaimAction { claim: claim.clone(), what };
        if engine.commit(draft, None).await? != CommitOutcome::Conflict(Precondition::Sequence) {
            return Ok(());
        }
    }
}

/// Returns the dispatch to the queue, or fails the run with the error if no attempts are left.
fn nack(draft: &mut RunDraft, claim: &Claim, error: String) -> Result<ClaimAction, Error> {
    let failed = claim.attempts.saturating_add(1);
    let retry_at = draft.now.plus_ms(backoff_ms(failed, jitter()));
    if failed >= claim.max_attempts {
        match draft.decide(&Command::Abandon { error: RunError::new("dispatch_failed", error.clone()) }) {
            Ok(()) | Err(Refusal::RunFinished(_)) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Ok(ClaimAction::Nack { retry_at, error })
}

/// Postpones the dispatch while the server may come back. After that the dispatch is a dead letter and the run stays
/// open: an operator can requeue the dispatch, and approvals are not lost. Returns None if the run has ended.
fn postpone(
    draft: &mut RunDraft,
    node: NodeId,
    why: &str,
    outage_ms: u64,
) -> Result<Option<ClaimAction>, Error> {
    let now = draft.now;
    let known = draft.run.node_state(&node).and_then(|state| state.delay.clone());
    let known = known.and_then(|delay| Some((delay.since, delay.until?)));
    let (since, until) = known.unwrap_or((now, now.plus_ms(outage_ms)));
    let given_up = now >= until;
    let error = RunError { retryable: true, ..RunError::new("connection_unavailable", why) };
    match draft.decide(&Command::Delay { node, error, until: (!given_up).then_some(until) }) {
        Ok(()) => {}
        Err(Refusal::RunFinished(_)) => return Ok(None),
        // A concurrent change ended the node. The next activation continues the run.
        Err(Refusal::NodeNotRunning) => {
            let retry_at = now.plus_ms(outage_delay_ms(0, jitter()));
            return Ok(Some(ClaimAction::Postpone { retry_at, error: why.to_owned() }));
        }
        Err(refusal) => return Err(refusal.into()),
    }
    let (run, error) = (&draft.run.id, why.to_owned());
    if given_up {
        tracing::error!(%run, why, "a server is unavailable for too long; requeue the dispatch of the run when it is back");
        return Ok(Some(ClaimAction::DeadLetter { error }));
    }
    if known.is_none() {
        tracing::warn!(%run, why, %until, "a run waits for an unavailable server");
    }
    let away_ms = u64::try_from(now.0 - since.0).unwrap_or_default();
    let retry_at = now.plus_ms(outage_delay_ms(away_ms, jitter())).min(until);
    Ok(Some(ClaimAction::Postpone { retry_at, error }))
}

async fn dead_letter(engine: &Engine, claim: &Claim, error: String) -> Result<(), Error> {
    let what = ClaimAction::DeadLetter { error };
    let mailbox = engine.mailbox(&claim.run.tenant);
    match mailbox.fenced(&claim.dispatch_id, &claim.token, what, engine.now()).await {
        Err(error) if error.is_transient() => Err(error.into()),
        // The row is closed, or the claim is lost.
        _ => Ok(()),
    }
}

/// Returns a random number between 0 and 1, from the random bits of a UUID.
fn jitter() -> f64 {
    let bits = uuid::Uuid::now_v7().as_u128() & 0xffff;
    u16::try_from(bits).map_or(0.5, f64::from) / f64::from(u16::MAX)
}
