//! The key that seals the secrets of a database: where it is, and that every node has the same.

use std::path::{Path, PathBuf};

use super::Engine;
use crate::error::Error;
use crate::location::Location;
use crate::seal::{Seal, SealKey};
use crate::store::postgres::{self, Settings};
use crate::store::{self, Database, seal as stored, sqlite};

/// The place of the key: given by the caller, or a file that is created when a database is sealed for the first time.
#[derive(Clone, Debug)]
pub(crate) enum SealSource {
    Key(SealKey),
    File(PathBuf),
}

/// The key of a database that is being opened.
#[derive(Debug)]
pub(super) struct Settled {
    pub key: SealKey,
    /// The file that this start created for the key.
    created: Option<PathBuf>,
}

impl SealSource {
    /// Returns the chosen source. Without one, a SQLite file has its key beside it, and a PostgreSQL database has none. A
    /// key that does not fit the database is refused before anything is written.
    pub(super) async fn choose(chosen: Option<Self>, location: &Location) -> Result<Option<Self>, Error> {
        let source = match (chosen, location) {
            (Some(source), _) => source,
            (None, Location::Sqlite(path)) => Self::File(path.with_extension("key")),
            (None, Location::Postgres(_)) => return Ok(None),
        };
        source.check_first(location).await?;
        Ok(Some(source))
    }

    /// Refuses a key that does not fit. Whatever cannot be read before the database is opened is checked again by
    /// [`Self::settle`].
    async fn check_first(&self, location: &Location) -> Result<(), Error> {
        let sealed_with = match location {
            Location::Sqlite(path) => sqlite::peek(path, stored::REMEMBERED),
            Location::Postgres(url) => {
                postgres::peek(&Settings::parse(url)?, stored::HAS_TABLE, stored::REMEMBERED).await?
            }
        };
        self.fitting(sealed_with).map(|_| ())
    }

    /// Returns the key for an open database. Its file is created only if no key has sealed the database yet.
    pub(super) async fn settle(&self, db: &Database) -> Result<Settled, Error> {
        match (self.fitting(stored::remembered(db).await?)?, self) {
            (Some(key), _) => Ok(Settled { key, created: None }),
            (None, Self::File(path)) => {
                let key = SealKey::kept_in(path).map_err(|error| failed(path, &error))?;
                Ok(Settled { key, created: Some(path.clone()) })
            }
            (None, Self::Key(key)) => Ok(Settled { key: key.clone(), created: None }),
        }
    }

    /// Returns the key if it exists and fits a database that was sealed with the named key, or that was not sealed yet.
    fn fitting(&self, sealed_with: Option<String>) -> Result<Option<SealKey>, Error> {
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

impl Settled {
    /// Takes back the key file that this start created, after another node sealed the database first.
    fn undo(&self) {
        if let Some(path) = &self.created
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove the seal key that is not used; remove it");
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    store::Error::Open { path: path.to_owned(), message: error.to_string() }.into()
}

impl Engine {
    /// Stays open only with the key of its database.
    pub(super) async fn sealed_with(self, settled: Option<&Settled>) -> Result<Self, Error> {
        let Some(settled) = settled else { return Ok(self) };
        match self.check_seal(&settled.key).await {
            Ok(()) => Ok(self),
            Err(error) => {
                if matches!(error, Error::WrongSealKey { .. }) {
                    settled.undo();
                }
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
