//! `bench cycle`: create → seen waiting → answered → seen completed, over and over.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Report;
use super::costs::{Costs, Readings};
use super::crowd::Crowd;
use super::driver::{Driver, repeat};
use super::fsyncs::{self, Fsyncs};
use super::ground::Ground;
use super::measure::{Spread, number, round, written};
use super::server::OwnServer;
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;

/// What one pass over many cycles gave. A cycle with an error counts only as an error.
pub(super) struct Pass {
    pub(super) cycles: usize,
    pub(super) seconds: f64,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
    pub(super) resolve: Option<Spread>,
    pub(super) whole: Option<Spread>,
}

pub(super) struct Cycle {
    /// From sending the answer to seeing the run completed.
    pub(super) resolve: Duration,
    pub(super) whole: Duration,
}

/// The parameters of the benchmark.
pub(super) struct Load {
    pub(super) concurrency: u32,
    pub(super) runs: u32,
    pub(super) warmup: u32,
    pub(super) connections: Connections,
}

/// Connections that stay open beside the cycles.
#[derive(Clone, Copy)]
pub(super) struct Connections {
    pub(super) idle: u32,
    pub(super) slow: u32,
}

pub(super) async fn bench(
    driver: &Driver,
    own: Option<&OwnServer>,
    ground: &Ground,
    load: &Load,
) -> Result<Report, Failure> {
    let Load { concurrency, runs, warmup, .. } = *load;
    let crowd = Crowd::gather(driver.server(), load.connections.idle, load.connections.slow).await?;
    let warm = pass(driver, warmup, concurrency).await;
    if let Some(error) = warm.first_error {
        return Err(Failure::refused(format!("the warm-up failed: {error}")));
    }
    let before = Readings::take(driver, ground).await;
    let pass = pass(driver, runs, concurrency).await;
    let after = Readings::take(driver, ground).await;
    let crowd = crowd.counts();
    let fsyncs = match own {
        Some(_) if ground.is_postgres() => Fsyncs::Unknown("counted with SQLite only".to_string()),
        Some(server) => fsyncs::count(driver, server, concurrency).await,
        None => Fsyncs::Unknown("only a server of the benchmark's own is traced".to_string()),
    };
    let costs = Costs::between(&before, &after, pass.cycles as f64);
    Ok(with_crowd(report(&pass, concurrency, &costs, &fsyncs), load.connections, crowd))
}

pub(super) async fn pass(driver: &Driver, count: u32, concurrency: u32) -> Pass {
    repeated("cycles", count, concurrency, async || cycle(driver).await).await
}

/// The same for something else that is begun, answered and ended.
pub(super) async fn repeated(
    what: &'static str,
    count: u32,
    concurrency: u32,
    once: impl AsyncFn() -> Result<Cycle, Failure>,
) -> Pass {
    let progress = Progress::new(what, count);
    let begun = Instant::now();
    let results = repeat(count, concurrency, async || {
        let result = once().await;
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

/// Adds the connections beside the cycles, if there were some.
fn with_crowd(mut report: Report, wanted: Connections, (idle, slow, closed): (u64, u64, u64)) -> Report {
    if wanted.idle + wanted.slow > 0 {
        report.json["connections"] = json!({"idle": idle, "slow": slow, "slowClosed": closed});
        report.facts.push(("idle connections", format!("{idle} of {} open at the end", wanted.idle)));
        report.facts.push(("slow clients", format!("{slow} of {}, closed {closed} times", wanted.slow)));
    }
    report
}

fn report(pass: &Pass, concurrency: u32, costs: &Costs, fsyncs: &Fsyncs) -> Report {
    let per_second = pass.cycles as f64 / pass.seconds;
    let json = json!({
        "bench": "cycle", "concurrency": concurrency, "cycles": pass.cycles, "seconds": round(pass.seconds),
        "cyclesPerSecond": round(per_second),
        "resolveToCompletedMs": Spread::json(pass.resolve), "cycleMs": Spread::json(pass.whole),
        "serverCpuSecondsPer1000Cycles": number(costs.server_cpu),
        "databaseCpuSecondsPer1000Cycles": number(costs.database_cpu),
        "bothCpuSecondsPer1000Cycles": number(costs.both_cpu), "serverMemoryBytes": number(costs.memory),
        "commits": number(costs.commits), "commitsPerCycle": number(costs.commits_each),
        "rowsPerCommit": number(costs.rows_per_commit), "changesPerCommit": number(costs.changes_per_commit),
        "roundTripsPerCycle": number(costs.round_trips_each),
        "fsyncsPerCycle": fsyncs.json(), "errors": pass.errors, "firstError": pass.first_error,
    });
    // What only a database server has is left out where there is none.
    let seconds = |value: Option<f64>| value.map(|value| format!("{value:.3} s")).unwrap_or_default();
    let commits = (written(costs.commits, 0), written(costs.commits_each, 3));
    let facts = vec![
        ("cycles", format!("{} in {:.2} s, {concurrency} at a time", pass.cycles, pass.seconds)),
        ("cycles/s", format!("{per_second:.0}")),
        ("answer → completed, p50 / p99", Spread::text(pass.resolve)),
        ("whole cycle, p50 / p99", Spread::text(pass.whole)),
        ("server CPU per 1000 cycles", format!("{} s", written(costs.server_cpu, 3))),
        ("database CPU per 1000 cycles", seconds(costs.database_cpu)),
        ("both together", seconds(costs.both_cpu)),
        ("server memory", format!("{} MB", written(costs.memory.map(|bytes| bytes / 1e6), 1))),
        ("commits", format!("{}, {} per cycle", commits.0, commits.1)),
        ("rows per commit", written(costs.rows_per_commit, 1)),
        ("changes per commit", written(costs.changes_per_commit, 1)),
        (
            "round trips per cycle",
            costs.round_trips_each.map(|trips| format!("{trips:.2}")).unwrap_or_default(),
        ),
        ("fsyncs per cycle", fsyncs.text(concurrency)),
        ("errors", pass.errors.to_string()),
        ("first error", pass.first_error.clone().unwrap_or_default()),
    ];
    Report { json, facts, errors: pass.errors }
}
