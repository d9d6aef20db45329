//! Executes the same random commands on an engine with SQLite and on one with PostgreSQL, and compares results and
//! stored rows. A failure prints its seed; `HOLDPOINT_SEED` repeats it. `HOLDPOINT_SEEDS` is the number of seeds to
//! try, starting with that one.

mod flows;
mod random;
mod random_ids;
mod side;
mod step;

use std::collections::BTreeSet;

use holdpoint_engine::core::mailbox::RunDispatchStatus;

use crate::test_database::TestDatabase;
use random::{OTHER_THREADS, RUN_IDS, Random, TENANTS};
use side::Side;
use step::Step;

const SEEDS: u64 = 6;
const STEPS: usize = 150;
/// The number of steps between two comparisons of all data.
const CHECK_INTERVAL: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn both_databases_return_the_same_results_and_store_the_same_rows() {
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
    // The random steps must reach every status, or the comparison would be incomplete.
    let dispatches = RunDispatchStatus::ALL.map(RunDispatchStatus::as_str);
    let runs = ["completed", "failed", "running", "waiting-approval", "waiting-external", "waiting-input"];
    let missing: Vec<_> =
        dispatches.iter().chain(&runs).filter(|status| !reached.contains(**status)).collect();
    assert!(count < SEEDS || missing.is_empty(), "statuses that were not reached: {missing:?}");
}

struct Pair {
    random: Random,
    sides: [Side; 2],
    step_log: StepLog,
}

/// The executed steps. They are printed if the test fails.
struct StepLog {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for StepLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nHOLDPOINT_SEED={} repeats this failure", self.steps.join("\n"), self.seed);
        }
    }
}

impl Pair {
    async fn open(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let start = if random.percent(25) { (1 << 53) + 1 } else { 1_800_000_000_000 };
        let sides = [
            Side::open(TestDatabase::sqlite(), start).await,
            Side::open(TestDatabase::postgres().await, start).await,
        ];
        Self { random, sides, step_log: StepLog { seed, steps: Vec::new() } }
    }

    /// Executes the steps on both engines. Returns the statuses of runs and dispatches at the end.
    async fn compare(mut self) -> BTreeSet<String> {
        for shape in 0..flows::SHAPES {
            for tenant in 0..TENANTS.len() {
                let result = self.perform(Step::Register { tenant, shape, title: "first".to_owned() }).await;
                assert_eq!(result, "Ok((1, true))");
            }
        }
        for number in 1..=STEPS {
            let mut step = Step::choose(&mut self.random, &self.sides[0]).await;
            if let Step::ClaimReady { all, .. } = &mut step {
                *all |= self.sides[0].has_ties().await;
            }
            self.perform(step).await;
            if number % CHECK_INTERVAL == 0 {
                self.check().await;
            }
        }
        self.sides[0].statuses().await
    }

    async fn perform(&mut self, step: Step) -> String {
        self.step_log.steps.push(short(&format!("{step:?}")));
        let [a, b] = &mut self.sides;
        let (a, b) = tokio::join!(a.perform(&step), b.perform(&step));
        assert_same(&a, &b);
        if let Some(last) = self.step_log.steps.last_mut() {
            last.push_str(&format!("\n    {}", short(&a)));
        }
        a
    }

    /// Compares all data: lists read in pages, and the tables.
    async fn check(&mut self) {
        let limit = self.random.below(5) + 1;
        for tenant in 0..TENANTS.len() {
            let mut both = Vec::new();
            for side in &mut self.sides {
                let mut lists =
                    vec![side.runs(tenant, limit as u64).await, side.pending(tenant, limit as u64).await];
                lists.push(side.overview(tenant).await);
                for thread in RUN_IDS.iter().chain(&OTHER_THREADS) {
                    lists.push(side.thread(tenant, thread, limit).await);
                }
                for run in RUN_IDS {
                    lists.push(side.log(tenant, run).await);
                }
                both.push(lists.iter().map(|text| side.normalize(text)).collect::<Vec<_>>());
            }
            for (a, b) in both[0].iter().zip(&both[1]) {
                assert_same(a, b);
            }
        }
        let [a, b] = &mut self.sides;
        let (a, b) = (a.tables().await, b.tables().await);
        for (a, b) in a.iter().zip(&b) {
            assert_same(a, b);
        }
        assert_eq!(a.len(), b.len());
    }
}

fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Compares two long texts. A failure shows the first difference.
fn assert_same(sqlite: &str, postgres: &str) {
    let equal = std::iter::zip(sqlite.chars(), postgres.chars()).take_while(|(a, b)| a == b).count();
    let from = |text: &str| text.chars().skip(equal.saturating_sub(200)).take(600).collect::<String>();
    assert!(sqlite == postgres, "\nSQLite:     {}\nPostgreSQL: {}\n", from(sqlite), from(postgres));
}
