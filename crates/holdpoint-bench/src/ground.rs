//! The database under test: a named one, a PostgreSQL that is started here, or a file in a temporary folder. Reads the CPU
//! time of the processes of the database.

use std::path::Path;

use clap::Args;
use holdpoint_engine::Location;

use super::Failure;
use super::cluster::Cluster;
use super::postmaster;
use super::scratch::{Folder, Scratch, failed, random_name};

#[derive(Debug, Args)]
pub(crate) struct Database {
    #[command(flatten)]
    pub(super) scratch: Scratch,
    /// Measures on this database: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE. The rows of the benchmark
    /// stay in it, and no other program should use it meanwhile [default: a new SQLite file]
    #[arg(long, value_name = "URL")]
    pub(super) database: Option<String>,
    /// Starts a PostgreSQL with default settings, measures on it and removes it
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

impl Database {
    /// The default database in this folder.
    pub(super) fn local(scratch: &Scratch) -> Self {
        Self { scratch: scratch.clone(), database: None, postgres: false, database_pid: None }
    }
}

impl Ground {
    pub(super) fn prepare(database: &Database) -> Result<Self, Failure> {
        let named = database.database.clone();
        if database.postgres {
            let cluster = Cluster::start(&database.scratch.folder)?;
            return Ok(Self { named, postmaster: Some(cluster.postmaster()), own: Some(cluster) });
        }
        let postmaster = match named.as_deref().map(location).transpose()? {
            Some(Location::Postgres(url)) => database.database_pid.or_else(|| postmaster::find(&url)),
            Some(Location::Sqlite(path)) => {
                // The server runs in another folder.
                let path = std::path::absolute(&path).map_err(|error| failed("--database", &error))?;
                let named = Some(format!("sqlite:{}", path.display()));
                return Ok(Self { named, own: None, postmaster: None });
            }
            None => None,
        };
        Ok(Self { named, own: None, postmaster })
    }

    /// Returns the address of a database, which is new in a PostgreSQL that was started here. None means the default file.
    pub(super) fn address(&self, name: &str) -> Result<Option<String>, Failure> {
        match &self.own {
            Some(cluster) => cluster.database(name).map(Some),
            None => Ok(self.named.clone()),
        }
    }

    /// Returns the same for the library, with a file in `folder` by default.
    pub(super) fn location(&self, name: &str, folder: &Path) -> Result<Location, Failure> {
        match self.address(name)? {
            Some(address) => location(&address),
            None => Ok(Location::Sqlite(folder.join(format!("{name}.db")))),
        }
    }

    /// Returns another database on the same disk or server, and its folder, which must be held.
    pub(super) fn beside(&self, scratch: &Path) -> Result<(Location, Folder), Failure> {
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
        Ok((location, folder))
    }

    pub(super) fn is_postgres(&self) -> bool {
        self.own.is_some() || matches!(self.named.as_deref().map(location), Some(Ok(Location::Postgres(_))))
    }

    /// Describes the database without its password.
    pub(super) fn shown(&self) -> String {
        match (&self.own, self.named.as_deref().map(location)) {
            (Some(_), _) => "a PostgreSQL of its own, a new database for each round".to_owned(),
            (None, Some(Ok(named))) => {
                format!("{named}, which keeps the rows of earlier rounds")
            }
            (None, _) => "SQLite, a new file for each round".to_owned(),
        }
    }

    /// Returns the CPU time of all processes of the database server, if it is known.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        postmaster::cpu_seconds(self.postmaster?)
    }
}

fn location(url: &str) -> Result<Location, Failure> {
    Location::parse(url).map_err(|why| Failure::usage(format!("--database: {why}")))
}
