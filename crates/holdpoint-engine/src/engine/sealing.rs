//! Which key seals what this database must not show, and that every node has the same.

use std::path::Path;

use super::Engine;
use crate::error::Error;
use crate::seal::{Seal, SealKey};
use crate::store::{self, Location, seal as stored};

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

impl Engine {
    /// Stays open only with the key of its database.
    pub(super) async fn sealed_with(self, key: Option<&SealKey>) -> Result<Self, Error> {
        let Some(key) = key else { return Ok(self) };
        match self.check_seal(key).await {
            Ok(()) => Ok(self),
            Err(error) => {
                self.close().await;
                Err(error)
            }
        }
    }

    /// A file has remembered its key when it was opened; a server does so now.
    async fn check_seal(&self, key: &SealKey) -> Result<(), Error> {
        if self.is_shared() {
            stored::remember_now(self.db(), &key.name()).await?;
        }
        match stored::remembered(self.db()).await? {
            Some(name) if name != key.name() => Err(Error::WrongSealKey { given: key.name(), wanted: name }),
            _ => Ok(()),
        }
    }

    /// Seals secrets and opens them.
    pub(crate) fn seal(&self) -> Result<&Seal, Error> {
        self.0.seal.as_ref().ok_or(Error::NoSealKey)
    }
}
