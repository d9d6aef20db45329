//! The committer: the only component that writes. It writes the queued jobs in one transaction and replies after the
//! fsync; the jobs that arrive meanwhile are the next batch. A batch waits for more jobs only if callers that were just
//! answered are likely to send their next job at once.

use std::sync::{Mutex, PoisonError, RwLock};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::oneshot;

use crate::store::receipts::NewReceipt;
use crate::store::{self, Statement, Tx};

mod batch;
mod commit_loop;
mod dispatch_rows;
mod job_queue;
mod lock_set;
mod locks;
mod options;
mod preconditions;
mod receipts;
mod single_job;
mod unknown_outcome;
mod work;

use commit_loop::CommitLoop;
pub(crate) use commit_loop::CommitObservers;
pub use commit_loop::Counters;
pub(crate) use dispatch_rows::dispatch_result;
pub use options::CommitFault;
pub(crate) use options::CommitterOptions;
pub use work::ClaimToken;
use work::Job;
pub(crate) use work::{
    ArrivalCause, Change, Claim, ClaimOrder, CommitReply, LapsedClaims, MailboxAction, MailboxOp,
    Precondition, Work,
};

/// The capacity of a queue. If it is full, callers get `Busy`.
const QUEUE_MAX: usize = 8192;
/// If a queue has this many jobs, further jobs go to the next writer.
const BATCH_TARGET: usize = 64;

#[derive(Debug)]
pub(crate) struct Committer {
    /// One queue for each writer; empty once the committer is closed.
    queues: RwLock<Vec<Sender<Job>>>,
    writers: Mutex<Vec<WriterHandle>>,
}

/// The thread or task that writes the jobs of one queue.
#[derive(Debug)]
enum WriterHandle {
    Thread(std::thread::JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

impl Committer {
    /// Starts one writer on a thread of its own, because calls to the database block the thread. The writer writes
    /// `first` before any job; the call returns after that.
    pub(crate) async fn on_thread<T: Tx + Send + 'static>(
        tx: T,
        observers: CommitObservers,
        options: CommitterOptions,
        first: Vec<Work>,
    ) -> Result<Self, store::Error> {
        let (sender, jobs) = channel(QUEUE_MAX);
        let commit_loop = CommitLoop::new(tx, observers, options);
        let no_thread =
            |error: std::io::Error| store::Error::Failed(format!("cannot start the committer: {error}"));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(no_thread)?;
        let thread = std::thread::Builder::new().name("holdpoint-committer".to_owned());
        let (prepared, ready) = oneshot::channel();
        let main = move || {
            let done = runtime.block_on(commit_loop.prepare(first));
            let failed = done.is_err();
            // `on_thread` waits for this. An error means that its caller was cancelled.
            let _ = prepared.send(done);
            if !failed {
                runtime.block_on(commit_loop.run(jobs));
            }
        };
        let thread = thread.spawn(main).map_err(no_thread)?;
        ready.await.map_err(|_| store::Error::Closed)??;
        Ok(Self {
            queues: RwLock::new(vec![sender]),
            writers: Mutex::new(vec![WriterHandle::Thread(thread)]),
        })
    }

    /// Starts several writers, each with a connection of its own. A job goes to the first writer whose queue is
    /// below `BATCH_TARGET`, or to the one with the shortest queue.
    pub(crate) fn on_tasks<T: Tx + Send + Sync + 'static>(
        connections: Vec<T>,
        observers: &CommitObservers,
        options: CommitterOptions,
    ) -> Self {
        let mut queues = Vec::new();
        let mut writers = Vec::new();
        for tx in connections {
            let (sender, jobs) = channel(QUEUE_MAX);
            let commit_loop = CommitLoop::new(tx, observers.clone(), options);
            queues.push(sender);
            writers.push(WriterHandle::Task(tokio::spawn(commit_loop.run(jobs))));
        }
        Self { queues: RwLock::new(queues), writers: Mutex::new(writers) }
    }

    /// Returns true if all writers run.
    pub(crate) fn is_alive(&self) -> bool {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        !writers.is_empty()
            && writers.iter().all(|handle| match handle {
                WriterHandle::Thread(thread) => !thread.is_finished(),
                WriterHandle::Task(task) => !task.is_finished(),
            })
    }

