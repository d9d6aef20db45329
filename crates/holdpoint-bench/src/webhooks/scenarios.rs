//! Measures the approval cycle with subscriptions. Each pass is paired with a pass without subscriptions, so that other
//! load of the machine affects both.

use super::WebhookBench;
use super::subscribers::ReceiverKind;
use super::subscriptions::DeliveryMode::{self, BestEffort, Durable};
use super::subscriptions::{Subscription, SubscriptionKind};
use crate::costs::Readings;
use crate::cycle;
use crate::measure::{format_number, median, ratio, round};
use crate::{Failure, ReportFields};

/// Events of each cycle.
const OF_A_CYCLE: &[&str] = &["interrupt.requested", "run.completed"];
/// An event that no cycle has.
const OF_NO_CYCLE: &[&str] = &["run.failed"];
/// One in this many cycles runs before the measurement.
const WARM_UP: u32 = 10;

/// Subscriptions of one kind that exist while cycles are measured.
struct Scenario {
    name: &'static str,
    member: &'static str,
    kind: SubscriptionKind,
    /// True for the number of subscriptions in `--subscriptions`, false for one subscription.
    many: bool,
}

const fn one(
    name: &'static str,
    member: &'static str,
    receiver: ReceiverKind,
    mode: DeliveryMode,
) -> Scenario {
    Scenario { name, member, kind: SubscriptionKind { receiver, events: OF_A_CYCLE, mode }, many: false }
}

const fn many(name: &'static str, member: &'static str, events: &'static [&'static str]) -> Scenario {
    let kind = SubscriptionKind { receiver: ReceiverKind::Accepting, events, mode: BestEffort };
    Scenario { name, member, kind, many: true }
}

const SCENARIOS: [Scenario; 8] = [
    one("1, best effort", "oneBestEffort", ReceiverKind::Accepting, BestEffort),
    one("1, durable", "oneDurable", ReceiverKind::Accepting, Durable),
    one("1 that never responds, best effort", "oneSilentBestEffort", ReceiverKind::Silent, BestEffort),
    one("1 that never responds, durable", "oneSilentDurable", ReceiverKind::Silent, Durable),
    one(
        "1 that refuses connections, best effort",
        "oneRefusingBestEffort",
        ReceiverKind::Refusing,
        BestEffort,
    ),
    one("1 that refuses connections, durable", "oneRefusingDurable", ReceiverKind::Refusing, Durable),
    many("many for other events", "manyForOtherEvents", OF_NO_CYCLE),
    many("many for every cycle", "manyForEveryCycle", OF_A_CYCLE),
];

#[derive(Default)]
pub(super) struct ScenarioResults {
    /// In the order of [`SCENARIOS`].
    pairs: [Vec<PassPair>; SCENARIOS.len()],
    pub(super) failures: Vec<Failure>,
}

/// A pass with subscriptions and a pass without.
struct PassPair {
    with: PassResult,
    without: PassResult,
}

struct PassResult {
    rate: f64,
    cpu: Option<f64>,
    /// Deliveries during the pass.
    arrived: usize,
    /// Events that the subscriptions select.
    events: usize,
}

