//! `bench cycle`: create → seen waiting → answered → seen completed, over and over.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::failure::Failure;
use super::super::output::Progress;
use super::Report;
use super::driver::{Driver, repeat};
use super::fsyncs::{self, Fsyncs};
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
    concurrency: u32,
    runs: u32,
    warmup: u32,
) -> Result<Report, Failure> {
    let warm = pass(driver, warmup, concurrency).await;
    if let Some(error) = warm.first_error {
        return Err(Failure::refused(format!("the warm-up failed: {error}")));
    }
    let before = driver.metrics().await;
    let pass = pass(driver, runs, concurrency).await;
    let after = driver.metrics().await;
    let fsyncs = match own {
        Some(server) => fsyncs::count(driver, server, concurrency).await,
        None => Fsyncs::Unknown("only a server of the benchmark's own is traced".to_string()),
    };
    Ok(report(&pass, concurrency, &before, &after, &fsyncs))
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

fn report(pass: &Pass, concurrency: u32, before: &Metrics, after: &Metrics, fsyncs: &Fsyncs) -> Report {
    let cycles = pass.cycles as f64;
    let grown = |name: &str| after.since(before, name);
    let commits = grown("holdpoint_commits_total");
    let per_cycle = ratio(commits, Some(cycles));
    let rows = ratio(grown("holdpoint_rows_written_total"), commits);
    let changes = ratio(grown("holdpoint_changes_total"), commits);
    let cpu = ratio(grown("process_cpu_seconds_total").map(|seconds| seconds * 1000.0), Some(cycles));
    let memory = after.get("process_resident_memory_bytes");
    let json = json!({
        "bench": "cycle", "concurrency": concurrency, "cycles": pass.cycles, "seconds": round(pass.seconds),
        "cyclesPerSecond": round(cycles / pass.seconds),
        "resolveToCompletedMs": Spread::json(pass.resolve), "cycleMs": Spread::json(pass.whole),
        "serverCpuSecondsPer1000Cycles": number(cpu), "serverMemoryBytes": number(memory),
        "commits": number(commits), "commitsPerCycle": number(per_cycle),
        "rowsPerCommit": number(rows), "changesPerCommit": number(changes),
        "fsyncsPerCycle": fsyncs.json(), "errors": pass.errors, "firstError": pass.first_error,
    });
    let facts = vec![
        ("cycles", format!("{} in {:.2} s, {concurrency} at a time", pass.cycles, pass.seconds)),
        ("cycles/s", format!("{:.0}", cycles / pass.seconds)),
        ("answer → completed, p50 / p99", Spread::text(pass.resolve)),
        ("whole cycle, p50 / p99", Spread::text(pass.whole)),
        ("server CPU per 1000 cycles", format!("{} s", written(cpu, 3))),
        ("server memory", format!("{} MB", written(memory.map(|bytes| bytes / 1e6), 1))),
        ("commits", format!("{}, {} per cycle", written(commits, 0), written(per_cycle, 3))),
        ("rows per commit", written(rows, 1)),
        ("changes per commit", written(changes, 1)),
        ("fsyncs per cycle", fsyncs.text(concurrency)),
        ("errors", pass.errors.to_string()),
        ("first error", pass.first_error.clone().unwrap_or_default()),
    ];
    Report { json, facts, errors: pass.errors }
}
