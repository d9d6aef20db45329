//! The `seal` table: the name of the seal key. The key itself is never stored.

use super::{Database, Error, Statement, params};

const REMEMBER: &str = "INSERT INTO seal (place, key_name) VALUES (1, $1) ON CONFLICT DO NOTHING";
/// Returns true if a PostgreSQL database has the table.
pub(crate) const HAS_TABLE: &str = "SELECT to_regclass('seal') IS NOT NULL AS found";
pub(crate) const REMEMBERED: &str = "SELECT key_name AS found FROM seal WHERE place = 1";

/// Stores the name of the seal key, unless one is stored.
pub(crate) fn remember(name: &str) -> Statement {
    Statement::new(REMEMBER, params![name])
}

/// Stores the name without the committer, so that opening the database does not wait for a shared commit.
pub(crate) async fn remember_now(db: &Database, name: &str) -> Result<(), Error> {
    match remembered(db).await? {
        Some(_) => Ok(()),
        None => db.query(REMEMBER, params![name]).await.map(|_| ()),
    }
}

pub(crate) async fn remembered(db: &Database) -> Result<Option<String>, Error> {
    let row = db.query_one(REMEMBERED, Vec::new()).await?;
    row.map(|row| row.text("found").map(str::to_owned)).transpose()
}
