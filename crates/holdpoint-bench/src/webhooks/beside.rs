//! The approval cycle beside subscriptions. Each pass has a neighbour without subscriptions, so that other load of the
//! machine affects both.

use super::Bench;
use super::subscribers::Receiver;
use super::subscriptions::{Subscription, SubscriptionKind};
use crate::costs::Readings;
use crate::cycle;
use crate::measure::{middle, ratio, round, written};
use crate::{Facts, Failure};

/// Events of each cycle.
const OF_A_CYCLE: &[&str] = &["interrupt.requested", "run.completed"];
/// An event that no cycle has.
const OF_NO_CYCLE: &[&str] = &["run.failed"];
/// One in this many cycles comes before counting starts.
const WARM_UP: u32 = 10;

/// Subscriptions of one kind, beside which cycles are measured.
struct Arm {
    name: &'static str,
    member: &'static str,
    kind: SubscriptionKind,
    /// As many subscriptions as the command line says, or one.
    many: bool,
}

const fn one(name: &'static str, member: &'static str, receiver: Receiver, durable: bool) -> Arm {
    Arm { name, member, kind: SubscriptionKind { receiver, events: OF_A_CYCLE, durable }, many: false }
}

const fn many(name: &'static str, member: &'static str, events: &'static [&'static str]) -> Arm {
    let kind = SubscriptionKind { receiver: Receiver::Accepting, events, durable: false };
    Arm { name, member, kind, many: true }
}

const ARMS: [Arm; 8] = [
    one("1, best effort", "oneBestEffort", Receiver::Accepting, false),
    one("1, durable", "oneDurable", Receiver::Accepting, true),
    one("1 that never answers, best effort", "oneSilentBestEffort", Receiver::Silent, false),
    one("1 that never answers, durable", "oneSilentDurable", Receiver::Silent, true),
    one("1 that refuses connections, best effort", "oneRefusingBestEffort", Receiver::Refusing, false),
    one("1 that refuses connections, durable", "oneRefusingDurable", Receiver::Refusing, true),
    many("many for other events", "manyForOtherEvents", OF_NO_CYCLE),
    many("many, each told of every cycle", "manyForEveryCycle", OF_A_CYCLE),
];

#[derive(Default)]
pub(super) struct Beside {
    /// In the order of the arms.
    arms: [Vec<Pair>; ARMS.len()],
    pub(super) failures: Vec<Failure>,
}

/// A pass beside subscriptions, and its neighbour without.
struct Pair {
    with: PassResult,
    without: PassResult,
}

struct PassResult {
    rate: f64,
    cpu: Option<f64>,
    /// Deliveries during the pass, and the events that subscriptions asked for.
    arrived: usize,
    events: usize,
}

impl Bench<'_> {
    pub(super) async fn beside(&mut self) -> Result<Beside, Failure> {
        let mut beside = Beside::default();
        for number in 0..self.load.rounds as usize {
            for (at, arm) in ARMS.iter().enumerate() {
                // Both are first in turn, because the order matters.
                let (with, without) = if (number + at).is_multiple_of(2) {
                    let without = self.pass(None, &mut beside.failures).await?;
                    (self.pass(Some(arm), &mut beside.failures).await?, without)
                } else {
                    let with = self.pass(Some(arm), &mut beside.failures).await?;
                    (with, self.pass(None, &mut beside.failures).await?)
                };
                beside.arms[at].push(Pair { with, without });
            }
        }
        Ok(beside)
    }

    async fn pass(&mut self, arm: Option<&Arm>, failures: &mut Vec<Failure>) -> Result<PassResult, Failure> {
        let (driver, concurrency, runs) =
            (&self.target.driver, self.load.clients.concurrency, self.load.runs);
        let count = arm.map_or(0, |arm| if arm.many { self.load.subscriptions } else { 1 });
        let mut subscriptions = Vec::new();
        for kind in arm.iter().flat_map(|arm| (0..count).map(|_| arm.kind)) {
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
        let events_each =
            arm.iter().flat_map(|arm| arm.kind.events).filter(|event| OF_A_CYCLE.contains(event)).count();
        let result = PassResult {
            rate: cycles.per_second(),
            // SQLite has no CPU time of its own.
            cpu: costs.both_cpu.or(costs.server_cpu),
            arrived: arrivals.count(),
            events: cycles.done.len() * events_each * count as usize,
        };
        failures.extend(cycles.failures);
        Ok(result)
    }
}

impl Beside {
    pub(super) fn report(&self, facts: Facts) -> Facts {
        let (rate, cpu) = medians(self.arms.iter().flatten().map(|pair| &pair.without));
        let head = format!(
            "{:>8}  {:<22}  {:<22}  {}",
            "cycles/s", "share of those without", "CPU per 1000, times", "came / events"
        );
        let none = format!("{:>8}  {:<22}  {} s", written(rate, 0), "", written(cpu, 3));
        let mut facts = facts
            .member("none", side(rate, cpu))
            .line("cycles beside subscriptions", head)
            .line("none", none);
        let mut members = Facts::default();
        for (arm, pairs) in ARMS.iter().zip(&self.arms) {
            let (rate, cpu) = medians(pairs.iter().map(|pair| &pair.with));
            let (rates, cpus) = (shares(pairs, |pass| Some(pass.rate)), shares(pairs, |pass| pass.cpu));
            let events: usize = pairs.iter().map(|pair| pair.with.events).sum();
            let arrived: usize = pairs.iter().map(|pair| pair.with.arrived).sum();
            let came = if events == 0 { String::new() } else { format!("{arrived} / {events}") };
            let times = format!("{} s, {}", written(cpu, 3), written(middle(&cpus), 2));
            let line = format!("{:>8}  {:<22}  {times:<22}  {came}", written(rate, 0), range(&rates));
            facts = facts.line(arm.name, line.trim_end());
            let arm_facts = side(rate, cpu)
                .number("share", middle(&rates))
                .member("eachShare", rates.iter().copied().map(round).collect::<Vec<_>>())
                .number("cpuTimes", middle(&cpus))
                .member("events", events)
                .member("arrived", arrived);
            members = members.member(arm.member, arm_facts);
        }
        facts.member("beside", members)
    }
}

fn side(rate: Option<f64>, cpu: Option<f64>) -> Facts {
    Facts::default().number("cyclesPerSecond", rate).number("cpuSecondsPer1000Cycles", cpu)
}

/// Returns the median rate and the median CPU time.
fn medians<'p>(passes: impl Iterator<Item = &'p PassResult>) -> (Option<f64>, Option<f64>) {
    let (rates, cpus): (Vec<f64>, Vec<Option<f64>>) = passes.map(|pass| (pass.rate, pass.cpu)).unzip();
    (middle(&rates), middle(&cpus.into_iter().flatten().collect::<Vec<_>>()))
}

/// Returns for each pair the value of the pass beside subscriptions as a share of that of its neighbour.
fn shares(pairs: &[Pair], value: fn(&PassResult) -> Option<f64>) -> Vec<f64> {
    pairs.iter().filter_map(|pair| ratio(value(&pair.with), value(&pair.without))).collect()
}

fn range(values: &[f64]) -> String {
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    middle(values).map(|middle| format!("{middle:.2} ({low:.2} to {high:.2})")).unwrap_or_default()
}
