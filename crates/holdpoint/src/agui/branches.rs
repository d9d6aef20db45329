//! Branches of a thread: an input that continues an earlier run than the last one.

use std::sync::Arc;

use holdpoint_core::Run;
use holdpoint_core::agent::Message;

use super::history::{History, lineage};
use super::resume_plan::AgUiViolation;
use super::run::{AgUiRequest, LatestRun};
use super::stream::StreamContent;
use crate::error::ApiError;

impl AgUiRequest<'_> {
    /// Returns the run that the input branches off: the run that `parentRunId` names, unless it is the last one. Refuses
    /// a run that is not one of the last runs of this thread, or that a branch has abandoned.
    pub(super) async fn find_branch(
        &self,
        latest: &LatestRun,
    ) -> Result<Result<Option<Arc<Run>>, AgUiViolation>, ApiError> {
        let Some(name) = &self.input.parent_run_id else { return Ok(Ok(None)) };
        let tenant = self.caller.tenant();
        let runs = lineage(&self.app.engine, tenant, &self.input.thread_id).await?;
        let is_named = |run: &&Arc<Run>| {
            let client_run = run.started.as_ref().and_then(|started| started.client_run.as_ref());
            run.id.as_str() == name.as_str() || client_run == Some(name)
        };
        let Some(parent) = runs.iter().find(is_named) else {
            let message = format!("no run {name:?} among the last runs of this thread; see parentRunId");
            return Ok(Err(AgUiViolation::new("UNKNOWN_PARENT_RUN", message)));
        };
        let is_last = latest.as_ref().is_some_and(|(of, _)| of.run == parent.id);
        Ok(Ok((!is_last).then(|| parent.clone())))
    }

    /// Starts a run after an earlier run of the thread. The runs after it leave the thread.
    pub(super) async fn branch(
        &self,
        latest: &LatestRun,
        parent: &Run,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<StreamContent>, ApiError> {
        let refused =
            |code, message: String| Ok(Some(StreamContent::Refused(AgUiViolation::new(code, message))));
        if let Some((of, _)) = latest.as_ref().filter(|(_, run)| !run.finished()) {
            let message =
                format!("run {} of this thread is open; a thread can only branch after its end", of.run);
            return refused("THREAD_BUSY", message);
        }
        if new.is_empty() {
            return refused("MISSING_INPUT", "a branch requires a new message".to_owned());
        }
        let own = (parent.workflow.id == *self.target.workflow()).then_some(parent);
        self.start_after(own, Some(parent.id.clone()), history, new).await
    }
}
