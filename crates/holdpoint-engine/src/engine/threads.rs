//! Runs of workflows in threads: they keep the same order as runs of agents, and at most one of a thread is open.

use std::sync::Arc;

use holdpoint_core::{Run, Start, WorkflowId};

use super::agents::scope_of;
use super::{Engine, StartOptions};
use crate::error::Error;

impl Engine {
    /// Starts a run in a thread; refused with [`Error::ScopeBusy`] while one is open there.
    pub async fn start_in_thread(
        &self,
        workflow: &WorkflowId,
        thread: &str,
        start: Start,
    ) -> Result<Arc<Run>, Error> {
        let start = Start { scope: Some(scope_of(thread)), thread: Some(thread.to_owned()), ..start };
        self.start_with(workflow, start, StartOptions { id: None, exclusive: true }).await
    }
}
