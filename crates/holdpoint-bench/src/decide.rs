//! `bench decide`: many runs wait for approval, and clients answer them in random order. Compares the rate with the row
//! inserts per second of the disk.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use clap::Args;
use holdpoint_client::api::ids::Status;

use super::batch::{Batch, measure_time, repeat, run_all};
use super::costs::Readings;
use super::measure::{Percentiles, RoundedNumber, format_known, format_number, ratio};
use super::{ClientArgs, Connection, Driver, Failure, Report, ReportFields, Target};

/// One in this many decisions is made before the measurement.
const WARM_UP: usize = 50;
/// The length of each of two measurements of the disk, before and after the decisions, because its speed varies.
const CEILING: Duration = Duration::from_secs(2);
/// The number of clients that create runs. It can exceed the number of clients that decide, because the creation of
/// runs is not measured.
const CREATORS: u32 = 256;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: ClientArgs,
    /// Number of waiting runs before the measurement
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pending: u32,
    /// Length of the measurement in seconds; it ends early if all runs are decided
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, &[]).await?;
    let (driver, concurrency, pending) = (&target.driver, load.clients.concurrency, load.pending);
    let mut waiting = park(pending, async || driver.create().await).await?;
    // One run is enough to verify that runs of this server reach the interrupt.
    if let Some(run) = waiting.first() {
        driver.wait_for_status(run, Status::WaitingApproval).await?;
    }
    let warm = waiting.split_off(waiting.len() - waiting.len() / WARM_UP);
    decide(driver, warm, concurrency, Duration::MAX).await.all("the warm-up failed")?;
    let one = ceiling(&target, load).await?;
    let begun_with = waiting.len();
    let before = Readings::take(&target).await;
    let decisions = decide(driver, waiting, concurrency, Duration::from_secs(load.seconds)).await;
    let costs = before.costs(&target, decisions.done.len()).await;
    let other = ceiling(&target, load).await?;
    let ceiling = one.zip(other).map(|(one, other)| (one.min(other), one.max(other)));
    // Uses the higher limit, which gives the lower share.
    let share = ratio(Some(decisions.per_second()), ceiling.map(|(_, high)| high));
    let fields = ReportFields::of("decide")
        .member("concurrency", concurrency)
        .member("pending", pending)
        .member("pendingWhenCounted", begun_with)
        .line("pending runs", format!("{pending}; {begun_with} when the measurement began"));
    let fields = decisions
        .rate(fields, "decisions", &format!("{concurrency} at a time, in random order"))
        .percentiles(
            "decisionMs",
            "answer → durable, p50 / p99",
            Percentiles::of(decisions.done.iter().copied()),
        );
    let fields = costs
        .cpu(fields, "Decisions")
        .field("commits", RoundedNumber(costs.commits), "commits", format_number(costs.commits, 0))
        .number("changes", costs.changes);
    let range = ceiling.map(|(low, high)| [low.round(), high.round()]);
    let rows = match ceiling {
        Some((low, high)) => format!("{low:.0} to {high:.0} one-row inserts/s, {concurrency} per commit"),
        None => "unknown: measured only for a server that the benchmark starts".to_owned(),
    };
    let fields = costs
        .commit_sizes(fields, "Decision", "decisions")
        .field("ceilingRowsPerSecond", range, "disk limit", rows)
        .field(
            "shareOfCeiling",
            RoundedNumber(share),
            "share of the disk limit",
            format_known(share.map(|share| share * 100.0), 1, " %"),
        );
    Ok(decisions.finish(fields))
}

/// Creates runs and returns them in a random order that depends only on their ids.
pub(super) async fn park(
    count: u32,
    create: impl AsyncFn() -> Result<String, Failure>,
) -> Result<Vec<String>, Failure> {
    let parked = repeat("parked", count, CREATORS, create).await;
    let mut runs = parked.all("cannot create a run")?;
    runs.sort_by_cached_key(|run| {
        let mut hasher = DefaultHasher::new();
        run.hash(&mut hasher);
        hasher.finish()
    });
    Ok(runs)
}

/// Decides each run once, until the time has passed or no run is left.
pub(super) async fn decide(
    driver: &Driver,
    waiting: Vec<String>,
    concurrency: u32,
    length: Duration,
) -> Batch<Duration> {
    let (begun, total) = (Instant::now(), u32::try_from(waiting.len()).unwrap_or(u32::MAX));
    let waiting = RefCell::new(waiting);
    let take = || waiting.borrow_mut().pop().filter(|_| begun.elapsed() < length);
    run_all("decided", total, concurrency, take, async |run| {
        measure_time(async || driver.accept(&run).await).await
    })
    .await
}

/// Returns the row inserts per second of the disk with one commit per `concurrency` inserts. None for a named server,
/// because its disk is unknown.
async fn ceiling(target: &Target, load: &Load) -> Result<Option<f64>, Failure> {
    if target.own.is_none() {
        return Ok(None);
    }
    let (location, _folder) = target.database.sibling(&load.clients.database.scratch.folder)?;
    let clients = load.clients.concurrency as usize;
    let rows = holdpoint_engine::ceiling(&location, clients, CEILING).await;
    rows.map(Some).map_err(|error| Failure::broken(error.to_string()))
}
