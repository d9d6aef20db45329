//! The runs of a thread, for readers of a whole thread.

use std::sync::Arc;

use holdpoint_core::{Run, RunId, RunRef, StartRequest, TenantId, WorkflowId, limits};

use super::{Engine, StartOptions};
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::runs::{RunFilter, RunSummary};
use crate::store::{dispatches, threads};

impl Engine {
    /// Returns the newest run of a thread.
    pub async fn latest_thread_run(
        &self,
        tenant: &TenantId,
        thread: &str,
    ) -> Result<Option<RunSummary>, Error> {
        Ok(self.thread_runs(tenant, thread, None, 1).await?.into_iter().next())
    }

    /// Returns the run of a thread that has not ended, if there is one.
    pub async fn open_run(&self, tenant: &TenantId, thread: &str) -> Result<Option<RunRef>, Error> {
        let latest = self.latest_thread_run(tenant, thread).await?;
        let open = latest.filter(|run| !run.status.is_terminal());
        Ok(open.map(|run| RunRef { tenant: tenant.clone(), run: run.run }))
    }

    /// Returns the runs of a thread, newest first. `before` is the id of the last run of the previous page.
    pub async fn thread_runs(
        &self,
        tenant: &TenantId,
        thread: &str,
        before: Option<String>,
        limit: u64,
    ) -> Result<Vec<RunSummary>, Error> {
        let filter =
            RunFilter { scope: Some(threads::scope_of(thread)), before, limit, ..RunFilter::default() };
        self.runs(tenant, filter).await
    }

    /// Returns the run of a thread that follows another run, or the first one.
    pub async fn next_thread_run(
        &self,
        tenant: &TenantId,
        thread: &str,
        after: Option<&RunId>,
    ) -> Result<Option<RunId>, Error> {
        if !is_thread_name(thread) {
            return Ok(None);
        }
        Ok(threads::next(self.db(), tenant, thread, after).await?)
    }

    /// Returns the number of events of a run of a thread, or `None` if the run is not in the thread.
    pub async fn thread_run_length(
        &self,
        tenant: &TenantId,
        thread: &str,
        run: &RunId,
    ) -> Result<Option<u64>, Error> {
        if !is_thread_name(thread) {
            return Ok(None);
        }
        Ok(threads::one(self.db(), tenant, thread, run.as_str()).await?.map(|(_, length)| length))
    }

    /// Starts a run of a workflow in a thread. Fails with [`Error::ScopeBusy`] while the thread has an open run.
    pub async fn start_in_thread(
        &self,
        workflow: &WorkflowId,
        thread: &str,
        start: StartRequest,
    ) -> Result<Arc<Run>, Error> {
        let thread = self.check_own_run_ended(&start.owner.tenant, thread.to_owned()).await?;
        let start = StartRequest { scope: Some(threads::scope_of(&thread)), thread: Some(thread), ..start };
        self.start_with(workflow, start, StartOptions { exclusive: true, ..StartOptions::default() }).await
    }

    /// Subscribes to new runs of a thread.
    pub fn subscribe_thread(&self, tenant: &TenantId, thread: &str) -> Subscription {
        self.0.bus.subscribe_thread((tenant.clone(), thread.to_owned()))
    }

    /// Returns the last acknowledged dispatch of a run, if it is still stored.
    pub async fn last_dispatch(&self, tenant: &TenantId, run: &Run) -> Result<Option<String>, Error> {
        Ok(dispatches::last_acked(self.db(), tenant, run.thread(), run.id.as_str()).await?)
    }

    /// Returns the thread. Fails with [`Error::ScopeBusy`] if the thread is named after a run that has not ended,
    /// because the runs of a thread are sequential.
    pub(super) async fn check_own_run_ended(
        &self,
        tenant: &TenantId,
        thread: String,
    ) -> Result<String, Error> {
        let Some(own) = self.next_thread_run(tenant, &thread, None).await? else { return Ok(thread) };
        if own.as_str() == thread {
            let of = RunRef { tenant: tenant.clone(), run: own };
            if !self.run(&of).await?.finished() {
                return Err(Error::ScopeBusy { active_run: of.run });
            }
        }
        Ok(thread)
    }

    /// Returns the query plans of the reads of a thread. For tests.
    #[doc(hidden)]
    pub async fn thread_plans(&self, tenant: &TenantId, thread: &str) -> Result<Vec<String>, Error> {
        Ok(threads::plan(self.db(), tenant, thread).await?)
    }
}

/// Returns whether a text is a valid name of a thread.
fn is_thread_name(thread: &str) -> bool {
    thread.chars().count() <= limits::ID_CHARS_MAX.max(limits::THREAD_CHARS_MAX)
        && !thread.contains(char::is_control)
}
