//! A handle whose lock this process holds. It stores the state that a provider needs between calls, and renews the
//! lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::{ProviderError, code};
use crate::committer::CommitReply;
use crate::engine::Engine;
use crate::error::Error;
use crate::store::handles::{self, HandleRow, LockName};

/// Delay before a failed deletion at the provider is retried.
const POSTPONED_MS: u64 = 300_000;

/// The lock of a handle, with one attempt of one graph. At most one exists per handle in the cluster.
pub(crate) struct LockedHandle {
    engine: Engine,
    name: LockName,
    /// The row at the time the lock was taken.
    row: HandleRow,
    /// Node and visit.
    slot: String,
    attempt: String,
    graph: String,
    /// Name of the graph at its provider.
    provider_graph: String,
    deadline: Instant,
    state: Mutex<HandleState>,
    lost: watch::Receiver<bool>,
    renewing: tokio::task::JoinHandle<()>,
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
}

impl fmt::Debug for LockedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedHandle").field("state_key", &self.name.state_key).finish_non_exhaustive()
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
    pub within: Duration,
}

impl LockedHandle {
    /// Takes the lock. Returns None if another holder has it.
    pub(crate) async fn open(
        engine: &Engine,
        row: &HandleRow,
        attempt_spec: GraphAttempt,
    ) -> Result<Option<Self>, Error> {
        let name = LockName {
            tenant: row.tenant.clone(),
            state_key: row.state_key.clone(),
            owner: Uuid::now_v7().to_string(),
        };
        let lock_ms = engine.providers().limits.lock_ms;
        let now = engine.now();
        if !changed_rows(
            &engine.write(vec![handles::lock(&name, &row.run, now.plus_ms(lock_ms), now)]).await?,
        ) {
            return Ok(None);
        }
        let (row, state) = match read_under_lock(engine, &name).await {
            Ok(found) => found,
            Err(error) => {
                engine.write(vec![handles::release(&name)]).await?;
                return Err(error);
            }
        };
        let (lost_sender, lost) = watch::channel(false);
        let renewing = tokio::spawn(renew(engine.clone(), name.clone(), lock_ms, lost_sender));
        let GraphAttempt { graph, name: provider_graph, slot, attempt, within } = attempt_spec;
        let (deadline, state) = (Instant::now() + within, Mutex::new(state));
        let engine = engine.clone();
        Ok(Some(Self {
            engine,
            name,
            row,
            slot,
            attempt,
            graph,
            provider_graph,
            deadline,
            state,
            lost,
            renewing,
        }))
    }

    /// Releases the lock.
    pub(crate) async fn close(self) {
        self.renewing.abort();
        if let Err(error) = self.engine.write(vec![handles::release(&self.name)]).await {
            tracing::warn!(%error, "cannot release the lock of a handle; it expires");
        }
    }

    pub(crate) fn tenant(&self) -> &str {
        self.name.tenant.as_str()
    }

    /// Returns the id of the run. A later run can use the same state key.
    pub(crate) fn run(&self) -> &str {
        self.row.run.as_str()
    }

    /// Returns the row at the time the lock was taken.
    pub(crate) fn row(&self) -> &HandleRow {
        &self.row
    }

    pub(crate) fn state_key(&self) -> &str {
        &self.name.state_key
    }

