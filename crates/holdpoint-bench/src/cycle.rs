//! `bench cycle`: creates a run, sees it wait, answers it and sees it completed, over and over.

use std::time::{Duration, Instant};

use clap::Args;
use holdpoint_client::api::ids::Status;

use super::batch::{Batch, repeat};
use super::costs::Readings;
use super::crowd::Crowd;
use super::fsyncs::{self, Fsyncs};
use super::measure::{Spread, written};
use super::{Clients, Connection, Driver, Facts, Failure, Report, Target};

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: Clients,
    /// Cycles to count
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Cycles before counting starts
    #[arg(long, value_name = "N", default_value_t = 200)]
    warmup: u32,
    /// Idle connections that stay open meanwhile; for http servers
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: u32,
    /// Clients that send their requests byte by byte meanwhile; for http servers
    #[arg(long, value_name = "N", default_value_t = 0)]
    slow: u32,
}

pub(super) struct Cycle {
    /// The time from sending the answer to seeing the run completed.
    pub(super) resolve: Duration,
    pub(super) whole: Duration,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, &[]).await?;
    let (driver, concurrency) = (&target.driver, load.clients.concurrency);
    let crowd = Crowd::gather(driver.client.server(), load.idle, load.slow).await?;
    pass(driver, load.warmup, concurrency).await.all("the warm-up failed")?;
    let before = Readings::take(&target).await;
    let cycles = pass(driver, load.runs, concurrency).await;
    let costs = before.costs(&target, cycles.done.len()).await;
    let facts = Facts::of("cycle").member("concurrency", concurrency);
    let facts = cycles.rate(facts, "cycles", &format!("{concurrency} at a time"));
    let facts = Cycle::spreads(&cycles, facts, ["resolveToCompletedMs", "cycleMs"], "answer", "cycle");
    let (commits, each) = (written(costs.commits, 0), written(costs.commits_each, 3));
    let facts = costs
        .cpu(facts, "Cycles")
        .number("commits", costs.commits)
        .number("commitsPerCycle", costs.commits_each)
        .line("commits", format!("{commits}, {each} per cycle"));
    let facts = costs.commit_sizes(facts, "Cycle", "changes");
    let facts = crowd.report(facts, [load.idle, load.slow]);
    let fsyncs = match &target.own {
        Some(_) if target.ground.is_postgres() => Fsyncs::Unknown("counted with SQLite only".to_string()),
        Some(server) => fsyncs::count(driver, server, concurrency).await,
        None => Fsyncs::Unknown("only a server of the benchmark's own is traced".to_string()),
    };
    Ok(cycles.finish(fsyncs.report(facts, concurrency)))
}

pub(super) async fn pass(driver: &Driver, count: u32, concurrency: u32) -> Batch<Cycle> {
    repeat("cycles", count, concurrency, async || cycle(driver).await).await
}

async fn cycle(driver: &Driver) -> Result<Cycle, Failure> {
    let begun = Instant::now();
    let run = driver.park().await?;
    let answered = Instant::now();
    driver.accept(&run).await?;
    driver.until(&run, Status::Completed).await?;
    Ok(Cycle { resolve: answered.elapsed(), whole: begun.elapsed() })
}

impl Cycle {
    /// Adds the percentiles of both durations.
    pub(super) fn spreads(
        cycles: &Batch<Self>,
        facts: Facts,
        [resolve, whole]: [&str; 2],
        answer: &str,
        unit: &str,
    ) -> Facts {
        let of = |value: fn(&Self) -> Duration| Spread::of(cycles.done.iter().map(value));
        facts.spread(resolve, &format!("{answer} → completed, p50 / p99"), of(|cycle| cycle.resolve)).spread(
            whole,
            &format!("whole {unit}, p50 / p99"),
            of(|cycle| cycle.whole),
        )
    }
}
