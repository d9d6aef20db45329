//! `bench webhooks`: what telling others costs. Deliveries by themselves; and the approval cycle beside subscribers of
//! many kinds, dead ones among them.

mod beside;
mod bursts;
mod subscribers;
mod subscriptions;

use serde_json::json;

use super::Report;
use super::driver::Driver;
use super::ground::Ground;
use beside::Beside;
use bursts::{Delivered, Flooded};
use holdpoint_cli::failure::Failure;
use subscribers::Subscribers;
use subscriptions::Signatures;

/// The subscribers live on this machine, where webhooks otherwise do not lead.
pub(super) const FLAGS: &[&str] = &["--allow-private-webhooks"];

pub(super) struct Load {
    pub(super) concurrency: u32,
    pub(super) deliveries: u32,
    pub(super) runs: u32,
    pub(super) rounds: u32,
    pub(super) subscriptions: u32,
}

struct Found {
    best_effort: Delivered,
    durable: Delivered,
    flooded: Flooded,
    signatures: Signatures,
    beside: Beside,
}

pub(super) async fn bench(driver: &Driver, ground: &Ground, load: &Load) -> Result<Report, Failure> {
    let subscribers = Subscribers::start()?;
    bursts::prepare(driver).await?;
    let mut signatures = Signatures::default();
    let bursts = (load.concurrency, load.deliveries);
    let best_effort = bursts::deliver(driver, ground, &subscribers, &mut signatures, bursts, false).await?;
    let durable = bursts::deliver(driver, ground, &subscribers, &mut signatures, bursts, true).await?;
    let flooded = bursts::flood(driver, &subscribers, load.concurrency).await?;
    let &Load { concurrency, runs, rounds, subscriptions, .. } = load;
    let cycles = beside::Load { concurrency, runs, rounds, subscriptions };
    let beside = beside::measure(driver, ground, &subscribers, &mut signatures, &cycles).await?;
    Ok(report(load, &Found { best_effort, durable, flooded, signatures, beside }))
}

fn report(load: &Load, found: &Found) -> Report {
    let Load { concurrency, runs, rounds, subscriptions, .. } = load;
    let Found { best_effort, durable, flooded, signatures, beside } = found;
    // What is durable comes; and whatever comes is signed.
    let errors = beside.errors + durable.missing() + signatures.bad;
    let (none, with) = beside.json();
    let json = json!({
        "bench": "webhooks", "concurrency": concurrency, "cyclesPerPass": runs, "rounds": rounds,
        "subscriptions": subscriptions,
        "bestEffort": best_effort.json(), "durable": durable.json(), "flood": flooded.json(),
        "signatures": {"checked": signatures.checked, "bad": signatures.bad},
        "none": none, "beside": with, "errors": errors, "firstError": beside.first_error,
    });
    let passes =
        format!("{rounds} rounds of {runs} cycles, {concurrency} at a time; many are {subscriptions}");
    let mut facts = vec![
        ("best effort", best_effort.text()),
        ("durable", durable.text()),
        ("best effort, flooded", flooded.text()),
        ("signatures", format!("{} looked at, {} bad", signatures.checked, signatures.bad)),
        ("passes, each with a neighbour without", passes),
    ];
    facts.extend(beside.facts());
    facts.push(("errors", errors.to_string()));
    facts.push(("first error", beside.first_error.clone().unwrap_or_default()));
    Report { json, facts, errors }
}
