//! One graph at one provider, in the hands of whoever holds its lock: what the provider keeps here between calls, and
//! the right to go on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::{Trouble, code};
use crate::committer::Reply;
use crate::engine::Engine;
use crate::error::Error;
use crate::store::handles::{self, HandleRow, LockName};

/// How long a provider that did not forget a graph is left alone.
const POSTPONED_MS: u64 = 300_000;

/// What is under way with a graph of a provider. While there is one, nobody else has another of the same handle.
pub(crate) struct Case {
    engine: Engine,
    name: LockName,
    /// As it was when the lock was taken.
    row: HandleRow,
    /// Which node of the run, in which visit.
    slot: String,
    attempt: String,
    graph: String,
    /// What the graph is called at its provider.
    called: String,
    deadline: Instant,
    kept: Mutex<Kept>,
    lost: watch::Receiver<bool>,
    renewing: tokio::task::JoinHandle<()>,
}

/// What is sealed in a handle: one entry for each node that has a graph somewhere.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Kept {
    slots: BTreeMap<String, Slot>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Slot {
    /// As callers name it.
    graph: String,
    reference: Option<Value>,
    /// The attempt that may have reached the provider.
    begun: Option<String>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("state_key", &self.name.state_key).finish_non_exhaustive()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// What a case is about.
pub(crate) struct About {
    /// As callers name it.
    pub graph: String,
    /// As its provider does.
    pub name: String,
    pub slot: String,
    pub attempt: String,
    pub within: Duration,
}

impl Case {
    /// Takes the lock; nothing when somebody else has it.
    pub(crate) async fn open(engine: &Engine, row: &HandleRow, about: About) -> Result<Option<Self>, Error> {
        let name = LockName {
            tenant: row.tenant.clone(),
            state_key: row.state_key.clone(),
            owner: Uuid::now_v7().to_string(),
        };
        let lock_ms = engine.providers().limits.lock_ms;
        let now = engine.now();
        if !touched(&engine.write(vec![handles::lock(&name, &row.run, now.plus_ms(lock_ms), now)]).await?) {
            return Ok(None);
        }
        let (row, kept) = match under_lock(engine, &name).await {
            Ok(found) => found,
            Err(error) => {
                engine.write(vec![handles::release(&name)]).await?;
                return Err(error);
            }
        };
        let (tell, lost) = watch::channel(false);
        let renewing = tokio::spawn(renew(engine.clone(), name.clone(), lock_ms, tell));
        let About { graph, name: called, slot, attempt, within } = about;
        let (deadline, kept) = (Instant::now() + within, Mutex::new(kept));
        let engine = engine.clone();
        Ok(Some(Self { engine, name, row, slot, attempt, graph, called, deadline, kept, lost, renewing }))
    }

    /// Gives the lock back.
    pub(crate) async fn close(self) {
        self.renewing.abort();
        if let Err(error) = self.engine.write(vec![handles::release(&self.name)]).await {
            tracing::warn!(%error, "a handle could not be unlocked; its lock runs out");
        }
    }

    pub(crate) fn tenant(&self) -> &str {
        self.name.tenant.as_str()
    }

    /// The run whose graph it is: a state key may be another one's later.
    pub(crate) fn run(&self) -> &str {
        self.row.run.as_str()
    }

    /// As it was when the lock was taken.
    pub(crate) fn row(&self) -> &HandleRow {
        &self.row
    }

    pub(crate) fn state_key(&self) -> &str {
        &self.name.state_key
    }

    /// What the graph is called at its provider.
    pub(crate) fn called(&self) -> &str {
        &self.called
    }

    /// Every graph that has something at a provider, as callers name it, and its slot.
    pub(crate) fn graphs(&self) -> Vec<(String, String)> {
        self.kept().slots.iter().map(|(slot, kept)| (kept.graph.clone(), slot.clone())).collect()
    }

    /// Goes to another graph of the same handle.
    pub(crate) fn turn_to(&mut self, graph: String, name: String, slot: String) {
        (self.graph, self.called, self.slot) = (graph, name, slot);
    }

    /// Which node of the run it is, in which visit: a handle can have several.
    pub(crate) fn slot(&self) -> &str {
        &self.slot
    }

    /// The name of this start or answer: the same however often it is tried, on whichever node.
    pub(crate) fn attempt(&self) -> &str {
        &self.attempt
    }

    /// When the provider must have paused or ended.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What the provider has kept here.
    pub(crate) fn reference(&self) -> Option<Value> {
        self.kept().slots.get(&self.slot).and_then(|slot| slot.reference.clone())
    }

    /// Whether this attempt may have reached the provider.
    pub(crate) fn has_begun(&self) -> bool {
        let kept = self.kept();
        kept.slots
            .get(&self.slot)
            .and_then(|slot| slot.begun.as_ref())
            .is_some_and(|begun| *begun == self.attempt)
    }

    /// Keeps what the provider needs to go on: on disk when this returns. Fails with `lock_lost` when somebody else is at
    /// work.
    pub(crate) async fn keep(&self, reference: Value) -> Result<(), Trouble> {
        self.change(|slot| slot.reference = Some(reference)).await
    }

    /// Says that from now on the attempt may reach the provider.
    pub(crate) async fn begin(&self, reference: Value) -> Result<(), Trouble> {
        let attempt = self.attempt.clone();
        self.change(move |slot| (slot.reference, slot.begun) = (Some(reference), Some(attempt))).await
    }

    async fn change(&self, change: impl FnOnce(&mut Slot)) -> Result<(), Trouble> {
        let text = {
            let mut kept = self.kept();
            let slot = kept.slots.entry(self.slot.clone()).or_default();
            slot.graph.clone_from(&self.graph);
            change(slot);
            serde_json::to_string(&*kept).map_err(|error| unkept(&error.to_string()))?
        };
        let seal = self.engine.seal().map_err(|error| unkept(&error.to_string()))?;
        let sealed =
            seal.seal(&place(&self.name), text.as_bytes()).map_err(|error| unkept(&error.to_string()))?;
        let expires = self.engine.now().plus_ms(self.engine.providers().limits.expires_ms);
        self.write(handles::keep(&self.name, &sealed, expires)).await
    }

    /// What is too large for the reference.
    pub(crate) async fn attachment(&self) -> Result<Option<Vec<u8>>, Trouble> {
        let found = handles::attached(self.engine.db(), &self.name, &self.slot).await;
        let Some(sealed) = found.map_err(|error| unkept(&error.to_string()))? else { return Ok(None) };
        let seal = self.engine.seal().map_err(|error| unkept(&error.to_string()))?;
        let opened = seal.open(&attached(&self.name, &self.slot), &sealed);
        opened.map(Some).map_err(|error| unkept(&error.to_string()))
    }

    pub(crate) async fn keep_attachment(&self, content: &[u8]) -> Result<(), Trouble> {
        let seal = self.engine.seal().map_err(|error| unkept(&error.to_string()))?;
        let sealed = seal.seal(&attached(&self.name, &self.slot), content);
        let sealed = sealed.map_err(|error| unkept(&error.to_string()))?;
        self.write(handles::attach(&self.name, &self.slot, &sealed)).await
    }

    /// Nothing is left to do over there; the handle is kept for a while.
    pub(crate) async fn settle(&self) -> Result<(), Trouble> {
        let now = self.engine.now();
        let until = now.plus_ms(self.engine.providers().limits.keep_ms);
        self.write(handles::settle(&self.name, now, until)).await
    }

    /// What could not be done over there is tried again later.
    pub(crate) async fn postpone(&self) -> Result<(), Trouble> {
        self.write(handles::postpone(&self.name, self.engine.now().plus_ms(POSTPONED_MS))).await
    }

    /// The graph has ended; what is kept of it goes after a while.
    pub(crate) async fn retire(&self) -> Result<(), Trouble> {
        let keep_ms = self.engine.providers().limits.keep_ms;
        self.write(handles::postpone(&self.name, self.engine.now().plus_ms(keep_ms))).await
    }

    /// Comes back when somebody else may be at work on the handle, and else never.
    pub(crate) async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn write(&self, statement: crate::store::Statement) -> Result<(), Trouble> {
        match self.engine.write(vec![statement]).await {
            Ok(reply) if touched(&reply) => Ok(()),
            Ok(_) => Err(Trouble::passing(code::LOCK_LOST, "another node has taken over")),
            Err(error) => Err(unkept(&error.to_string())),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept is read under the lock: whoever had it before may have written until then.
async fn under_lock(engine: &Engine, name: &LockName) -> Result<(HandleRow, Kept), Error> {
    let row = handles::by_key(engine.db(), &name.tenant, &name.state_key).await?;
    let row = row.ok_or(Error::NotFound("handle"))?;
    let kept = match &row.provider_ref {
        Some(sealed) => unsealed(engine, name, &sealed.0)?,
        None => Kept::default(),
    };
    Ok((row, kept))
}

fn touched(reply: &Reply) -> bool {
    matches!(reply, Reply::Touched(rows) if *rows > 0)
}

fn unkept(why: &str) -> Trouble {
    tracing::warn!(why, "what a provider needs could not be kept");
    Trouble::passing(code::UNREACHABLE, "what the provider needs could not be stored or read")
}

fn unsealed(engine: &Engine, name: &LockName, sealed: &str) -> Result<Kept, Error> {
    let opened = engine.seal()?.open(&place(name), sealed)?;
    Ok(serde_json::from_slice(&opened)
        .map_err(|_| crate::store::unreadable("handle", "it is no reference"))?)
}

/// What a sealed reference is bound to.
fn place(name: &LockName) -> String {
    format!("handle/{}/{}", name.tenant.as_str(), name.state_key)
}

fn attached(name: &LockName, slot: &str) -> String {
    format!("handle/{}/{}/{slot}", name.tenant.as_str(), name.state_key)
}

/// Renews three times in the lock's time. A lock that could not be renewed in that time is as good as lost.
async fn renew(engine: Engine, name: LockName, lock_ms: u64, tell: watch::Sender<bool>) {
    let mut good_until = Instant::now() + Duration::from_millis(lock_ms);
    loop {
        tokio::time::sleep(Duration::from_millis(lock_ms / 3)).await;
        let asked = Instant::now();
        let until = engine.now().plus_ms(lock_ms);
        let lost = match timeout_at(good_until, engine.write(vec![handles::renew(&name, until)])).await {
            Ok(Ok(reply)) if touched(&reply) => {
                good_until = asked + Duration::from_millis(lock_ms);
                false
            }
            Ok(Ok(_)) => true,
            Ok(Err(_)) | Err(_) => Instant::now() >= good_until,
        };
        if lost {
            tell.send_replace(true);
            return;
        }
    }
}
