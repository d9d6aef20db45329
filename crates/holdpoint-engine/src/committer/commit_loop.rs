//! The loop of a writer: takes the queued jobs, commits them, publishes them and replies. If a batch fails, its jobs
//! are committed one by one. If the connection is lost during a commit, the outcome is looked up before the next try.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdpoint_core::Event;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

use super::batch::{self, BatchContext};
use super::job_queue::JobQueue;
use super::options::{CommitFault, CommitterOptions};
use super::single_job;
use super::work::{Change, CommitReply, Job, MailboxAction, Precondition, Work};
use crate::bus::Bus;
use crate::feed::{CommitFeed, RunCommit};
use crate::metrics::EngineMetrics;
use crate::peers::HintOutbox;
use crate::run_cache::RunCache;
use crate::store::{Error, Tx, awaited, pending, usage};
use crate::webhooks::WebhookHub;

/// The maximum number of jobs in one transaction.
const BATCH_MAX: usize = 512;
/// The time without work after which the database may do maintenance.
const IDLE: Duration = Duration::from_millis(500);
/// Waits in milliseconds between tries while the database cannot be reached, in all about ten seconds.
const RECONNECT_WAITS: [u64; 14] =
    [20, 50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000];

/// The wait in milliseconds at which a job that loses lock conflicts is not tried again, but fails.
const BUSY_WAIT_MAX: u64 = 400;

/// Counters of the committer, for measurements.
#[derive(Debug, Default)]
pub struct Counters {
    /// Transactions that were committed.
    pub commits: AtomicU64,
    /// Changes of runs that were committed.
    pub changes: AtomicU64,
    /// Rows that the changes have written.
    pub rows: AtomicU64,
    /// Rows that were read outside of changes.
    pub rows_read: AtomicU64,
    /// Round trips to the database, for writes and reads.
    pub round_trips: AtomicU64,
}

/// The components that a writer informs after a commit.
#[derive(Clone, Debug)]
pub(crate) struct CommitObservers {
    pub cache: Arc<RunCache>,
    pub bus: Arc<Bus>,
    pub counters: Arc<Counters>,
    pub measures: Arc<EngineMetrics>,
    pub feed: Arc<CommitFeed>,
    /// The webhook subscriptions.
    pub hooks: Arc<WebhookHub>,
    /// Hints for the other processes of the database, if it can have several.
    pub outbox: Option<Arc<HintOutbox>>,
    /// The runtime of the callers, if the writer runs on a thread of its own.
    pub callers: Option<Handle>,
}

/// A writer of the committer: one connection with its loop.
pub(crate) struct CommitLoop<T> {
    pub(super) tx: T,
    pub(super) observers: CommitObservers,
    options: CommitterOptions,
    tries: AtomicU64,
    /// The usage of a tenant is split into shards. This writer adds to this shard.
    shard: i64,
}

/// The reason why a try to commit failed.
enum CommitError {
    /// An injected fault stops the writer.
    Stop,
    Store(Error),
}

