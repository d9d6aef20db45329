//! Deliveries by themselves: a few runs have much to tell at once, and nothing else happens.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};

use super::super::costs::{Costs, Readings};
use super::super::driver::{Driver, line_of, repeat};
use super::super::ground::Ground;
use super::super::measure::{number, round, written};
use super::subscribers::{Heard, Subscribers, Whom};
use super::subscriptions::{Missed, Signatures, Subscription, Wanted};
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;

const WORKFLOW: &str = "bench-webhooks";
const EVENTS: &[&str] = &["node.completed"];
/// Events of a run that somebody is told of. So many that the run itself costs little beside telling of it.
pub(super) const EVENTS_PER_RUN: u32 = 10;
/// Runs of one burst. What they tell finds room: with best effort up to 1000 events wait.
const BURST: u32 = 90;
/// Runs that are more than that, to see what becomes of events that find no room.
const FLOOD: u32 = 5 * BURST;
/// Nothing comes any more when nothing came for so long.
const QUIET: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_millis(2);

/// How deliveries of one kind went, over all bursts.
pub(super) struct Delivered {
    events: usize,
    arrived: usize,
    doubled: usize,
    seconds: f64,
    costs: Costs,
}

/// What became of more events than there was room for.
pub(super) struct Flooded {
    events: usize,
    arrived: usize,
    missed: Missed,
}

pub(super) async fn prepare(driver: &Driver) -> Result<(), Failure> {
    let nodes: Vec<(String, &str, Value)> =
        (0..EVENTS_PER_RUN).map(|number| (format!("n{number}"), "core.noop", json!({}))).collect();
    let workflow = line_of(WORKFLOW, "Benchmark of webhooks", &nodes);
    driver.exchange(Method::PUT, &format!("/v1/workflows/{WORKFLOW}"), &workflow).await.map(drop)
}

pub(super) async fn deliver(
    driver: &Driver,
    ground: &Ground,
    subscribers: &Subscribers,
    signatures: &mut Signatures,
    load: (u32, u32),
    durable: bool,
) -> Result<Delivered, Failure> {
    let (concurrency, deliveries) = load;
    let wanted = Wanted { whom: Whom::Taking, events: EVENTS, durable };
    let subscription = [Subscription::add(driver, subscribers, wanted).await?];
    let runs = deliveries.div_ceil(EVENTS_PER_RUN);
    burst(driver, subscribers, concurrency, runs.min(BURST)).await?;
    let progress = Progress::new("bursts", runs.div_ceil(BURST));
    let (mut left, mut seconds, mut arrived, mut doubled) = (runs, 0.0, 0, 0);
    let before = Readings::take(driver, ground).await;
    while left > 0 {
        let (heard, took) = burst(driver, subscribers, concurrency, left.min(BURST)).await?;
        left = left.saturating_sub(BURST);
        seconds += took.as_secs_f64();
        arrived += heard.arrived();
        doubled += heard.doubled;
        signatures.check(&heard, &subscription);
        progress.step();
    }
    let after = Readings::take(driver, ground).await;
    let [subscription] = subscription;
    subscription.remove(driver).await?;
    let costs = Costs::between(&before, &after, arrived as f64);
    Ok(Delivered { events: (runs * EVENTS_PER_RUN) as usize, arrived, doubled, seconds, costs })
}

/// Best effort at more than it can take.
pub(super) async fn flood(
    driver: &Driver,
    subscribers: &Subscribers,
    concurrency: u32,
) -> Result<Flooded, Failure> {
    let wanted = Wanted { whom: Whom::Taking, events: EVENTS, durable: false };
    let subscription = Subscription::add(driver, subscribers, wanted).await?;
    let (heard, _) = burst(driver, subscribers, concurrency, FLOOD).await?;
    let missed = subscription.missed(driver).await?;
    subscription.remove(driver).await?;
    Ok(Flooded { events: (FLOOD * EVENTS_PER_RUN) as usize, arrived: heard.arrived(), missed })
}

/// What came of so many runs, and how long it took until the last of it came.
async fn burst(
    driver: &Driver,
    subscribers: &Subscribers,
    concurrency: u32,
    runs: u32,
) -> Result<(Heard, Duration), Failure> {
    subscribers.look();
    let begun = Instant::now();
    let started = repeat(runs, concurrency, async || driver.start(WORKFLOW).await).await;
    started.into_iter().collect::<Result<Vec<String>, Failure>>()?;
    let wanted = (runs * EVENTS_PER_RUN) as usize;
    let all_started = Instant::now();
    loop {
        let (arrived, last) = subscribers.so_far();
        let last = last.unwrap_or(all_started).max(all_started);
        if arrived >= wanted || last.elapsed() > QUIET {
            let heard = subscribers.look();
            let took = heard.last.map_or(begun.elapsed(), |last| last - begun);
            return Ok((heard, took));
        }
        tokio::time::sleep(POLL).await;
    }
}

impl Delivered {
    pub(super) fn missing(&self) -> usize {
        self.events.saturating_sub(self.arrived)
    }

    fn per_second(&self) -> f64 {
        self.arrived as f64 / self.seconds
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "events": self.events, "delivered": self.arrived, "missing": self.missing(), "doubled": self.doubled,
            "seconds": round(self.seconds), "deliveriesPerSecond": round(self.per_second()),
            "serverCpuSecondsPer1000Deliveries": number(self.costs.server_cpu),
            "databaseCpuSecondsPer1000Deliveries": number(self.costs.database_cpu),
            "commitsPerDelivery": number(self.costs.commits_each),
            "roundTripsPerDelivery": number(self.costs.round_trips_each),
        })
    }

    pub(super) fn text(&self) -> String {
        let database = self.costs.database_cpu.map(|seconds| format!(" and {seconds:.3} s of the database"));
        format!(
            "{:.0}/s; server CPU per 1000: {} s{}; {} of {} came, {} twice",
            self.per_second(),
            written(self.costs.server_cpu, 3),
            database.unwrap_or_default(),
            self.arrived,
            self.events,
            self.doubled,
        )
    }
}

impl Flooded {
    /// Neither came nor was said to be missing. One that came may also have failed: the answer was lost.
    fn unaccounted(&self) -> u64 {
        let counted = self.arrived as u64 + self.missed.dropped + self.missed.failed;
        (self.events as u64).saturating_sub(counted)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "events": self.events, "delivered": self.arrived, "dropped": self.missed.dropped,
            "failed": self.missed.failed, "unaccounted": self.unaccounted(),
        })
    }

    pub(super) fn text(&self) -> String {
        let Missed { dropped, failed } = self.missed;
        format!(
            "{} events at once: {} came, {dropped} dropped because 1000 waited, {failed} failed, {} unaccounted for",
            self.events,
            self.arrived,
            self.unaccounted()
        )
    }
}
