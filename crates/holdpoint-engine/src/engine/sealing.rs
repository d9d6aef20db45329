//! Which key seals what this database must not show, and that every node has the same.

use std::path::Path;

use super::Engine;
use crate::error::Error;
use crate::seal::{Seal, SealKey};
use crate::store::{self, Location, Statement, params};

const REMEMBER: &str = "INSERT INTO seal (place, key_name) VALUES (1, $1) ON CONFLICT DO NOTHING";
const REMEMBERED: &str = "SELECT key_name FROM seal WHERE place = 1";

/// The key that was chosen; beside a file its own, if none was. Nobody can guess where the nodes of a server keep theirs.
pub(super) fn key(chosen: Option<SealKey>, location: &Location) -> Result<Option<SealKey>, Error> {
    match (chosen, location) {
        (Some(key), _) => Ok(Some(key)),
        (None, Location::Sqlite(path)) => kept_in(&path.with_extension("key")).map(Some),
        (None, Location::Postgres(_)) => Ok(None),
    }
}

fn kept_in(path: &Path) -> Result<SealKey, Error> {
    let failed =
        |error: std::io::Error| store::Error::Open { path: path.to_owned(), message: error.to_string() };
    Ok(SealKey::kept_in(path).map_err(failed)?)
}

/// What is written before anything else where nobody else writes.
pub(super) fn remember(key: &SealKey) -> Statement {
    Statement::new(REMEMBER, params![key.name()])
}

impl Engine {
    /// The first key that a database sees is its key.
    pub(super) async fn check_seal(&self, key: &SealKey) -> Result<(), Error> {
        if self.seal_name().await?.is_none() {
            self.write(vec![remember(key)]).await?;
        }
        match self.seal_name().await? {
            Some(name) if name != key.name() => Err(Error::WrongSealKey { given: key.name(), wanted: name }),
            _ => Ok(()),
        }
    }

    async fn seal_name(&self) -> Result<Option<String>, Error> {
        let row = self.db().query_one(REMEMBERED, Vec::new()).await?;
        Ok(row.map(|row| row.text(0).map(str::to_owned)).transpose()?)
    }

    /// Seals secrets and opens them.
    pub(crate) fn seal(&self) -> Result<&Seal, Error> {
        self.0.seal.as_ref().ok_or(Error::NoSealKey)
    }
}
