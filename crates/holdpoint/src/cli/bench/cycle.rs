//! `bench cycle`: create → seen waiting → answered → seen completed, over and over.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::failure::Failure;
use super::super::output::Progress;
use super::Report;
use super::driver::{Driver, repeat};
use super::fsyncs::{self, Fsyncs};
use super::ground::Ground;
use super::measure::{Metrics, Spread, number, ratio, round, written};
use super::server::OwnServer;

/// What one pass over many cycles gave. A cycle with an error counts only as an error.
pub(super) struct Pass {
    pub(super) cycles: usize,
    pub(super) seconds: f64,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
    resolve: Option<Spread>,
    whole: Option<Spread>,
}

struct Cycle {
    /// From sending the answer to seeing the run completed.
    resolve: Duration,
    whole: Duration,
}

pub(super) async fn bench(
    driver: &Driver,
    own: Option<&OwnServer>,
    ground: &Ground,
    concurrency: u32,
    runs: u32,
    warmup: u32,
) -> Result<Report, Failure> {
    let warm = pass(driver, warmup, concurrency).await;
    if let Some(error) = warm.first_error {
        return Err(Failure::refused(format!("the warm-up failed: {error}")));
    }
    let before = Readings { metrics: driver.metrics().await, database: ground.cpu_seconds() };
    let pass = pass(driver, runs, concurrency).await;
    let after = Readings { metrics: driver.metrics().await, database: ground.cpu_seconds() };
    let fsyncs = match own {
        Some(_) if ground.is_postgres() => Fsyncs::Unknown("counted with SQLite only".to_string()),
        Some(server) => fsyncs::count(driver, server, concurrency).await,
        None => Fsyncs::Unknown("only a server of the benchmark's own is traced".to_string()),
    };
    Ok(report(&pass, concurrency, &Grown::between(&before, &after, pass.cycles as f64), &fsyncs))
}

pub(super) async fn pass(driver: &Driver, count: u32, concurrency: u32) -> Pass {
    let progress = Progress::new("cycles", count);
    let begun = Instant::now();
    let results = repeat(count, concurrency, async || {
        let result = cycle(driver).await;
        progress.step();
        result
    })
    .await;
    let seconds = begun.elapsed().as_secs_f64();
    let (mut resolve, mut whole, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(cycle) => {
                resolve.push(cycle.resolve);
                whole.push(cycle.whole);
            }
            Err(failure) => failures.push(failure),
        }
    }
    Pass {
        cycles: whole.len(),
        seconds,
        errors: failures.len(),
        first_error: failures.first().map(|failure| failure.message().to_string()),
        resolve: Spread::of(resolve),
        whole: Spread::of(whole),
    }
}

async fn cycle(driver: &Driver) -> Result<Cycle, Failure> {
    let begun = Instant::now();
    let run = driver.park().await?;
    let answered = Instant::now();
    driver.accept(&run).await?;
    driver.until(&run, "completed").await?;
    Ok(Cycle { resolve: answered.elapsed(), whole: begun.elapsed() })
}

/// What the server and the database tell about themselves at one moment.
struct Readings {
    metrics: Metrics,
    database: Option<f64>,
}

/// What the cycles cost; what is unknown stays unknown.
struct Grown {
    commits: Option<f64>,
    commits_per_cycle: Option<f64>,
    rows_per_commit: Option<f64>,
    changes_per_commit: Option<f64>,
    round_trips: Option<f64>,
    /// Seconds for a thousand cycles.
    server_cpu: Option<f64>,
    database_cpu: Option<f64>,
    both_cpu: Option<f64>,
    memory: Option<f64>,
}

impl Grown {
    fn between(before: &Readings, after: &Readings, cycles: f64) -> Self {
        let grown = |name: &str| after.metrics.since(&before.metrics, name);
        let per_thousand =
            |seconds: Option<f64>| ratio(seconds.map(|seconds| seconds * 1000.0), Some(cycles));
        let commits = grown("holdpoint_commits_total");
        // A file has no server to wait for.
        let round_trips = grown("holdpoint_database_round_trips_total").filter(|trips| *trips > 0.0);
        let server_cpu = per_thousand(grown("process_cpu_seconds_total"));
        let database_cpu =
            per_thousand(after.database.zip(before.database).map(|(after, before)| after - before));
        Self {
            commits,
            commits_per_cycle: ratio(commits, Some(cycles)),
            rows_per_commit: ratio(grown("holdpoint_rows_written_total"), commits),
            changes_per_commit: ratio(grown("holdpoint_changes_total"), commits),
            round_trips: ratio(round_trips, Some(cycles)),
            server_cpu,
            database_cpu,
            both_cpu: server_cpu.zip(database_cpu).map(|(server, database)| server + database),
            memory: after.metrics.get("process_resident_memory_bytes"),
        }
    }
}

fn report(pass: &Pass, concurrency: u32, grown: &Grown, fsyncs: &Fsyncs) -> Report {
    let per_second = pass.cycles as f64 / pass.seconds;
    let json = json!({
        "bench": "cycle", "concurrency": concurrency, "cycles": pass.cycles, "seconds": round(pass.seconds),
        "cyclesPerSecond": round(per_second),
        "resolveToCompletedMs": Spread::json(pass.resolve), "cycleMs": Spread::json(pass.whole),
        "serverCpuSecondsPer1000Cycles": number(grown.server_cpu),
        "databaseCpuSecondsPer1000Cycles": number(grown.database_cpu),
        "bothCpuSecondsPer1000Cycles": number(grown.both_cpu), "serverMemoryBytes": number(grown.memory),
        "commits": number(grown.commits), "commitsPerCycle": number(grown.commits_per_cycle),
        "rowsPerCommit": number(grown.rows_per_commit), "changesPerCommit": number(grown.changes_per_commit),
        "roundTripsPerCycle": number(grown.round_trips),
        "fsyncsPerCycle": fsyncs.json(), "errors": pass.errors, "firstError": pass.first_error,
    });
    // What only a database server has is left out where there is none.
    let seconds = |value: Option<f64>| value.map(|value| format!("{value:.3} s")).unwrap_or_default();
    let commits = (written(grown.commits, 0), written(grown.commits_per_cycle, 3));
    let facts = vec![
        ("cycles", format!("{} in {:.2} s, {concurrency} at a time", pass.cycles, pass.seconds)),
        ("cycles/s", format!("{per_second:.0}")),
        ("answer → completed, p50 / p99", Spread::text(pass.resolve)),
        ("whole cycle, p50 / p99", Spread::text(pass.whole)),
        ("server CPU per 1000 cycles", format!("{} s", written(grown.server_cpu, 3))),
        ("database CPU per 1000 cycles", seconds(grown.database_cpu)),
        ("both together", seconds(grown.both_cpu)),
        ("server memory", format!("{} MB", written(grown.memory.map(|bytes| bytes / 1e6), 1))),
        ("commits", format!("{}, {} per cycle", commits.0, commits.1)),
        ("rows per commit", written(grown.rows_per_commit, 1)),
        ("changes per commit", written(grown.changes_per_commit, 1)),
        ("round trips per cycle", grown.round_trips.map(|trips| format!("{trips:.2}")).unwrap_or_default()),
        ("fsyncs per cycle", fsyncs.text(concurrency)),
        ("errors", pass.errors.to_string()),
        ("first error", pass.first_error.clone().unwrap_or_default()),
    ];
    Report { json, facts, errors: pass.errors }
}
