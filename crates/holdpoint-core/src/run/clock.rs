//! The times of a run. Those of a fork begin with the fork, so that nothing it takes over is too late already.

use serde_json::Value;

use super::Run;
use crate::Timestamp;
use crate::event::{ForkMode, Started};
use crate::workflow::Workflow;

impl Run {
    /// How long the run may take: what its caller said, else what its workflow says.
    pub fn timeout_ms(&self) -> Option<u64> {
        timeout_ms(&self.workflow, self.started.as_ref()?)
    }

    /// When it has taken as long as it may.
    pub fn deadline(&self) -> Option<Timestamp> {
        deadline(&self.workflow, self.started.as_ref()?, self.started_at)
    }

    /// When a copy of another run was made.
    pub fn forked_at(&self) -> Option<Timestamp> {
        forked_at(self.started.as_ref()?)
    }

    /// When there was such a run: what a fork copied is older.
    pub fn created_at(&self) -> Timestamp {
        self.live_from(self.started_at)
    }

    /// When it began, for readers. A replay tells what its source told, and so does a branch that copied the end.
    pub fn begun_at(&self) -> Timestamp {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        let copied_end = |from_seq| self.finished() && self.seq <= from_seq;
        match fork {
            Some(fork) if fork.mode == ForkMode::Branch && !copied_end(fork.from_seq) => self.created_at(),
            Some(_) | None => self.started_at,
        }
    }

    /// An instant, or that of the fork if it was before.
    pub(crate) fn live_from(&self, at: Timestamp) -> Timestamp {
        self.forked_at().map_or(at, |forked| forked.max(at))
    }
}

/// When a run has taken as long as it may that is started like this.
pub(crate) fn deadline(workflow: &Workflow, started: &Started, at: Timestamp) -> Option<Timestamp> {
    let from = forked_at(started).map_or(at, |forked| forked.max(at));
    timeout_ms(workflow, started).map(|ms| from.plus_ms(ms))
}

fn forked_at(started: &Started) -> Option<Timestamp> {
    started.fork.as_ref()?.at
}

/// No time at all means no limit.
fn timeout_ms(workflow: &Workflow, started: &Started) -> Option<u64> {
    match started.configurable.get("runTimeoutMs").and_then(Value::as_u64) {
        Some(ms) => Some(ms).filter(|ms| *ms > 0),
        None => workflow.settings.timeout_ms,
    }
}
