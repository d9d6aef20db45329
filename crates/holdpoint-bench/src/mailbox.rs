//! `bench mailbox`: measures enqueue, claim and ack through the library, with shared commits and with one commit per
//! operation.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::join_all;
use holdpoint_core::TenantId;
use holdpoint_core::mailbox::{MailboxError, RunDispatch};
use holdpoint_engine::{Engine, Options, ProcessStats};
use serde::Serialize;

use super::batch::Batch;
use super::costs::{Costs, Readings};
use super::measure::{Metrics, Percentiles, RoundedNumber, format_known, format_number, ratio, round};
use super::scratch::{TempFolder, random_name};
use super::{BenchDatabase, DatabaseArgs, Failure, Progress, Report, ReportFields, broken};

/// Enqueue, claim, ack.
const OPERATIONS: f64 = 3.0;
/// An odd number, so that one round has the median rate.
const ROUNDS: u32 = 3;
/// The length of a round divided by the length of the warm-up.
const WARM_UP: u32 = 5;
const LEASE_MS: u64 = 30_000;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Number of concurrent clients, each with its own dispatch thread
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: u32,
    /// Length in seconds of each of the six rounds, three of each kind in alternating order
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Number of threads for clients and engine [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) threads: Option<u16>,
}

/// The result of a round. CPU time is that of this process, clients included.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Round {
    operations_per_second: f64,
    /// The rates of all rounds. Set only in the round that is reported.
    each_round: Vec<f64>,
    cycles: usize,
    cycle_ms: Option<Percentiles>,
    rows_per_commit: RoundedNumber,
    round_trips_per_cycle: RoundedNumber,
    cpu_seconds_per_1000_cycles: RoundedNumber,
    database_cpu_seconds_per_1000_cycles: RoundedNumber,
}

