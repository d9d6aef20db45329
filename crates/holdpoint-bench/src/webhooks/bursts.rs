//! Measures deliveries without other load: a few runs have many events at once.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::WebhookBench;
use super::subscribers::{ReceivedDeliveries, ReceiverKind};
use super::subscriptions::{DeliveryMode, Losses, Subscription, SubscriptionKind};
use crate::batch::repeat;
use crate::costs::Readings;
use crate::definitions::{noop, workflow};
use crate::measure::{RoundedNumber, format_known, format_number, round};
use crate::{Driver, Failure, Progress};

const WORKFLOW: &str = "bench-webhooks";
const EVENTS: &[&str] = &["node.completed"];
/// The number of delivered events of each run. It is high, so that the cost of the run itself is small.
const EVENTS_PER_RUN: u32 = 10;
/// Runs of one burst. Their events fit into the best-effort queue, which holds 1000.
const BURST: u32 = 90;
/// Runs whose events exceed the queue.
const FLOOD: u32 = 5 * BURST;
/// A burst has ended if no delivery arrives for this long.
const QUIET: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_millis(2);

/// The deliveries of one kind over all bursts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryResult {
    events: usize,
    delivered: usize,
    pub(super) missing: usize,
    doubled: usize,
    seconds: f64,
    deliveries_per_second: f64,
    server_cpu_seconds_per_1000_deliveries: RoundedNumber,
    database_cpu_seconds_per_1000_deliveries: RoundedNumber,
    commits_per_delivery: RoundedNumber,
    round_trips_per_delivery: RoundedNumber,
}

/// The deliveries of a burst that exceeds the queue.
#[derive(Serialize)]
pub(super) struct FloodResult {
    events: u64,
    delivered: u64,
    #[serde(flatten)]
    losses: Losses,
    /// Events that neither arrived nor were reported as lost. An event counts as delivered and as failed if it arrived
    /// and its response was lost.
    unaccounted: u64,
}

pub(super) async fn prepare(driver: &Driver) -> Result<(), Failure> {
    let nodes = (0..EVENTS_PER_RUN).map(|number| noop(format!("n{number}")));
    driver.register(&workflow(WORKFLOW, "Benchmark of webhooks", nodes.collect())).await
}

impl WebhookBench<'_> {
    pub(super) async fn deliver(&mut self, mode: DeliveryMode) -> Result<DeliveryResult, Failure> {
        let client = &self.target.driver.client;
        let kind = SubscriptionKind { receiver: ReceiverKind::Accepting, events: EVENTS, mode };
        let subscription = [Subscription::create(client, &self.subscribers, kind).await?];
        let runs = self.load.deliveries.div_ceil(EVENTS_PER_RUN);
        self.burst(runs.min(BURST)).await?;
        let progress = Progress::new("bursts", runs.div_ceil(BURST));
        let (mut left, mut seconds, mut delivered, mut doubled) = (runs, 0.0, 0, 0);
        let before = Readings::take(self.target).await;
        while left > 0 {
            let (arrivals, took) = self.burst(left.min(BURST)).await?;
            left = left.saturating_sub(BURST);
            seconds += took.as_secs_f64();
            delivered += arrivals.count();
            doubled += arrivals.doubled;
            self.signatures.check(&arrivals, &subscription);
            progress.step();
        }
        let costs = before.costs(self.target, delivered).await;
        let [subscription] = subscription;
        subscription.delete(client).await?;
        let events = (runs * EVENTS_PER_RUN) as usize;
        Ok(DeliveryResult {
            events,
            delivered,
            missing: events.saturating_sub(delivered),
            doubled,
            seconds: round(seconds),
            deliveries_per_second: round(delivered as f64 / seconds),
            server_cpu_seconds_per_1000_deliveries: RoundedNumber(costs.server_cpu),
            database_cpu_seconds_per_1000_deliveries: RoundedNumber(costs.database_cpu),
            commits_per_delivery: RoundedNumber(costs.commits_each),
            round_trips_per_delivery: RoundedNumber(costs.round_trips_each),
        })
    }

    /// Sends more best-effort events than the queue can hold.
    pub(super) async fn flood(&self) -> Result<FloodResult, Failure> {
        let client = &self.target.driver.client;
        let mode = DeliveryMode::BestEffort;
        let kind = SubscriptionKind { receiver: ReceiverKind::Accepting, events: EVENTS, mode };
        let subscription = Subscription::create(client, &self.subscribers, kind).await?;
        let (arrivals, _) = self.burst(FLOOD).await?;
        let losses = subscription.losses(client).await?;
        subscription.delete(client).await?;
        let (events, delivered) = (u64::from(FLOOD * EVENTS_PER_RUN), arrivals.count() as u64);
        let unaccounted = events.saturating_sub(delivered + losses.dropped + losses.failed);
        Ok(FloodResult { events, delivered, losses, unaccounted })
    }

    /// Starts runs, and returns the deliveries and the time until the last one.
    async fn burst(&self, runs: u32) -> Result<(ReceivedDeliveries, Duration), Failure> {
        self.subscribers.take();
        let begun = Instant::now();
        let start = async || self.target.driver.start(WORKFLOW).await;
        repeat("runs", runs, self.load.clients.concurrency, start).await.all("cannot start a run")?;
        let expected = (runs * EVENTS_PER_RUN) as usize;
        let all_started = Instant::now();
        loop {
            let (arrived, last) = self.subscribers.so_far();
            let last = last.unwrap_or(all_started).max(all_started);
            if arrived >= expected || last.elapsed() > QUIET {
                let arrivals = self.subscribers.take();
                let took = arrivals.last.map_or(begun.elapsed(), |last| last - begun);
                return Ok((arrivals, took));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl DeliveryResult {
    pub(super) fn text(&self) -> String {
        let Self { events, delivered, doubled, deliveries_per_second, .. } = self;
        let server = format_number(self.server_cpu_seconds_per_1000_deliveries.0, 3);
        let mut database =
            format_known(self.database_cpu_seconds_per_1000_deliveries.0, 3, " s of the database");
        if !database.is_empty() {
            database.insert_str(0, " and ");
        }
        format!(
            "{deliveries_per_second:.0}/s; server CPU per 1000: {server} s{database}; {delivered} of {events} received, {doubled} twice"
        )
    }
}

impl FloodResult {
    pub(super) fn text(&self) -> String {
        let Self { events, delivered, losses: Losses { dropped, failed }, unaccounted } = self;
        format!(
            "{events} events at once: {delivered} received, {dropped} dropped because the queue was full, {failed} failed, {unaccounted} unaccounted for"
        )
    }
}
