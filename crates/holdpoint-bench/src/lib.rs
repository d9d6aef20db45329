//! `holdpoint bench`: measures a server from outside, over HTTP, as a client sees it; and the mailbox from inside.

mod agent;
mod agui;
mod cluster;
mod costs;
mod crowd;
mod cycle;
mod decide;
mod driver;
mod fsyncs;
mod ground;
mod inbox;
mod mailbox;
mod measure;
mod parked;
mod postmaster;
mod scratch;
mod server;
mod wake;
mod webhooks;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use driver::Driver;
use ground::{Database, Ground};
use holdpoint_cli::connection::{Connection, Settings};
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Output;
use server::OwnServer;

pub const EXAMPLES: &str = "\
Without --server (or HOLDPOINT_SERVER) a server of its own is started on a free port with an empty
data folder, and removed afterwards. A server or a database that is named keeps what the benchmark made.
--postgres starts a PostgreSQL of its own and removes it; its programs must be installed. `bench mailbox` and
`bench wake` use the library in their own process and talk to no server.

Examples:
  holdpoint bench cycle
  holdpoint bench cycle --concurrency 1 --runs 500 --json
  holdpoint bench cycle --server http://127.0.0.1:8484 --key KEY
  holdpoint bench cycle --postgres
  holdpoint bench cycle --database postgres://bench:PASSWORD@127.0.0.1:5432/bench
  holdpoint bench agent --postgres --concurrency 16 --history 100000
  holdpoint bench ag-ui --runs 1000
  holdpoint bench decide --pending 100000 --seconds 10
  holdpoint bench inbox --pending 100000
  holdpoint bench parked --runs 10000
  holdpoint bench webhooks --rounds 5
  holdpoint bench mailbox --postgres --concurrency 16 --seconds 5
  holdpoint bench wake --postgres";

/// Unlike the other commands, a benchmark does not look for a server.
pub const SERVER_HELP: &str =
    "The server to measure; without it a server of its own is started, and removed afterwards";

