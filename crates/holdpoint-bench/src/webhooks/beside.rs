//! The approval cycle beside subscriptions: each pass has a neighbour without any, so that whatever else the machine
//! does happens to both.

use serde_json::{Value, json};

use super::super::costs::{Costs, Readings};
use super::super::cycle;
use super::super::driver::Driver;
use super::super::ground::Ground;
use super::super::measure::{middle, number, ratio, round, written};
use super::subscribers::{Subscribers, Whom};
use super::subscriptions::{Signatures, Subscription, Wanted};
use holdpoint_cli::failure::Failure;

/// Of a cycle these two happen: somebody is asked, and it is over.
const OF_A_CYCLE: &[&str] = &["interrupt.requested", "run.completed"];
/// Cycles of the benchmark do not fail.
const OF_NO_CYCLE: &[&str] = &["run.failed"];
/// One in so many cycles comes before counting starts.
const WARM_UP: u32 = 10;

/// Subscriptions that a cycle is measured beside.
struct Arm {
    name: &'static str,
    key: &'static str,
    wanted: Wanted,
    /// As many as were asked for, or one.
    many: bool,
}

const fn arm(name: &'static str, key: &'static str, wanted: Wanted) -> Arm {
    Arm { name, key, wanted, many: false }
}

const fn of(whom: Whom, durable: bool) -> Wanted {
    Wanted { whom, events: OF_A_CYCLE, durable }
}

const ARMS: [Arm; 8] = [
    arm("1, best effort", "oneBestEffort", of(Whom::Taking, false)),
    arm("1, durable", "oneDurable", of(Whom::Taking, true)),
    arm("1 that never answers, best effort", "oneSilentBestEffort", of(Whom::Silent, false)),
    arm("1 that never answers, durable", "oneSilentDurable", of(Whom::Silent, true)),
    arm("1 that refuses connections, best effort", "oneRefusingBestEffort", of(Whom::Gone, false)),
    arm("1 that refuses connections, durable", "oneRefusingDurable", of(Whom::Gone, true)),
    Arm {
        name: "many for other events",
        key: "manyForOtherEvents",
        wanted: Wanted { whom: Whom::Taking, events: OF_NO_CYCLE, durable: false },
        many: true,
    },
    Arm {
        name: "many, each told of every cycle",
        key: "manyForEveryCycle",
        wanted: of(Whom::Taking, false),
        many: true,
    },
];

pub(super) struct Load {
    pub(super) concurrency: u32,
    pub(super) runs: u32,
    pub(super) rounds: u32,
    pub(super) subscriptions: u32,
}

pub(super) struct Beside {
    /// In the order of the arms.
    arms: [Vec<Pair>; ARMS.len()],
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
}

/// A pass beside subscriptions, and its neighbour without.
struct Pair {
    with: Passed,
    without: Passed,
}

struct Passed {
    rate: f64,
    cpu: Option<f64>,
    /// Deliveries that came during the pass, and events that they could have been about.
    arrived: usize,
    events: usize,
}

pub(super) async fn measure(
    driver: &Driver,
    ground: &Ground,
    subscribers: &Subscribers,
    signatures: &mut Signatures,
    load: &Load,
) -> Result<Beside, Failure> {
    let mut beside = Beside { arms: Default::default(), errors: 0, first_error: None };
    let mut bench = Bench { driver, ground, subscribers, signatures, load };
    for number in 0..load.rounds {
        for (at, arm) in ARMS.iter().enumerate() {
            // The first has the better or the worse of it; both are first in turn.
            let (with, without) = if (number as usize + at).is_multiple_of(2) {
                let without = bench.pass(None, &mut beside).await?;
                (bench.pass(Some(arm), &mut beside).await?, without)
            } else {
                let with = bench.pass(Some(arm), &mut beside).await?;
                (with, bench.pass(None, &mut beside).await?)
            };
            beside.arms[at].push(Pair { with, without });
        }
    }
    Ok(beside)
}

struct Bench<'b> {
    driver: &'b Driver,
    ground: &'b Ground,
    subscribers: &'b Subscribers,
    signatures: &'b mut Signatures,
    load: &'b Load,
}

