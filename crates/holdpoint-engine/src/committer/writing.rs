//! The loop behind a queue: take what waits, write it, tell everybody. What fails together is tried alone; what the
//! connection lost is looked up before it is tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdpoint_core::Event;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::work::{Change, Guard, Job, Mail, Reply, Work};
use super::{flow, solo};
use crate::bus::Bus;
use crate::feed::{Committed, Feed};
use crate::measures::Measures;
use crate::peers::Outbox;
use crate::run_cache::RunCache;
use crate::store::{Error, Tx, awaited, pending, usage};
use crate::webhooks::Hooks;

/// How many jobs share one transaction at most.
const BATCH_MAX: usize = 512;
/// After this long without work the database may tidy up.
const IDLE: Duration = Duration::from_millis(500);
/// How long a batch waits for a database that cannot be reached, in all about ten seconds.
const RECONNECT_WAITS: [u64; 14] =
    [20, 50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000];

const BUSY_WAIT_MAX: u64 = 400;

/// Counts for whoever measures.
#[derive(Debug, Default)]
pub struct Counters {
    pub commits: AtomicU64,
    pub changes: AtomicU64,
    pub rows: AtomicU64,
    /// Times that somebody waited for the database to answer, for writing or reading.
    pub round_trips: AtomicU64,
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
    /// The connection is lost before the commit arrives, or after it was done and before anybody heard of it. Nobody
    /// can tell one from the other.
    LoseBefore(u64),
    LoseAfter(u64),
}

/// Troubles that are wanted, and how much may share a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Troubles {
    pub fault: Option<Fault>,
    pub batch_max: Option<usize>,
}

/// Who hears of a commit.
#[derive(Clone, Debug)]
pub(crate) struct Audience {
    pub cache: Arc<RunCache>,
    pub bus: Arc<Bus>,
    pub counters: Arc<Counters>,
    pub measures: Arc<Measures>,
    pub feed: Arc<Feed>,
    /// Those who want to be told of events.
    pub hooks: Arc<Hooks>,
    /// The other nodes, where there may be some.
    pub outbox: Option<Arc<Outbox>>,
    /// Where the callers live, when that is not where commits are made.
    pub callers: Option<Handle>,
}

pub(crate) struct Writing<T> {
    pub(super) tx: T,
    pub(super) audience: Audience,
    troubles: Troubles,
    tries: AtomicU64,
    /// The row of each tenant's usage that this writer adds to.
    shard: i64,
}

/// Why a commit did not happen.
enum Trouble {
    /// The writer was told to stop here.
    Stop,
    Store(Error),
}

