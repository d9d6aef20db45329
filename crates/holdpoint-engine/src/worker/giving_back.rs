//! What becomes of a claim that came to nothing.

use std::sync::Arc;

use holdpoint_core::mailbox::{Fenced, backoff_ms, outage_pause_ms};
use holdpoint_core::{Command, NodeId, Refusal, RunError};

use crate::advance::Draft;
use crate::committer::{Claim, Guard, Mail};
use crate::engine::{Before, Engine};
use crate::error::Error;
use crate::store;

/// Why a dispatch is given back.
#[derive(Clone, Debug)]
pub(super) enum Setback {
    /// An attempt failed.
    Failed(String),
    /// A server that a node needs is away: no attempt of the dispatch's own.
    Unavailable { node: NodeId, why: String },
}

impl From<Error> for Setback {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable { node, why } => Self::Unavailable { node, why },
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Tried again when others change the run meanwhile: a claim that nobody closes would park the run until its lease
/// runs out.
pub(super) async fn give_back(engine: &Engine, claim: Arc<Claim>, setback: Setback) -> Result<(), Error> {
    if let Setback::Failed(why) = &setback {
        let attempts = claim.attempts.saturating_add(1);
        tracing::warn!(run = %claim.run.run, attempts, why, "a dispatch failed");
    }
    let of = claim.run.clone();
    loop {
        let run = match engine.load(&of).await {
            Ok(run) => run,
            // Nobody could ever carry it out.
            Err(Error::NotFound(_) | Error::Store(store::Error::Unreadable { .. })) => {
                let (Setback::Failed(why) | Setback::Unavailable { why, .. }) = setback;
                return dead_letter(engine, &claim, why).await;
            }
            Err(error) => return Err(error),
        };
        let before = Before::of(&run);
        let mut draft = Draft::new(run, engine.now());
        let what = match setback.clone() {
            Setback::Failed(why) => returned(&mut draft, &claim, why)?,
            Setback::Unavailable { node, why } => {
                match delayed(&mut draft, node, &why, engine.agents().outage_ms())? {
                    Some(what) => what,
                    None => returned(&mut draft, &claim, why)?,
                }
            }
        };
        let mail = Mail::Held { claim: claim.clone(), what };
        if engine.settle(&of, before, draft, mail, None).await? != Some(Guard::Sequence) {
            return Ok(());
        }
    }
}

/// Back into the queue while there are attempts left; otherwise the run ends with the error.
fn returned(draft: &mut Draft, claim: &Claim, error: String) -> Result<Fenced, Error> {
    let failed = claim.attempts.saturating_add(1);
    let retry_at = draft.now.plus_ms(backoff_ms(failed, jitter()));
    if failed >= claim.max_attempts {
        match draft.decide(&Command::Abandon { error: RunError::new("dispatch_failed", error.clone()) }) {
            Ok(()) | Err(Refusal::RunFinished(_)) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Ok(Fenced::Nack { retry_at, error })
}

/// Back into the queue while the server may come back. After that the dispatch is a dead letter and the run stays open: an
/// operator who requeues the dispatch lets it go on, and nothing that was approved is lost. None if the run has
/// ended.
fn delayed(draft: &mut Draft, node: NodeId, why: &str, outage_ms: u64) -> Result<Option<Fenced>, Error> {
    let now = draft.now;
    let known = draft.run.node_state(&node).and_then(|state| state.delay.clone());
    let known = known.and_then(|delay| Some((delay.since, delay.until?)));
    let (since, until) = known.unwrap_or((now, now.plus_ms(outage_ms)));
    let given_up = now >= until;
    let error = RunError { retryable: true, ..RunError::new("connection_unavailable", why) };
    match draft.decide(&Command::Delay { node, error, until: (!given_up).then_some(until) }) {
        Ok(()) => {}
        Err(Refusal::RunFinished(_)) => return Ok(None),
        // Another change ended the node meanwhile. The next holder finds out what is left.
        Err(Refusal::NodeNotRunning) => {
            let retry_at = now.plus_ms(outage_pause_ms(0, jitter()));
            return Ok(Some(Fenced::Postpone { retry_at, error: why.to_owned() }));
        }
        Err(refusal) => return Err(refusal.into()),
    }
    let (run, error) = (&draft.run.id, why.to_owned());
    if given_up {
        tracing::error!(%run, why, "a run waits for an operator: requeue its dispatch when the server is back");
        return Ok(Some(Fenced::DeadLetter { error }));
    }
    if known.is_none() {
        tracing::warn!(%run, why, %until, "a run waits for a server that is away");
    }
    let away_ms = u64::try_from(now.0 - since.0).unwrap_or_default();
    let retry_at = now.plus_ms(outage_pause_ms(away_ms, jitter())).min(until);
    Ok(Some(Fenced::Postpone { retry_at, error }))
}

async fn dead_letter(engine: &Engine, claim: &Claim, error: String) -> Result<(), Error> {
    let what = Fenced::DeadLetter { error };
    let mailbox = engine.mailbox(&claim.run.tenant);
    match mailbox.fenced(&claim.dispatch_id, &claim.token, what, engine.now()).await {
        Err(error) if error.is_transient() => Err(error.into()),
        // Closed by us, or no longer ours to close.
        _ => Ok(()),
    }
}

/// Between 0 and 1, from the random bits of an id.
fn jitter() -> f64 {
    let bits = uuid::Uuid::now_v7().as_u128() & 0xffff;
    u16::try_from(bits).map_or(0.5, f64::from) / f64::from(u16::MAX)
}
