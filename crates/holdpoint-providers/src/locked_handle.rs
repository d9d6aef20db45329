//! A handle whose lock this process holds. It stores the state that a provider needs between calls, and renews the
//! lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use holdpoint_core::agent::ReasoningVisibility;
use holdpoint_engine::extension::{Handle, HandleLock};
use holdpoint_engine::{Engine, Error};

use super::progress::{ProviderCall, ProviderProgress};
use super::settings::{ProviderLimits, Providers};
use super::{ProviderError, code};

mod reports;

/// Delay before a failed deletion at the provider is retried.
const POSTPONED_MS: u64 = 300_000;
/// The lock of a handle, with one attempt of one graph. At most one exists per handle in the cluster.
pub struct LockedHandle {
    engine: Engine,
    lock: HandleLock,
    /// The row at the time the lock was taken.
    row: Handle,
    /// Node and visit.
    slot: String,
    attempt: String,
    starts_turn: bool,
    graph: String,
    /// Name of the graph at its provider.
    provider_graph: String,
    deadline: Instant,
    state: Mutex<HandleState>,
    lost: watch::Receiver<bool>,
    renewing: tokio::task::JoinHandle<()>,
    /// The receiver of reports. None for calls without a turn, such as a cancellation.
    reasoning: ReasoningVisibility,
    reports: Option<mpsc::UnboundedSender<ProviderProgress>>,
    reported_bytes: AtomicUsize,
    /// The last calls that the turn reported.
    reported_calls: Mutex<Vec<ProviderCall>>,
}

/// The sealed content of a handle: one entry per slot with a graph at a provider.
#[derive(Clone, Default, Serialize, Deserialize)]
struct HandleState {
    slots: BTreeMap<String, SlotState>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct SlotState {
    /// Name of the graph in the API, for example `claude:editor`.
    graph: String,
    reference: Option<Value>,
    /// Id of the attempt that may have reached the provider.
    begun: Option<String>,
    /// The provider has executed the graph. None if an earlier version wrote the state: then it is assumed.
    #[serde(default)]
    executed: Option<bool>,
}

impl fmt::Debug for LockedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedHandle").field("state_key", &self.lock.state_key()).finish_non_exhaustive()
    }
}

impl Drop for LockedHandle {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// One attempt: a start or an answer of one graph.
pub(crate) struct GraphAttempt {
    /// Name of the graph in the API.
    pub graph: String,
    /// Name of the graph at its provider.
    pub name: String,
    pub slot: String,
    pub attempt: String,
    /// The attempt starts a turn. Its input is not an answer.
    pub starts_turn: bool,
    pub within: Duration,
}

impl LockedHandle {
    /// Takes the lock. Returns None if another holder has it.
    pub(crate) async fn open(
        engine: &Engine,
        row: &Handle,
        attempt_spec: GraphAttempt,
    ) -> Result<Option<Self>, Error> {
        let lock_ms = Providers::of(engine).limits.lock_ms;
        let Some(lock) = engine.handles().lock(row, lock_ms).await? else { return Ok(None) };
        let (row, state) = match read_under_lock(engine, row).await {
            Ok(found) => found,
            Err(error) => {
                lock.release().await?;
                return Err(error);
            }
        };
        let (lost_sender, lost) = watch::channel(false);
        let renewing = tokio::spawn(renew(lock.clone(), lock_ms, lost_sender));
        let GraphAttempt { graph, name: provider_graph, slot, attempt, starts_turn, within } = attempt_spec;
        let (deadline, state) = (Instant::now() + within, Mutex::new(state));
        let engine = engine.clone();
        Ok(Some(Self {
            engine,
            lock,
            row,
            slot,
            attempt,
            starts_turn,
            graph,
            provider_graph,
            deadline,
            state,
            lost,
            renewing,
            reports: None,
            reasoning: ReasoningVisibility::Hidden,
            reported_bytes: AtomicUsize::new(0),
            reported_calls: Mutex::default(),
        }))
    }

