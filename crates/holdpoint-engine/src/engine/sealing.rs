//! The seal key of a database: its source, and the check that every node has the same key.

use std::path::{Path, PathBuf};

use super::Engine;
use crate::error::Error;
use crate::location::Location;
use crate::seal::{Seal, SealKey};
use crate::store::postgres::{self, PostgresSettings};
use crate::store::{self, Database, seal as stored, sqlite};

/// The source of the seal key: a given key, or a file that is created when a database is sealed for the first time.
#[derive(Clone, Debug)]
pub(crate) enum SealSource {
    Key(SealKey),
    File(PathBuf),
}

/// The seal key of a database that is being opened.
#[derive(Debug)]
pub(super) struct ResolvedSealKey {
    pub key: SealKey,
    /// The file that this start created for the key.
    created: Option<PathBuf>,
}

impl SealSource {
    /// Returns the configured source. The default for SQLite is a key file next to the database; PostgreSQL has no
    /// default. Rejects a key that does not fit the database before the engine writes to it.
    pub(super) async fn choose(chosen: Option<Self>, location: &Location) -> Result<Option<Self>, Error> {
        let source = match (chosen, location) {
            (Some(source), _) => source,
            (None, Location::Sqlite(path)) => Self::File(path.with_extension("key")),
            (None, Location::Postgres(_)) => return Ok(None),
        };
        source.check_first(location).await?;
        Ok(Some(source))
    }

    /// Rejects a key that does not fit the database. [`Self::resolve`] checks again, because some databases cannot be
    /// read before they are opened.
    async fn check_first(&self, location: &Location) -> Result<(), Error> {
        let sealed_with = match location {
            Location::Sqlite(path) => sqlite::peek(path, stored::REMEMBERED),
            Location::Postgres(url) => {
                postgres::peek(&PostgresSettings::parse(url)?, stored::HAS_TABLE, stored::REMEMBERED).await?
            }
        };
        self.find_fitting_key(sealed_with).map(|_| ())
    }

    /// Returns the key for an open database. Its file is created only if no key has sealed the database yet.
    pub(super) async fn resolve(&self, db: &Database) -> Result<ResolvedSealKey, Error> {
        match (self.find_fitting_key(stored::remembered(db).await?)?, self) {
            (Some(key), _) => Ok(ResolvedSealKey { key, created: None }),
            (None, Self::File(path)) => {
                let key = SealKey::load_or_create(path).map_err(|error| failed(path, &error))?;
                Ok(ResolvedSealKey { key, created: Some(path.clone()) })
            }
            (None, Self::Key(key)) => Ok(ResolvedSealKey { key: key.clone(), created: None }),
        }
    }

    /// Returns the key, or `None` if its file does not exist yet. Fails if the database is sealed with another key.
    fn find_fitting_key(&self, sealed_with: Option<String>) -> Result<Option<SealKey>, Error> {
        let key = match self {
            Self::Key(key) => Some(key.clone()),
            Self::File(path) => SealKey::read(path).map_err(|error| failed(path, &error))?,
        };
        match (key, sealed_with, self) {
            (Some(key), Some(wanted), _) if key.name() != wanted => {
                Err(Error::WrongSealKey { given: key.name(), wanted })
            }
            (None, Some(wanted), Self::File(path)) => {
                Err(Error::MissingSealKey { path: path.clone(), wanted })
            }
            (key, _, _) => Ok(key),
        }
    }
}

impl ResolvedSealKey {
    /// Removes the key file that this start created, after another node sealed the database first.
    fn remove_created_file(&self) {
        if let Some(path) = &self.created
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove the unused seal key file; remove it manually");
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    store::Error::Open { path: path.to_owned(), message: error.to_string() }.into()
}

impl Engine {
    /// Closes the engine with an error if the seal key is not that of the database.
    pub(super) async fn verify_seal_key(self, seal_key: Option<&ResolvedSealKey>) -> Result<Self, Error> {
        let Some(seal_key) = seal_key else { return Ok(self) };
        match self.check_seal(&seal_key.key).await {
            Ok(()) => Ok(self),
            Err(error) => {
                if matches!(error, Error::WrongSealKey { .. }) {
                    seal_key.remove_created_file();
                }
                self.close().await;
                Err(error)
            }
        }
    }

    /// Checks the stored name of the seal key. SQLite stored it when the file was opened; PostgreSQL stores it now.
    async fn check_seal(&self, key: &SealKey) -> Result<(), Error> {
        if self.is_shared() {
            stored::remember_now(self.db(), &key.name()).await?;
        }
        match stored::remembered(self.db()).await? {
            Some(name) if name != key.name() => Err(Error::WrongSealKey { given: key.name(), wanted: name }),
            _ => Ok(()),
        }
    }

    /// Returns the seal, which encrypts and decrypts secrets.
    pub(crate) fn seal(&self) -> Result<&Seal, Error> {
        self.0.seal.as_ref().ok_or(Error::NoSealKey)
    }
}
