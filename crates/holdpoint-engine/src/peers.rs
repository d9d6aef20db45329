//! Other nodes on the same database. What they change is heard of in two ways: a notification, which is a hint and
//! may be lost, and a look at the store now and then, which is what can be relied on.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_core::RunRef;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use crate::bus::Bus;
use crate::store::postgres::{Ear, Settings};
use crate::store::threads::Thread;
use crate::store::{Database, Error, dispatches, runs, threads};
use crate::webhooks::Hooks;

/// How often readers' runs are looked up, with and without somebody to tell us.
const LOOK_LISTENING: Duration = Duration::from_secs(1);
const LOOK_DEAF: Duration = Duration::from_millis(100);
/// Hints of this long go out together.
const GATHER: Duration = Duration::from_millis(10);
/// Hints that fit into a notification; beyond it everybody looks for themselves.
const HINTS_MAX: usize = 400;
/// How often a node says that it is there, and how long it is believed.
const HELLO: Duration = Duration::from_secs(1);
const BELIEVED_MS: i64 = 5000;
/// How long before a broken connection for listening is made anew.
const RETRY: Duration = Duration::from_millis(500);

/// What this node has to tell others.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    hints: Mutex<Hints>,
    filled: Notify,
    /// When another node was last heard of; while there is none, nothing is gathered.
    heard_ms: AtomicI64,
}

#[derive(Debug, Default)]
struct Hints {
    runs: HashSet<u64>,
    work: bool,
    /// Durable deliveries were left for other nodes.
    deliveries: bool,
}

impl Outbox {
    pub(crate) fn note(&self, of: &RunRef, work: bool) {
        if !self.somebody_listens() {
            return;
        }
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        hints.work |= work;
        if hints.runs.len() <= HINTS_MAX {
            hints.runs.insert(mark(of));
        }
        self.filled.notify_one();
    }

    /// A run has begun in a thread.
    pub(crate) fn note_begun(&self, thread: &Thread) {
        if self.somebody_listens() {
            let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
            hints.runs.insert(mark(thread));
            self.filled.notify_one();
        }
    }

    pub(crate) fn note_work(&self) {
        if self.somebody_listens() {
            self.hints.lock().unwrap_or_else(PoisonError::into_inner).work = true;
            self.filled.notify_one();
        }
    }

    pub(crate) fn note_deliveries(&self) {
        if self.somebody_listens() {
            self.hints.lock().unwrap_or_else(PoisonError::into_inner).deliveries = true;
            self.filled.notify_one();
        }
    }

    pub(crate) fn somebody_listens(&self) -> bool {
        elapsed_ms() - self.heard_ms.load(Ordering::Relaxed) < BELIEVED_MS
    }

    fn take(&self) -> Hints {
        std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts hints back that could not be sent.
    fn put_back(&self, unsent: Hints) {
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        hints.work |= unsent.work;
        hints.deliveries |= unsent.deliveries;
        hints.runs.extend(unsent.runs);
        self.filled.notify_one();
    }
}

/// Told to, or nobody is left who could.
fn stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}

/// A short name for a run or a thread, the same on every node.
fn mark(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Milliseconds of a clock that nobody sets, offset so that "never" is long ago.
fn elapsed_ms() -> i64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed().as_millis();
    i64::try_from(since).unwrap_or(i64::MAX).saturating_add(2 * BELIEVED_MS)
}

/// Listens for other nodes and tells them what happens here.
#[derive(Debug)]
pub(crate) struct Peers {
    pub db: Database,
    pub settings: Arc<Settings>,
    pub bus: Arc<Bus>,
    pub hooks: Arc<Hooks>,
}

