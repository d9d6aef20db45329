//! The `receipts` table: the responses to requests with an idempotency key, until they expire.

use holdpoint_core::{TenantId, Timestamp};

use super::{Database, Error, Param, Row, params, unreadable};

/// Reserves the key if it is free or its receipt has expired. Returns no row if another receipt has the key. A second
/// transaction with the same key waits here for the end of the first.
pub(crate) const TAKE: &str =
    "INSERT INTO receipts (tenant_id, operation, key_hash, body_hash, status, response, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant_id, operation, key_hash) DO UPDATE
    SET body_hash = excluded.body_hash, status = excluded.status, response = excluded.response,
        created_ms = excluded.created_ms, expires_ms = excluded.expires_ms
    WHERE receipts.expires_ms <= excluded.created_ms
    RETURNING tenant_id, operation, key_hash";
pub(crate) const BY_KEY: &str = "SELECT r.tenant_id, r.operation, r.key_hash, r.body_hash, r.status, r.response, \
    r.created_ms, r.expires_ms FROM receipts r WHERE r.tenant_id = $1 AND r.operation = $2 AND r.key_hash = $3";
/// Deletes a receipt that was reserved in the same transaction, for a job that was rejected.
pub(crate) const DROP: &str =
    "DELETE FROM receipts WHERE tenant_id = $1 AND operation = $2 AND key_hash = $3";
pub(crate) const PURGE: &str = "DELETE FROM receipts WHERE (tenant_id, operation, key_hash) IN (
    SELECT tenant_id, operation, key_hash FROM receipts WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)";

/// The key of a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReceiptKey {
    pub tenant: TenantId,
    pub operation: String,
    pub key_hash: String,
}

/// The stored response of a request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// SHA-256 of the body of the request. A request with the same key and another body is rejected.
    pub body_hash: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// The body of the response.
    pub response: String,
    /// The time of the request.
    pub created_at: Timestamp,
    /// The time from which on the key is free again.
    pub expires_at: Timestamp,
}

/// A receipt to be written, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewReceipt {
    pub key: ReceiptKey,
    pub receipt: Receipt,
}

impl ReceiptKey {
    pub(crate) fn values(&self) -> Vec<Param> {
        params![self.tenant.as_str(), self.operation.as_str(), self.key_hash.as_str()]
    }

    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("receipt", error))?,
            operation: row.text("operation")?.to_owned(),
            key_hash: row.text("key_hash")?.to_owned(),
        })
    }
}

impl NewReceipt {
    /// Returns the values of `TAKE`.
    pub(crate) fn values(&self) -> Vec<Param> {
        let Self { key, receipt } = self;
        let mut values = key.values();
        values.extend(params![
            receipt.body_hash.as_str(),
            i64::from(receipt.status),
            receipt.response.as_str(),
            receipt.created_at,
            receipt.expires_at
        ]);
        values
    }
}

impl Receipt {
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            body_hash: row.text("body_hash")?.to_owned(),
            status: row.small("status")?,
            response: row.text("response")?.to_owned(),
            created_at: Timestamp(row.int("created_ms")?),
            expires_at: Timestamp(row.int("expires_ms")?),
        })
    }
}

/// Returns the receipt of a key, unless it has expired.
pub(crate) async fn find(db: &Database, key: &ReceiptKey, now: Timestamp) -> Result<Option<Receipt>, Error> {
    let row = db.query_one(BY_KEY, key.values()).await?;
    let receipt = row.as_ref().map(Receipt::read).transpose()?;
    Ok(receipt.filter(|receipt| receipt.expires_at > now))
}
