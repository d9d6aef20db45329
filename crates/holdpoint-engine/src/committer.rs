//! The one function that writes. Everything that waits is written in one transaction and answered after its fsync;
//! what queues up meanwhile is the next batch. Nobody sleeps to fill one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use holdpoint_core::{Event, Obligation, Run, RunRef, Timestamp};
use tokio::sync::oneshot;

use crate::bus::Bus;
use crate::run_cache::RunCache;
use crate::store::dispatches::{self, Claim, Mail};
use crate::store::sqlite::Writer;
use crate::store::{self, Guard, Statement, params};

/// How many jobs may wait; beyond that callers are told to come back.
const QUEUE_MAX: usize = 8192;
/// How many jobs share one transaction at most.
const BATCH_MAX: usize = 512;
/// After this long without work the log is folded into the database, so that it stays small on disk.
const IDLE: Duration = Duration::from_millis(500);

/// Everything that happens to one run at one instant: all of it or none.
#[derive(Debug)]
pub(crate) struct Change {
    pub of: RunRef,
    /// The number of events the change was decided on.
    pub before: u64,
    pub after: Arc<Run>,
    pub events: Vec<Event>,
    pub obligations: Vec<Obligation>,
    pub mail: Mail,
    pub at: Timestamp,
}

/// Asks for dispatches to work on.
#[derive(Clone, Debug)]
pub(crate) struct ClaimOrder {
    pub consumer: String,
    pub token_prefix: String,
    pub lease_until: Timestamp,
    pub now: Timestamp,
    pub limit: u64,
}

#[derive(Debug)]
pub(crate) enum Work {
    Change(Box<Change>),
    Claim(ClaimOrder),
    /// Statements that belong to no run: keys and definitions.
    Plain(Vec<Statement>),
}

#[derive(Debug)]
pub(crate) enum Reply {
    /// Committed; the number of rows that were touched.
    Done(usize),
    Claimed(Vec<Claim>),
    /// The guard that did not hold; nothing of this change was written.
    Conflict(Guard),
}

#[derive(Debug)]
struct Job {
    work: Work,
    statements: Vec<Statement>,
    size: usize,
    reply: oneshot::Sender<Result<Reply, store::Error>>,
}

/// Counts for whoever measures.
#[derive(Debug, Default)]
pub struct Counters {
    pub commits: AtomicU64,
    pub changes: AtomicU64,
    pub rows: AtomicU64,
}

/// What goes wrong at the writer's n-th try to commit: for tests of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It stops before the commit, as a crash would.
    StopBefore(u64),
    /// It stops after the commit and before anybody is told.
    StopAfter(u64),
    /// The commit fails, as on a full disk, and the next one works again.
    Fail(u64),
}

#[derive(Debug)]
pub(crate) struct Committer {
    /// Gone once the committer is closed.
    jobs: RwLock<Option<SyncSender<Job>>>,
    pub counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    pub(crate) fn start(
        writer: Writer,
        cache: Arc<RunCache>,
        bus: Arc<Bus>,
        fault: Option<Fault>,
    ) -> Result<Self, store::Error> {
        let (sender, jobs) = sync_channel(QUEUE_MAX);
        let counters = Arc::new(Counters::default());
        let writing =
            Writing { writer, cache, bus, counters: counters.clone(), tries: AtomicU64::new(0), fault };
        let thread = std::thread::Builder::new().name("holdpoint-committer".to_owned());
        let handle = thread.spawn(move || writing.run(&jobs));
        let handle = handle.map_err(|error| store::Error::Failed(format!("no thread to write: {error}")))?;
        Ok(Self { jobs: RwLock::new(Some(sender)), counters, thread: Mutex::new(Some(handle)) })
    }

    /// Whether somebody is there to write.
    pub(crate) fn is_alive(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    pub(crate) async fn submit(&self, work: Work) -> Result<Reply, crate::Error> {
        let (statements, size) = statements(&work)?;
        let (reply, answer) = oneshot::channel();
        self.send(Job { work, statements, size, reply })?;
        Ok(answer.await.map_err(|_| store::Error::Closed)??)
    }

    fn send(&self, job: Job) -> Result<(), crate::Error> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        match jobs.as_ref().ok_or(store::Error::Closed)?.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(crate::Error::Busy),
            Err(TrySendError::Disconnected(_)) => Err(store::Error::Closed.into()),
        }
    }

    /// Takes no further work and waits until everything submitted is written.
    pub(crate) fn close(&self) {
        self.jobs.write().unwrap_or_else(PoisonError::into_inner).take();
        let handle = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = handle.map(JoinHandle::join) {
            tracing::error!("the committer's thread panicked");
        }
    }
}

/// The rows of a piece of work, guards first, and the size of the events among them.
fn statements(work: &Work) -> Result<(Vec<Statement>, usize), store::Error> {
    match work {
        Work::Plain(statements) => Ok((statements.clone(), 0)),
        Work::Claim(order) => {
            let values = params![
                order.token_prefix.as_str(),
                order.consumer.as_str(),
                order.lease_until,
                order.now,
                order.now,
                order.limit
            ];
            Ok((vec![Statement::new(dispatches::CLAIM, values)], 0))
        }
        Work::Change(change) => {
            let mut statements = Vec::with_capacity(8);
            statements.extend(dispatches::write(&change.of, &change.mail, change.at));
            if change.events.is_empty() {
                return Ok((statements, 0));
            }
            statements.push(store::runs::write(&change.of, change.before, &change.after));
            statements.sort_by_key(|statement| statement.guard.is_none());
            let (append, size) = store::events::append(&change.of, change.before, &change.events, change.at)?;
            statements.push(append);
            statements.extend(store::pending::write(&change.of, &change.after, &change.events));
            statements.extend(change.obligations.iter().filter_map(|o| store::timers::write(&change.of, o)));
            Ok((statements, size))
        }
    }
}