/// How writing some jobs ended. All of them are answered, unless the writer was told to stop.
enum End {
    Going,
    Stop,
    /// The database cannot be reached, and it was waited for.
    Away(Error),
}

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<T: Tx> Writing<T> {
    pub(super) fn new(tx: T, audience: Audience, troubles: Troubles) -> Self {
        Self { tx, audience, troubles, tries: AtomicU64::new(0), shard: usage::random_shard() }
    }

    /// What must be true before the first job is written.
    pub(super) async fn prepare(&self, works: Vec<Work>) -> Result<(), Error> {
        for work in works {
            solo::write(&self.tx, &work, None, || Ok(())).await?;
        }
        Ok(())
    }

    pub(super) async fn run(self, jobs: Receiver<Job>) {
        let most = self.troubles.batch_max.unwrap_or(BATCH_MAX).max(1);
        let mut inbox = Inbox::new(jobs, most);
        while self.wait(&mut inbox).await {
            let mut together = Vec::new();
            inbox.take(&mut together);
            let mut end =
                if together.is_empty() { End::Going } else { self.commit(together, &mut inbox).await };
            while !matches!(end, End::Stop)
                && let Some(job) = inbox.alone.pop_front()
            {
                end = self.commit(vec![job], &mut inbox).await;
            }
            if matches!(end, End::Stop) {
                return;
            }
        }
        self.tx.idle();
    }

    /// Tidies up once when nothing has come for a while, then waits until somebody has work. False when nobody will.
    async fn wait(&self, inbox: &mut Inbox) -> bool {
        match tokio::time::timeout(IDLE, inbox.wait()).await {
            Ok(somebody) => somebody,
            Err(_) => {
                self.tx.idle();
                inbox.wait().await
            }
        }
    }

    /// Writes jobs and answers them, whatever it takes.
    async fn commit(&self, mut jobs: Vec<Job>, inbox: &mut Inbox) -> End {
        let mut waits = RECONNECT_WAITS.iter();
        loop {
            let error = match self.try_commit(&mut jobs, inbox).await {
                Ok(replies) => {
                    self.publish(jobs, replies);
                    return End::Going;
                }
                Err(Trouble::Stop) => return End::Stop,
                Err(Trouble::Store(error)) => error,
            };
            self.tx.rollback().await;
            match (error, waits.next()) {
                (Error::Unavailable(_), Some(wait)) => sleep_ms(*wait).await,
                // Two transactions were in each other's way, and this one had to give in.
                (Error::Busy, Some(wait)) if jobs.len() == 1 && *wait < BUSY_WAIT_MAX => {
                    sleep_ms(*wait).await;
                }
                (Error::Unknown(why), Some(_)) => {
                    jobs = self.settle_doubts(jobs, &why).await;
                    if jobs.is_empty() {
                        return End::Going;
                    }
                }
                (error @ Error::Unavailable(_), None) => {
                    self.fail(jobs, &error);
                    return End::Away(error);
                }
                (error, _) if jobs.len() > 1 => return self.one_by_one(jobs, &error, inbox).await,
                (error, _) => {
                    self.fail(jobs, &error);
                    return End::Going;
                }
            }
        }
    }

    /// One change that the database will not take must not take others down with it: each is tried by itself, for as
    /// long as there is a database.
    async fn one_by_one(&self, jobs: Vec<Job>, error: &Error, inbox: &mut Inbox) -> End {
        tracing::warn!(%error, jobs = jobs.len(), "a batch failed; its changes are written one by one");
        let mut jobs = jobs.into_iter();
        // Each really alone: nobody joins until the culprit is found.
        let most = std::mem::replace(&mut inbox.most, 1);
        let mut end = End::Going;
        while let Some(job) = jobs.next() {
            end = Box::pin(self.commit(vec![job], inbox)).await;
            match &end {
                End::Going => {}
                End::Stop => break,
                End::Away(error) => {
                    self.fail(jobs.by_ref().collect(), error);
                    break;
                }
            }
        }
        inbox.most = most;
        end
    }

    async fn try_commit(&self, jobs: &mut Vec<Job>, inbox: &mut Inbox) -> Result<Vec<Reply>, Trouble> {
        let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = self.troubles.fault;
        let stop = fault == Some(Fault::StopBefore(number));
        let told = || "told to".to_owned();
        let mut committing = None;
        let pause = || match fault {
            _ if stop => Err(Error::Failed(told())),
            Some(Fault::Fail(n)) if n == number => Err(Error::Failed(told())),
            Some(Fault::LoseBefore(n)) if n == number => Err(Error::Unknown(told())),
            _ => {
                committing = Some(Instant::now());
                Ok(())
            }
        };
        let mut replies = match &jobs[..] {
            [alone] if !alone.work.flows() => {
                let receipt = alone.receipt.as_deref();
                solo::write(&self.tx, &alone.work, receipt, pause).await.map(|reply| vec![reply])
            }
            _ => {
                let world = (&*self.audience.hooks, self.shard);
                flow::write(&self.tx, world, jobs, |jobs| inbox.take_late(jobs), pause).await
            }
        };
        if stop || (replies.is_ok() && fault == Some(Fault::StopAfter(number))) {
            return Err(Trouble::Stop);
        }
        if replies.is_ok() && fault == Some(Fault::LoseAfter(number)) {
            replies = Err(Error::Unknown(told()));
        }
        let mut replies = replies?;
        inbox.committed(jobs.len(), committing.map(|begun| begun.elapsed()).unwrap_or_default());
        self.audience.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.confirm(jobs, &mut replies).await;
        Ok(replies)
    }

    /// Makes what is committed visible, then answers. Here and not in the caller's task, which may be gone by now.
    pub(super) fn publish(&self, jobs: Vec<Job>, replies: Vec<Reply>) {
        let counters = &self.audience.counters;
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, reply) in jobs.into_iter().zip(replies) {
            if let (Work::Changes(changes), Reply::Done) = (&job.work, &reply) {
                let moved = changes.iter().map(|one| usize::from(one.mail.writes()) + one.nudges.len());
                let moved = moved.sum::<usize>();
                counters.rows.fetch_add((job.writes.len() + moved) as u64, Ordering::Relaxed);
                counters.changes.fetch_add(changes.len() as u64, Ordering::Relaxed);
                if job.writes.iter().any(|row| row.sql == awaited::INSERT) {
                    // The event may have been first.
                    self.audience.bus.work.raise();
                }
                for (change, size) in changes.iter().zip(&job.sizes) {
                    self.audience.tell(change, *size);
                }
            }
            if let Work::Mail(op) = &job.work
                && self.audience.bus.work.operated(op, &reply)
            {
                self.audience.tell_others_of_work();
            }
            let answer = match reply {
                Reply::Unsure(why) => {
                    self.audience.tell_of_work();
                    Err(Error::Unknown(why))
                }
                reply => Ok(reply),
            };
            if let (Work::Changes(changes), Ok(Reply::Conflict(Guard::Claim))) = (&job.work, &answer)
                && changes.iter().any(|change| matches!(change.mail, Mail::Held { .. }))
            {
                // The claim is not its holder's any more, and may have ended just now: an interrupt has overtaken it.
                self.audience.tell_of_work();
            }
            answers.push((job.reply, answer));
        }
        self.audience.answer(answers);
    }

    pub(super) fn fail(&self, jobs: Vec<Job>, error: &Error) {
        tracing::error!(%error, jobs = jobs.len(), "a commit failed; its callers are told");
        if matches!(error, Error::Unknown(_)) {
            // It may have landed all the same.
            self.audience.tell_of_work();
        }
        for job in jobs {
            if let Work::Changes(changes) = &job.work {
                changes.iter().for_each(|change| self.audience.cache.forget(&change.of));
            }
            let _ = job.reply.send(Err(error.again()));
        }
    }
}