impl Bench<'_> {
    async fn pass(&mut self, arm: Option<&Arm>, beside: &mut Beside) -> Result<Passed, Failure> {
        let Load { concurrency, runs, subscriptions, .. } = *self.load;
        let count = arm.map_or(0, |arm| if arm.many { subscriptions } else { 1 });
        let mut subscribed = Vec::new();
        for wanted in arm.iter().flat_map(|arm| (0..count).map(|_| arm.wanted)) {
            subscribed.push(Subscription::add(self.driver, self.subscribers, wanted).await?);
        }
        cycle::pass(self.driver, runs / WARM_UP, concurrency).await;
        self.subscribers.look();
        let before = Readings::take(self.driver, self.ground).await;
        let pass = cycle::pass(self.driver, runs, concurrency).await;
        let after = Readings::take(self.driver, self.ground).await;
        let heard = self.subscribers.look();
        self.signatures.check(&heard, &subscribed);
        for subscription in subscribed {
            subscription.remove(self.driver).await?;
        }
        beside.errors += pass.errors;
        beside.first_error = beside.first_error.take().or(pass.first_error);
        let costs = Costs::between(&before, &after, pass.cycles as f64);
        let told =
            arm.iter().flat_map(|arm| arm.wanted.events).filter(|event| OF_A_CYCLE.contains(event)).count();
        Ok(Passed {
            rate: pass.cycles as f64 / pass.seconds,
            // A file has no server of its own; then this is all.
            cpu: costs.both_cpu.or(costs.server_cpu),
            arrived: heard.arrived(),
            events: pass.cycles * told * count as usize,
        })
    }
}

impl Beside {
    pub(super) fn json(&self) -> (Value, Value) {
        let arms = ARMS.iter().zip(&self.arms).map(|(arm, pairs)| (arm.key.to_owned(), json_of(pairs)));
        (none_of(&self.arms).json(), Value::Object(arms.collect()))
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let none = none_of(&self.arms);
        let head = format!(
            "{:>8}  {:<22}  {:<22}  {}",
            "cycles/s", "share of those without", "CPU per 1000, times", "came / events"
        );
        let line = |pairs: &Vec<Pair>| {
            let with = Side::of(pairs, |pair| &pair.with);
            let (rates, cpus) =
                (shares(pairs, |passed| Some(passed.rate)), shares(pairs, |passed| passed.cpu));
            let came =
                if with.events == 0 { String::new() } else { format!("{} / {}", with.arrived, with.events) };
            let cpu = format!("{} s, {}", written(with.cpu, 3), written(middle(&cpus), 2));
            let line = format!("{:>8}  {:<22}  {cpu:<22}  {came}", written(with.rate, 0), range(&rates));
            line.trim_end().to_owned()
        };
        let mut facts = vec![
            ("cycles beside subscriptions", head),
            ("none", format!("{:>8}  {:<22}  {} s", written(none.rate, 0), "", written(none.cpu, 3))),
        ];
        facts.extend(ARMS.iter().zip(&self.arms).map(|(arm, pairs)| (arm.name, line(pairs))));
        facts
    }
}

/// What the middle one of many passes gave; deliveries of all of them.
struct Side {
    rate: Option<f64>,
    cpu: Option<f64>,
    arrived: usize,
    events: usize,
}

impl Side {
    fn of<'p>(pairs: impl IntoIterator<Item = &'p Pair>, side: fn(&Pair) -> &Passed) -> Self {
        let passed: Vec<&Passed> = pairs.into_iter().map(side).collect();
        let rates: Vec<f64> = passed.iter().map(|one| one.rate).collect();
        let cpus: Vec<f64> = passed.iter().filter_map(|one| one.cpu).collect();
        Self {
            rate: middle(&rates),
            cpu: middle(&cpus),
            arrived: passed.iter().map(|one| one.arrived).sum(),
            events: passed.iter().map(|one| one.events).sum(),
        }
    }

    fn json(&self) -> Value {
        json!({"cyclesPerSecond": number(self.rate), "cpuSecondsPer1000Cycles": number(self.cpu)})
    }
}

fn none_of(arms: &[Vec<Pair>]) -> Side {
    Side::of(arms.iter().flatten(), |pair| &pair.without)
}

/// Of each pair, what the pass beside subscriptions gave as a share of what its neighbour gave.
fn shares(pairs: &[Pair], value: fn(&Passed) -> Option<f64>) -> Vec<f64> {
    pairs.iter().filter_map(|pair| ratio(value(&pair.with), value(&pair.without))).collect()
}

fn range(values: &[f64]) -> String {
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    middle(values).map(|middle| format!("{middle:.2} ({low:.2} to {high:.2})")).unwrap_or_default()
}

fn json_of(pairs: &[Pair]) -> Value {
    let with = Side::of(pairs, |pair| &pair.with);
    let (rates, cpus) = (shares(pairs, |passed| Some(passed.rate)), shares(pairs, |passed| passed.cpu));
    let mut shown = with.json();
    shown["share"] = number(middle(&rates));
    shown["eachShare"] = rates.iter().copied().map(round).collect();
    shown["cpuTimes"] = number(middle(&cpus));
    shown["events"] = json!(with.events);
    shown["arrived"] = json!(with.arrived);
    shown
}