    /// Releases the lock.
    pub(crate) async fn close(self) {
        self.renewing.abort();
        if let Err(error) = self.lock.release().await {
            tracing::warn!(%error, "cannot release the lock of a handle; it expires");
        }
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> &str {
        self.lock.tenant().as_str()
    }

    /// Returns the id of the run of the first turn. A later run can use the same state key.
    pub fn run(&self) -> &str {
        self.row.run.as_str()
    }

    /// Returns the row at the time the lock was taken.
    pub(crate) fn row(&self) -> &Handle {
        &self.row
    }

    /// Returns the state key.
    pub fn state_key(&self) -> &str {
        self.lock.state_key()
    }

    /// Returns the name of the graph at its provider.
    pub fn provider_graph(&self) -> &str {
        &self.provider_graph
    }

    /// Returns the API name and the slot of every graph with state at a provider.
    pub(crate) fn graphs(&self) -> Vec<(String, String)> {
        self.state().slots.iter().map(|(slot, state)| (state.graph.clone(), slot.clone())).collect()
    }

    /// Selects another graph of the same handle.
    pub(crate) fn switch_graph(&mut self, graph: String, name: String, slot: String) {
        (self.graph, self.provider_graph, self.slot) = (graph, name, slot);
    }

    /// Returns the slot: node and visit. A handle can have several.
    pub fn slot(&self) -> &str {
        &self.slot
    }

    /// Returns the id of the attempt. It is the same for every retry, on every process.
    pub fn attempt(&self) -> &str {
        &self.attempt
    }

    /// Returns whether the attempt starts a further turn of a conversation. Such an attempt is sent with
    /// [`Provider::next_turn`](crate::Provider::next_turn).
    pub fn starts_next_turn(&self) -> bool {
        self.starts_turn && !self.attempt.starts_with(&format!("{}/", self.row.run))
    }

    /// Returns whether the provider has executed the graph in an earlier attempt, so that it must have a state of it.
    pub fn has_executed(&self) -> bool {
        let state = self.state();
        state.slots.get(&self.slot).is_some_and(|slot| slot.executed.unwrap_or(slot.reference.is_some()))
    }

    /// Records that the provider has executed the graph.
    pub(crate) async fn record_execution(&self) -> Result<(), ProviderError> {
        let known = self.state().slots.get(&self.slot).and_then(|slot| slot.executed) == Some(true);
        if known { Ok(()) } else { self.change(|slot| slot.executed = Some(true)).await }
    }

    /// Returns the time by which the graph must be interrupted or end.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the stored reference of the provider.
    pub fn reference(&self) -> Option<Value> {
        self.state().slots.get(&self.slot).and_then(|slot| slot.reference.clone())
    }

    /// Returns whether this attempt may have reached the provider.
    pub fn may_have_been_sent(&self) -> bool {
        let state = self.state();
        state
            .slots
            .get(&self.slot)
            .and_then(|slot| slot.begun.as_ref())
            .is_some_and(|begun| *begun == self.attempt)
    }

    /// Stores the reference of the provider durably. Fails with `lock_lost` if another process has taken the lock.
    pub async fn keep(&self, reference: Value) -> Result<(), ProviderError> {
        self.change(|slot| slot.reference = Some(reference)).await
    }

    /// Records, before the request, that the attempt may reach the provider.
    pub async fn begin(&self, reference: Value) -> Result<(), ProviderError> {
        let attempt = self.attempt.clone();
        self.change(move |slot| {
            if slot.reference.is_none() {
                slot.executed = Some(false);
            }
            (slot.reference, slot.begun) = (Some(reference), Some(attempt));
        })
        .await
    }

    /// Changes the state after it is written. If the write fails, the attempt must not count as begun: its next try would
    /// reach the provider without a record.
    async fn change(&self, change: impl FnOnce(&mut SlotState)) -> Result<(), ProviderError> {
        let mut next = self.state().clone();
        let slot = next.slots.entry(self.slot.clone()).or_default();
        slot.graph.clone_from(&self.graph);
        change(slot);
        let text = serde_json::to_string(&next).map_err(|error| storage_error(&error.to_string()))?;
        let expires = self.engine.now().plus_ms(self.limits().expires_ms);
        check_written(self.lock.keep(text.as_bytes(), expires).await)?;
        *self.state() = next;
        Ok(())
    }

    /// Reads the attachment: state that is too large for the reference.
    pub async fn attachment(&self) -> Result<Option<Vec<u8>>, ProviderError> {
        self.lock.attachment(&self.slot).await.map_err(|error| storage_error(&error.to_string()))
    }

    /// Stores the attachment.
    pub async fn keep_attachment(&self, content: &[u8]) -> Result<(), ProviderError> {
        check_written(self.lock.attach(&self.slot, content).await)
    }

    /// Marks the handle as settled and keeps it for the retention time.
    pub(crate) async fn settle(&self) -> Result<(), ProviderError> {
        let until = self.engine.now().plus_ms(self.limits().keep_ms);
        check_written(self.lock.settle(until).await)
    }

    /// Schedules a retry of a failed call at the provider.
    pub(crate) async fn postpone(&self) -> Result<(), ProviderError> {
        check_written(self.lock.postpone(self.engine.now().plus_ms(POSTPONED_MS)).await)
    }

    /// Schedules the deletion of the state of an ended graph after the retention time.
    pub(crate) async fn expire_after_retention(&self) -> Result<(), ProviderError> {
        let until = self.engine.now().plus_ms(self.limits().keep_ms);
        check_written(self.lock.postpone(until).await)
    }

    /// Waits until the lock may be lost. Waits forever if the lock is kept.
    pub(crate) async fn lock_lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn limits(&self) -> ProviderLimits {
        Providers::of(&self.engine).limits
    }

    fn state(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the handle under the lock, because the previous holder may have written until then.
async fn read_under_lock(engine: &Engine, row: &Handle) -> Result<(Handle, HandleState), Error> {
    let found = engine.handles().by_key(&row.tenant, &row.state_key).await?;
    let row = found.ok_or(Error::NotFound("handle"))?;
    let state = match engine.handles().content(&row)? {
        Some(content) => serde_json::from_slice(&content)
            .map_err(|_| Error::unreadable("handle", "the content is not the state of a provider"))?,
        None => HandleState::default(),
    };
    Ok((row, state))
}

/// Returns an error if a write failed or the lock is lost.
fn check_written(written: Result<bool, Error>) -> Result<(), ProviderError> {
    match written {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(ProviderError::transient(code::LOCK_LOST, "another process has taken over the graph"))
        }
        Err(error) => Err(storage_error(&error.to_string())),
    }
}

fn storage_error(why: &str) -> ProviderError {
    tracing::warn!(why, "cannot store the state of a provider");
    ProviderError::transient(code::UNREACHABLE, "the state of the provider cannot be stored or read")
}

/// Renews the lock three times per lock period. Reports the lock as lost if it was not renewed within the period.
async fn renew(lock: HandleLock, lock_ms: u64, lost_sender: watch::Sender<bool>) {
    let mut good_until = Instant::now() + Duration::from_millis(lock_ms);
    loop {
        tokio::time::sleep(Duration::from_millis(lock_ms / 3)).await;
        let renewed_at = Instant::now();
        let lost = match timeout_at(good_until, lock.renew(lock_ms)).await {
            Ok(Ok(true)) => {
                good_until = renewed_at + Duration::from_millis(lock_ms);
                false
            }
            Ok(Ok(false)) => true,
            Ok(Err(_)) | Err(_) => Instant::now() >= good_until,
        };
        if lost {
            lost_sender.send_replace(true);
            return;
        }
    }
}