type Answer = (oneshot::Sender<Result<Reply, Error>>, Result<Reply, Error>);

impl Audience {
    /// Many callers on other threads are woken by one of them: that is one call of the system instead of one each.
    fn answer(&self, answers: Vec<Answer>) {
        let send = |answers: Vec<Answer>| {
            for (caller, answer) in answers {
                // One that went away is no longer interested.
                let _ = caller.send(answer);
            }
        };
        match &self.callers {
            Some(callers) if answers.len() > 1 => drop(callers.spawn(async move { send(answers) })),
            _ => send(answers),
        }
    }

    fn tell(&self, change: &Change, size: usize) {
        if !change.is_silent() {
            self.cache.put(&change.of, change.after.clone(), size);
            self.cache.recent.put(change, size);
            self.bus.publish(&change.of, change.after.seq);
            self.measures.count(change);
            self.feed.tell(|| committed(change));
            self.hooks.tell(change);
            if !change.history.is_empty() || pending::concerns(&change.after, &change.events) {
                self.bus.publish_waiting(&change.of.tenant);
            }
        }
        if let Mail::Take(taking) = &change.mail
            && taking.is_taken()
        {
            taking.give(&change.after);
        }
        let mut work = self.bus.work.changed(&change.mail, &change.obligations);
        // Questions of approvers are brought to whoever answers them.
        let asked = change.events.iter().any(|event| matches!(event, Event::AskRaised { .. }));
        if asked || !change.nudges.is_empty() {
            self.bus.work.raise();
            work = true;
        }
        if let Some(outbox) = &self.outbox {
            outbox.note(&change.of, work);
        }
        if let Some(thread) = change.begins_in_thread() {
            let thread = (change.of.tenant.clone(), thread.to_owned());
            self.bus.publish_begun(&thread);
            if let Some(outbox) = &self.outbox {
                outbox.note_begun(&thread);
            }
        }
    }

    fn tell_of_work(&self) {
        self.bus.work.raise();
        self.tell_others_of_work();
    }

    fn tell_others_of_work(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.note_work();
        }
    }
}

fn committed(change: &Change) -> Committed {
    Committed {
        of: change.of.clone(),
        from: change.from.clone(),
        run: change.after.clone(),
        events: change.events.to_vec(),
        at: change.at,
    }
}
