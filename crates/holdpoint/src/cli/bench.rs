//! `holdpoint bench`: measures a server from outside, over HTTP, as a client sees it.

mod cycle;
mod driver;
mod fsyncs;
mod measure;
mod parked;
mod server;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::connection::{Connection, Settings};
use super::failure::Failure;
use super::output::Output;
use driver::Driver;
use server::OwnServer;

pub(crate) const EXAMPLES: &str = "\
Without --server (or HOLDPOINT_SERVER) a server of its own is started on a free port with an empty
data folder, and removed afterwards. A server that is named keeps the runs that the benchmark made.

Examples:
  holdpoint bench cycle
  holdpoint bench cycle --concurrency 1 --runs 500 --json
  holdpoint bench cycle --server http://127.0.0.1:8484 --key KEY
  holdpoint bench parked --runs 10000";

/// Unlike the other commands, a benchmark does not look for a server.
pub(crate) const SERVER_HELP: &str =
    "The server to measure; without it a server of its own is started, and removed afterwards";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// The approval cycle: create a run, see it wait, answer it, see it completed
    Cycle {
        #[command(flatten)]
        load: Load,
        /// Cycles to count
        #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Cycles before counting starts
        #[arg(long, value_name = "N", default_value_t = 200)]
        warmup: u32,
    },
    /// Many runs that wait: memory, disk, the pending view, and the way back after kill -9
    Parked {
        #[command(flatten)]
        load: Load,
        /// Runs to park
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Runs in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: u32,
    /// Where its own server keeps its data for the while; on a tmpfs, fsync costs nothing
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
}

/// What a benchmark found: one JSON line, or names and values for people.
struct Report {
    json: Value,
    facts: Vec<(&'static str, String)>,
    errors: usize,
}

pub(crate) fn run(connection: Connection, action: Action) -> Result<(), Failure> {
    let output = Output::new(connection.json);
    // A thread of its own, so that it does not matter whether the caller lives in a runtime already.
    let worker = std::thread::spawn(move || measure(&connection, &action));
    let report =
        worker.join().map_err(|_| Failure::broken("the benchmark stopped by a bug of its own"))??;
    let text = if output.json { report.json.to_string() } else { output.facts(&report.facts) };
    output.line(&text);
    match report.errors {
        0 => Ok(()),
        errors => Err(Failure::refused(format!("{errors} runs ended in an error"))),
    }
}

fn measure(connection: &Connection, action: &Action) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::broken(format!("cannot start the benchmark: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            result = bench(connection, action) => result,
            // Leaving by the front door stops our own server and removes its folder.
            _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted")),
        }
    })
}

async fn bench(connection: &Connection, action: &Action) -> Result<Report, Failure> {
    let (Action::Cycle { load, .. } | Action::Parked { load, .. }) = action;
    let mut own = match connection.named_server() {
        Some(_) => None,
        None => Some(OwnServer::start(&load.scratch)?),
    };
    let settings = match &own {
        Some(server) => server.settings(),
        None => Settings::find(connection)?,
    };
    let driver = Driver::new(&settings)?;
    if let Some(server) = &mut own {
        server.ready(&driver).await?;
    }
    driver.prepare().await?;
    match action {
        Action::Cycle { runs, warmup, .. } => {
            cycle::bench(&driver, own.as_ref(), load.concurrency, *runs, *warmup).await
        }
        Action::Parked { runs, .. } => parked::bench(&driver, own.as_mut(), load.concurrency, *runs).await,
    }
}
