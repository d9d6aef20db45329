//! `bench decide`: many runs wait for people, who answer in no order; and what the disk allows at most, measured beside it.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Report;
use super::costs::{Costs, Readings};
use super::driver::{Driver, repeat};
use super::ground::Ground;
use super::measure::{Spread, number, ratio, round, written};
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;

/// One in so many decisions is made before counting starts.
const WARM_UP: usize = 50;
/// How long the disk is measured, before and after the decisions: its mood changes.
const CEILING: Duration = Duration::from_secs(2);
/// Runs are created by more clients than decide them: this part is not measured.
const CREATORS: u32 = 256;

pub(super) struct Load {
    pub(super) concurrency: u32,
    pub(super) pending: u32,
    pub(super) seconds: u64,
}

/// What the clients did.
#[derive(Default)]
pub(super) struct Decided {
    pub(super) samples: Vec<Duration>,
    pub(super) errors: Vec<String>,
    pub(super) seconds: f64,
}

/// Rows per second that the disk takes when each is an insert of its own and as many as there are clients share a
/// commit: the lower and the higher of two measurements.
type Ceiling = Option<(f64, f64)>;

pub(super) async fn bench(
    driver: &Driver,
    ground: &Ground,
    disk: Option<&Path>,
    load: &Load,
) -> Result<Report, Failure> {
    let mut waiting = park(load.pending, async || driver.create().await).await?;
    // One speaks for the others: a server where runs never come to wait is no place to measure.
    if let Some(run) = waiting.first() {
        driver.until(run, "waiting-approval").await?;
    }
    let warm = waiting.split_off(waiting.len() - waiting.len() / WARM_UP);
    let warm = decide(driver, warm, load.concurrency, Duration::MAX).await;
    if let Some(error) = warm.errors.first() {
        return Err(Failure::refused(format!("the warm-up failed: {error}")));
    }
    let one = ceiling(ground, disk, load.concurrency).await?;
    let begun_with = waiting.len();
    let before = Readings::take(driver, ground).await;
    let decided = decide(driver, waiting, load.concurrency, Duration::from_secs(load.seconds)).await;
    let after = Readings::take(driver, ground).await;
    let other = ceiling(ground, disk, load.concurrency).await?;
    let costs = Costs::between(&before, &after, decided.samples.len() as f64);
    let ceiling = one.zip(other).map(|(one, other)| (one.min(other), one.max(other)));
    Ok(report(load, begun_with, &decided, &costs, ceiling))
}

/// Runs that wait, in an order that has nothing to do with the one they came in, and is the same for the same runs.
pub(super) async fn park(
    count: u32,
    create: impl AsyncFn() -> Result<String, Failure>,
) -> Result<Vec<String>, Failure> {
    let progress = Progress::new("parked", count);
    let results = repeat(count, CREATORS, async || {
        let result = create().await;
        progress.step();
        result
    });
    let mut runs = results.await.into_iter().collect::<Result<Vec<String>, Failure>>()?;
    runs.sort_by_cached_key(|run| {
        let mut hasher = DefaultHasher::new();
        run.hash(&mut hasher);
        hasher.finish()
    });
    Ok(runs)
}

/// Each run is decided once, until the time is over or none is left.
pub(super) async fn decide(
    driver: &Driver,
    waiting: Vec<String>,
    concurrency: u32,
    length: Duration,
) -> Decided {
    let progress = Progress::new("decided", u32::try_from(waiting.len()).unwrap_or(u32::MAX));
    let begun = Instant::now();
    let waiting = RefCell::new(waiting);
    let decided = RefCell::new(Decided::default());
    let client = || async {
        while begun.elapsed() < length {
            let Some(run) = waiting.borrow_mut().pop() else { return };
            let sent = Instant::now();
            let result = driver.accept(&run).await;
            let mut decided = decided.borrow_mut();
            match result {
                Ok(()) => decided.samples.push(sent.elapsed()),
                Err(failure) => decided.errors.push(failure.message().to_owned()),
            }
            progress.step();
        }
    };
    join_all((0..concurrency).map(|_| client())).await;
    Decided { seconds: begun.elapsed().as_secs_f64(), ..decided.into_inner() }
}

