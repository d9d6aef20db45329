//! The `secrets` table: what links are signed with. At most one row signs; the others only verify.

use std::fmt;

use holdpoint_core::Timestamp;

use super::{Database, Error, Row, Statement, params};

const INSERT: &str =
    "INSERT INTO secrets (kid, secret, created_ms, signs) VALUES ($1, $2, $3, 1) ON CONFLICT DO NOTHING";
const RETIRE: &str = "UPDATE secrets SET signs = NULL, retired_ms = $1 WHERE signs = 1";
const REVOKE: &str = "DELETE FROM secrets";
const ALL: &str = "SELECT kid, secret, created_ms, retired_ms FROM secrets ORDER BY created_ms, kid";
const PURGE: &str = "DELETE FROM secrets WHERE retired_ms <= $1";

/// What links are signed with, or were.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkSecret {
    /// Its name, which stands in every link that it has signed.
    pub kid: String,
    /// As text that whoever signs can read. Whoever has it can sign.
    pub secret: String,
    pub created_at: Timestamp,
    /// Since when nothing is signed with it any more. What it has signed before is still good.
    pub retired_at: Option<Timestamp>,
}

impl fmt::Debug for LinkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nobody prints a secret by accident.
        f.debug_struct("LinkSecret").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// Stored, sealed as it is given here, unless another one signs.
pub(crate) fn insert(secret: &LinkSecret, sealed: &str) -> Statement {
    Statement::new(INSERT, params![secret.kid.as_str(), sealed, secret.created_at])
}

pub(crate) fn retire(now: Timestamp) -> Statement {
    Statement::new(RETIRE, params![now])
}

pub(crate) fn revoke_all() -> Statement {
    Statement::new(REVOKE, Vec::new())
}

/// Those that were retired until then.
pub(crate) fn purge(until: Timestamp) -> Statement {
    Statement::new(PURGE, params![until])
}

/// With secrets that are still sealed.
pub(crate) async fn all(db: &Database) -> Result<Vec<LinkSecret>, Error> {
    db.query(ALL, Vec::new()).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<LinkSecret, Error> {
    Ok(LinkSecret {
        kid: row.text(0)?.to_owned(),
        secret: row.text(1)?.to_owned(),
        created_at: Timestamp(row.int(2)?),
        retired_at: row.optional_int(3)?.map(Timestamp),
    })
}
