//! Deadlines that have come.

use holdpoint_core::{Command, Timer};
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::error::Error;
use crate::store::timers::Due;

/// Timers fired in one go.
const TIMERS_MAX: u64 = 256;

/// Timers fire side by side, so that many of them share a commit. One that cannot be fired stays where it is and
/// holds nobody up: for a while it is passed over. How many were fired, and why one was not.
pub(super) async fn fire_all(engine: &Engine) -> Result<(usize, Option<Error>), Error> {
    let mut firing: JoinSet<Result<(), Error>> = JoinSet::new();
    for due in engine.hold_due_timers(TIMERS_MAX).await? {
        firing.spawn(fire(engine.clone(), due));
    }
    let (mut fired, mut trouble) = (0, None);
    while let Some(ended) = firing.join_next().await {
        match ended {
            Ok(Ok(())) => fired += 1,
            Ok(Err(error)) => trouble = Some(error),
            Err(panic) => trouble = Some(crate::store::Error::Failed(panic.to_string()).into()),
        }
    }
    Ok((fired, trouble))
}

async fn fire(engine: Engine, due: Due) -> Result<(), Error> {
    let timer = match due.timer()? {
        Some(timer) => timer,
        None => due.timer_in(&*engine.run(&due.of).await?)?,
    };
    let command = match timer {
        Timer::Interrupt(interrupt) => Command::Expire { interrupt },
        Timer::Sleep(node) => Command::Wake { node },
        Timer::Run => Command::TimeOut,
    };
    match engine.execute(&due.of, &command).await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal)) => {
            // The run went on without the timer. Its row should be gone; make sure that it does not fire for ever.
            tracing::debug!(%refusal, run = %due.of.run, "a timer came too late");
            engine.write(vec![due.clear()]).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}
