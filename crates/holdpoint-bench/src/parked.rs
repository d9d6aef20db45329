//! `bench parked`: measures the costs of many waiting runs, and the time from kill -9 to the first accepted answer.

use std::time::{Duration, Instant};

use clap::Args;
use holdpoint_client::api::ids::Status;
use holdpoint_client::api::pending::ListPending;

use super::batch::{Batch, repeat, sample};
use super::measure::RoundedNumber;
use super::scratch::ScratchArgs;
use super::server::OwnServer;
use super::{ClientArgs, Connection, DatabaseArgs, Driver, Failure, Report, ReportFields, Target};

const PENDING_REQUESTS: u32 = 20;
/// Time for the store to checkpoint its log before its size is read.
const DISK_SETTLE: Duration = Duration::from_secs(3);
const RESTART_MAX: Duration = Duration::from_secs(60);
const RESTART_POLL: Duration = Duration::from_millis(2);

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: ClientArgs,
    /// Number of runs that wait for approval
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

/// The costs of waiting runs.
pub(super) struct ParkedRuns {
    /// Resident memory of the server in bytes.
    pub(super) memory: Option<f64>,
    /// Bytes on the disk for each run; None for a named server or database.
    pub(super) disk_per_run: Option<f64>,
}

/// Creates waiting runs on a server of its own and returns their costs.
pub(super) async fn measure(
    scratch: &ScratchArgs,
    runs: u32,
    concurrency: u32,
) -> Result<ParkedRuns, Failure> {
    let target = Target::start_own(&DatabaseArgs::local(scratch), &[]).await?;
    let (_, costs) = park(&target, runs, concurrency).await?;
    Ok(costs)
}

async fn park(target: &Target, runs: u32, concurrency: u32) -> Result<(Batch<String>, ParkedRuns), Failure> {
    let driver = &target.driver;
    let disk_before = target.disk_bytes();
    let parked = repeat("parked", runs, concurrency, async || driver.park().await).await;
    if parked.done.is_empty() {
        return parked
            .all("cannot create waiting runs")
            .and(Err(Failure::refused("no run reached its interrupt")));
    }
    tokio::time::sleep(DISK_SETTLE).await;
    let disk_after = target.disk_bytes();
    let disk = disk_before.zip(disk_after).map(|(before, after)| after.saturating_sub(before) as f64);
    let disk_per_run = disk.map(|bytes| bytes / parked.done.len() as f64);
    let costs = ParkedRuns { memory: driver.memory().await, disk_per_run };
    Ok((parked, costs))
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let mut target = Target::start(connection, &load.clients.database, &[]).await?;
    let concurrency = load.clients.concurrency;
    let (parked, ParkedRuns { memory, disk_per_run }) = park(&target, load.runs, concurrency).await?;
    let driver = &target.driver;
    let list = driver.client.interrupts().pending(&ListPending::default());
    let pending = sample(PENDING_REQUESTS, async || Ok(list.clone().text().await.map(drop)?)).await?;
    let restart = match &mut target.own {
        Some(server) => Some(restart(driver, server, &parked.done[0]).await?.as_secs_f64()),
        None => None,
    };
    let (count, seconds) = (parked.done.len(), parked.seconds);
    let fields = ReportFields::of("parked")
        .member("concurrency", concurrency)
        .field("parked", count, "waiting runs", format!("{count} in {seconds:.2} s, {concurrency} at a time"))
        .number("seconds", Some(seconds))
        .memory("serverMemoryBytes", "server memory", memory)
        .field(
            "diskBytesPerRun",
            RoundedNumber(disk_per_run),
            "disk per run",
            own_only(disk_per_run, 0, "bytes"),
        )
        .percentiles("pendingMs", "first page of pending interrupts, p50 / p99", pending)
        .number("killToCompletedSeconds", restart)
        .line("kill -9 → first run completed", own_only(restart, 3, "s"));
    Ok(parked.finish(fields))
}

/// Returns the time from the kill until the run is answered and completed.
async fn restart(driver: &Driver, server: &mut OwnServer, run: &str) -> Result<Duration, Failure> {
    let begun = Instant::now();
    server.kill_and_start_again()?;
    loop {
        match driver.accept(run).await {
            Ok(()) => break,
            Err(failure) if failure.is_transient() && begun.elapsed() < RESTART_MAX => {
                tokio::time::sleep(RESTART_POLL).await;
            }
            Err(failure) => return Err(failure.about("after kill -9")),
        }
    }
    driver.wait_for_status(run, Status::Completed).await?;
    Ok(begun.elapsed())
}

fn own_only(value: Option<f64>, decimals: usize, unit: &str) -> String {
    match value {
        Some(value) => format!("{value:.decimals$} {unit}"),
        None => "unknown: measured only on a server and a database that the benchmark starts".to_string(),
    }
}
