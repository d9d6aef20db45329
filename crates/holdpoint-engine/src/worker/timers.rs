//! Fires due timers.

use holdpoint_core::{Command, Timer};
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::error::Error;
use crate::store::timers::DueTimer;

/// The maximum number of timers per check.
const TIMERS_MAX: u64 = 256;

/// Fires due timers concurrently, so that they share commits. A timer that fails is skipped for a while and does not
/// block the others. Returns the number of fired timers, and the last error.
pub(super) async fn fire_all(engine: &Engine) -> Result<(usize, Option<Error>), Error> {
    let mut firing: JoinSet<Result<(), Error>> = JoinSet::new();
    for due in engine.claim_due_timers(TIMERS_MAX).await? {
        firing.spawn(fire(engine.clone(), due));
    }
    let (mut fired, mut last_error) = (0, None);
    while let Some(ended) = firing.join_next().await {
        match ended {
            Ok(Ok(())) => fired += 1,
            Ok(Err(error)) => last_error = Some(error),
            Err(panic) => last_error = Some(crate::store::Error::Failed(panic.to_string()).into()),
        }
    }
    Ok((fired, last_error))
}

async fn fire(engine: Engine, due: DueTimer) -> Result<(), Error> {
    if let Some(kind) = due.trigger_timer() {
        return engine.fire_trigger_timer(kind, &due).await;
    }
    let timer = match due.timer()? {
        Some(timer) => timer,
        None => due.timer_in(&*engine.runs().get(&due.of).await?)?,
    };
    let command = match timer {
        Timer::Interrupt(interrupt) => Command::Expire { interrupt },
        Timer::Sleep(node) => Command::Wake { node },
        Timer::Run => Command::TimeOut,
    };
    match engine.runs().execute(&due.of, &command).await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal)) => {
            // The run has continued without the timer. Deletes the row, so that it does not fire again.
            tracing::debug!(%refusal, run = %due.of.run, "a timer came too late");
            engine.write(vec![due.clear()]).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}
