//! Executes many sequences against one server on several threads, and shortens a sequence that shows a violation.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::check::check;
use crate::plan::Plan;
use crate::random::SeededRandom;
use crate::sequence::Sequence;
use crate::test_database::{TestDatabase, on_both};
use crate::world::World;

on_both!(every_effect_has_a_grant_of_its_own_run_under_random_attacks);

const THREADS: u64 = 4;
/// The number of sequences on each of the two databases.
const SEQUENCES: u64 = 1000;
/// With fewer sequences some operations may not be called.
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

/// A sequence that was checked, with the number of its effects at that time.
struct FinishedSequence<'w> {
    sequence: Sequence<'w>,
    effects: usize,
}

fn every_effect_has_a_grant_of_its_own_run_under_random_attacks(database: &TestDatabase) {
    let (settings, world, began) = (Settings::read(), World::open(database), Instant::now());
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
                    match execute_and_check(&world, settings.seed, number) {
                        Ok(done) => drop(finished.lock().unwrap().insert(done.sequence.marker.clone(), done)),
                        Err(text) => drop(failure.lock().unwrap().get_or_insert(text)),
                    }
                }
            });
        }
    });
    if let Some(text) = failure.into_inner().unwrap() {
        panic!("{}, seed {}: {text}", database.engine(), settings.seed);
    }
    let finished = finished.into_inner().unwrap();
    check_late_effects(&world, &finished);
    report(database, &settings, &world, &finished, began.elapsed());
}

/// Executes and checks one sequence. The error is the shortest sequence that shows a violation.
fn execute_and_check(world: &World, seed: u64, number: u64) -> Result<FinishedSequence<'_>, String> {
    let mut random = SeededRandom::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let plan = Plan::random(&mut random, usize::try_from(number).unwrap());
    let marker = format!("m{seed}-{number}");
    let (sequence, found) = attempt(world, &plan, &marker)?;
    if found.is_empty() {
        let effects = sequence.effects().len();
        return Ok(FinishedSequence { sequence, effects });
    }
    let (sequence, found) = shrink(world, plan, (sequence, found), &marker);
    Err(format!("sequence {number}\n{}", describe(&sequence, &found)))
}

fn attempt<'w>(world: &'w World, plan: &Plan, marker: &str) -> Result<(Sequence<'w>, Vec<String>), String> {
    let attempted = catch_unwind(AssertUnwindSafe(|| {
        let sequence = Sequence::execute(world, plan, marker);
        let found = check(&sequence);
        (sequence, found)
    }));
    attempted.map_err(|_| format!("a step of {marker} panicked: {plan:?}"))
}

/// Removes steps as long as the rest still shows a violation.
fn shrink<'w>(
    world: &'w World,
    mut plan: Plan,
    mut shortest: (Sequence<'w>, Vec<String>),
    marker: &str,
) -> (Sequence<'w>, Vec<String>) {
    // The first step starts the run. The search starts again from the end after each step that was removed.
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

fn describe(sequence: &Sequence<'_>, found: &[String]) -> String {
    let plan = &sequence.plan;
    let kind = format!("{:?}, own definition: {}, flaky: {}", plan.shape, plan.own, plan.flaky);
    format!("{kind}\nsteps:\n  {}\nviolations:\n  {}", sequence.steps.join("\n  "), found.join("\n  "))
}

/// Checks sequences again whose effects arrived after their check.
fn check_late_effects(world: &World, finished: &BTreeMap<String, FinishedSequence<'_>>) {
    let names = |done: &'_ FinishedSequence<'_>| done.sequence.names().map(str::to_owned).collect::<Vec<_>>();
    let known: BTreeSet<String> = finished.values().flat_map(names).collect();
    for (name, count) in world.ledger.counts() {
        assert!(known.contains(&name), "{count} effects of no sequence: {name}");
    }
    for done in finished.values().filter(|done| done.sequence.effects().len() != done.effects) {
        let found = check(&done.sequence);
        assert!(found.is_empty(), "late effects\n{}", describe(&done.sequence, &found));
    }
}

fn report(
    database: &TestDatabase,
    settings: &Settings,
    world: &World,
    finished: &BTreeMap<String, FinishedSequence<'_>>,
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
        database.engine(),
        settings.seed,
        finished.len(),
        lasted.as_secs_f64()
    );
    if finished.len() as u64 >= ALL_OPERATIONS_FROM {
        assert_eq!(world.never_called(), Vec::<&str>::new(), "attackers must try every operation");
        let silent: Vec<_> =
            effects.iter().filter(|(name, count)| **count == 0 && *name != "holdpoint-hold").collect();
        assert!(silent.is_empty(), "these flows had no effects to check: {silent:?}");
        assert!(consumed > 0, "no grant was consumed");
    }
}
