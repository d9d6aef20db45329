//! `bench cycle`: repeats the approval cycle: creates a run, waits for its interrupt, answers it and waits for its
//! completion.

use std::time::{Duration, Instant};

use clap::Args;
use holdpoint_client::api::ids::Status;

use super::background_connections::BackgroundConnections;
use super::batch::{Batch, repeat};
use super::costs::Readings;
use super::fsyncs::{self, Fsyncs};
use super::measure::{Percentiles, format_number};
use super::{ClientArgs, Connection, Driver, Failure, Report, ReportFields, Target};

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: ClientArgs,
    /// Number of cycles to measure
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of cycles before the measurement
    #[arg(long, value_name = "N", default_value_t = 200)]
    warmup: u32,
    /// Number of idle connections during the measurement; http servers only
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: u32,
    /// Number of clients that send a request byte by byte during the measurement; http servers only
    #[arg(long, value_name = "N", default_value_t = 0)]
    slow: u32,
}

pub(super) struct Cycle {
    /// Time from sending the answer to the status `completed`.
    pub(super) resolve: Duration,
    pub(super) whole: Duration,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, &[]).await?;
    let (driver, concurrency) = (&target.driver, load.clients.concurrency);
    let background = BackgroundConnections::open(driver.client.server(), load.idle, load.slow).await?;
    pass(driver, load.warmup, concurrency).await.all("the warm-up failed")?;
    let before = Readings::take(&target).await;
    let cycles = pass(driver, load.runs, concurrency).await;
    let costs = before.costs(&target, cycles.done.len()).await;
    let fields = ReportFields::of("cycle").member("concurrency", concurrency);
    let fields = cycles.rate(fields, "cycles", &format!("{concurrency} at a time"));
    let fields =
        Cycle::add_percentiles(&cycles, fields, ["resolveToCompletedMs", "cycleMs"], "answer", "cycle");
    let (commits, each) = (format_number(costs.commits, 0), format_number(costs.commits_each, 3));
    let fields = costs
        .cpu(fields, "Cycles")
        .number("commits", costs.commits)
        .number("commitsPerCycle", costs.commits_each)
        .line("commits", format!("{commits}, {each} per cycle"));
    let fields = costs.commit_sizes(fields, "Cycle", "changes");
    let fields = background.report(fields, [load.idle, load.slow]);
    let fsyncs = match &target.own {
        Some(_) if target.database.is_postgres() => Fsyncs::Unknown("counted with SQLite only".to_string()),
        Some(server) => fsyncs::count(driver, server, concurrency).await,
        None => Fsyncs::Unknown("traced only on a server that the benchmark starts".to_string()),
    };
    Ok(cycles.finish(fsyncs.report(fields, concurrency)))
}

pub(super) async fn pass(driver: &Driver, count: u32, concurrency: u32) -> Batch<Cycle> {
    repeat("cycles", count, concurrency, async || cycle(driver).await).await
}

async fn cycle(driver: &Driver) -> Result<Cycle, Failure> {
    let begun = Instant::now();
    let run = driver.park().await?;
    let answered = Instant::now();
    driver.accept(&run).await?;
    driver.wait_for_status(&run, Status::Completed).await?;
    Ok(Cycle { resolve: answered.elapsed(), whole: begun.elapsed() })
}

impl Cycle {
    /// Adds the percentiles of both durations.
    pub(super) fn add_percentiles(
        cycles: &Batch<Self>,
        fields: ReportFields,
        [resolve, whole]: [&str; 2],
        answer: &str,
        unit: &str,
    ) -> ReportFields {
        let of = |value: fn(&Self) -> Duration| Percentiles::of(cycles.done.iter().map(value));
        fields
            .percentiles(resolve, &format!("{answer} → completed, p50 / p99"), of(|cycle| cycle.resolve))
            .percentiles(whole, &format!("whole {unit}, p50 / p99"), of(|cycle| cycle.whole))
    }
}