struct Writing {
    writer: Writer,
    cache: Arc<RunCache>,
    bus: Arc<Bus>,
    counters: Arc<Counters>,
    tries: AtomicU64,
    fault: Option<Fault>,
}

impl Writing {
    fn run(self, jobs: &Receiver<Job>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Some(job) = self.next_job(jobs) {
            batch.push(job);
            batch.extend(jobs.try_iter().take(BATCH_MAX - 1));
            if !self.commit(&mut batch) {
                return;
            }
        }
        self.checkpoint();
    }

    /// Tidies up once when nothing has come for a while, then sleeps until somebody has work.
    fn next_job(&self, jobs: &Receiver<Job>) -> Option<Job> {
        match jobs.recv_timeout(IDLE) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.checkpoint();
                jobs.recv().ok()
            }
        }
    }

    fn checkpoint(&self) {
        if let Err(error) = self.writer.checkpoint() {
            tracing::warn!(%error, "the log could not be folded into the database; it will be tried again");
        }
    }

    /// Writes a batch and answers it. False when the writer was told to stop here.
    fn commit(&self, batch: &mut Vec<Job>) -> bool {
        let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
        let written = self.write(batch);
        if self.fault == Some(Fault::StopBefore(number)) {
            return false;
        }
        let outcome = match self.fault {
            Some(Fault::Fail(n)) if n == number => Err(store::Error::Failed("told to fail".to_owned())),
            _ => written.and_then(|replies| self.writer.commit().map(|()| replies)),
        };
        match outcome {
            Ok(replies) => {
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                if self.fault == Some(Fault::StopAfter(number)) {
                    return false;
                }
                for (job, reply) in batch.drain(..).zip(replies) {
                    self.publish(job, reply);
                }
            }
            Err(error) => return self.isolate(batch, &error),
        }
        true
    }

    /// One change that the database will not take must not take others down with it: each is tried by itself.
    fn isolate(&self, batch: &mut Vec<Job>, error: &store::Error) -> bool {
        if batch.len() <= 1 {
            self.fail(batch, error);
            return true;
        }
        tracing::warn!(%error, jobs = batch.len(), "a batch failed; its changes are written one by one");
        self.rollback();
        batch.drain(..).all(|job| self.commit(&mut vec![job]))
    }

    fn rollback(&self) {
        if let Err(error) = self.writer.rollback() {
            tracing::error!(%error, "the transaction could not be rolled back");
        }
    }

    fn write(&self, batch: &[Job]) -> Result<Vec<Reply>, store::Error> {
        self.writer.begin()?;
        batch.iter().map(|job| self.write_job(job)).collect()
    }

    fn write_job(&self, job: &Job) -> Result<Reply, store::Error> {
        if let Work::Claim(_) = job.work {
            let rows = self.writer.returning(&job.statements[0])?;
            let mut claims = rows.iter().map(dispatches::read_claim).collect::<Result<Vec<_>, _>>()?;
            claims.sort_by(|a, b| a.dispatch_id.cmp(&b.dispatch_id));
            return Ok(Reply::Claimed(claims));
        }
        // Guards come first. One alone has written nothing when it fails; behind a second there is something to undo.
        let guards = job.statements.iter().filter(|statement| statement.guard.is_some()).count();
        if guards > 1 {
            self.writer.savepoint()?;
        }
        let mut rows = 0;
        for statement in &job.statements {
            let touched = self.writer.execute(statement)?;
            match statement.guard {
                Some(guard) if touched != 1 => {
                    if guards > 1 {
                        self.writer.undo()?;
                    }
                    return Ok(Reply::Conflict(guard));
                }
                _ => rows += touched,
            }
        }
        if guards > 1 {
            self.writer.release()?;
        }
        Ok(Reply::Done(rows))
    }

    /// Makes a committed change visible, then answers. Here and not in the caller's task, which may be gone by now.
    fn publish(&self, job: Job, reply: Reply) {
        if let Reply::Done(rows) = reply {
            self.counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
            self.counters.changes.fetch_add(1, Ordering::Relaxed);
        }
        if let (Work::Change(change), Reply::Done(_)) = (job.work, &reply) {
            if !change.events.is_empty() {
                self.cache.put(&change.of, change.after.clone(), job.size);
                self.bus.publish(&change.of, change.after.seq);
            }
            self.bus.remind(&change.mail, &change.obligations);
        }
        // A caller that went away is no longer interested.
        let _ = job.reply.send(Ok(reply));
    }

    fn fail(&self, batch: &mut Vec<Job>, error: &store::Error) {
        tracing::error!(%error, jobs = batch.len(), "a commit failed; its callers are told");
        self.rollback();
        for job in batch.drain(..) {
            if let Work::Change(change) = &job.work {
                self.cache.forget(&change.of);
            }
            let _ = job.reply.send(Err(store::Error::Failed(error.to_string())));
        }
    }
}
