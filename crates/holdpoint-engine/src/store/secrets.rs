//! The `secrets` table: the secrets of signed links. At most one row signs; the others only verify.

use std::fmt;

use holdpoint_core::Timestamp;

use super::{Database, Error, Row, Statement, params};

const INSERT: &str =
    "INSERT INTO secrets (kid, secret, created_ms, signs) VALUES ($1, $2, $3, 1) ON CONFLICT DO NOTHING";
const RETIRE: &str = "UPDATE secrets SET signs = NULL, retired_ms = $1 WHERE signs = 1";
const REVOKE: &str = "DELETE FROM secrets";
const ALL: &str = "SELECT kid, secret, created_ms, retired_ms FROM secrets ORDER BY created_ms, kid";
const PURGE: &str = "DELETE FROM secrets WHERE retired_ms <= $1";

/// A secret that signs links, or has signed links.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkSecret {
    /// The id of the secret. Every link contains the id of the secret that signed it.
    pub kid: String,
    /// The secret as text. Possession of it is enough to sign links.
    pub secret: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time from which on the secret signs no more links. Links that it has signed before stay valid.
    pub retired_at: Option<Timestamp>,
}

impl fmt::Debug for LinkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret must not appear in logs.
        f.debug_struct("LinkSecret").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// Inserts a secret, in its sealed form, unless another secret signs.
pub(crate) fn insert(secret: &LinkSecret, sealed: &str) -> Statement {
    Statement::new(INSERT, params![secret.kid.as_str(), sealed, secret.created_at])
}

pub(crate) fn retire(now: Timestamp) -> Statement {
    Statement::new(RETIRE, params![now])
}

pub(crate) fn revoke_all() -> Statement {
    Statement::new(REVOKE, Vec::new())
}

/// Deletes the secrets that were retired at `until` or before.
pub(crate) fn purge(until: Timestamp) -> Statement {
    Statement::new(PURGE, params![until])
}

/// Returns all secrets, in their sealed form.
pub(crate) async fn all(db: &Database) -> Result<Vec<LinkSecret>, Error> {
    db.query(ALL, Vec::new()).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<LinkSecret, Error> {
    Ok(LinkSecret {
        kid: row.text("kid")?.to_owned(),
        secret: row.text("secret")?.to_owned(),
        created_at: Timestamp(row.int("created_ms")?),
        retired_at: row.optional_int("retired_ms")?.map(Timestamp),
    })
}