pub(super) async fn bench(load: &Load) -> Result<Report, Failure> {
    let database = BenchDatabase::prepare(&load.database)?;
    let folder = TempFolder::create(&load.database.scratch.folder)?;
    let progress = Progress::new("rounds", ROUNDS * 2);
    let (mut shared, mut alone, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..ROUNDS * 2 {
        // The order of the two kinds alternates from round to round, because it affects the rate.
        let (rounds, batch_max) =
            if (turn / 2 + turn) % 2 == 0 { (&mut shared, None) } else { (&mut alone, Some(1)) };
        rounds.push(run(batch_max, &database, &folder.path, load, &mut failures).await?);
        progress.step();
    }
    let fields = report(&database, load, median_round(shared).as_ref(), median_round(alone).as_ref());
    Ok(fields.finish(failures.len(), failures.first()))
}

/// Runs a round, with commits of at most `batch_max` operations.
async fn run(
    batch_max: Option<usize>,
    database: &BenchDatabase,
    folder: &Path,
    load: &Load,
    failures: &mut Vec<Failure>,
) -> Result<Round, Failure> {
    let (name, length) = (format!("bench_{}", random_name()?), Duration::from_secs(load.seconds));
    let options = Options::new(database.location(&name, folder)?).manual_worker();
    let options = match batch_max {
        Some(max) => options.batch_max(max),
        None => options,
    };
    let engine = Engine::open(options).await.map_err(broken)?;
    let tenant = TenantId::parse(&name).map_err(broken)?;
    run_clients(&engine, &tenant, "warm", load.concurrency, length / WARM_UP).await;
    let before = readings(&engine, database);
    let cycles = run_clients(&engine, &tenant, "measured", load.concurrency, length).await;
    let costs = Costs::between(&before, &readings(&engine, database), cycles.done.len());
    engine.close().await;
    failures.extend(cycles.failures);
    let operations = cycles.done.len() as f64 * OPERATIONS;
    Ok(Round {
        operations_per_second: round(operations / cycles.seconds),
        each_round: Vec::new(),
        cycles: cycles.done.len(),
        cycle_ms: Percentiles::of(cycles.done),
        // Each operation writes one row, the dispatch.
        rows_per_commit: RoundedNumber(ratio(Some(operations), costs.commits)),
        round_trips_per_cycle: RoundedNumber(costs.round_trips_each),
        cpu_seconds_per_1000_cycles: RoundedNumber(costs.server_cpu),
        database_cpu_seconds_per_1000_cycles: RoundedNumber(costs.database_cpu),
    })
}

/// Returns the round with the median rate.
fn median_round(mut rounds: Vec<Round>) -> Option<Round> {
    rounds.sort_by(|a, b| a.operations_per_second.total_cmp(&b.operations_per_second));
    let each_round = rounds.iter().map(|round| round.operations_per_second).collect();
    Some(Round { each_round, ..rounds.into_iter().nth(ROUNDS as usize / 2)? })
}

/// Reads the counters of the engine under the names that they have in the metrics of a server.
fn readings(engine: &Engine, database: &BenchDatabase) -> Readings {
    let counters = engine.counters();
    let metrics = [
        ("holdpoint_commits_total", Some(counters.commits.load(Ordering::Relaxed) as f64)),
        ("holdpoint_database_round_trips_total", Some(counters.round_trips.load(Ordering::Relaxed) as f64)),
        ("process_cpu_seconds_total", ProcessStats::read("self").map(|process| process.cpu_seconds)),
    ];
    let metrics = metrics.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Readings { metrics: Metrics(BTreeMap::from_iter(metrics)), database: database.cpu_seconds() }
}

/// Runs concurrent clients, each with its own dispatch thread, until the time has passed.
async fn run_clients(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    concurrency: u32,
    length: Duration,
) -> Batch<Duration> {
    let begun = Instant::now();
    let clients = (0..concurrency).map(|number| {
        let client = run_client(engine.clone(), tenant.clone(), format!("{name}-{number}"), begun + length);
        tokio::spawn(client)
    });
    let ended = join_all(clients).await.into_iter();
    Batch::new(ended.flat_map(|ended| ended.unwrap_or_else(|panic| vec![Err(broken(panic))])), begun)
}

/// Returns the time of each cycle. The first error ends the client.
async fn run_client(
    engine: Engine,
    tenant: TenantId,
    thread: String,
    until: Instant,
) -> Vec<Result<Duration, Failure>> {
    let mut samples = Vec::new();
    loop {
        let begun = Instant::now();
        if begun >= until {
            return samples;
        }
        // Ids increase with time, like the ids of real dispatches.
        let id = format!("{:08}-{thread}-{tenant}", samples.len());
        let result = cycle(&engine, &tenant, &thread, &id).await;
        let is_error = result.is_err();
        samples.push(result.map(|()| begun.elapsed()).map_err(broken));
        if is_error {
            return samples;
        }
    }
}

async fn cycle(engine: &Engine, tenant: &TenantId, thread: &str, id: &str) -> Result<(), MailboxError> {
    let mailbox = engine.mailbox(tenant);
    mailbox.enqueue(&RunDispatch::queued(tenant, id, thread, id, engine.now())).await?;
    let claimed = mailbox.claims().claim(thread, thread, LEASE_MS, engine.now(), 1).await?;
    let token = claimed.first().and_then(|row| row.claim_token.as_deref());
    let token =
        token.ok_or_else(|| MailboxError::Io("the enqueued dispatch cannot be claimed".to_owned()))?;
    mailbox.claims().ack(id, token, engine.now()).await.map(drop)
}

fn report(
    database: &BenchDatabase,
    load: &Load,
    shared: Option<&Round>,
    alone: Option<&Round>,
) -> ReportFields {
    let rate = |round: Option<&Round>| round.map(|round| round.operations_per_second);
    let gain = ratio(rate(shared), rate(alone));
    let both = |value: &dyn Fn(&Round) -> String| {
        let (shared, alone) = (shared.map(value).unwrap_or_default(), alone.map(value).unwrap_or_default());
        if shared.is_empty() { shared } else { format!("{shared:<18}  {alone}") }
    };
    let Load { concurrency, seconds, .. } = load;
    let rounds = format!("{ROUNDS} of {seconds} s of each kind, {concurrency} clients");
    let seconds_of = |value: RoundedNumber| format_known(value.0, 3, " s");
    ReportFields::of("mailbox")
        .member("concurrency", concurrency)
        .member("secondsPerRound", *seconds as f64)
        .member("rounds", ROUNDS)
        .member("shared", shared)
        .member("alone", alone)
        .number("ratio", gain)
        .line("database", database.describe())
        .line("rounds (median reported)", rounds)
        .line("", format!("{:<18}  {}", "shared commits", "one operation per commit"))
        .line("operations/s", both(&|round| format!("{:.0}", round.operations_per_second)))
        .line("enqueue → claim → ack, p50 / p99", both(&|round| Percentiles::text(round.cycle_ms)))
        .line("rows per commit", both(&|round| format_number(round.rows_per_commit.0, 1)))
        .line("round trips per cycle", both(&|round| format_known(round.round_trips_per_cycle.0, 2, "")))
        .line(
            "CPU per 1000 cycles, clients included",
            both(&|round| seconds_of(round.cpu_seconds_per_1000_cycles)),
        )
        .line(
            "database CPU per 1000 cycles",
            both(&|round| seconds_of(round.database_cpu_seconds_per_1000_cycles)),
        )
        .line("gain of shared commits", format!("{} times the operations", format_number(gain, 2)))
}
