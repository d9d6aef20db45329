//! Handles: durable references to state outside of the database, for extensions. Their content is sealed. A lock makes
//! sure that at most one process uses the outside state.

use holdpoint_core::{RunRef, TenantId, Timestamp, WorkflowId};
use uuid::Uuid;

use super::{Engine, Handles};
use crate::committer::CommitReply;
use crate::error::Error;
use crate::store::Statement;
use crate::store::handles::{self, Handle, LockKey};
use crate::store::threads;

/// The lock of a handle. Writes fail if another process has taken the lock after it expired.
#[derive(Clone, Debug)]
pub struct HandleLock {
    engine: Engine,
    key: LockKey,
}

impl Handles<'_> {
    /// Stores a handle, unless its state key is in use or its run already has a handle. Returns true if it was stored.
    pub async fn insert(self, handle: &Handle) -> Result<bool, Error> {
        self.engine.write_handle(handles::insert(handle)).await
    }

    /// Returns the handle with a state key.
    pub async fn by_key(self, tenant: &TenantId, state_key: &str) -> Result<Option<Handle>, Error> {
        Ok(handles::by_key(self.engine.db(), tenant, state_key).await?)
    }

    /// Returns the handle of a run.
    pub async fn by_run(self, of: &RunRef) -> Result<Option<Handle>, Error> {
        Ok(handles::by_run(self.engine.db(), of).await?)
    }

    /// Returns the newest handle of a graph in a thread.
    pub async fn by_thread(
        self,
        tenant: &TenantId,
        thread: &str,
        graph: &str,
    ) -> Result<Option<Handle>, Error> {
        Ok(handles::by_thread(self.engine.db(), tenant, thread, graph).await?)
    }

    /// Returns the number of turns of a conversation: the runs of its workflow in its thread, at most `limit`.
    pub async fn count_turns(
        self,
        tenant: &TenantId,
        thread: &str,
        workflow: &WorkflowId,
        limit: u64,
    ) -> Result<u64, Error> {
        Ok(threads::count(self.engine.db(), tenant, thread, workflow, limit).await?)
    }

    /// Ends the conversation of a handle: it takes no further turns and is due at once. Has no effect the second time.
    pub async fn close(self, handle: &Handle) -> Result<bool, Error> {
        self.engine.write_handle(handles::close(handle, self.engine.now())).await
    }

    /// Returns handles whose expiry time has passed, the oldest first. Handles of other extensions are among them.
    pub async fn due(self, limit: u64) -> Result<Vec<Handle>, Error> {
        Ok(handles::due(self.engine.db(), self.engine.now(), limit).await?)
    }

    /// Returns the content of a handle.
    pub fn content(self, handle: &Handle) -> Result<Option<Vec<u8>>, Error> {
        let Some(sealed) = &handle.content else { return Ok(None) };
        let context = seal_context(&handle.tenant, &handle.state_key);
        Ok(Some(self.engine.seal()?.open(&context, &sealed.0)?))
    }

    /// Takes the lock of a handle for a time in milliseconds. Returns `None` while another owner has the lock.
    pub async fn lock(self, handle: &Handle, lock_ms: u64) -> Result<Option<HandleLock>, Error> {
        let key = LockKey {
            tenant: handle.tenant.clone(),
            state_key: handle.state_key.clone(),
            owner: Uuid::now_v7().to_string(),
        };
        let now = self.engine.now();
        let taken = handles::lock(&key, &handle.run, now.plus_ms(lock_ms), now);
        let is_taken = self.engine.write_handle(taken).await?;
        Ok(is_taken.then(|| HandleLock { engine: self.engine.clone(), key }))
    }

    /// Sets the expiry time of a handle, without its lock.
    pub async fn expire_at(self, handle: &Handle, at: Timestamp) -> Result<bool, Error> {
        self.engine.write_handle(handles::look_later(handle, at)).await
    }

    /// Postpones the expiry of the handle of a run. Has no effect if it expires later anyway.
    pub async fn prolong(self, of: &RunRef, until: Timestamp) -> Result<bool, Error> {
        self.engine.write_handle(handles::prolong(of, until)).await
    }

    /// Deletes a handle and its attachments.
    pub async fn delete(self, handle: &Handle) -> Result<(), Error> {
        self.engine.write(handles::delete(handle).to_vec()).await.map(|_| ())
    }
}

impl HandleLock {
    /// Returns the tenant of the handle.
    pub fn tenant(&self) -> &TenantId {
        &self.key.tenant
    }

    /// Returns the state key of the handle.
    pub fn state_key(&self) -> &str {
        &self.key.state_key
    }

    /// Holds the lock for another time in milliseconds. Returns false if the lock is lost.
    pub async fn renew(&self, lock_ms: u64) -> Result<bool, Error> {
        self.engine.write_handle(handles::renew(&self.key, self.engine.now().plus_ms(lock_ms))).await
    }

    /// Releases the lock.
    pub async fn release(&self) -> Result<(), Error> {
        self.engine.write(vec![handles::release(&self.key)]).await.map(|_| ())
    }

    /// Stores content, sealed, and the time at which the handle expires. Returns false if the lock is lost.
    pub async fn keep(&self, content: &[u8], expires_at: Timestamp) -> Result<bool, Error> {
        let context = seal_context(&self.key.tenant, &self.key.state_key);
        let sealed = self.engine.seal()?.seal(&context, content)?;
        self.engine.write_handle(handles::keep(&self.key, &sealed, expires_at)).await
    }

    /// Records that the outside state is deleted. The handle expires at `until`. Returns false if the lock is lost.
    pub async fn settle(&self, until: Timestamp) -> Result<bool, Error> {
        self.engine.write_handle(handles::settle(&self.key, self.engine.now(), until)).await
    }

    /// Postpones the expiry of the handle. Returns false if the lock is lost.
    pub async fn postpone(&self, until: Timestamp) -> Result<bool, Error> {
        self.engine.write_handle(handles::postpone(&self.key, until)).await
    }

    /// Stores an attachment, sealed: content that is too large to be written with every change. Returns false if the
    /// lock is lost.
    pub async fn attach(&self, slot: &str, content: &[u8]) -> Result<bool, Error> {
        let sealed = self.engine.seal()?.seal(&self.attachment_context(slot), content)?;
        self.engine.write_handle(handles::attach(&self.key, slot, &sealed)).await
    }

    /// Returns an attachment.
    pub async fn attachment(&self, slot: &str) -> Result<Option<Vec<u8>>, Error> {
        let found = handles::attached(self.engine.db(), &self.key, slot).await?;
        let Some(sealed) = found else { return Ok(None) };
        Ok(Some(self.engine.seal()?.open(&self.attachment_context(slot), &sealed)?))
    }

    fn attachment_context(&self, slot: &str) -> String {
        format!("{}/{slot}", seal_context(&self.key.tenant, &self.key.state_key))
    }
}

impl Engine {
    /// Writes one statement and returns whether it changed a row.
    async fn write_handle(&self, statement: Statement) -> Result<bool, Error> {
        Ok(matches!(self.write(vec![statement]).await?, CommitReply::Touched(rows) if rows > 0))
    }
}

/// Returns the context that the sealed content is bound to.
fn seal_context(tenant: &TenantId, state_key: &str) -> String {
    format!("handle/{}/{state_key}", tenant.as_str())
}
