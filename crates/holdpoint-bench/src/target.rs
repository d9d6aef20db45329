//! The server under test with its client and its database: a named server, or one that the benchmark starts.

use clap::Args;
use holdpoint_cli::connection::{Connection, Settings};

use super::server::OwnServer;
use super::{BenchDatabase, DatabaseArgs, Driver, Failure};

/// The arguments of most benchmarks.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Number of concurrent clients
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) concurrency: u32,
    #[command(flatten)]
    pub(super) database: DatabaseArgs,
}

/// The fields are dropped in this order: the server stops before its database.
pub(super) struct Target {
    pub(super) driver: Driver,
    pub(super) own: Option<OwnServer>,
    pub(super) database: BenchDatabase,
}

impl Target {
    /// Connects to the named server, or starts one with these flags.
    pub(super) async fn start(
        connection: &Connection,
        args: &DatabaseArgs,
        flags: &[&str],
    ) -> Result<Self, Failure> {
        let is_named = connection.named_server().is_some();
        if is_named && (args.postgres || args.database.is_some()) {
            return Err(Failure::usage("--server cannot be combined with --database or --postgres")
                .hint("leave out --server (and HOLDPOINT_SERVER), or --database and --postgres"));
        }
        if !is_named {
            return Self::start_own(args, flags).await;
        }
        let database = BenchDatabase::prepare(args)?;
        let driver = Driver::new(Settings::find(connection)?)?;
        driver.register_cycle_workflow().await?;
        Ok(Self { driver, own: None, database })
    }

    /// Returns the size of the database on the disk. None if the server or the database was named.
    pub(super) fn disk_bytes(&self) -> Option<u64> {
        let server = self.own.as_ref()?;
        if self.database.is_postgres() { self.database.disk_bytes() } else { Some(server.disk_bytes()) }
    }

    /// Starts a server with these flags.
    pub(super) async fn start_own(args: &DatabaseArgs, flags: &[&str]) -> Result<Self, Failure> {
        let database = BenchDatabase::prepare(args)?;
        let mut server = OwnServer::start(&args.scratch.folder, database.address("bench")?, flags)?;
        let driver = Driver::new(server.settings())?;
        server.ready(&driver).await?;
        driver.register_cycle_workflow().await?;
        Ok(Self { driver, own: Some(server), database })
    }
}
