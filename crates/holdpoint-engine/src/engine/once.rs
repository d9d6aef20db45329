//! Requests that are executed at most once: the response to a request is stored in the commit of its change, and a
//! repeated request finds the stored response.

use std::fmt;
use std::sync::Arc;

use holdpoint_core::{TenantId, Timestamp};

use super::{Engine, Receipts};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::receipts::{self, NewReceipt, Receipt, ReceiptKey};
use crate::store::{Statement, params, scopes};

/// The time for which the lock row of a scope is kept. It is longer than any transaction that uses the lock.
const SCOPE_KEPT_MS: i64 = 3_600_000;

/// A receipt that is written with the change of its request.
pub(crate) type PendingReceipt = Box<NewReceipt>;

/// The identity of a request that is executed at most once.
#[derive(Clone)]
pub struct RequestKey {
    /// The tenant of the caller.
    pub tenant: TenantId,
    /// The kind of request. The same key identifies another request if the operation differs. At most 256 bytes.
    pub operation: String,
    /// The hash of the key that the sender chose. At most 256 bytes.
    pub key_hash: String,
    /// The hash of the body of the request.
    pub body_hash: String,
    /// The time for which the receipt is kept.
    pub ttl_ms: u64,
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs, also as hashes.
        f.debug_struct("RequestKey").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl RequestKey {
    fn receipt_key(&self) -> ReceiptKey {
        let (tenant, operation) = (self.tenant.clone(), self.operation.clone());
        ReceiptKey { tenant, operation, key_hash: self.key_hash.clone() }
    }

    fn receipt(&self, status: u16, response: String, created_at: Timestamp) -> PendingReceipt {
        let (body_hash, expires_at) = (self.body_hash.clone(), created_at.plus_ms(self.ttl_ms));
        let receipt = Receipt { body_hash, status, response, created_at, expires_at };
        Box::new(NewReceipt { key: self.receipt_key(), receipt })
    }
}

/// A request that creates or changes a `T` at most once. Operations of the engine that take one write a receipt in the
/// commit of their change.
///
/// An operation fails with [`Error::Duplicate`] without a change if there is a receipt for the request. An operation
/// that fails leaves no receipt; [`Receipts::keep`] stores the response to a refusal.
pub struct Once<T> {
    /// The identity of the request.
    pub request: RequestKey,
    /// Returns status and body of the response for the state that is about to be committed. Called once per attempt.
    pub respond: Arc<Respond<T>>,
}

/// Function that returns status and body of a response.
pub type Respond<T> = dyn Fn(&T) -> (u16, String) + Send + Sync;

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self { request: self.request.clone(), respond: self.respond.clone() }
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Once").field(&self.request).finish()
    }
}

impl Receipts<'_> {
    /// Returns the receipt of a request, unless it has expired. Callers look for it before they try an operation,
    /// because the core refuses many repeated commands and does not know the key. If two requests with one key
    /// arrive at the same time, the commit accepts one of them; if the core refuses the second one,
    /// [`Receipts::keep`] fails with [`Error::Duplicate`].
    pub async fn get(self, request: &RequestKey) -> Result<Option<Receipt>, Error> {
        Ok(receipts::find(self.engine.db(), &request.receipt_key(), self.engine.now()).await?)
    }

    /// Stores the response to a request without a change, such as a final refusal.
    pub async fn keep(self, request: &RequestKey, status: u16, response: String) -> Result<(), Error> {
        let receipt = request.receipt(status, response, self.engine.now());
        self.engine.0.committer.submit(Work::Plain(Vec::new()), Some(receipt)).await.map(|_| ())
    }
}

impl Engine {
    /// Deletes up to `limit` receipts that have expired, and up to `limit` locks of scopes that were not used for
    /// an hour.
    pub(crate) async fn purge_receipts(&self, limit: usize) -> Result<usize, Error> {
        let now = self.now();
        let unused = Timestamp(now.0.saturating_sub(SCOPE_KEPT_MS));
        let old = |sql, before: Timestamp| vec![Statement::new(sql, params![before, limit as u64])];
        self.write(old(scopes::PURGE, unused)).await?;
        match self.write(old(receipts::PURGE, now)).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }

    /// Writes the receipt of an operation that changed no state.
    pub(super) async fn keep_unchanged<T>(&self, once: Option<&Once<T>>, state: &T) -> Result<(), Error> {
        let Some(once) = once else { return Ok(()) };
        let (status, response) = (once.respond)(state);
        self.receipts().keep(&once.request, status, response).await
    }

    /// Returns the receipt of a request for the state after its change.
    pub(super) fn new_receipt<T>(&self, once: Option<&Once<T>>, after: &T) -> Option<PendingReceipt> {
        let once = once?;
        let (status, response) = (once.respond)(after);
        Some(once.request.receipt(status, response, self.now()))
    }

    /// Commits work that is no change of a run, with the receipt for the state after it.
    pub(super) async fn submit<T>(
        &self,
        work: Work,
        once: Option<&Once<T>>,
        after: &T,
    ) -> Result<CommitReply, Error> {
        self.0.committer.submit(work, self.new_receipt(once, after)).await
    }
}