impl WebhookBench<'_> {
    pub(super) async fn measure_scenarios(&mut self) -> Result<ScenarioResults, Failure> {
        let mut results = ScenarioResults::default();
        for number in 0..self.load.rounds as usize {
            for (at, scenario) in SCENARIOS.iter().enumerate() {
                // The order of the two passes alternates, because it affects the rate.
                let (with, without) = if (number + at).is_multiple_of(2) {
                    let without = self.pass(None, &mut results.failures).await?;
                    (self.pass(Some(scenario), &mut results.failures).await?, without)
                } else {
                    let with = self.pass(Some(scenario), &mut results.failures).await?;
                    (with, self.pass(None, &mut results.failures).await?)
                };
                results.pairs[at].push(PassPair { with, without });
            }
        }
        Ok(results)
    }

    async fn pass(
        &mut self,
        scenario: Option<&Scenario>,
        failures: &mut Vec<Failure>,
    ) -> Result<PassResult, Failure> {
        let (driver, concurrency, runs) =
            (&self.target.driver, self.load.clients.concurrency, self.load.runs);
        let count = scenario.map_or(0, |scenario| if scenario.many { self.load.subscriptions } else { 1 });
        let mut subscriptions = Vec::new();
        for kind in scenario.iter().flat_map(|scenario| (0..count).map(|_| scenario.kind)) {
            subscriptions.push(Subscription::create(&driver.client, &self.subscribers, kind).await?);
        }
        cycle::pass(driver, runs / WARM_UP, concurrency).await;
        self.subscribers.take();
        let before = Readings::take(self.target).await;
        let cycles = cycle::pass(driver, runs, concurrency).await;
        let costs = before.costs(self.target, cycles.done.len()).await;
        let arrivals = self.subscribers.take();
        self.signatures.check(&arrivals, &subscriptions);
        for subscription in subscriptions {
            subscription.delete(&driver.client).await?;
        }
        let events = scenario.iter().flat_map(|scenario| scenario.kind.events);
        let events_each = events.filter(|event| OF_A_CYCLE.contains(event)).count();
        let result = PassResult {
            rate: cycles.per_second(),
            // SQLite runs in the server and has no separate CPU time.
            cpu: costs.both_cpu.or(costs.server_cpu),
            arrived: arrivals.count(),
            events: cycles.done.len() * events_each * count as usize,
        };
        failures.extend(cycles.failures);
        Ok(result)
    }
}

impl ScenarioResults {
    pub(super) fn report(&self, fields: ReportFields) -> ReportFields {
        let (rate, cpu) = medians(self.pairs.iter().flatten().map(|pair| &pair.without));
        let head = format!(
            "{:>8}  {:<22}  {:<22}  {}",
            "cycles/s", "share of without", "CPU per 1000, factor", "received / events"
        );
        let none = format!("{:>8}  {:<22}  {} s", format_number(rate, 0), "", format_number(cpu, 3));
        let mut fields = fields
            .member("none", rate_and_cpu(rate, cpu))
            .line("cycles with subscriptions", head)
            .line("none", none);
        let mut members = ReportFields::default();
        for (scenario, pairs) in SCENARIOS.iter().zip(&self.pairs) {
            let (rate, cpu) = medians(pairs.iter().map(|pair| &pair.with));
            let (rates, cpus) = (shares(pairs, |pass| Some(pass.rate)), shares(pairs, |pass| pass.cpu));
            let events: usize = pairs.iter().map(|pair| pair.with.events).sum();
            let arrived: usize = pairs.iter().map(|pair| pair.with.arrived).sum();
            let received = if events == 0 { String::new() } else { format!("{arrived} / {events}") };
            let times = format!("{} s, {}", format_number(cpu, 3), format_number(median(&cpus), 2));
            let line =
                format!("{:>8}  {:<22}  {times:<22}  {received}", format_number(rate, 0), range(&rates));
            fields = fields.line(scenario.name, line.trim_end());
            let scenario_fields = rate_and_cpu(rate, cpu)
                .number("share", median(&rates))
                .member("eachShare", rates.iter().copied().map(round).collect::<Vec<_>>())
                .number("cpuTimes", median(&cpus))
                .member("events", events)
                .member("arrived", arrived);
            members = members.member(scenario.member, scenario_fields);
        }
        fields.member("beside", members)
    }
}

fn rate_and_cpu(rate: Option<f64>, cpu: Option<f64>) -> ReportFields {
    ReportFields::default().number("cyclesPerSecond", rate).number("cpuSecondsPer1000Cycles", cpu)
}

/// Returns the median rate and the median CPU time.
fn medians<'p>(passes: impl Iterator<Item = &'p PassResult>) -> (Option<f64>, Option<f64>) {
    let (rates, cpus): (Vec<f64>, Vec<Option<f64>>) = passes.map(|pass| (pass.rate, pass.cpu)).unzip();
    (median(&rates), median(&cpus.into_iter().flatten().collect::<Vec<_>>()))
}

/// Returns for each pair the value of the pass with subscriptions, divided by the value of the pass without.
fn shares(pairs: &[PassPair], value: fn(&PassResult) -> Option<f64>) -> Vec<f64> {
    pairs.iter().filter_map(|pair| ratio(value(&pair.with), value(&pair.without))).collect()
}

fn range(values: &[f64]) -> String {
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    median(values).map(|middle| format!("{middle:.2} ({low:.2} to {high:.2})")).unwrap_or_default()
}
