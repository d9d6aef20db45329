//! The database that is measured on: one that is named, a PostgreSQL of the benchmark's own, or a file in a folder of
//! its own. Knows what the database's processes cost.

use std::path::Path;

use clap::Args;
use holdpoint_engine::Location;

use super::cluster::Cluster;
use super::postmaster;
use super::scratch::{Folder, failed, random_name};
use holdpoint_cli::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct Database {
    /// Measures on this database: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE. It keeps what the
    /// benchmark made, and nobody else should use it for the while [default: a new SQLite file]
    #[arg(long, value_name = "URL")]
    pub(super) database: Option<String>,
    /// Measures on a PostgreSQL that is started for it with default settings, and removed afterwards
    #[arg(long, conflicts_with = "database")]
    pub(super) postgres: bool,
    /// Process id of the PostgreSQL server that --database names, for its CPU time; a server on this machine is found
    /// by its port or socket
    #[arg(long, value_name = "PID", requires = "database")]
    database_pid: Option<u32>,
}

pub(super) struct Ground {
    named: Option<String>,
    own: Option<Cluster>,
    postmaster: Option<u32>,
}

/// Gone with the value that holds it.
pub(super) struct Beside {
    pub(super) location: Location,
    _folder: Folder,
}

impl Ground {
    pub(super) fn prepare(database: &Database, scratch: &Path) -> Result<Self, Failure> {
        let named = database.database.clone();
        if database.postgres {
            let cluster = Cluster::start(scratch)?;
            return Ok(Self { named, postmaster: Some(cluster.postmaster()), own: Some(cluster) });
        }
        let postmaster = match named.as_deref().map(location).transpose()? {
            Some(Location::Postgres(url)) => database.database_pid.or_else(|| postmaster::find(&url)),
            Some(Location::Sqlite(path)) => {
                // The server that is started lives in another folder.
                let path = std::path::absolute(&path).map_err(|error| failed("--database", &error))?;
                let named = Some(format!("sqlite:{}", path.display()));
                return Ok(Self { named, own: None, postmaster: None });
            }
            None => None,
        };
        Ok(Self { named, own: None, postmaster })
    }

    /// The address of a database that is empty where we can make one; nothing means a file as by default.
    pub(super) fn address(&self, name: &str) -> Result<Option<String>, Failure> {
        match &self.own {
            Some(cluster) => cluster.database(name).map(Some),
            None => Ok(self.named.clone()),
        }
    }

    /// The same for the library, with a file in `folder` by default.
    pub(super) fn location(&self, name: &str, folder: &Path) -> Result<Location, Failure> {
        match self.address(name)? {
            Some(address) => location(&address),
            None => Ok(Location::Sqlite(folder.join(format!("{name}.db")))),
        }
    }

    /// A place of its own on the same disk or server, to be measured beside what is measured.
    pub(super) fn beside(&self, scratch: &Path) -> Result<Beside, Failure> {
        let named = self.named.as_deref().map(location).transpose()?;
        let disk = match &named {
            Some(Location::Sqlite(path)) => path.parent().unwrap_or(scratch),
            _ => scratch,
        };
        let folder = Folder::create(disk)?;
        let location = match named {
            Some(Location::Postgres(url)) => Location::Postgres(url),
            Some(Location::Sqlite(_)) => Location::Sqlite(folder.path.join("beside.db")),
            None => self.location(&format!("beside_{}", random_name()?), &folder.path)?,
        };
        Ok(Beside { location, _folder: folder })
    }

    pub(super) fn is_postgres(&self) -> bool {
        self.own.is_some() || matches!(self.named.as_deref().map(location), Some(Ok(Location::Postgres(_))))
    }

    /// For people: which one it is, without passwords.
    pub(super) fn shown(&self) -> String {
        match (&self.own, self.named.as_deref().map(location)) {
            (Some(_), _) => "a PostgreSQL of its own, a new database for each round".to_owned(),
            (None, Some(Ok(named))) => {
                format!("{}, which keeps the rows of earlier rounds", named)
            }
            (None, _) => "SQLite, a new file for each round".to_owned(),
        }
    }

    /// What all processes of the database server have used so far, where that can be known.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        postmaster::cpu_seconds(self.postmaster?)
    }
}

fn location(url: &str) -> Result<Location, Failure> {
    Location::parse(url).map_err(|why| Failure::usage(format!("--database: {why}")))
}
