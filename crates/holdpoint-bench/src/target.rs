//! The server under test with its client and its database: a named server, or one that is started here.

use clap::Args;
use holdpoint_cli::connection::{Connection, Settings};

use super::server::OwnServer;
use super::{Database, Driver, Failure, Ground};

/// The arguments of most benchmarks.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    /// Runs in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) concurrency: u32,
    #[command(flatten)]
    pub(super) database: Database,
}

/// The server stops before its database, in the order of the fields.
pub(super) struct Target {
    pub(super) driver: Driver,
    pub(super) own: Option<OwnServer>,
    pub(super) ground: Ground,
}

impl Target {
    /// Connects to the named server, or starts one with these flags.
    pub(super) async fn start(
        connection: &Connection,
        database: &Database,
        flags: &[&str],
    ) -> Result<Self, Failure> {
        let is_named = connection.named_server().is_some();
        if is_named && (database.postgres || database.database.is_some()) {
            return Err(Failure::usage("--server cannot be combined with --database or --postgres")
                .hint("leave out --server (and HOLDPOINT_SERVER), or --database and --postgres"));
        }
        let ground = Ground::prepare(database)?;
        let mut own = match is_named {
            true => None,
            false => Some(OwnServer::start(&database.scratch.folder, ground.address("bench")?, flags)?),
        };
        let settings = match &own {
            Some(server) => server.settings(),
            None => Settings::find(connection)?,
        };
        let driver = Driver::new(settings)?;
        if let Some(server) = &mut own {
            server.ready(&driver).await?;
        }
        driver.prepare().await?;
        Ok(Self { driver, own, ground })
    }
}