async fn ceiling(ground: &Ground, disk: Option<&Path>, concurrency: u32) -> Result<Option<f64>, Failure> {
    let Some(scratch) = disk else { return Ok(None) };
    let place = ground.beside(scratch)?;
    let rows = holdpoint_engine::ceiling(&place.location, concurrency as usize, CEILING).await;
    rows.map(Some).map_err(|error| Failure::broken(error.to_string()))
}

fn report(load: &Load, begun_with: usize, decided: &Decided, costs: &Costs, ceiling: Ceiling) -> Report {
    let Load { concurrency, pending, .. } = load;
    let (decisions, errors) = (decided.samples.len(), decided.errors.len());
    let per_second = decisions as f64 / decided.seconds;
    let spread = Spread::of(decided.samples.clone());
    // The higher one: whoever claims to come near the ceiling has the worse of it.
    let share = ratio(Some(per_second), ceiling.map(|(_, high)| high));
    let json = json!({
        "bench": "decide", "concurrency": concurrency, "pending": pending, "pendingWhenCounted": begun_with,
        "decisions": decisions, "seconds": round(decided.seconds), "decisionsPerSecond": round(per_second),
        "decisionMs": Spread::json(spread),
        "serverCpuSecondsPer1000Decisions": number(costs.server_cpu),
        "databaseCpuSecondsPer1000Decisions": number(costs.database_cpu),
        "bothCpuSecondsPer1000Decisions": number(costs.both_cpu), "serverMemoryBytes": number(costs.memory),
        "commits": number(costs.commits), "changes": number(costs.changes),
        "rowsPerCommit": number(costs.rows_per_commit), "changesPerCommit": number(costs.changes_per_commit),
        "roundTripsPerDecision": number(costs.round_trips_each),
        "ceilingRowsPerSecond": ceiling.map_or(Value::Null, |(low, high)| json!([low.round(), high.round()])),
        "shareOfCeiling": number(share), "errors": errors, "firstError": decided.errors.first(),
    });
    let seconds = |value: Option<f64>| value.map(|value| format!("{value:.3} s")).unwrap_or_default();
    let rows = |(low, high): (f64, f64)| {
        format!("{low:.0} to {high:.0} one-row inserts/s, {concurrency} to a commit")
    };
    let unknown = || "unknown: measured only beside a server of the benchmark's own".to_owned();
    let facts = vec![
        ("pending runs", format!("{pending}, of which {begun_with} waited when counting began")),
        (
            "decisions",
            format!("{decisions} in {:.2} s, {concurrency} at a time, in no order", decided.seconds),
        ),
        ("decisions/s", format!("{per_second:.0}")),
        ("answer → durable, p50 / p99", Spread::text(spread)),
        ("server CPU per 1000 decisions", format!("{} s", written(costs.server_cpu, 3))),
        ("database CPU per 1000 decisions", seconds(costs.database_cpu)),
        ("both together", seconds(costs.both_cpu)),
        ("server memory", format!("{} MB", written(costs.memory.map(|bytes| bytes / 1e6), 1))),
        ("commits", written(costs.commits, 0)),
        ("rows per commit", written(costs.rows_per_commit, 1)),
        ("decisions per commit", written(costs.changes_per_commit, 1)),
        (
            "round trips per decision",
            costs.round_trips_each.map(|trips| format!("{trips:.2}")).unwrap_or_default(),
        ),
        ("what the disk allows", ceiling.map_or_else(unknown, rows)),
        ("share of it", share.map(|share| format!("{:.1} %", share * 100.0)).unwrap_or_default()),
        ("errors", errors.to_string()),
        ("first error", decided.errors.first().cloned().unwrap_or_default()),
    ];
    Report { json, facts, errors }
}
