//! A node is held up between two effects until its lease has run out. Whether it may go on, the store says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::RunRef;
use holdpoint_engine::{EffectContext, Node, Options, Outputs, Stop};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::house::{House, line};
use crate::place::{Place, on_both};

on_both! {
    whose_claim_was_taken_over_does_nothing_more,
    whose_claim_nobody_took_goes_on_after_its_lease,
}

/// Longer than any lease.
const LONG_MS: i64 = 3_600_000;

/// What all copies of the node have done outside.
#[derive(Default)]
struct Done {
    first: AtomicU32,
    second: AtomicU32,
}

impl Done {
    fn counts(&self) -> (u32, u32) {
        (self.first.load(Ordering::SeqCst), self.second.load(Ordering::SeqCst))
    }
}

/// Does something, waits if it has a gate, does something else.
struct TwoSteps {
    done: Arc<Done>,
    gate: Option<Gate>,
}

struct Gate {
    reached: Sender<()>,
    open: Arc<Notify>,
    /// What the second step came to.
    ended: Sender<Option<Stop>>,
}

impl Node for TwoSteps {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        context.step("first", || count(&self.done.first)).await?;
        if let Some(gate) = &self.gate {
            gate.reached.send(()).await.unwrap();
            gate.open.notified().await;
        }
        let second = context.step("second", || count(&self.done.second)).await;
        if let Some(gate) = &self.gate {
            let lost = matches!(second, Err(Stop::Lost)).then_some(Stop::Lost);
            gate.ended.send(lost).await.unwrap();
        }
        second.map(|_| Outputs::new())
    }
}

async fn count(effects: &AtomicU32) -> Result<serde_json::Value, Stop> {
    Ok(json!(effects.fetch_add(1, Ordering::SeqCst)))
}

/// The other ends of a gate.
struct Keeper {
    reached: Receiver<()>,
    open: Arc<Notify>,
    ended: Receiver<Option<Stop>>,
}

/// A run whose node waits at the gate as soon as the house's worker is there.
async fn given(place: Place) -> (House, RunRef, Arc<Done>, Keeper) {
    let done = Arc::new(Done::default());
    let (reached, has_reached) = channel(8);
    let (ended, has_ended) = channel(8);
    let open = Arc::new(Notify::new());
    let gate = Some(Gate { reached, open: open.clone(), ended });
    let node = TwoSteps { done: done.clone(), gate };
    let house = House::with(place, |options| options.node("test.two", node)).await;
    house.register(line("two", &[("n", "test.two", json!({}))])).await;
    let of = house.start("two").await;
    (house, of, done, Keeper { reached: has_reached, open, ended: has_ended })
}

async fn whose_claim_was_taken_over_does_nothing_more(place: Place) {
    let (house, of, done, mut keeper) = given(place).await;
    let ungated = TwoSteps { done: done.clone(), gate: None };
    let second = house.second_engine(|options: Options| options.node("test.two", ungated)).await;
    let mut worker = house.engine.worker();
    let take_over = async {
        keeper.reached.recv().await.unwrap();
        house.clock.advance(LONG_MS);
        assert_eq!(second.worker().drain().await.unwrap(), 1);
        assert_eq!(done.counts(), (1, 1), "the other node has done what was left");
        let before = house.everything().await;
        keeper.open.notify_one();
        before
    };
    let (drained, before) = tokio::join!(worker.drain(), take_over);
    drained.unwrap();
    assert_eq!(keeper.ended.recv().await, Some(Some(Stop::Lost)));
    assert_eq!(done.counts(), (1, 1));
    assert_eq!(house.everything().await, before, "nothing is written");
    assert_eq!(second.run(&of).await.unwrap().status().as_str(), "completed");
    second.close().await;
}

async fn whose_claim_nobody_took_goes_on_after_its_lease(place: Place) {
    let (house, of, done, mut keeper) = given(place).await;
    let mut worker = house.engine.worker();
    let wait = async {
        keeper.reached.recv().await.unwrap();
        house.clock.advance(LONG_MS);
        keeper.open.notify_one();
    };
    let (drained, ()) = tokio::join!(worker.drain(), wait);
    assert_eq!(drained.unwrap(), 1);
    assert_eq!(keeper.ended.recv().await, Some(None));
    assert_eq!((done.counts(), house.status(&of).await), ((1, 1), "completed"));
    assert_eq!(house.drain().await, 0);
}

impl House {
    /// All rows that work under a claim could write.
    async fn everything(&self) -> Vec<crate::place::Texts> {
        let mut rows = self.place.read("SELECT * FROM events ORDER BY run_id, seq").await;
        rows.extend(self.place.read("SELECT * FROM runs ORDER BY run_id").await);
        rows.extend(self.place.read("SELECT * FROM dispatches ORDER BY seq").await);
        rows
    }
}
