//! The runs of a thread one after another, for those who read all that happens in it.

use std::sync::Arc;

use holdpoint_core::{Run, RunId, RunRef, Start, TenantId, WorkflowId, limits};

use super::{Engine, StartOptions};
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::{dispatches, threads};

impl Engine {
    /// The run of a thread that began behind another; without one, the first. A thread without runs has none.
    pub async fn next_thread_run(
        &self,
        tenant: &TenantId,
        thread: &str,
        behind: Option<&RunId>,
    ) -> Result<Option<RunId>, Error> {
        if !can_be(thread) {
            return Ok(None);
        }
        Ok(threads::next(self.db(), tenant, thread, behind).await?)
    }

    /// How many events a run of a thread has; nothing where the run stands elsewhere.
    pub async fn thread_run_length(
        &self,
        tenant: &TenantId,
        thread: &str,
        run: &RunId,
    ) -> Result<Option<u64>, Error> {
        if !can_be(thread) {
            return Ok(None);
        }
        Ok(threads::one(self.db(), tenant, thread, run.as_str()).await?.map(|(_, length)| length))
    }

    /// Starts a run of a workflow in a thread; refused with [`Error::ScopeBusy`] while one is open there.
    pub async fn start_in_thread(
        &self,
        workflow: &WorkflowId,
        thread: &str,
        start: Start,
    ) -> Result<Arc<Run>, Error> {
        let thread = self.without_own_run(&start.owner.tenant, thread.to_owned()).await?;
        let start = Start { scope: Some(threads::scope_of(&thread)), thread: Some(thread), ..start };
        self.start_with(workflow, start, StartOptions { exclusive: true, ..StartOptions::default() }).await
    }

    /// Wakes a reader whenever a run begins in the thread.
    pub fn subscribe_thread(&self, tenant: &TenantId, thread: &str) -> Subscription {
        self.0.bus.subscribe_begun((tenant.clone(), thread.to_owned()))
    }

    /// The dispatch in which a run that waits came to wait: the last one that was carried out, as long as it is kept.
    pub async fn last_dispatch(&self, tenant: &TenantId, run: &Run) -> Result<Option<String>, Error> {
        Ok(dispatches::last_acked(self.db(), tenant, run.thread(), run.id.as_str()).await?)
    }

    /// The name of a thread, unless it is that of a run of its own which has not ended: runs of a thread come one
    /// after another.
    pub(super) async fn without_own_run(&self, tenant: &TenantId, thread: String) -> Result<String, Error> {
        let Some(own) = self.next_thread_run(tenant, &thread, None).await? else { return Ok(thread) };
        if own.as_str() == thread {
            let of = RunRef { tenant: tenant.clone(), run: own };
            if !self.run(&of).await?.finished() {
                return Err(Error::ScopeBusy { active_run: of.run });
            }
        }
        Ok(thread)
    }

    /// How the database finds the runs of a thread. For tests.
    #[doc(hidden)]
    pub async fn thread_plans(&self, tenant: &TenantId, thread: &str) -> Result<Vec<String>, Error> {
        Ok(threads::plan(self.db(), tenant, thread).await?)
    }
}

/// Whether something can be the name of a thread.
fn can_be(thread: &str) -> bool {
    thread.chars().count() <= limits::ID_CHARS_MAX.max(limits::THREAD_CHARS_MAX)
        && !thread.contains(char::is_control)
}