impl Peers {
    /// Until told to stop. Whatever goes wrong here costs time, not truth.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) {
        let hears = AtomicBool::new(false);
        tokio::join!(self.keep_listening(&hears, stop.clone()), self.keep_looking(&hears, stop));
    }

    async fn keep_listening(&self, hears: &AtomicBool, mut stop: watch::Receiver<bool>) {
        let node = Uuid::now_v7().simple().to_string();
        while self.settings.notify && !stopped(&stop) {
            let ended = match Ear::open(&self.settings).await {
                Ok((ear, hints)) => {
                    hears.store(true, Ordering::Relaxed);
                    // Notifications before this moment were not received.
                    self.bus.work.raise();
                    self.listen(&node, &ear, hints, &mut stop).await
                }
                Err(error) => Err(error),
            };
            hears.store(false, Ordering::Relaxed);
            if let Err(error) = ended {
                tracing::debug!(%error, "not hearing of other nodes for a moment");
                let _ = tokio::time::timeout(RETRY, stop.changed()).await;
            }
        }
    }

    async fn listen(
        &self,
        node: &str,
        ear: &Ear,
        mut hints: mpsc::Receiver<String>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut hello = tokio::time::interval(HELLO);
        hello.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stopped(stop) {
            tokio::select! {
                hint = hints.recv() => match hint {
                    Some(hint) => self.hear(node, &hint),
                    None => return Err(Error::Unavailable("the connection for listening has ended".to_owned())),
                },
                () = self.bus.outbox.filled.notified() => {
                    tokio::time::sleep(GATHER).await;
                    self.tell(node, ear).await?;
                }
                _ = hello.tick() => ear.tell(&format!("{node} hello")).await?,
                _ = stop.changed() => {}
            }
        }
        // Others go on with what this node leaves behind.
        self.tell(node, ear).await
    }

    /// Tells others what happened here since the last time.
    async fn tell(&self, node: &str, ear: &Ear) -> Result<(), Error> {
        let hints = self.bus.outbox.take();
        let mut told = ear.tell(&line(node, &hints)).await;
        if told.is_ok() && hints.deliveries {
            // In a line of its own, which nodes of earlier versions ignore.
            told = ear.tell(&format!("{node} deliveries")).await;
        }
        if told.is_err() {
            self.bus.outbox.put_back(hints);
        }
        told
    }

    /// Looks now and then, and often while nobody could tell us. A question that gets no answer is asked again.
    async fn keep_looking(&self, hears: &AtomicBool, mut stop: watch::Receiver<bool>) {
        let (mut known, mut last) = (HashMap::new(), 0);
        while !stopped(&stop) {
            let pause = if hears.load(Ordering::Relaxed) { LOOK_LISTENING } else { LOOK_DEAF };
            let _ = tokio::time::timeout(pause, stop.changed()).await;
            let looked = async {
                self.look().await?;
                self.look_at_threads(&mut known).await?;
                self.look_at_dispatches(&mut last).await
            };
            if let Err(error) = looked.await {
                tracing::debug!(%error, "could not look for news of other nodes");
            }
        }
    }

    /// Wakes readers of runs that have grown somewhere else.
    async fn look(&self) -> Result<(), Error> {
        let watched = self.bus.watched();
        if watched.is_empty() {
            return Ok(());
        }
        let of: Vec<RunRef> = watched.iter().map(|(of, _)| of.clone()).collect();
        let found = runs::sequences(&self.db, &of).await?;
        let told: HashMap<RunRef, u64> = watched.into_iter().collect();
        for (of, seq) in found {
            if told.get(&of).is_some_and(|told| *told < seq) {
                self.bus.publish(&of, seq);
            }
        }
        Ok(())
    }

    /// Wakes those who follow threads in which runs have begun somewhere else. `known` is the newest run of each.
    async fn look_at_threads(&self, known: &mut HashMap<Thread, String>) -> Result<(), Error> {
        let followed: HashSet<Thread> = self.bus.followed().into_iter().collect();
        known.retain(|thread, _| followed.contains(thread));
        let unknown: Vec<Thread> = followed.into_iter().filter(|one| !known.contains_key(one)).collect();
        for thread in unknown {
            let newest = threads::newest(&self.db, &thread.0, &thread.1).await?;
            // It may have begun between the follower's look and this one.
            self.bus.publish_begun(&thread);
            known.insert(thread, newest.map(|run| run.to_string()).unwrap_or_default());
        }
        if known.is_empty() {
            return Ok(());
        }
        for (thread, newest) in threads::grown(&self.db, known).await? {
            self.bus.publish_begun(&thread);
            known.insert(thread, newest);
        }
        Ok(())
    }

    /// Wakes those who watch what waits when any run was activated somewhere: nothing is opened or closed without that.
    async fn look_at_dispatches(&self, last: &mut u64) -> Result<(), Error> {
        let watched = self.bus.waited_in();
        if watched.is_empty() {
            return Ok(());
        }
        let newest = dispatches::newest(&self.db).await?;
        if std::mem::replace(last, newest) != newest {
            watched.iter().for_each(|tenant| self.bus.publish_waiting(tenant));
        }
        Ok(())
    }

    /// A hint of another node: who, what, and the runs it is about.
    fn hear(&self, node: &str, hint: &str) {
        let mut words = hint.split(' ');
        if words.next() == Some(node) {
            return;
        }
        if !self.bus.outbox.somebody_listens() {
            // A node that has just started must hear of this one before it sends hints.
            self.bus.outbox.filled.notify_one();
        }
        self.bus.outbox.heard_ms.store(elapsed_ms(), Ordering::Relaxed);
        match words.next() {
            Some("work") => self.bus.work.raise(),
            Some("runs") => {}
            Some("deliveries") => return self.hooks.wake_for_durable(),
            _ => return,
        }
        let words: Vec<&str> = words.collect();
        let all = words.contains(&"all");
        let marks: HashSet<u64> =
            words.iter().filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
        for (of, told) in self.bus.watched() {
            if all || marks.contains(&mark(&of)) {
                // How far it has grown the reader finds out; that it has, it must be told.
                self.bus.publish(&of, told);
            }
        }
        // Of whose run it is a hint says nothing.
        self.bus.waited_in().iter().for_each(|tenant| self.bus.publish_waiting(tenant));
        for thread in self.bus.followed() {
            if all || marks.contains(&mark(&thread)) {
                self.bus.publish_begun(&thread);
            }
        }
    }
}

/// Hints in one line, as other nodes read them.
fn line(node: &str, hints: &Hints) -> String {
    let mut text = format!("{node} {}", if hints.work { "work" } else { "runs" });
    if hints.runs.len() > HINTS_MAX {
        text.push_str(" all");
    } else {
        hints.runs.iter().for_each(|run| text.push_str(&format!(" {run:x}")));
    }
    text
}
