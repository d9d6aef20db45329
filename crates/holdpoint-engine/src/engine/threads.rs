//! The runs of a thread, for readers of a whole thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_core::mailbox::MailboxInterrupt;
use holdpoint_core::{
    Principal, Refusal, Run, RunId, RunRef, StartRequest, TenantId, Timestamp, WorkflowId, limits,
};

use super::{ATTEMPTS_MAX, Engine, Once, StartOptions, Threads};
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::messages::{self, MessagePosition, ThreadMessage};
use crate::store::runs::{RunFilter, RunSummary};
use crate::store::{dispatches, threads};

/// The effects of an interruption of a thread.
#[derive(Clone, Debug)]
pub struct ThreadInterruption {
    /// The dispatches that were superseded.
    pub mail: MailboxInterrupt,
    /// The run that was cancelled.
    pub cancelled: Option<RunId>,
}

/// The treatment of a run that only waits, when its thread is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingRun {
    /// The run continues to wait.
    Keep,
    /// The run is cancelled like any other run.
    Cancel,
}

impl Error {
    /// Returns whether a concurrent change of the thread prevented input: the run or its agent ended, or another run
    /// started. The input is then tried again on the changed thread. A thread that is itself an open run of a workflow
    /// has no other run until that one has ended.
    pub fn is_thread_change(&self, thread: &str) -> bool {
        match self {
            Self::Refused(Refusal::RunFinished(_) | Refusal::NodeNotRunning) => true,
            Self::ScopeBusy { active_run } => active_run.as_str() != thread,
            _ => false,
        }
    }
}

