//! A node whose lease expires between two effects: it continues only if no other worker has taken the claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::RunRef;
use holdpoint_engine::{EffectContext, Node, Options, Outputs, Stop};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, line};

on_both! {
    a_worker_whose_claim_was_taken_over_does_nothing_more,
    a_worker_whose_expired_claim_was_not_taken_over_continues,
}

/// Longer than any lease.
const LONG_MS: i64 = 3_600_000;

/// The effects of all copies of the node.
#[derive(Default)]
struct EffectCounts {
    first: AtomicU32,
    second: AtomicU32,
}

impl EffectCounts {
    fn counts(&self) -> (u32, u32) {
        (self.first.load(Ordering::SeqCst), self.second.load(Ordering::SeqCst))
    }
}

/// A node with two steps, and a gate of the test between them.
struct TwoSteps {
    effects: Arc<EffectCounts>,
    gate: Option<Gate>,
}

struct Gate {
    reached: Sender<()>,
    open: Arc<Notify>,
    /// The result of the second step: `Lost` or None.
    ended: Sender<Option<Stop>>,
}

impl Node for TwoSteps {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        context.step("first", || count(&self.effects.first)).await?;
        if let Some(gate) = &self.gate {
            gate.reached.send(()).await.unwrap();
            gate.open.notified().await;
        }
        let second = context.step("second", || count(&self.effects.second)).await;
        if let Some(gate) = &self.gate {
            let lost = matches!(second, Err(Stop::Lost)).then_some(Stop::Lost);
            gate.ended.send(lost).await.unwrap();
        }
        second.map(|_| Outputs::new())
    }
}

async fn count(counter: &AtomicU32) -> Result<serde_json::Value, Stop> {
    Ok(json!(counter.fetch_add(1, Ordering::SeqCst)))
}

/// The test's side of a gate.
struct GateControl {
    reached: Receiver<()>,
    open: Arc<Notify>,
    ended: Receiver<Option<Stop>>,
}

/// Starts a run whose node waits at the gate.
async fn start_run(database: TestDatabase) -> (TestEnv, RunRef, Arc<EffectCounts>, GateControl) {
    let effects = Arc::new(EffectCounts::default());
    let (reached, has_reached) = channel(8);
    let (ended, has_ended) = channel(8);
    let open = Arc::new(Notify::new());
    let gate = Some(Gate { reached, open: open.clone(), ended });
    let node = TwoSteps { effects: effects.clone(), gate };
    let env = TestEnv::with(database, |options| options.node("test.two", node)).await;
    env.register(line("two", &[("n", "test.two", json!({}))])).await;
    let of = env.start("two").await;
    (env, of, effects, GateControl { reached: has_reached, open, ended: has_ended })
}

async fn a_worker_whose_claim_was_taken_over_does_nothing_more(database: TestDatabase) {
    let (env, of, effects, mut control) = start_run(database).await;
    let ungated = TwoSteps { effects: effects.clone(), gate: None };
    let second = env.second_engine(|options: Options| options.node("test.two", ungated)).await;
    let mut worker = env.engine.worker();
    let take_over = async {
        control.reached.recv().await.unwrap();
        env.clock.advance(LONG_MS);
        assert_eq!(second.worker().drain().await.unwrap(), 1);
        assert_eq!(effects.counts(), (1, 1), "the other worker has done the second step");
        let before = env.rows_of_runs().await;
        control.open.notify_one();
        before
    };
    let (drained, before) = tokio::join!(worker.drain(), take_over);
    drained.unwrap();
    assert_eq!(control.ended.recv().await, Some(Some(Stop::Lost)));
    assert_eq!(effects.counts(), (1, 1));
    assert_eq!(env.rows_of_runs().await, before, "the first worker writes nothing");
    assert_eq!(second.runs().get(&of).await.unwrap().status().as_str(), "completed");
    second.close().await;
}

async fn a_worker_whose_expired_claim_was_not_taken_over_continues(database: TestDatabase) {
    let (env, of, effects, mut control) = start_run(database).await;
    let mut worker = env.engine.worker();
    let wait = async {
        control.reached.recv().await.unwrap();
        env.clock.advance(LONG_MS);
        control.open.notify_one();
    };
    let (drained, ()) = tokio::join!(worker.drain(), wait);
    assert_eq!(drained.unwrap(), 1);
    assert_eq!(control.ended.recv().await, Some(None));
    assert_eq!((effects.counts(), env.status(&of).await), ((1, 1), "completed"));
    assert_eq!(env.drain().await, 0);
}

impl TestEnv {
    /// All rows that a worker can write under a claim.
    async fn rows_of_runs(&self) -> Vec<crate::test_database::Texts> {
        let mut rows = self.database.read("SELECT * FROM events ORDER BY run_id, seq").await;
        rows.extend(self.database.read("SELECT * FROM runs ORDER BY run_id").await);
        rows.extend(self.database.read("SELECT * FROM dispatches ORDER BY seq").await);
        rows
    }
}
