//! `bench webhooks`: the rate of deliveries, and the approval cycle beside subscribers of several kinds, some of them dead.

mod beside;
mod bursts;
mod subscribers;
mod subscriptions;

use clap::Args;

use subscribers::Subscribers;
use subscriptions::Signatures;

use super::{Clients, Connection, Facts, Failure, Report, Target};

/// The subscribers have loopback addresses, which webhooks may not have otherwise.
const FLAGS: &[&str] = &["--allow-private-webhooks"];

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: Clients,
    /// Deliveries of each kind to count without other load
    #[arg(long, value_name = "N", default_value_t = 9_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    deliveries: u32,
    /// Cycles in each pass
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Passes beside each kind of subscriptions; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Subscriptions in the passes with many of them
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    subscriptions: u32,
}

/// The state that all parts of the benchmark share.
struct Bench<'b> {
    target: &'b Target,
    subscribers: Subscribers,
    signatures: Signatures,
    load: &'b Load,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, FLAGS).await?;
    let subscribers = Subscribers::start()?;
    bursts::prepare(&target.driver).await?;
    let mut bench = Bench { target: &target, subscribers, signatures: Signatures::default(), load };
    let best_effort = bench.deliver(false).await?;
    let durable = bench.deliver(true).await?;
    let flood = bench.flood().await?;
    let beside = bench.beside().await?;
    let Load { clients: Clients { concurrency, .. }, runs, rounds, subscriptions, .. } = load;
    let Signatures { checked, bad } = bench.signatures;
    let passes =
        format!("{rounds} rounds of {runs} cycles, {concurrency} at a time; many are {subscriptions}");
    let facts = Facts::of("webhooks")
        .member("concurrency", concurrency)
        .member("cyclesPerPass", runs)
        .member("rounds", rounds)
        .member("subscriptions", subscriptions)
        .fact("bestEffort", &best_effort, "best effort", best_effort.text())
        .fact("durable", &durable, "durable", durable.text())
        .fact("flood", &flood, "best effort, flooded", flood.text())
        .fact("signatures", bench.signatures, "signatures", format!("{checked} looked at, {bad} bad"))
        .line("passes, each with a neighbour without", passes);
    // Every durable event must arrive, and every delivery must be signed.
    let errors = beside.failures.len() + durable.missing + bad;
    Ok(beside.report(facts).finish(errors, beside.failures.first()))
}