    /// Returns the name of the graph at its provider.
    pub(crate) fn provider_graph(&self) -> &str {
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
    pub(crate) fn slot(&self) -> &str {
        &self.slot
    }

    /// Returns the id of the attempt. It is the same for every retry, on every process.
    pub(crate) fn attempt(&self) -> &str {
        &self.attempt
    }

    /// Returns the time by which the graph must be interrupted or end.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the stored reference of the provider.
    pub(crate) fn reference(&self) -> Option<Value> {
        self.state().slots.get(&self.slot).and_then(|slot| slot.reference.clone())
    }

    /// Returns whether this attempt may have reached the provider.
    pub(crate) fn may_have_been_sent(&self) -> bool {
        let state = self.state();
        state
            .slots
            .get(&self.slot)
            .and_then(|slot| slot.begun.as_ref())
            .is_some_and(|begun| *begun == self.attempt)
    }

    /// Stores the reference of the provider durably. Fails with `lock_lost` if another process has taken the lock.
    pub(crate) async fn keep(&self, reference: Value) -> Result<(), ProviderError> {
        self.change(|slot| slot.reference = Some(reference)).await
    }

    /// Records, before the request, that the attempt may reach the provider.
    pub(crate) async fn begin(&self, reference: Value) -> Result<(), ProviderError> {
        let attempt = self.attempt.clone();
        self.change(move |slot| (slot.reference, slot.begun) = (Some(reference), Some(attempt))).await
    }

    async fn change(&self, change: impl FnOnce(&mut SlotState)) -> Result<(), ProviderError> {
        let text = {
            let mut state = self.state();
            let slot = state.slots.entry(self.slot.clone()).or_default();
            slot.graph.clone_from(&self.graph);
            change(slot);
            serde_json::to_string(&*state).map_err(|error| storage_error(&error.to_string()))?
        };
        let seal = self.engine.seal().map_err(|error| storage_error(&error.to_string()))?;
        let sealed = seal
            .seal(&seal_context(&self.name), text.as_bytes())
            .map_err(|error| storage_error(&error.to_string()))?;
        let expires = self.engine.now().plus_ms(self.engine.providers().limits.expires_ms);
        self.write(handles::keep(&self.name, &sealed, expires)).await
    }

    /// Reads the attachment: state that is too large for the reference.
    pub(crate) async fn attachment(&self) -> Result<Option<Vec<u8>>, ProviderError> {
        let found = handles::attached(self.engine.db(), &self.name, &self.slot).await;
        let Some(sealed) = found.map_err(|error| storage_error(&error.to_string()))? else { return Ok(None) };
        let seal = self.engine.seal().map_err(|error| storage_error(&error.to_string()))?;
        let opened = seal.open(&attachment_seal_context(&self.name, &self.slot), &sealed);
        opened.map(Some).map_err(|error| storage_error(&error.to_string()))
    }

    pub(crate) async fn keep_attachment(&self, content: &[u8]) -> Result<(), ProviderError> {
        let seal = self.engine.seal().map_err(|error| storage_error(&error.to_string()))?;
        let sealed = seal.seal(&attachment_seal_context(&self.name, &self.slot), content);
        let sealed = sealed.map_err(|error| storage_error(&error.to_string()))?;
        self.write(handles::attach(&self.name, &self.slot, &sealed)).await
    }

    /// Marks the handle as settled and keeps it for the retention time.
    pub(crate) async fn settle(&self) -> Result<(), ProviderError> {
        let now = self.engine.now();
        let until = now.plus_ms(self.engine.providers().limits.keep_ms);
        self.write(handles::settle(&self.name, now, until)).await
    }

    /// Schedules a retry of a failed call at the provider.
    pub(crate) async fn postpone(&self) -> Result<(), ProviderError> {
        self.write(handles::postpone(&self.name, self.engine.now().plus_ms(POSTPONED_MS))).await
    }

    /// Schedules the deletion of the state of an ended graph after the retention time.
    pub(crate) async fn expire_after_retention(&self) -> Result<(), ProviderError> {
        let keep_ms = self.engine.providers().limits.keep_ms;
        self.write(handles::postpone(&self.name, self.engine.now().plus_ms(keep_ms))).await
    }

    /// Waits until the lock may be lost. Waits forever if the lock is kept.
    pub(crate) async fn lock_lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn write(&self, statement: crate::store::Statement) -> Result<(), ProviderError> {
        match self.engine.write(vec![statement]).await {
            Ok(reply) if changed_rows(&reply) => Ok(()),
            Ok(_) => {
                Err(ProviderError::transient(code::LOCK_LOST, "another process has taken over the graph"))
            }
            Err(error) => Err(storage_error(&error.to_string())),
        }
    }

    fn state(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the handle under the lock, because the previous holder may have written until then.
async fn read_under_lock(engine: &Engine, name: &LockName) -> Result<(HandleRow, HandleState), Error> {
    let row = handles::by_key(engine.db(), &name.tenant, &name.state_key).await?;
    let row = row.ok_or(Error::NotFound("handle"))?;
    let state = match &row.provider_ref {
        Some(sealed) => unseal(engine, name, &sealed.0)?,
        None => HandleState::default(),
    };
    Ok((row, state))
}

fn changed_rows(reply: &CommitReply) -> bool {
    matches!(reply, CommitReply::Touched(rows) if *rows > 0)
}

fn storage_error(why: &str) -> ProviderError {
    tracing::warn!(why, "cannot store the state of a provider");
    ProviderError::transient(code::UNREACHABLE, "the state of the provider cannot be stored or read")
}

fn unseal(engine: &Engine, name: &LockName, sealed: &str) -> Result<HandleState, Error> {
    let opened = engine.seal()?.open(&seal_context(name), sealed)?;
    Ok(serde_json::from_slice(&opened)
        .map_err(|_| crate::store::unreadable("handle", "not a valid reference"))?)
}

/// Returns the context that the sealed reference is bound to.
fn seal_context(name: &LockName) -> String {
    format!("handle/{}/{}", name.tenant.as_str(), name.state_key)
}

fn attachment_seal_context(name: &LockName, slot: &str) -> String {
    format!("handle/{}/{}/{slot}", name.tenant.as_str(), name.state_key)
}

/// Renews the lock three times per lock period. Reports the lock as lost if it was not renewed within the period.
async fn renew(engine: Engine, name: LockName, lock_ms: u64, lost_sender: watch::Sender<bool>) {
    let mut good_until = Instant::now() + Duration::from_millis(lock_ms);
    loop {
        tokio::time::sleep(Duration::from_millis(lock_ms / 3)).await;
        let renewed_at = Instant::now();
        let until = engine.now().plus_ms(lock_ms);
        let lost = match timeout_at(good_until, engine.write(vec![handles::renew(&name, until)])).await {
            Ok(Ok(reply)) if changed_rows(&reply) => {
                good_until = renewed_at + Duration::from_millis(lock_ms);
                false
            }
            Ok(Ok(_)) => true,
            Ok(Err(_)) | Err(_) => Instant::now() >= good_until,
        };
        if lost {
            lost_sender.send_replace(true);
            return;
        }
    }
}
