//! `bench webhooks`: measures the rate of deliveries, and the approval cycle with several kinds of subscribers, working
//! and failing.

mod bursts;
mod scenarios;
mod subscribers;
mod subscriptions;

use clap::Args;

use subscribers::Subscribers;
use subscriptions::{DeliveryMode, SignatureCounts};

use super::{ClientArgs, Connection, Failure, Report, ReportFields, Target};

/// Flags of the server: without them it refuses the loopback addresses of the subscribers.
const FLAGS: &[&str] = &["--allow-private-webhooks"];

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: ClientArgs,
    /// Number of deliveries of each kind to measure without other load
    #[arg(long, value_name = "N", default_value_t = 9_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    deliveries: u32,
    /// Number of cycles in each pass
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of passes with each kind of subscriptions; the median is reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Number of subscriptions in the passes with many subscriptions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    subscriptions: u32,
}

/// The state that all parts of the benchmark share.
struct WebhookBench<'b> {
    target: &'b Target,
    subscribers: Subscribers,
    signatures: SignatureCounts,
    load: &'b Load,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, FLAGS).await?;
    let subscribers = Subscribers::start()?;
    bursts::prepare(&target.driver).await?;
    let mut bench =
        WebhookBench { target: &target, subscribers, signatures: SignatureCounts::default(), load };
    let best_effort = bench.deliver(DeliveryMode::BestEffort).await?;
    let durable = bench.deliver(DeliveryMode::Durable).await?;
    let flood = bench.flood().await?;
    let scenarios = bench.measure_scenarios().await?;
    let Load { clients: ClientArgs { concurrency, .. }, runs, rounds, subscriptions, .. } = load;
    let SignatureCounts { checked, bad } = bench.signatures;
    let passes =
        format!("{rounds} rounds of {runs} cycles, {concurrency} at a time; \"many\" is {subscriptions}");
    let fields = ReportFields::of("webhooks")
        .member("concurrency", concurrency)
        .member("cyclesPerPass", runs)
        .member("rounds", rounds)
        .member("subscriptions", subscriptions)
        .field("bestEffort", &best_effort, "best effort", best_effort.text())
        .field("durable", &durable, "durable", durable.text())
        .field("flood", &flood, "best effort, flooded", flood.text())
        .field("signatures", bench.signatures, "signatures", format!("{checked} checked, {bad} invalid"))
        .line("passes, each paired with one without", passes);
    // Every durable event must arrive, and every delivery must be signed.
    let errors = scenarios.failures.len() + durable.missing + bad;
    Ok(scenarios.report(fields).finish(errors, scenarios.failures.first()))
}
