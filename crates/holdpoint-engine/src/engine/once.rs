//! Doing something once: what a request does and what is answered to it are written together, so that whoever sends it
//! again is told the same.

use std::fmt;
use std::sync::Arc;

use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{Run, TenantId, Timestamp, Workflow};

use super::Engine;
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::deliveries::Delivery;
use crate::store::keys::ApiKey;
use crate::store::receipts::{self, Key, Receipt};
use crate::store::secrets::LinkSecret;
use crate::store::webhooks::Webhook;
use crate::store::{Statement, params, scopes};

/// Long after the transaction that locked it.
const SCOPE_KEPT_MS: i64 = 3_600_000;

/// A request that is to be carried out once: whose it is, the key its sender chose, and how it will be answered.
///
/// ```text
/// let engine = app.engine.once(Once { tenant, operation, key_hash, body_hash, ttl_ms, respond });
/// match engine.execute(&of, &command).await {
///     Ok(run) => (200, body_of(&run)),                     // the receipt is on disk with it
///     Err(Error::Duplicate(receipt)) => answered(receipt), // somebody was first; compare `body_hash`
///     Err(Error::Refused(refusal)) => {                    // nothing was written; a final no can be kept
///         engine.keep_receipt(409, &body).await?;
///     }
///     …
/// }
/// ```
pub struct Once {
    pub tenant: TenantId,
    /// The kind of request: the same key means something else for another one. At most 256 bytes.
    pub operation: String,
    /// Of the key, never the key. At most 256 bytes.
    pub key_hash: String,
    pub body_hash: String,
    /// How long the receipt is kept.
    pub ttl_ms: u64,
    /// Makes status and body of the answer from what is about to be committed. Called once for every attempt.
    pub respond: Box<Respond>,
}

/// Status and body of an answer.
pub type Respond = dyn Fn(Done<'_>) -> (u16, String) + Send + Sync;

/// What a call of the engine has done when its receipt is written.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Done<'a> {
    /// Of everything that concerns a run: the run as it is then.
    Run(&'a Run),
    /// A definition was registered; whether that is news.
    Workflow {
        workflow: &'a Workflow,
        stored: bool,
    },
    KeyAdded(&'a ApiKey),
    KeyRevoked(&'a str),
    SecretsRotated(&'a LinkSecret),
    /// The row as it is then.
    Dispatch(&'a RunDispatch),
    /// The secret is for the answer alone: a receipt stays in the database.
    WebhookAdded {
        webhook: &'a Webhook,
        secret: &'a str,
    },
    /// Paused or resumed.
    Webhook(&'a Webhook),
    WebhookRemoved(&'a str),
    /// Queued once more.
    Delivery(&'a Delivery),
    /// So many were.
    Replayed(u64),
}

impl fmt::Debug for Done<'_> {
    // One of them holds a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Done")
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs, also as hashes.
        f.debug_struct("Once").field("tenant", &self.tenant).field("operation", &self.operation).finish()
    }
}

impl Once {
    fn key(&self) -> Key {
        Key {
            tenant: self.tenant.clone(),
            operation: self.operation.clone(),
            key_hash: self.key_hash.clone(),
        }
    }
}

impl Engine {
    /// A handle whose next change is made once: its receipt is written in the same transaction. When there is a
    /// receipt under the key already, nothing is written and the call fails with [`Error::Duplicate`]. A call that
    /// fails leaves no receipt. With nothing it is a handle like any other.
    #[must_use]
    pub fn once(&self, once: impl Into<Option<Once>>) -> Self {
        Self(self.0.clone(), once.into().map(Arc::new))
    }

    /// The receipt under a key, unless it is out of date. To be asked before the work is tried: what was done under a
    /// key is often refused the second time, and a refusal knows nothing of keys. Between two who ask at the same time
    /// the commit decides, or [`Engine::keep_receipt`] when the second is refused.
    pub async fn receipt(
        &self,
        tenant: &TenantId,
        operation: &str,
        key_hash: &str,
    ) -> Result<Option<Receipt>, Error> {
        let key =
            Key { tenant: tenant.clone(), operation: operation.to_owned(), key_hash: key_hash.to_owned() };
        Ok(receipts::find(self.db(), &key, self.now()).await?)
    }

    /// Keeps the answer to a request that changed nothing, such as a refusal that is final. Only on a handle from
    /// [`Engine::once`]; on others it does nothing.
    pub async fn keep_receipt(&self, status: u16, response: &str) -> Result<(), Error> {
        let Some(once) = &self.1 else { return Ok(()) };
        let receipt = self.signed(once, status, response.to_owned());
        self.submit_with(Work::Plain(Vec::new()), Some(receipt)).await.map(|_| ())
    }

    /// Deletes up to `limit` receipts that are out of date, and locks of scopes that nobody asked for in a while.
    pub(crate) async fn purge_receipts(&self, limit: usize) -> Result<usize, Error> {
        let now = self.now();
        let unused = Timestamp(now.0.saturating_sub(SCOPE_KEPT_MS));
        let old = |sql, before: Timestamp| vec![Statement::new(sql, params![before, limit as u64])];
        self.write(old(scopes::PURGE, unused)).await?;
        match self.write(old(receipts::PURGE, now)).await? {
            Reply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }

    /// For what was found to be done already: its receipt alone.
    pub(super) async fn keep_done(&self, done: Done<'_>) -> Result<(), Error> {
        let Some(once) = &self.1 else { return Ok(()) };
        let (status, response) = (once.respond)(done);
        self.keep_receipt(status, &response).await
    }

    pub(super) async fn submit(&self, work: Work, done: Done<'_>) -> Result<Reply, Error> {
        let receipt = self.1.as_ref().map(|once| {
            let (status, response) = (once.respond)(done);
            self.signed(once, status, response)
        });
        self.submit_with(work, receipt).await
    }

    fn signed(&self, once: &Once, status: u16, response: String) -> Box<(Key, Receipt)> {
        let created_at = self.now();
        let expires_at = created_at.plus_ms(once.ttl_ms);
        let body_hash = once.body_hash.clone();
        Box::new((once.key(), Receipt { body_hash, status, response, created_at, expires_at }))
    }

    async fn submit_with(&self, work: Work, receipt: Option<Box<(Key, Receipt)>>) -> Result<Reply, Error> {
        match self.0.committer.submit(work, receipt).await? {
            Reply::Duplicate(receipt) => Err(Error::Duplicate(receipt)),
            Reply::ScopeBusy(active_run) => Err(Error::ScopeBusy { active_run }),
            reply => Ok(reply),
        }
    }
}
