//! The one function that writes. Everything that waits is written in one transaction and answered after its fsync;
//! what queues up meanwhile is the next batch. Nobody waits to fill one, but for those who have just been answered.

use std::sync::{Mutex, PoisonError, RwLock};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::oneshot;

use crate::store::receipts::{Key, Receipt};
use crate::store::{self, Statement, Tx};

mod doubts;
mod flow;
mod guards;
mod inbox;
mod locks;
mod mail;
mod receipts;
mod solo;
mod work;
mod writing;

pub(crate) use mail::result;
use work::Job;
pub(crate) use work::{Cause, Change, Claim, ClaimOrder, Guard, Mail, MailOp, Reply, Work};
use writing::Writing;
pub(crate) use writing::{Audience, Troubles};
pub use writing::{Counters, Fault};

/// How many jobs may wait; beyond that callers are told to come back.
const QUEUE_MAX: usize = 8192;
/// Jobs that make a good batch; what comes on top of them can go to somebody else.
const ENOUGH: usize = 64;

#[derive(Debug)]
pub(crate) struct Committer {
    /// One queue for each that writes; none once the committer is closed.
    queues: RwLock<Vec<Sender<Job>>>,
    writers: Mutex<Vec<Hand>>,
}

/// Somebody who writes what comes out of a queue.
#[derive(Debug)]
enum Hand {
    Thread(std::thread::JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

impl Committer {
    /// One writer on a thread of its own, because the database's calls block. It does `first` before anything else.
    pub(crate) async fn on_thread<T: Tx + Send + 'static>(
        tx: T,
        audience: Audience,
        troubles: Troubles,
        first: Vec<Work>,
    ) -> Result<Self, store::Error> {
        let (sender, jobs) = channel(QUEUE_MAX);
        let writing = Writing::new(tx, audience, troubles);
        let no_thread = |error: std::io::Error| store::Error::Failed(format!("no thread to write: {error}"));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(no_thread)?;
        let thread = std::thread::Builder::new().name("holdpoint-committer".to_owned());
        let (prepared, ready) = oneshot::channel();
        let life = move || {
            let done = runtime.block_on(writing.prepare(first));
            let failed = done.is_err();
            // Whoever opens the store waits for this.
            let _ = prepared.send(done);
            if !failed {
                runtime.block_on(writing.run(jobs));
            }
        };
        let thread = thread.spawn(life).map_err(no_thread)?;
        ready.await.map_err(|_| store::Error::Closed)??;
        Ok(Self { queues: RwLock::new(vec![sender]), writers: Mutex::new(vec![Hand::Thread(thread)]) })
    }

    /// Several writers, each with a connection. The next one is used when the ones before it have enough to do.
    pub(crate) fn on_tasks<T: Tx + Send + Sync + 'static>(
        connections: Vec<T>,
        audience: &Audience,
        troubles: Troubles,
    ) -> Self {
        let mut queues = Vec::new();
        let mut writers = Vec::new();
        for tx in connections {
            let (sender, jobs) = channel(QUEUE_MAX);
            let writing = Writing::new(tx, audience.clone(), troubles);
            queues.push(sender);
            writers.push(Hand::Task(tokio::spawn(writing.run(jobs))));
        }
        Self { queues: RwLock::new(queues), writers: Mutex::new(writers) }
    }

    /// Whether somebody is there to write.
    pub(crate) fn is_alive(&self) -> bool {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        !writers.is_empty()
            && writers.iter().all(|hand| match hand {
                Hand::Thread(thread) => !thread.is_finished(),
                Hand::Task(task) => !task.is_finished(),
            })
    }

    /// With a receipt, the work is done if nothing stands under the receipt's key yet; and the receipt is written if
    /// the work is done.
    pub(crate) async fn submit(
        &self,
        work: Work,
        receipt: Option<Box<(Key, Receipt)>>,
    ) -> Result<Reply, crate::Error> {
        let (writes, sizes) = writes(&work)?;
        let (reply, answer) = oneshot::channel();
        self.send(Job { work, receipt, writes, sizes, doubtful: false, reply })?;
        Ok(answer.await.map_err(|_| store::Error::Closed)??)
    }

    fn send(&self, job: Job) -> Result<(), crate::Error> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        // Sharing a commit is cheaper than having one's own, up to a point.
        let waiting = |queue: &&Sender<Job>| queue.max_capacity() - queue.capacity();
        let free = queues.iter().find(|queue| waiting(queue) < ENOUGH);
        let queue = free.or_else(|| queues.iter().min_by_key(waiting)).ok_or(store::Error::Closed)?;
        match queue.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(crate::Error::Busy),
            Err(TrySendError::Closed(_)) => Err(store::Error::Closed.into()),
        }
    }

    /// Takes no further work and waits until everything submitted is written.
    pub(crate) async fn close(&self) {
        self.queues.write().unwrap_or_else(PoisonError::into_inner).clear();
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        for hand in writers {
            let panicked = match hand {
                Hand::Thread(thread) => {
                    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
                    !matches!(joined, Ok(Ok(())))
                }
                Hand::Task(task) => task.await.is_err(),
            };
            if panicked {
                tracing::error!("a committer panicked");
            }
        }
    }
}

/// The rows of the changes besides their dispatches, and the size of the events of each.
fn writes(work: &Work) -> Result<(Vec<Statement>, Vec<usize>), store::Error> {
    let Work::Changes(changes) = work else { return Ok((Vec::new(), Vec::new())) };
    let mut statements = Vec::with_capacity(6 * changes.len());
    let mut sizes = Vec::with_capacity(changes.len());
    for change in changes {
        sizes.push(if change.is_silent() { 0 } else { add_writes(change, &mut statements)? });
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
    if change.is_birth() {
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
    statements.extend(change.cause.iter().map(|cause| cause.key.used(&cause.outcome)));
    Ok(bytes)
}
