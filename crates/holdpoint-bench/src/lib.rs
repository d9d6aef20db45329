//! `holdpoint bench`: measures a server over HTTP, and the engine through the library.
//!
//! # Layout
//! - `all`: the most important figures with their goals; `ceiling`: the program without an engine that it compares with
//! - `cycle`, `decide`, `inbox`, `parked`, `agent`, `agui`, `agui_thread`, `agui_tokens`, `webhooks`, `mailbox`, `wake`:
//!   the benchmarks
//! - `target`, `driver`, `server`, `database`, `cluster`: the server under test, its client, process and database
//! - `batch`, `background_connections`, `definitions`: concurrent clients, idle and slow connections, workflows and
//!   agents
//! - `costs`, `measure`, `fsyncs`, `postmaster`, `report`, `progress`, `scratch`: measurements, output, temporary
//!   resources

mod agent;
mod agui;
mod agui_thread;
mod agui_tokens;
mod all;
mod background_connections;
mod batch;
mod ceiling;
mod cluster;
mod costs;
mod cycle;
mod database;
mod decide;
mod definitions;
mod driver;
mod fsyncs;
mod inbox;
mod mailbox;
mod measure;
mod parked;
mod postmaster;
mod progress;
mod report;
mod scratch;
mod server;
mod target;
mod wake;
mod webhooks;

use clap::Subcommand;
use holdpoint_cli::connection::Connection;
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Output;
use progress::Progress;

// Types that all benchmarks use.
use database::{BenchDatabase, DatabaseArgs};
use driver::Driver;
use report::{Report, ReportFields};
use target::{ClientArgs, Target};

pub const EXAMPLES: &str = "\
Without --server (or HOLDPOINT_SERVER) the benchmark starts a server on a free port with an empty
data folder, and removes both afterwards. An existing server (http or https) or database keeps the data of the
benchmark. --postgres starts a temporary PostgreSQL; its programs must be installed. `bench mailbox` and
`bench wake` use the library in their own process and need no server. `bench all` always starts its servers.

Examples:
  holdpoint bench all
  holdpoint bench cycle
  holdpoint bench cycle --concurrency 1 --runs 500 --json
  holdpoint bench cycle --server http://127.0.0.1:8484 --key KEY
  holdpoint bench cycle --postgres
  holdpoint bench cycle --database postgres://bench:PASSWORD@127.0.0.1:5432/bench
  holdpoint bench agent --postgres --concurrency 16 --history 100000
  holdpoint bench ag-ui --runs 1000
  holdpoint bench ag-ui --runs 1000 --seconds 20 --tokens 400
  holdpoint bench ag-ui --thread-messages 50000
  holdpoint bench decide --pending 100000 --seconds 10
  holdpoint bench inbox --pending 100000
  holdpoint bench parked --runs 10000
  holdpoint bench webhooks --rounds 5
  holdpoint bench mailbox --postgres --concurrency 16 --seconds 5
  holdpoint bench wake --postgres";

/// The help of `--server`. Unlike the other commands, a benchmark does not look for a server.
pub const SERVER_HELP: &str =
    "Server to measure; without it, the benchmark starts a server and removes it afterwards";

#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "the arguments of a benchmark are used in this crate only")]
pub enum Action {
    /// Measure the most important figures and print each with its goal; takes about a minute
    ///
    /// Measures SQLite only. The approval cycle runs in turns on a server and on a program without an engine: HTTP,
    /// JSON and SQLite with one commit for all waiting requests. The share of its rate is the share of the ceiling. Memory
    /// and disk are those of 10,000 waiting runs.
    All(all::Load),
    /// Serve the approval cycle without an engine, for `bench all`
    #[command(hide = true)]
    Ceiling(ceiling::Load),
    /// Measure the approval cycle: create a run, wait for its interrupt, answer it, wait for its completion
    Cycle(cycle::Load),
    /// Measure runs of an agent with a scripted model: a tool call, its approval, the last reply
    Agent(agent::Load),
    /// Measure many concurrent AG-UI front ends, each with a run whose scripted model replies after a delay
    ///
    /// With --thread-messages it measures one more turn in a long thread instead: of a client that sends only its new
    /// message, and of a front end that sends all messages that it shows. The turns take turns with the same turn in a
    /// new thread, and the ratio of the medians is reported.
    #[command(name = "ag-ui")]
    AgUi(agui::Load),
    /// Measure decisions while many runs wait, in random order
    Decide(decide::Load),
    /// Measure the inbox while many runs wait: first screen, lists, and the cost of open pages
    Inbox(inbox::Load),
    /// Measure many waiting runs: memory, disk, the list of pending interrupts, and the restart after kill -9
    Parked(parked::Load),
    /// Measure webhooks: the rate of deliveries, and the approval cycle with working and failing subscribers
    ///
    /// The subscribers listen on loopback. Without other load, one of them receives many events at once: with best
    /// effort, durably, and with more best-effort events than the queue can hold, so that the server drops the rest.
    /// Then the cycle of `bench cycle` runs with one subscription, with one whose subscriber never responds or refuses
    /// connections, and with many subscriptions to other events or to all events. Each pass is paired with a pass
    /// without subscriptions, in alternating order, and is reported as a share of that pass: 1.00 is no loss. With many
    /// subscriptions to the events of every cycle, each cycle has twice as many deliveries as there are subscriptions,
    /// and most of them are dropped. One in 16 signatures is checked. A server given with --server must run with
    /// --allow-private-webhooks on this machine and have no other webhooks.
    Webhooks(webhooks::Load),
    /// Measure the mailbox without HTTP: enqueue, claim, ack; with shared commits and with one commit per operation
    Mailbox(mailbox::Load),
    /// Measure the time that ready work waits for a worker, without load and with clients
    ///
    /// Two runs are started in one thread. The second is ready when the first ends. The result is the time from the end
    /// of the first node to the start of the second, including the commit in between. On PostgreSQL the benchmark also
    /// measures the time from a start in a process without a worker to the start of the node in another process.
    Wake(wake::Load),
}

pub fn run(connection: Connection, action: Action) -> Result<(), Failure> {
    let output = Output::of(&connection);
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
            // First, so that the signal handler is installed before a server is started. Dropping the benchmark stops
            // its server and removes its folder.
            biased;
            _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted")),
            result = bench(connection, action) => result,
        }
    })
}

/// Returns a runtime with one thread for HTTP clients, and with several threads for benchmarks that run the engine.
fn runtime(action: &Action) -> tokio::runtime::Builder {
    let threads = match action {
        Action::Mailbox(load) => load.threads,
        Action::Wake(_) | Action::Ceiling(_) => None,
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
        Action::All(load) => all::bench(connection, load).await,
        Action::Ceiling(load) => ceiling::serve(load).await,
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
