//! `bench parked`: what many waiting runs cost, and how soon one can be answered after kill -9.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Report;
use super::driver::{Driver, repeat};
use super::measure::{Spread, number, written};
use super::server::OwnServer;
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;

const PENDING_REQUESTS: u32 = 20;
/// Time for the store to fold its log away before its size is read.
const DISK_SETTLE: Duration = Duration::from_secs(3);
const RESTART_MAX: Duration = Duration::from_secs(60);
const RESTART_POLL: Duration = Duration::from_millis(2);

pub(super) async fn bench(
    driver: &Driver,
    own: Option<&mut OwnServer>,
    concurrency: u32,
    runs: u32,
) -> Result<Report, Failure> {
    let disk_before = own.as_deref().map(OwnServer::disk_bytes);
    let begun = Instant::now();
    let (parked, failures) = park(driver, runs, concurrency).await;
    let seconds = begun.elapsed().as_secs_f64();
    let first_error = failures.first().map(|failure| failure.message().to_string());
    let Some(first) = parked.first() else {
        return Err(Failure::refused("no run could be parked").hint(first_error.unwrap_or_default()));
    };
    tokio::time::sleep(DISK_SETTLE).await;
    let disk_after = own.as_deref().map(OwnServer::disk_bytes);
    let disk = disk_before.zip(disk_after).map(|(before, after)| after.saturating_sub(before) as f64);
    let disk_per_run = disk.map(|bytes| bytes / parked.len() as f64);
    let memory = driver.metrics().await.get("process_resident_memory_bytes");
    let pending = pending(driver).await?;
    let restart = match own {
        Some(server) => Some(restart(driver, server, first).await?.as_secs_f64()),
        None => None,
    };
    let json = json!({
        "bench": "parked", "concurrency": concurrency, "parked": parked.len(), "seconds": number(Some(seconds)),
        "serverMemoryBytes": number(memory), "diskBytesPerRun": number(disk_per_run), "pendingMs": Spread::json(pending),
        "killToCompletedSeconds": number(restart), "errors": failures.len(), "firstError": first_error,
    });
    let facts = vec![
        ("parked runs", format!("{} in {seconds:.2} s, {concurrency} at a time", parked.len())),
        ("server memory", format!("{} MB", written(memory.map(|bytes| bytes / 1e6), 1))),
        ("disk per run", own_only(disk_per_run, 0, "bytes")),
        ("first page of pending, p50 / p99", Spread::text(pending)),
        ("kill -9 → first run completed", own_only(restart, 3, "s")),
        ("errors", failures.len().to_string()),
        ("first error", first_error.unwrap_or_default()),
    ];
    Ok(Report { json, facts, errors: failures.len() })
}

async fn park(driver: &Driver, runs: u32, concurrency: u32) -> (Vec<String>, Vec<Failure>) {
    let progress = Progress::new("parked", runs);
    let results = repeat(runs, concurrency, async || {
        let result = driver.park().await;
        progress.step();
        result
    });
    let (mut parked, mut failures) = (Vec::new(), Vec::new());
    for result in results.await {
        match result {
            Ok(run) => parked.push(run),
            Err(failure) => failures.push(failure),
        }
    }
    (parked, failures)
}

async fn pending(driver: &Driver) -> Result<Option<Spread>, Failure> {
    let mut samples = Vec::new();
    for _ in 0..PENDING_REQUESTS {
        let begun = Instant::now();
        driver.look("/v1/interrupts").await?;
        samples.push(begun.elapsed());
    }
    Ok(Spread::of(samples))
}

/// From the kill until the run has been answered and seen completed.
async fn restart(driver: &Driver, server: &mut OwnServer, run: &str) -> Result<Duration, Failure> {
    let begun = Instant::now();
    server.kill_and_start_again()?;
    loop {
        match driver.accept(run).await {
            Ok(()) => break,
            Err(failure) if failure.is_passing() && begun.elapsed() < RESTART_MAX => {
                tokio::time::sleep(RESTART_POLL).await;
            }
            Err(failure) => return Err(failure.about("after kill -9")),
        }
    }
    driver.until(run, "completed").await?;
    Ok(begun.elapsed())
}

fn own_only(value: Option<f64>, decimals: usize, unit: &str) -> String {
    match value {
        Some(value) => format!("{value:.decimals$} {unit}"),
        None => "unknown: measured only on a server of the benchmark's own".to_string(),
    }
}
