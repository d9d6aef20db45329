//! Communication with other processes on the same database. Notifications are hints and can be lost; periodic reads of
//! the store are reliable.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_core::{RunRef, TenantId};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use crate::bus::Bus;
use crate::store::postgres::{NotificationChannel, PostgresSettings};
use crate::store::threads::ThreadKey;
use crate::store::{Database, Error, runs, threads, usage};
use crate::webhooks::WebhookHub;

/// Interval at which subscribed runs are read, with and without notifications.
const POLL_LISTENING: Duration = Duration::from_secs(1);
const POLL_NOT_LISTENING: Duration = Duration::from_millis(100);
/// Time during which hints are collected into one notification.
const BATCH_DELAY: Duration = Duration::from_millis(10);
/// The maximum number of runs in a notification. With more, all subscribers read the store.
const HINTS_MAX: usize = 400;
/// Interval at which a process announces itself.
const HELLO_INTERVAL: Duration = Duration::from_secs(1);
/// Time after the last notification until the other processes count as gone.
const PEER_TIMEOUT_MS: i64 = 5000;
/// Wait before a broken notification connection is opened again.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// Hints for other processes that are not yet sent.
#[derive(Debug, Default)]
pub(crate) struct HintOutbox {
    hints: Mutex<Hints>,
    filled: Notify,
    /// Time of the last notification of another process. Without other processes, no hints are collected.
    last_hint_ms: AtomicI64,
}

#[derive(Debug, Default)]
struct Hints {
    runs: HashSet<u64>,
    work: bool,
    /// Durable deliveries were left for other processes.
    deliveries: bool,
}

impl HintOutbox {
    /// Adds a hint about a changed run.
    pub(crate) fn note_run(&self, of: &RunRef) {
        if !self.has_listeners() {
            return;
        }
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.runs.len() <= HINTS_MAX {
            hints.runs.insert(hash_of(of));
        }
        self.filled.notify_one();
    }

    /// Adds a hint about a new run in a thread.
    pub(crate) fn note_thread_run(&self, thread: &ThreadKey) {
        if self.has_listeners() {
            let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
            hints.runs.insert(hash_of(thread));
            self.filled.notify_one();
        }
    }

    pub(crate) fn note_work(&self) {
        if self.has_listeners() {
            self.hints.lock().unwrap_or_else(PoisonError::into_inner).work = true;
            self.filled.notify_one();
        }
    }

    pub(crate) fn note_deliveries(&self) {
        if self.has_listeners() {
            self.hints.lock().unwrap_or_else(PoisonError::into_inner).deliveries = true;
            self.filled.notify_one();
        }
    }

    /// Returns whether another process is known to listen.
    pub(crate) fn has_listeners(&self) -> bool {
        elapsed_ms() - self.last_hint_ms.load(Ordering::Relaxed) < PEER_TIMEOUT_MS
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

/// Returns whether the stop signal is set or its sender is dropped.
fn stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}

/// Returns a hash of a run or a thread. It is the same in every process.
fn hash_of(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Returns milliseconds of a monotonic clock, with an offset so that 0 is older than the timeout.
fn elapsed_ms() -> i64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed().as_millis();
    i64::try_from(since).unwrap_or(i64::MAX).saturating_add(2 * PEER_TIMEOUT_MS)
}

/// Receives hints from other processes and sends hints to them.
#[derive(Debug)]
pub(crate) struct Peers {
    pub db: Database,
    pub settings: Arc<PostgresSettings>,
    pub bus: Arc<Bus>,
    pub hooks: Arc<WebhookHub>,
}

impl Peers {
    /// Runs until the stop signal. Errors here delay readers but lose no data.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) {
        let is_listening = AtomicBool::new(false);
        tokio::join!(
            self.keep_listening(&is_listening, stop.clone()),
            self.keep_polling(&is_listening, stop)
        );
    }

    async fn keep_listening(&self, is_listening: &AtomicBool, mut stop: watch::Receiver<bool>) {
        let node = Uuid::now_v7().simple().to_string();
        while self.settings.notify && !stopped(&stop) {
            let ended = match NotificationChannel::open(&self.settings).await {
                Ok((channel, hints)) => {
                    is_listening.store(true, Ordering::Relaxed);
                    // Notifications before this moment were not received.
                    self.bus.work.raise();
                    self.listen(&node, &channel, hints, &mut stop).await
                }
                Err(error) => Err(error),
            };
            is_listening.store(false, Ordering::Relaxed);
            if let Err(error) = ended {
                tracing::debug!(%error, "the notification connection failed; reconnecting");
                let _ = tokio::time::timeout(RECONNECT_DELAY, stop.changed()).await;
            }
        }
    }

    async fn listen(
        &self,
        node: &str,
        channel: &NotificationChannel,
        mut hints: mpsc::Receiver<String>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut hello = tokio::time::interval(HELLO_INTERVAL);
        hello.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stopped(stop) {
            tokio::select! {
                hint = hints.recv() => match hint {
                    Some(hint) => self.handle_hint(node, &hint),
                    None => return Err(Error::Unavailable("the notification connection has ended".to_owned())),
                },
                () = self.bus.outbox.filled.notified() => {
                    tokio::time::sleep(BATCH_DELAY).await;
                    self.send_hints(node, channel).await?;
                }
                _ = hello.tick() => channel.send(&format!("{node} hello")).await?,
                _ = stop.changed() => {}
            }
        }
        // Tells the other processes about the work that this one leaves.
        self.send_hints(node, channel).await
    }

