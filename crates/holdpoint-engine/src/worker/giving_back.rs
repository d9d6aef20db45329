//! What becomes of a claim that came to nothing.

use std::sync::Arc;

use holdpoint_core::mailbox::{Fenced, backoff_ms};
use holdpoint_core::{Command, Refusal, RunError};

use crate::advance::Draft;
use crate::committer::{Claim, Guard, Mail};
use crate::engine::{Before, Engine};
use crate::error::Error;
use crate::store;

/// Tried again when others change the run meanwhile: a claim that nobody closes would park the run until its lease
/// runs out.
pub(super) async fn give_back(engine: &Engine, claim: Arc<Claim>, why: String) -> Result<(), Error> {
    tracing::warn!(run = %claim.run.run, attempts = claim.attempts.saturating_add(1), why, "a dispatch failed");
    let of = claim.run.clone();
    loop {
        let run = match engine.load(&of).await {
            Ok(run) => run,
            // Nobody could ever carry it out.
            Err(Error::NotFound(_) | Error::Store(store::Error::Unreadable { .. })) => {
                return dead_letter(engine, &claim, why).await;
            }
            Err(error) => return Err(error),
        };
        let before = Before::of(&run);
        let mut draft = Draft::new(run, engine.now());
        let what = returned(&mut draft, &claim, why.clone())?;
        let mail = Mail::Held { claim: claim.clone(), what };
        if engine.settle(&of, before, draft, mail).await? != Some(Guard::Sequence) {
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