/// The result of the commit of a batch. All its jobs have replies, except after `Stop`.
enum BatchEnd {
    Answered,
    /// An injected fault stops the writer.
    Stop,
    /// The database could not be reached within the waits.
    Unreachable(Error),
}

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<T: Tx> CommitLoop<T> {
    pub(super) fn new(tx: T, observers: CommitObservers, options: CommitterOptions) -> Self {
        Self { tx, observers, options, tries: AtomicU64::new(0), shard: usage::random_shard() }
    }

    /// Writes work that must be done before the first job.
    pub(super) async fn prepare(&self, works: Vec<Work>) -> Result<(), Error> {
        for work in works {
            single_job::write(&self.tx, &work, None, || Ok(())).await?;
        }
        Ok(())
    }

    pub(super) async fn run(self, jobs: Receiver<Job>) {
        let most = self.options.batch_max.unwrap_or(BATCH_MAX).max(1);
        let mut queue = JobQueue::new(jobs, most);
        while self.wait(&mut queue).await {
            let mut together = Vec::new();
            queue.take(&mut together);
            let mut end = if together.is_empty() {
                BatchEnd::Answered
            } else {
                self.commit(together, &mut queue).await
            };
            while !matches!(end, BatchEnd::Stop)
                && let Some(job) = queue.alone.pop_front()
            {
                end = self.commit(vec![job], &mut queue).await;
            }
            if matches!(end, BatchEnd::Stop) {
                return;
            }
        }
        self.tx.idle();
    }

    /// Waits for the first job, and lets the database do maintenance once if none comes for a while. Returns false if
    /// the queue is closed.
    async fn wait(&self, queue: &mut JobQueue) -> bool {
        match tokio::time::timeout(IDLE, queue.wait()).await {
            Ok(has_job) => has_job,
            Err(_) => {
                self.tx.idle();
                queue.wait().await
            }
        }
    }

    /// Commits the jobs, with retries, and replies to them.
    async fn commit(&self, mut jobs: Vec<Job>, queue: &mut JobQueue) -> BatchEnd {
        let mut waits = RECONNECT_WAITS.iter();
        loop {
            let error = match self.try_commit(&mut jobs, queue).await {
                Ok(replies) => {
                    self.publish(jobs, replies);
                    return BatchEnd::Answered;
                }
                Err(CommitError::Stop) => return BatchEnd::Stop,
                Err(CommitError::Store(error)) => error,
            };
            self.tx.rollback().await;
            match (error, waits.next()) {
                (Error::Unavailable(_), Some(wait)) => sleep_ms(*wait).await,
                // The transaction lost a lock conflict with another one.
                (Error::Busy, Some(wait)) if jobs.len() == 1 && *wait < BUSY_WAIT_MAX => {
                    sleep_ms(*wait).await;
                }
                (Error::Unknown(why), Some(_)) => {
                    jobs = self.resolve_unknown_outcomes(jobs, &why).await;
                    if jobs.is_empty() {
                        return BatchEnd::Answered;
                    }
                }
                (error @ Error::Unavailable(_), None) => {
                    self.fail(jobs, &error);
                    return BatchEnd::Unreachable(error);
                }
                (error, _) if jobs.len() > 1 => return self.one_by_one(jobs, &error, queue).await,
                (error, _) => {
                    self.fail(jobs, &error);
                    return BatchEnd::Answered;
                }
            }
        }
    }

    /// Commits each job of a failed batch by itself, so that one job that the database rejects does not fail the
    /// others. Stops if the database cannot be reached.
    async fn one_by_one(&self, jobs: Vec<Job>, error: &Error, queue: &mut JobQueue) -> BatchEnd {
        tracing::warn!(%error, jobs = jobs.len(), "a batch failed; its jobs are committed one by one");
        let mut jobs = jobs.into_iter();
        // No other job joins a batch until each of these has been tried.
        let most = std::mem::replace(&mut queue.most, 1);
        let mut end = BatchEnd::Answered;
        while let Some(job) = jobs.next() {
            end = Box::pin(self.commit(vec![job], queue)).await;
            match &end {
                BatchEnd::Answered => {}
                BatchEnd::Stop => break,
                BatchEnd::Unreachable(error) => {
                    self.fail(jobs.by_ref().collect(), error);
                    break;
                }
            }
        }
        queue.most = most;
        end
    }

    async fn try_commit(
        &self,
        jobs: &mut Vec<Job>,
        queue: &mut JobQueue,
    ) -> Result<Vec<CommitReply>, CommitError> {
        let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = self.options.fault;
        let stop = fault == Some(CommitFault::StopBefore(number));
        let injected = || "injected fault".to_owned();
        let mut committing = None;
        let before_commit = || match fault {
            _ if stop => Err(Error::Failed(injected())),
            Some(CommitFault::Fail(n)) if n == number => Err(Error::Failed(injected())),
            Some(CommitFault::LoseConnectionBefore(n)) if n == number => Err(Error::Unknown(injected())),
            _ => {
                committing = Some(Instant::now());
                Ok(())
            }
        };
        let mut replies = match &jobs[..] {
            [alone] if !alone.work.is_batchable() => {
                let receipt = alone.receipt.as_deref();
                single_job::write(&self.tx, &alone.work, receipt, before_commit)
                    .await
                    .map(|reply| vec![reply])
            }
            _ => {
                let context = BatchContext { hooks: &self.observers.hooks, shard: self.shard };
                batch::write(&self.tx, context, jobs, |jobs| queue.take_late(jobs), before_commit).await
            }
        };
        if stop || (replies.is_ok() && fault == Some(CommitFault::StopAfter(number))) {
            return Err(CommitError::Stop);
        }
        if replies.is_ok() && fault == Some(CommitFault::LoseConnectionAfter(number)) {
            replies = Err(Error::Unknown(injected()));
        }
        let mut replies = replies?;
        queue.committed(jobs.len(), committing.map(|begun| begun.elapsed()).unwrap_or_default());
        self.observers.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.recheck_conflicts(jobs, &mut replies).await;
        Ok(replies)
    }

    /// Publishes the committed changes, then replies. The writer does this because the task of the caller may be
    /// cancelled by now.
    pub(super) fn publish(&self, jobs: Vec<Job>, replies: Vec<CommitReply>) {
        let counters = &self.observers.counters;
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, reply) in jobs.into_iter().zip(replies) {
            if let (Work::Changes(changes), CommitReply::Done) = (&job.work, &reply) {
                let moved =
                    changes.iter().map(|one| usize::from(one.mail.writes()) + one.runs_to_activate.len());
                let moved = moved.sum::<usize>();
                counters.rows.fetch_add((job.writes.len() + moved) as u64, Ordering::Relaxed);
                counters.changes.fetch_add(changes.len() as u64, Ordering::Relaxed);
                if job.writes.iter().any(|row| row.sql == awaited::INSERT) {
                    // The awaited event may have arrived before the interrupt.
                    self.observers.bus.work.raise();
                }
                for (change, size) in changes.iter().zip(&job.sizes) {
                    self.observers.announce(change, *size);
                }
            }
            if let Work::Mail(op) = &job.work
                && self.observers.bus.work.mailbox_changed(op, &reply)
            {
                self.observers.signal_work_to_peers();
            }
            let answer = match reply {
                CommitReply::OutcomeUnknown(why) => {
                    self.observers.signal_work();
                    Err(Error::Unknown(why))
                }
                reply => Ok(reply),
            };
            if let (Work::Changes(changes), Ok(CommitReply::Conflict(Precondition::Claim))) =
                (&job.work, &answer)
                && changes.iter().any(|change| matches!(change.mail, MailboxAction::ClaimAction { .. }))
            {
                // The worker has lost the claim. If an interruption of the thread ended the claim in this commit, a worker
                // must reconcile the dispatch.
                self.observers.signal_work();
            }
            answers.push(PendingReply { caller: job.reply, reply: answer });
        }
        self.observers.send_replies(answers);
    }

    pub(super) fn fail(&self, jobs: Vec<Job>, error: &Error) {
        tracing::error!(%error, jobs = jobs.len(), "a commit failed; its callers get the error");
        if matches!(error, Error::Unknown(_)) {
            // The changes may be stored although the commit failed.
            self.observers.signal_work();
        }
        for job in jobs {
            if let Work::Changes(changes) = &job.work {
                changes.iter().for_each(|change| self.observers.cache.forget(&change.of));
            }
            let _ = job.reply.send(Err(error.copied()));
        }
    }
}

