//! The database under test: a named one, a temporary PostgreSQL, or a file in a temporary folder. Reads the CPU time of
//! its processes.

use std::path::Path;

use clap::Args;
use holdpoint_engine::Location;

use super::Failure;
use super::cluster::PostgresCluster;
use super::postmaster;
use super::scratch::{ScratchArgs, TempFolder, failed, random_name};

#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    #[command(flatten)]
    pub(super) scratch: ScratchArgs,
    /// Database to use: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE. The rows of the benchmark stay in
    /// it; no other program should use it during the measurement [default: a new SQLite file]
    #[arg(long, value_name = "URL")]
    pub(super) database: Option<String>,
    /// Start a temporary PostgreSQL with default settings and remove it afterwards
    #[arg(long, conflicts_with = "database")]
    pub(super) postgres: bool,
    /// Process id of the PostgreSQL server of --database, to measure its CPU time [default: found by port or socket if
    /// the server is on this machine]
    #[arg(long, value_name = "PID", requires = "database")]
    database_pid: Option<u32>,
}

pub(super) struct BenchDatabase {
    named: Option<String>,
    own: Option<PostgresCluster>,
    postmaster: Option<u32>,
}

impl DatabaseArgs {
    /// Returns the arguments for a new SQLite file in this folder.
    pub(super) fn local(scratch: &ScratchArgs) -> Self {
        Self { scratch: scratch.clone(), database: None, postgres: false, database_pid: None }
    }
}

impl BenchDatabase {
    pub(super) fn prepare(args: &DatabaseArgs) -> Result<Self, Failure> {
        let named = args.database.clone();
        if args.postgres {
            let cluster = PostgresCluster::start(&args.scratch.folder)?;
            return Ok(Self { named, postmaster: Some(cluster.postmaster()), own: Some(cluster) });
        }
        let postmaster = match named.as_deref().map(location).transpose()? {
            Some(Location::Postgres(url)) => args.database_pid.or_else(|| postmaster::find(&url)),
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

    /// Returns the address of the database. Creates a new database in a temporary PostgreSQL. None means the default
    /// file.
    pub(super) fn address(&self, name: &str) -> Result<Option<String>, Failure> {
        match &self.own {
            Some(cluster) => cluster.database(name).map(Some),
            None => Ok(self.named.clone()),
        }
    }

    /// Returns the location of the database for the engine, by default a file in `folder`.
    pub(super) fn location(&self, name: &str, folder: &Path) -> Result<Location, Failure> {
        match self.address(name)? {
            Some(address) => location(&address),
            None => Ok(Location::Sqlite(folder.join(format!("{name}.db")))),
        }
    }

    /// Returns another database on the same disk or server, and its folder, which is removed when it is dropped.
    pub(super) fn sibling(&self, scratch: &Path) -> Result<(Location, TempFolder), Failure> {
        let named = self.named.as_deref().map(location).transpose()?;
        let disk = match &named {
            Some(Location::Sqlite(path)) => path.parent().unwrap_or(scratch),
            _ => scratch,
        };
        let folder = TempFolder::create(disk)?;
        let location = match named {
            Some(Location::Postgres(url)) => Location::Postgres(url),
            Some(Location::Sqlite(_)) => Location::Sqlite(folder.path.join("sibling.db")),
            None => self.location(&format!("sibling_{}", random_name()?), &folder.path)?,
        };
        Ok((location, folder))
    }

    pub(super) fn is_postgres(&self) -> bool {
        self.own.is_some() || matches!(self.named.as_deref().map(location), Some(Ok(Location::Postgres(_))))
    }

    /// Returns the size of the files of a temporary PostgreSQL, without its log.
    pub(super) fn disk_bytes(&self) -> Option<u64> {
        self.own.as_ref().map(PostgresCluster::disk_bytes)
    }

    /// Describes the database without its password.
    pub(super) fn describe(&self) -> String {
        match (&self.own, self.named.as_deref().map(location)) {
            (Some(_), _) => "temporary PostgreSQL, a new database for each round".to_owned(),
            (None, Some(Ok(named))) => {
                format!("{named}, with the rows of earlier rounds")
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
