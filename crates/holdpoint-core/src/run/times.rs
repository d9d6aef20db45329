//! The times of a run. In a fork, timeouts and deadlines count from the fork, so that copied deadlines have not already
//! passed.

use serde_json::Value;

use super::Run;
use crate::Timestamp;
use crate::event::{ForkMode, RunParameters};
use crate::workflow::Workflow;

impl Run {
    /// Returns the timeout of the run: the option of the caller, otherwise the setting of the workflow.
    pub fn timeout_ms(&self) -> Option<u64> {
        timeout_ms(&self.workflow, self.started.as_ref()?)
    }

    /// Returns the time at which the run times out.
    pub fn deadline(&self) -> Option<Timestamp> {
        deadline(&self.workflow, self.started.as_ref()?, self.started_at)
    }

    /// Returns the time of the fork, if the run is a fork.
    pub fn forked_at(&self) -> Option<Timestamp> {
        forked_at(self.started.as_ref()?)
    }

    /// Returns the time at which this run was created. The events that a fork copied are older.
    pub fn created_at(&self) -> Timestamp {
        self.live_from(self.started_at)
    }

    /// Returns the start time that clients see. A replay shows the start of its source, and so does a branch that
    /// copied the end of its source.
    pub fn begun_at(&self) -> Timestamp {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        let copied_end = |from_seq| self.finished() && self.seq <= from_seq;
        match fork {
            Some(fork) if fork.mode == ForkMode::Branch && !copied_end(fork.from_seq) => self.created_at(),
            Some(_) | None => self.started_at,
        }
    }

    /// Returns the later of this time and the time of the fork.
    pub(crate) fn live_from(&self, at: Timestamp) -> Timestamp {
        self.forked_at().map_or(at, |forked| forked.max(at))
    }
}

/// Returns the time at which a run with this start times out.
pub(crate) fn deadline(workflow: &Workflow, started: &RunParameters, at: Timestamp) -> Option<Timestamp> {
    let from = forked_at(started).map_or(at, |forked| forked.max(at));
    timeout_ms(workflow, started).map(|ms| from.plus_ms(ms))
}

fn forked_at(started: &RunParameters) -> Option<Timestamp> {
    started.fork.as_ref()?.at
}

/// Returns the timeout. Zero means no timeout.
fn timeout_ms(workflow: &Workflow, started: &RunParameters) -> Option<u64> {
    match started.configurable.get("runTimeoutMs").and_then(Value::as_u64) {
        Some(ms) => Some(ms).filter(|ms| *ms > 0),
        None => workflow.settings.timeout_ms,
    }
}