    /// Queues the work and waits for its reply. With a receipt, the work is done only if its key is free, and the
    /// receipt is written only if the work is done. Fails with `Duplicate` if the key is in use, and with `ScopeBusy` if
    /// the work starts a run in a scope that has an unfinished run.
    pub(crate) async fn submit(
        &self,
        work: Work,
        receipt: Option<Box<NewReceipt>>,
    ) -> Result<CommitReply, crate::Error> {
        let (writes, sizes) = writes(&work)?;
        let (reply, answer) = oneshot::channel();
        self.enqueue(Job { work, receipt, writes, sizes, outcome_unknown: false, reply })?;
        match answer.await.map_err(|_| store::Error::Closed)?? {
            CommitReply::Duplicate(receipt) => Err(crate::Error::Duplicate(receipt)),
            CommitReply::ScopeBusy(active_run) => Err(crate::Error::ScopeBusy { active_run }),
            CommitReply::KeyInUse(error) => Err(error.into()),
            reply => Ok(reply),
        }
    }

    fn enqueue(&self, job: Job) -> Result<(), crate::Error> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        // Up to this batch size, a shared commit is cheaper than a separate one.
        let waiting = |queue: &&Sender<Job>| queue.max_capacity() - queue.capacity();
        let free = queues.iter().find(|queue| waiting(queue) < BATCH_TARGET);
        let queue = free.or_else(|| queues.iter().min_by_key(waiting)).ok_or(store::Error::Closed)?;
        match queue.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(crate::Error::Busy),
            Err(TrySendError::Closed(_)) => Err(store::Error::Closed.into()),
        }
    }

    /// Accepts no further work and waits until all submitted work is written.
    pub(crate) async fn close(&self) {
        self.queues.write().unwrap_or_else(PoisonError::into_inner).clear();
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in writers {
            let panicked = match handle {
                WriterHandle::Thread(thread) => {
                    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
                    !matches!(joined, Ok(Ok(())))
                }
                WriterHandle::Task(task) => task.await.is_err(),
            };
            if panicked {
                tracing::error!("a committer panicked");
            }
        }
    }
}

/// Returns the statements of the changes without those of their dispatches, and the bytes of events of each change.
fn writes(work: &Work) -> Result<(Vec<Statement>, Vec<usize>), store::Error> {
    let Work::Changes(changes) = work else { return Ok((Vec::new(), Vec::new())) };
    let mut statements = Vec::with_capacity(6 * changes.len());
    let mut sizes = Vec::with_capacity(changes.len());
    for change in changes {
        sizes.push(if change.has_events() { add_writes(change, &mut statements)? } else { 0 });
    }
    Ok((statements, sizes))
}

fn add_writes(change: &Change, statements: &mut Vec<Statement>) -> Result<usize, store::Error> {
    let Change { of, after, .. } = change;
    statements.push(store::runs::write(of, change.before, after));
    let (mut seq, mut bytes) = (change.before, 0);
    let own = std::iter::once((change.at, &*change.events)).filter(|(_, events)| !events.is_empty());
    for (at, events) in change.history.iter().map(|(at, events)| (*at, events.as_slice())).chain(own) {
        let (append, size) = store::events::append(of, seq, events, at)?;
        statements.push(append);
        seq += events.len() as u64;
        bytes += size;
    }
    if change.starts_run() {
        statements.extend(store::runs::tag(of, after));
    }
    if change.history.is_empty() {
        statements.extend(store::pending::write(of, after, &change.events));
        statements.extend(store::awaited::write(of, after, &change.events));
    } else {
        statements.extend(store::pending::write_open(of, after));
        statements.extend(store::awaited::write_open(of, after));
    }
    statements.extend(store::messages::write(of, change)?);
    statements.extend(store::handles::write(of, change));
    statements.extend(store::timers::write(of, &change.obligations));
    statements.extend(store::dispatches::cancel_delayed(change));
    statements.extend(change.cause.iter().map(|cause| cause.key.mark_used(&cause.outcome)));
    statements.extend(change.rows.iter().cloned());
    Ok(bytes)
}