#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "the arguments of a benchmark are used in this crate only")]
pub enum Action {
    /// The approval cycle: create a run, see it wait, answer it, see it completed
    Cycle {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        database: Database,
        /// Cycles to count
        #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Cycles before counting starts
        #[arg(long, value_name = "N", default_value_t = 200)]
        warmup: u32,
        /// Idle connections that stay open meanwhile
        #[arg(long, value_name = "N", default_value_t = 0)]
        idle: u32,
        /// Clients that send their requests byte by byte meanwhile
        #[arg(long, value_name = "N", default_value_t = 0)]
        slow: u32,
    },
    /// Agents: a call of a tool that waits, its approval, the call, the last word; with a scripted model
    Agent {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        database: Database,
        /// Runs to count
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Runs that have finished when counting begins
        #[arg(long, value_name = "N", default_value_t = 1000)]
        history: u32,
        /// Milliseconds that the model takes for a reply. With 0 nothing of the agent is outside, and what it does is
        /// written with what wakes it; else a worker waits for the model, as for any that is outside
        #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60_000))]
        thinking: u64,
    },
    /// AG-UI: many front ends at once, each with a run whose scripted model thinks for a while
    #[command(name = "ag-ui")]
    AgUi {
        #[command(flatten)]
        database: Database,
        /// Front ends, each with a run
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        runs: u32,
        /// How long each model thinks
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
        /// Where its own server keeps its data for the while; on a tmpfs, fsync costs nothing
        #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
        scratch: PathBuf,
    },
    /// Decisions: many runs wait, and people answer them in no order
    Decide {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        database: Database,
        /// Runs that wait when the measurement begins
        #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
        pending: u32,
        /// How long decisions are counted; less when nothing waits any more
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// The inbox while very much waits: its first screen, its lists, and what those who watch it cost
    Inbox {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        database: Database,
        /// Runs that wait
        #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(16..))]
        pending: u32,
        /// How often each question is asked
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        requests: u32,
        /// Inboxes that are open while decisions are counted
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        watchers: u32,
        /// How long decisions are counted each time, three times with watchers and three times without; less when nothing is left
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Many runs that wait: memory, disk, the pending view, and the way back after kill -9
    Parked {
        #[command(flatten)]
        load: Load,
        /// Runs to park
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// Webhooks: deliveries by themselves, and what the approval cycle loses beside subscribers, dead ones among them
    ///
    /// The subscribers are its own, on loopback. First many events at once are told to one of them, with best effort and
    /// durably, while nothing else happens; then more with best effort than there is room for, which drops the rest.
    /// After that the cycle of `bench cycle` runs beside one subscription, beside one whose subscriber never answers or
    /// refuses connections, and beside many that want other events or all of them. Each pass has a neighbour without any
    /// subscription, before or behind it in turn, and is told as a share of that one: 1.00 is no loss. Where many are
    /// told of every cycle, each cycle means twice as many deliveries as there are subscriptions; that is bound to
    /// cost, and most of them are dropped. One in 16 signatures is looked at. A server that is named with --server must
    /// run with --allow-private-webhooks on this machine and have no other webhooks.
    Webhooks {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        database: Database,
        /// Deliveries of each kind to count while nothing else happens
        #[arg(long, value_name = "N", default_value_t = 9_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        deliveries: u32,
        /// Cycles in each pass
        #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Passes beside each kind of subscriptions; the middle one counts
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        rounds: u32,
        /// Subscriptions where there are many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        subscriptions: u32,
    },
    /// The mailbox by itself, without HTTP: enqueue, claim, ack; with shared commits, and with one for each operation
    Mailbox {
        #[command(flatten)]
        database: Database,
        /// Clients at the same time, each with a thread of the mailbox of its own
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
        concurrency: u32,
        /// How long each of the six rounds counts, three each way in turn
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
        /// Threads of this process for clients and engine [default: one for each core]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        threads: Option<u16>,
        /// Where its databases are for the while; on a tmpfs, fsync costs nothing
        #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
        scratch: PathBuf,
    },
    /// The wake-ups: how long work that has become ready waits for a worker, without load and beside clients
    ///
    /// Two runs are started in one thread. When the first ends, the second is ready: measured is the time from the end
    /// of the first one's work to the beginning of the second one's, the commit in between included. On PostgreSQL also
    /// the time from a start on a node without a worker to the beginning of the work on another node.
    Wake(wake::Load),
}

#[derive(Debug, Args)]
pub struct Load {
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

pub fn run(connection: Connection, action: Action) -> Result<(), Failure> {
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
    let runtime = runtime(action).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::broken(format!("cannot start the benchmark: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            // First, so that it listens before anything is started. Leaving by the front door stops what we started
            // and removes its folder.
            biased;
            _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted")),
            result = bench(connection, action) => result,
        }
    })
}

/// A client needs one thread; an engine takes as many as a server would.
fn runtime(action: &Action) -> tokio::runtime::Builder {
    let threads = match action {
        Action::Mailbox { threads, .. } => threads,
        Action::Wake(_) => &None,
        _ => return tokio::runtime::Builder::new_current_thread(),
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        runtime.worker_threads(usize::from(*threads));
    }
    runtime
}

async fn bench(connection: &Connection, action: &Action) -> Result<Report, Failure> {
    match action {
        Action::Cycle { load, database, runs, warmup, idle, slow } => {
            let ground = prepare(connection, database, load)?;
            let (driver, own) = start(connection, load, ground.address("bench")?, &[]).await?;
            let connections = cycle::Connections { idle: *idle, slow: *slow };
            let load =
                cycle::Load { concurrency: load.concurrency, runs: *runs, warmup: *warmup, connections };
            cycle::bench(&driver, own.as_ref(), &ground, &load).await
        }
        Action::Agent { load, database, runs, history, thinking } => {
            let ground = prepare(connection, database, load)?;
            let (driver, _own) = start(connection, load, ground.address("bench")?, &[]).await?;
            let load = agent::Load {
                concurrency: load.concurrency,
                runs: *runs,
                history: *history,
                thinking: *thinking,
            };
            agent::bench(&driver, &ground, &load).await
        }
        Action::AgUi { database, runs, seconds, scratch } => {
            let load = Load { concurrency: *runs, scratch: scratch.clone() };
            let ground = prepare(connection, database, &load)?;
            let (driver, _own) = start(connection, &load, ground.address("bench")?, &[]).await?;
            agui::bench(&driver, &agui::Load { runs: *runs, seconds: *seconds }).await
        }
        Action::Decide { load, database, pending, seconds } => {
            let ground = prepare(connection, database, load)?;
            let (driver, own) = start(connection, load, ground.address("bench")?, &[]).await?;
            // Of a server that is named nobody knows on which disk it is.
            let disk = own.as_ref().map(|_| load.scratch.as_path());
            let load = decide::Load { concurrency: load.concurrency, pending: *pending, seconds: *seconds };
            decide::bench(&driver, &ground, disk, &load).await
        }
        Action::Inbox { load, database, pending, requests, watchers, seconds } => {
            let ground = prepare(connection, database, load)?;
            let (driver, _own) = start(connection, load, ground.address("bench")?, &[]).await?;
            let load = inbox::Load {
                concurrency: load.concurrency,
                pending: *pending,
                requests: *requests,
                watchers: *watchers,
                seconds: *seconds,
            };
            inbox::bench(&driver, &load).await
        }
        Action::Parked { load, runs } => {
            let (driver, mut own) = start(connection, load, None, &[]).await?;
            parked::bench(&driver, own.as_mut(), load.concurrency, *runs).await
        }
        Action::Webhooks { load, database, deliveries, runs, rounds, subscriptions } => {
            let ground = prepare(connection, database, load)?;
            let (driver, _own) = start(connection, load, ground.address("bench")?, webhooks::FLAGS).await?;
            let load = webhooks::Load {
                concurrency: load.concurrency,
                deliveries: *deliveries,
                runs: *runs,
                rounds: *rounds,
                subscriptions: *subscriptions,
            };
            webhooks::bench(&driver, &ground, &load).await
        }
        Action::Mailbox { database, concurrency, seconds, scratch, .. } => {
            let ground = Ground::prepare(database, scratch)?;
            mailbox::bench(&ground, scratch, *concurrency, Duration::from_secs(*seconds)).await
        }
        Action::Wake(load) => wake::bench(load).await,
    }
}

fn prepare(connection: &Connection, database: &Database, load: &Load) -> Result<Ground, Failure> {
    if connection.named_server().is_some() && (database.postgres || database.database.is_some()) {
        return Err(Failure::usage("a server that is named has its database already")
            .hint("leave out --server (and HOLDPOINT_SERVER), or --database and --postgres"));
    }
    Ground::prepare(database, &load.scratch)
}

/// A client of the server that is named, or of one that is started here, with everything it needs.
async fn start(
    connection: &Connection,
    load: &Load,
    database: Option<String>,
    flags: &'static [&'static str],
) -> Result<(Driver, Option<OwnServer>), Failure> {
    let mut own = match connection.named_server() {
        Some(_) => None,
        None => Some(OwnServer::start(&load.scratch, database, flags)?),
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
    Ok((driver, own))
}