/// A reply that is ready to be sent.
struct PendingReply {
    caller: oneshot::Sender<Result<CommitReply, Error>>,
    reply: Result<CommitReply, Error>,
}

impl CommitObservers {
    /// Replies to the callers. If they are on other threads, one task there wakes all of them: one system call
    /// instead of one for each caller.
    fn send_replies(&self, answers: Vec<PendingReply>) {
        let send = |answers: Vec<PendingReply>| {
            for PendingReply { caller, reply } in answers {
                // A caller that was cancelled has dropped its receiver.
                let _ = caller.send(reply);
            }
        };
        match &self.callers {
            Some(callers) if answers.len() > 1 => drop(callers.spawn(async move { send(answers) })),
            _ => send(answers),
        }
    }

    fn announce(&self, change: &Change, size: usize) {
        if change.has_events() {
            self.cache.put(&change.of, change.after.clone(), size);
            self.cache.recent.put(change, size);
            self.bus.publish(&change.of, change.after.seq);
            self.measures.count(change);
            self.feed.publish(|| committed(change));
            self.hooks.notify_committed(change);
            if !change.history.is_empty() || pending::concerns(&change.after, &change.events) {
                self.bus.publish_pending(&change.of.tenant);
            }
        }
        if let MailboxAction::HandOff(pending_claim) = &change.mail
            && pending_claim.is_claimed()
        {
            pending_claim.send(&change.after);
        }
        let mut work = self.bus.work.change_committed(&change.mail, &change.obligations);
        // The worker passes side questions to the answerer.
        let asked = change.events.iter().any(|event| matches!(event, Event::AskRaised { .. }));
        if asked || !change.runs_to_activate.is_empty() {
            self.bus.work.raise();
            work = true;
        }
        if let Some(outbox) = &self.outbox {
            outbox.note_run(&change.of);
            if work {
                outbox.note_work();
            }
        }
        if let Some(thread) = change.started_in_thread() {
            let thread = (change.of.tenant.clone(), thread.to_owned());
            self.bus.publish_thread(&thread);
            if let Some(outbox) = &self.outbox {
                outbox.note_thread_run(&thread);
            }
        }
    }

    fn signal_work(&self) {
        self.bus.work.raise();
        self.signal_work_to_peers();
    }

    fn signal_work_to_peers(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.note_work();
        }
    }
}

fn committed(change: &Change) -> RunCommit {
    RunCommit {
        of: change.of.clone(),
        from: change.from.clone(),
        run: change.after.clone(),
        events: change.events.to_vec(),
        at: change.at,
    }
}
