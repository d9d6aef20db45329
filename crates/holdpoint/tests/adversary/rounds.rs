//! Many sequences against one server, by a few threads; a sequence that finds something is made as short as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::check::check;
use crate::dice::Dice;
use crate::place::{Place, on_both};
use crate::plan::Plan;
use crate::sequence::Sequence;
use crate::world::World;

on_both!(whatever_an_attacker_does_each_effect_has_a_grant_of_its_own_run);

const THREADS: u64 = 4;
/// On each of the two databases.
const SEQUENCES: u64 = 1000;
/// With fewer sequences some operations may not come up.
const ALL_OPERATIONS_FROM: u64 = 400;
const SHRINK_ATTEMPTS_MAX: usize = 60;

struct Settings {
    seed: u64,
    sequences: u64,
    first: u64,
    time: Option<Duration>,
}

impl Settings {
    fn read() -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
            Some(
                text.parse::<u64>().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")),
            )
        };
        let only = number("HOLDPOINT_ONLY");
        let sequences = number("HOLDPOINT_SEQUENCES").unwrap_or(SEQUENCES);
        Self {
            seed: number("HOLDPOINT_SEED").unwrap_or(1),
            first: only.unwrap_or(0),
            sequences: only.map_or(sequences, |only| only + 1),
            time: number("HOLDPOINT_MINUTES").map(|minutes| Duration::from_secs(60 * minutes)),
        }
    }
}

/// What is known of a sequence that was checked.
struct Finished<'w> {
    sequence: Sequence<'w>,
    effects: usize,
}

fn whatever_an_attacker_does_each_effect_has_a_grant_of_its_own_run(place: &Place) {
    let (settings, world, began) = (Settings::read(), World::open(place), Instant::now());
    let next = AtomicU64::new(settings.first);
    let finished = Mutex::new(BTreeMap::new());
    let failure: Mutex<Option<String>> = Mutex::default();
    let is_over = |number: u64| match settings.time {
        _ if failure.lock().unwrap().is_some() => true,
        Some(time) => began.elapsed() >= time,
        None => number >= settings.sequences,
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if is_over(number) {
                        return;
                    }
                    match one(&world, settings.seed, number) {
                        Ok(done) => drop(finished.lock().unwrap().insert(done.sequence.marker.clone(), done)),
                        Err(text) => drop(failure.lock().unwrap().get_or_insert(text)),
                    }
                }
            });
        }
    });
    if let Some(text) = failure.into_inner().unwrap() {
        panic!("{}, seed {}: {text}", place.engine(), settings.seed);
    }
    let finished = finished.into_inner().unwrap();
    check_late_effects(&world, &finished);
    report(place, &settings, &world, &finished, began.elapsed());
}

/// Carries out and checks one sequence. The error is the shortest sequence that shows a violation.
fn one(world: &World, seed: u64, number: u64) -> Result<Finished<'_>, String> {
    let mut dice = Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let plan = Plan::random(&mut dice, usize::try_from(number).unwrap());
    let marker = format!("m{seed}-{number}");
    let (sequence, found) = attempt(world, &plan, &marker)?;
    if found.is_empty() {
        let effects = sequence.effects().len();
        return Ok(Finished { sequence, effects });
    }
    let (sequence, found) = shrink(world, plan, (sequence, found), &marker);
    Err(format!("sequence {number}\n{}", tell(&sequence, &found)))
}

fn attempt<'w>(world: &'w World, plan: &Plan, marker: &str) -> Result<(Sequence<'w>, Vec<String>), String> {
    let attempted = catch_unwind(AssertUnwindSafe(|| {
        let sequence = Sequence::carry_out(world, plan, marker);
        let found = check(&sequence);
        (sequence, found)
    }));
    attempted.map_err(|_| format!("a step of {marker} panicked: {plan:?}"))
}

/// Leaves out steps as long as the rest still shows a violation.
fn shrink<'w>(
    world: &'w World,
    mut plan: Plan,
    mut shortest: (Sequence<'w>, Vec<String>),
    marker: &str,
) -> (Sequence<'w>, Vec<String>) {
    // The first step starts the run. Once more from the end whenever something could be left out.
    let (mut at, mut attempts) = (plan.steps.len(), 0);
    while at > 1 && attempts < SHRINK_ATTEMPTS_MAX {
        at -= 1;
        attempts += 1;
        let shorter = plan.without(at);
        if let Ok(again) = attempt(world, &shorter, &format!("{marker}-{attempts}"))
            && !again.1.is_empty()
        {
            at = shorter.steps.len();
            (plan, shortest) = (shorter, again);
        }
    }
    shortest
}

fn tell(sequence: &Sequence<'_>, found: &[String]) -> String {
    let plan = &sequence.plan;
    let kind = format!("{:?}, own definition: {}, flaky: {}", plan.shape, plan.own, plan.flaky);
    format!("{kind}\nsteps:\n  {}\nviolations:\n  {}", sequence.steps.join("\n  "), found.join("\n  "))
}

/// Effects that came after their sequence was checked are held against it once more.
fn check_late_effects(world: &World, finished: &BTreeMap<String, Finished<'_>>) {
    let names = |done: &'_ Finished<'_>| done.sequence.names().map(str::to_owned).collect::<Vec<_>>();
    let known: BTreeSet<String> = finished.values().flat_map(names).collect();
    for (name, count) in world.ledger.counts() {
        assert!(known.contains(&name), "{count} effects of no sequence: {name}");
    }
    for done in finished.values().filter(|done| done.sequence.effects().len() != done.effects) {
        let found = check(&done.sequence);
        assert!(found.is_empty(), "late effects\n{}", tell(&done.sequence, &found));
    }
}

fn report(
    place: &Place,
    settings: &Settings,
    world: &World,
    finished: &BTreeMap<String, Finished<'_>>,
    lasted: Duration,
) {
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    let (mut steps, mut runs, mut votes, mut consumed) = (0, 0, 0, 0);
    for done in finished.values() {
        *effects.entry(done.sequence.plan.shape.name().to_owned()).or_default() += done.effects;
        steps += done.sequence.steps.len();
        runs += done.sequence.runs.len();
        votes += done.sequence.votes.len();
        consumed += done.sequence.consumed.len();
    }
    println!(
        "{}, seed {}: {} sequences, {steps} requests as steps, {runs} runs, {votes} approvals, {consumed} consumptions, \
         effects {effects:?}, {:.1} s",
        place.engine(),
        settings.seed,
        finished.len(),
        lasted.as_secs_f64()
    );
    if finished.len() as u64 >= ALL_OPERATIONS_FROM {
        assert_eq!(world.never_called(), Vec::<&str>::new(), "attackers must try every operation");
        let silent: Vec<_> =
            effects.iter().filter(|(name, count)| **count == 0 && *name != "holdpoint-hold").collect();
        assert!(silent.is_empty(), "these flows had no effect, so that nothing was checked: {silent:?}");
        assert!(consumed > 0, "no grant was consumed");
    }
}
