//! `holdpoint bench`: measures a server over HTTP, and the engine through the library.

mod agent;
mod agui;
mod batch;
mod cluster;
mod costs;
mod crowd;
mod cycle;
mod decide;
mod definitions;
mod driver;
mod fsyncs;
mod ground;
mod inbox;
mod mailbox;
mod measure;
mod parked;
mod postmaster;
mod report;
mod scratch;
mod server;
mod target;
mod wake;
mod webhooks;

use clap::Subcommand;
use holdpoint_cli::connection::Connection;
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::{Output, Progress};

// The vocabulary of all benchmarks, which the modules import from here.
use driver::Driver;
use ground::{Database, Ground};
use report::{Facts, Report};
use target::{Clients, Target};

pub const EXAMPLES: &str = "\
Without --server (or HOLDPOINT_SERVER) a server of its own is started on a free port with an empty
data folder, and removed afterwards. A named server, by http or https, or a named database keeps the data of the
benchmark. --postgres starts a PostgreSQL and removes it; its programs must be installed. `bench mailbox` and
`bench wake` use the library in their own process and need no server.

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

/// The help of `--server`. Unlike the other commands, a benchmark does not look for a server.
pub const SERVER_HELP: &str =
    "The server to measure; without it a server of its own is started, and removed afterwards";

#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "the arguments of a benchmark are used in this crate only")]
pub enum Action {
    /// The approval cycle: create a run, see it wait, answer it, see it completed
    Cycle(cycle::Load),
    /// Agents: a tool call that waits, its approval, the call, the last reply; with a scripted model
    Agent(agent::Load),
    /// AG-UI: many front ends at once, each with a run whose scripted model takes a while
    #[command(name = "ag-ui")]
    AgUi(agui::Load),
    /// Decisions: many runs wait, and clients answer them in random order
    Decide(decide::Load),
    /// The inbox while many runs wait: its first screen, its lists, and the cost of open inboxes
    Inbox(inbox::Load),
    /// Many runs that wait: memory, disk, the list of pending interrupts, and the restart after kill -9
    Parked(parked::Load),
    /// Webhooks: the rate of deliveries, and the approval cycle beside subscribers, some of them dead
    ///
    /// The subscribers are on loopback. First one of them receives many events at once, with best effort and durably,
    /// without other load; then more events with best effort than the queue has room for, which drops the rest.
    /// After that the cycle of `bench cycle` runs beside one subscription, beside one whose subscriber never answers or
    /// refuses connections, and beside many for other events or for all events. Each pass has a neighbour without
    /// subscriptions, before or after it in turn, and is reported as a share of that one: 1.00 is no loss. Where many
    /// subscriptions want the events of every cycle, each cycle has twice as many deliveries as there are subscriptions,
    /// and most of them are dropped. One in 16 signatures is checked. A server that is named with --server must
    /// run with --allow-private-webhooks on this machine and have no other webhooks.
    Webhooks(webhooks::Load),
    /// The mailbox without HTTP: enqueue, claim, ack; with shared commits, and with one for each operation
    Mailbox(mailbox::Load),
    /// The wake-ups: the time for which ready work waits for a worker, without load and beside clients
    ///
    /// Two runs are started in one thread. When the first ends, the second is ready: measured is the time from the end
    /// of the work of the first to the beginning of the work of the second, the commit in between included. On PostgreSQL
    /// also the time from a start on a node without a worker to the beginning of the work on another node.
    Wake(wake::Load),
}

pub fn run(connection: Connection, action: Action) -> Result<(), Failure> {
    let output = Output::new(connection.json);
    // The caller may be in a runtime already, so the benchmark has a thread of its own.
    let worker = std::thread::spawn(move || measure(&connection, &action));
    let report = worker.join().map_err(|_| Failure::broken("the benchmark panicked"))??;
    report.print(&output)
}

fn measure(connection: &Connection, action: &Action) -> Result<Report, Failure> {
    let runtime = runtime(action).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::broken(format!("cannot start the benchmark: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            // First, so that it listens before a server is started. Dropping the benchmark stops its server and removes
            // its folder.
            biased;
            _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted")),
            result = bench(connection, action) => result,
        }
    })
}

/// A client needs one thread; an engine takes as many as a server would.
fn runtime(action: &Action) -> tokio::runtime::Builder {
    let threads = match action {
        Action::Mailbox(load) => load.threads,
        Action::Wake(_) => None,
        _ => return tokio::runtime::Builder::new_current_thread(),
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        runtime.worker_threads(usize::from(threads));
    }
    runtime
}

async fn bench(connection: &Connection, action: &Action) -> Result<Report, Failure> {
    match action {
        Action::Cycle(load) => cycle::bench(connection, load).await,
        Action::Agent(load) => agent::bench(connection, load).await,
        Action::AgUi(load) => agui::bench(connection, load).await,
        Action::Decide(load) => decide::bench(connection, load).await,
        Action::Inbox(load) => inbox::bench(connection, load).await,
        Action::Parked(load) => parked::bench(connection, load).await,
        Action::Webhooks(load) => webhooks::bench(connection, load).await,
        Action::Mailbox(load) => mailbox::bench(load).await,
        Action::Wake(load) => wake::bench(load).await,
    }
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::broken(error.to_string())
}