    /// Sends the collected hints.
    async fn send_hints(&self, node: &str, channel: &NotificationChannel) -> Result<(), Error> {
        let hints = self.bus.outbox.take();
        let mut result = channel.send(&format_hints(node, &hints)).await;
        if result.is_ok() && hints.deliveries {
            // A separate line, which earlier versions ignore.
            result = channel.send(&format!("{node} deliveries")).await;
        }
        if result.is_err() {
            self.bus.outbox.put_back(hints);
        }
        result
    }

    /// Reads the store periodically, and more often without notifications. Retries after errors.
    async fn keep_polling(&self, is_listening: &AtomicBool, mut stop: watch::Receiver<bool>) {
        let (mut known, mut last) = (HashMap::new(), HashMap::new());
        while !stopped(&stop) {
            let wait = if is_listening.load(Ordering::Relaxed) { POLL_LISTENING } else { POLL_NOT_LISTENING };
            let _ = tokio::time::timeout(wait, stop.changed()).await;
            let looked = async {
                self.poll_runs().await?;
                self.poll_threads(&mut known).await?;
                self.poll_events(&mut last).await
            };
            if let Err(error) = looked.await {
                tracing::debug!(%error, "cannot read changes of other processes");
            }
        }
    }

    /// Wakes subscribers of runs with new events of other processes.
    async fn poll_runs(&self) -> Result<(), Error> {
        let watched = self.bus.watched_runs();
        if watched.is_empty() {
            return Ok(());
        }
        let of: Vec<RunRef> = watched.iter().map(|(of, _)| of.clone()).collect();
        let found = runs::sequences(&self.db, &of).await?;
        let published: HashMap<RunRef, u64> = watched.into_iter().collect();
        for (of, seq) in found {
            if published.get(&of).is_some_and(|published| *published < seq) {
                self.bus.publish(&of, seq);
            }
        }
        Ok(())
    }

    /// Wakes subscribers of threads with new runs of other processes. `known` is the newest known run of each thread.
    async fn poll_threads(&self, known: &mut HashMap<ThreadKey, String>) -> Result<(), Error> {
        let followed: HashSet<ThreadKey> = self.bus.watched_threads().into_iter().collect();
        known.retain(|thread, _| followed.contains(thread));
        let unknown: Vec<ThreadKey> = followed.into_iter().filter(|one| !known.contains_key(one)).collect();
        for thread in unknown {
            let newest = threads::newest(&self.db, &thread.0, &thread.1).await?;
            // A run may have started between the read of the subscriber and this one.
            self.bus.publish_thread(&thread);
            known.insert(thread, newest.map(|run| run.to_string()).unwrap_or_default());
        }
        if known.is_empty() {
            return Ok(());
        }
        for (thread, newest) in threads::grown(&self.db, known).await? {
            self.bus.publish_thread(&thread);
            known.insert(thread, newest);
        }
        Ok(())
    }

    /// Wakes subscribers of pending interrupts of each tenant that has new events: no interrupt is opened or closed
    /// without one. `last` has the bytes of events of each tenant at the last call.
    async fn poll_events(&self, last: &mut HashMap<TenantId, u64>) -> Result<(), Error> {
        let watched = self.bus.watched_tenants();
        last.retain(|tenant, _| watched.contains(tenant));
        for tenant in watched {
            let (_, bytes) = usage::of_tenant(&self.db, &tenant).await?;
            if last.insert(tenant.clone(), bytes) != Some(bytes) {
                self.bus.publish_pending(&tenant);
            }
        }
        Ok(())
    }

    /// Handles a hint of another process: its name, the kind of hint, and the hashes of the runs.
    fn handle_hint(&self, node: &str, hint: &str) {
        let mut words = hint.split(' ');
        if words.next() == Some(node) {
            return;
        }
        if !self.bus.outbox.has_listeners() {
            // A process that has just started must receive a notification of this one before it sends hints.
            self.bus.outbox.filled.notify_one();
        }
        self.bus.outbox.last_hint_ms.store(elapsed_ms(), Ordering::Relaxed);
        match words.next() {
            Some("work") => self.bus.work.raise(),
            Some("runs") => {}
            Some("deliveries") => return self.hooks.wake_for_durable(),
            _ => return,
        }
        let words: Vec<&str> = words.collect();
        let all = words.contains(&"all");
        let hashes: HashSet<u64> =
            words.iter().filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
        for (of, published) in self.bus.watched_runs() {
            if all || hashes.contains(&hash_of(&of)) {
                // The hint does not contain the new sequence. The subscriber reads it.
                self.bus.publish(&of, published);
            }
        }
        // A hint does not contain the tenant.
        self.bus.watched_tenants().iter().for_each(|tenant| self.bus.publish_pending(tenant));
        for thread in self.bus.watched_threads() {
            if all || hashes.contains(&hash_of(&thread)) {
                self.bus.publish_thread(&thread);
            }
        }
    }
}

/// Formats hints as one line.
fn format_hints(node: &str, hints: &Hints) -> String {
    let mut text = format!("{node} {}", if hints.work { "work" } else { "runs" });
    if hints.runs.len() > HINTS_MAX {
        text.push_str(" all");
    } else {
        hints.runs.iter().for_each(|run| text.push_str(&format!(" {run:x}")));
    }
    text
}