impl Threads<'_> {
    /// Returns the newest run of a thread.
    pub async fn latest_run(self, tenant: &TenantId, thread: &str) -> Result<Option<RunSummary>, Error> {
        Ok(self.runs(tenant, thread, None, 1).await?.into_iter().next())
    }

    /// Returns the run of a thread that has not ended, if there is one.
    pub async fn open_run(self, tenant: &TenantId, thread: &str) -> Result<Option<RunRef>, Error> {
        let latest = self.latest_run(tenant, thread).await?;
        let open = latest.filter(|run| !run.status.is_terminal());
        Ok(open.map(|run| RunRef { tenant: tenant.clone(), run: run.run }))
    }

    /// Returns the runs of a thread, newest first. `before` is the id of the last run of the previous page.
    pub async fn runs(
        self,
        tenant: &TenantId,
        thread: &str,
        before: Option<String>,
        limit: u64,
    ) -> Result<Vec<RunSummary>, Error> {
        let filter =
            RunFilter { scope: Some(threads::scope_of(thread)), before, limit, ..RunFilter::default() };
        self.engine.runs().list(tenant, filter).await
    }

    /// Returns the run of a thread that follows another run, or the first one.
    pub async fn next_run(
        self,
        tenant: &TenantId,
        thread: &str,
        after: Option<&RunId>,
    ) -> Result<Option<RunId>, Error> {
        if !is_thread_name(thread) {
            return Ok(None);
        }
        Ok(threads::next(self.engine.db(), tenant, thread, after).await?)
    }

    /// Returns the number of events of a run of a thread, or `None` if the run is not in the thread.
    pub async fn run_length(
        self,
        tenant: &TenantId,
        thread: &str,
        run: &RunId,
    ) -> Result<Option<u64>, Error> {
        if !is_thread_name(thread) {
            return Ok(None);
        }
        Ok(threads::one(self.engine.db(), tenant, thread, run.as_str()).await?.map(|(_, length)| length))
    }

    /// Starts a run of a workflow in a thread. Fails with [`Error::ScopeBusy`] while the thread has an open run.
    pub async fn start(
        self,
        workflow: &WorkflowId,
        thread: &str,
        start: StartRequest,
        once: Option<Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        self.engine.check_own_run_ended(&start.owner.tenant, thread).await?;
        let (scope, thread) = (Some(Self::scope_of(thread)), Some(thread.to_owned()));
        let options = StartOptions { id: None, exclusive: true, once };
        self.engine.runs().create_with(workflow, StartRequest { scope, thread, ..start }, options).await
    }

    /// Returns the scope of the runs of a thread.
    pub fn scope_of(thread: &str) -> String {
        threads::scope_of(thread)
    }

    /// Subscribes to new runs of a thread.
    pub fn subscribe(self, tenant: &TenantId, thread: &str) -> Subscription {
        self.engine.0.bus.subscribe_thread((tenant.clone(), thread.to_owned()))
    }

    /// Returns the dispatch in which a run began to wait, if it is still stored. A run that began to wait in the
    /// commit of a start or an answer has none.
    pub async fn waiting_since(self, tenant: &TenantId, run: &Run) -> Result<Option<String>, Error> {
        let since = run.open_interrupts().map(|interrupt| interrupt.requested_at).max();
        let since = since.unwrap_or(Timestamp(i64::MIN));
        Ok(dispatches::last_acked(self.engine.db(), tenant, run, since).await?)
    }

    /// Returns the messages of a thread after a position, oldest first.
    pub async fn messages(
        self,
        tenant: &TenantId,
        thread: &str,
        after: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<ThreadMessage>, Error> {
        let after = after.map(|(run, seq)| MessagePosition { run: run.as_str(), seq });
        Ok(messages::page(&self.engine.0.db, tenant, thread, after, limit).await?)
    }

    /// Returns the last messages of a thread, or the last ones before a position, newest first.
    pub async fn last_messages(
        self,
        tenant: &TenantId,
        thread: &str,
        before: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<ThreadMessage>, Error> {
        let before = before.map(|(run, seq)| MessagePosition { run: run.as_str(), seq });
        Ok(messages::last(&self.engine.0.db, tenant, thread, before, limit).await?)
    }

    /// Returns those of the ids that messages of users and systems in the thread have.
    pub async fn input_ids(
        self,
        tenant: &TenantId,
        thread: &str,
        ids: impl Iterator<Item = &str>,
    ) -> Result<BTreeSet<String>, Error> {
        Ok(messages::input_ids(self.engine.db(), tenant, thread, ids).await?)
    }

    /// Repeats an attempt to send input to a thread until it succeeds or fails. The attempt reads the thread and returns
    /// `None` if a concurrent change of the thread prevented the input. Fails with [`Error::Busy`] after many changes.
    pub async fn repeat_input<T, E: From<Error>, A: Future<Output = Result<Option<T>, E>>>(
        self,
        attempt: impl Fn() -> A,
    ) -> Result<T, E> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(done) = attempt().await? {
                return Ok(done);
            }
        }
        Err(Error::Busy.into())
    }

    /// Interrupts a thread: supersedes its queued dispatches and cancels its open run, unless the run only waits and
    /// `waiting` keeps it.
    pub async fn interrupt(
        self,
        tenant: &TenantId,
        thread: &str,
        waiting: WaitingRun,
        by: Principal,
    ) -> Result<ThreadInterruption, Error> {
        let mail = self.engine.mailbox(tenant).interrupt(thread, self.engine.now()).await?;
        let mut cancelled = None;
        if let Some(of) = self.open_run(tenant, thread).await? {
            let run = self.engine.runs().get(&of).await?;
            let awaits = run.children.iter().any(|child| run.awaits(&child.run));
            let waits = (awaits || run.waiting_on().is_some()) && run.next_work().is_none();
            if !(waits && waiting == WaitingRun::Keep) {
                self.engine.runs().cancel(&of, Some("interrupted".to_owned()), by).await?;
                cancelled = Some(of.run);
            }
        }
        Ok(ThreadInterruption { mail, cancelled })
    }

    /// Returns the last messages of a thread before the messages of a run, oldest first. With `since`, only the message at
    /// that position and later ones.
    pub async fn messages_before(
        self,
        of: &RunRef,
        thread: &str,
        since: Option<(&RunId, u64)>,
        limit: u32,
    ) -> Result<Vec<ThreadMessage>, Error> {
        let since = since.map(|(run, seq)| MessagePosition { run: run.as_str(), seq });
        Ok(messages::before(self.engine.db(), of, thread, since, limit).await?)
    }

    /// Returns the query plans of the reads of a thread. For tests.
    #[doc(hidden)]
    pub async fn plans(self, tenant: &TenantId, thread: &str) -> Result<Vec<String>, Error> {
        let (db, mut plans) = (self.engine.db(), threads::plan(self.engine.db(), tenant, thread).await?);
        plans.extend(messages::plan(db, tenant, thread).await?);
        Ok(plans)
    }
}

impl Engine {
    /// Fails with [`Error::ScopeBusy`] if the thread is named after a run that has not ended, because the runs of a
    /// thread are sequential.
    async fn check_own_run_ended(&self, tenant: &TenantId, thread: &str) -> Result<(), Error> {
        let Some(own) = self.threads().next_run(tenant, thread, None).await? else { return Ok(()) };
        if own.as_str() == thread {
            let of = RunRef { tenant: tenant.clone(), run: own };
            if !self.runs().get(&of).await?.finished() {
                return Err(Error::ScopeBusy { active_run: of.run });
            }
        }
        Ok(())
    }
}

/// Returns whether a text is a valid name of a thread.
fn is_thread_name(thread: &str) -> bool {
    thread.chars().count() <= limits::ID_CHARS_MAX.max(limits::THREAD_CHARS_MAX)
        && !thread.contains(char::is_control)
}
