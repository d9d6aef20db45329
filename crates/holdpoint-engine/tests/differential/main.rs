//! The same commands in the same order, given to an engine on SQLite and to one on PostgreSQL: they say the same and
//! store the same. The commands are chosen at random; the seed of what failed is printed, and `HOLDPOINT_SEED` does
//! it again. `HOLDPOINT_SEEDS` says how many seeds are tried, from that one on.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../place/mod.rs"]
mod place;

mod dice;
mod flows;
mod names;
mod side;
mod step;

use std::collections::BTreeSet;

use holdpoint_engine::core::mailbox::RunDispatchStatus;

use dice::{Dice, FOREIGN, RUN_IDS, TENANTS};
use place::Place;
use side::Side;
use step::Step;

const SEEDS: u64 = 6;
const STEPS: usize = 150;
/// After so many steps everything is compared.
const CHECKPOINT: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn two_databases_give_the_same_answers_and_hold_the_same_rows() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, count) = match number("HOLDPOINT_SEED") {
        Some(seed) => (seed, 1),
        None => (0, SEEDS),
    };
    let count = number("HOLDPOINT_SEEDS").unwrap_or(count);
    let mut reached = BTreeSet::new();
    for seed in first..first + count {
        reached.append(&mut Pair::open(seed).await.compare().await);
    }
    // A test that gets nowhere compares nothing.
    let dispatches = RunDispatchStatus::ALL.map(RunDispatchStatus::as_str);
    let runs = ["completed", "failed", "running", "waiting-approval", "waiting-external", "waiting-input"];
    let missing: Vec<_> =
        dispatches.iter().chain(&runs).filter(|status| !reached.contains(**status)).collect();
    assert!(count < SEEDS || missing.is_empty(), "nothing was ever {missing:?}");
}

struct Pair {
    dice: Dice,
    sides: [Side; 2],
    /// Said when the test fails.
    story: Story,
}

/// What was done so far.
struct Story {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nHOLDPOINT_SEED={} does it again", self.steps.join("\n"), self.seed);
        }
    }
}

impl Pair {
    async fn open(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let start = if dice.percent(25) { (1 << 53) + 1 } else { 1_800_000_000_000 };
        let sides =
            [Side::open(Place::sqlite(), start).await, Side::open(Place::postgres().await, start).await];
        Self { dice, sides, story: Story { seed, steps: Vec::new() } }
    }

    /// The statuses that were reached at the end.
    async fn compare(mut self) -> BTreeSet<String> {
        for shape in 0..flows::SHAPES {
            for tenant in 0..TENANTS.len() {
                let said = self.perform(Step::Register { tenant, shape, title: "first".to_owned() }).await;
                assert_eq!(said, "Ok((1, true))");
            }
        }
        for number in 1..=STEPS {
            let mut step = Step::choose(&mut self.dice, &self.sides[0]).await;
            if let Step::ClaimReady { all, .. } = &mut step {
                *all |= self.sides[0].has_ties().await;
            }
            self.perform(step).await;
            if number % CHECKPOINT == 0 {
                self.check().await;
            }
        }
        self.sides[0].statuses().await
    }

    async fn perform(&mut self, step: Step) -> String {
        self.story.steps.push(short(&format!("{step:?}")));
        let [a, b] = &mut self.sides;
        let (a, b) = tokio::join!(a.perform(&step), b.perform(&step));
        same(&a, &b);
        if let Some(last) = self.story.steps.last_mut() {
            last.push_str(&format!("\n    {}", short(&a)));
        }
        a
    }

    /// Compares everything there is, read in pages and as it is stored.
    async fn check(&mut self) {
        let limit = self.dice.roll(5) + 1;
        for tenant in 0..TENANTS.len() {
            let mut both = Vec::new();
            for side in &mut self.sides {
                let mut said =
                    vec![side.runs(tenant, limit as u64).await, side.pending(tenant, limit as u64).await];
                said.push(side.overview(tenant).await);
                for thread in RUN_IDS.iter().chain(&FOREIGN) {
                    said.push(side.thread(tenant, thread, limit).await);
                }
                for run in RUN_IDS {
                    said.push(side.log(tenant, run).await);
                }
                both.push(said.iter().map(|text| side.normal(text)).collect::<Vec<_>>());
            }
            for (a, b) in both[0].iter().zip(&both[1]) {
                same(a, b);
            }
        }
        let [a, b] = &mut self.sides;
        let (a, b) = (a.tables().await, b.tables().await);
        for (a, b) in a.iter().zip(&b) {
            same(a, b);
        }
        assert_eq!(a.len(), b.len());
    }
}

fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Shows the place where two long texts part.
fn same(sqlite: &str, postgres: &str) {
    let equal = std::iter::zip(sqlite.chars(), postgres.chars()).take_while(|(a, b)| a == b).count();
    let from = |text: &str| text.chars().skip(equal.saturating_sub(200)).take(600).collect::<String>();
    assert!(sqlite == postgres, "\nSQLite:     {}\nPostgreSQL: {}\n", from(sqlite), from(postgres));
}
