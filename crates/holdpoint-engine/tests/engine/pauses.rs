//! Runs that are paused under their worker, and go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Command, Drain, RunRef};
use holdpoint_engine::{EffectContext, Node, Outputs, Stop};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::house::{House, accept, alice, gated, line};
use crate::place::{Place, on_both};

on_both! {
    a_paused_run_takes_an_answer_and_acts_on_it_when_it_goes_on,
    a_node_at_work_finishes_when_its_run_is_drained,
    a_node_at_work_is_entered_again_when_its_run_was_stopped_at_once,
    a_run_that_is_resumed_under_its_worker_goes_on_once,
}

fn pause(drain: Drain) -> Command {
    Command::Pause { reason: None, drain, by: alice() }
}

fn resume() -> Command {
    Command::Resume { by: alice() }
}

async fn a_paused_run_takes_an_answer_and_acts_on_it_when_it_goes_on(house: House) {
    house.register(gated("gated")).await;
    let of = house.start("gated").await;
    house.engine.execute(&of, &pause(Drain::DrainCurrentNode)).await.unwrap();
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "paused");
    assert!(house.pending().await.is_empty(), "the question was answered");
    let house = house.reopen(|options| options).await;
    assert_eq!(house.status(&of).await, "paused");
    house.engine.execute(&of, &resume()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
}

/// Says when it has begun, and goes on when it may.
#[derive(Clone)]
struct Slow {
    begun: Arc<Semaphore>,
    open: Arc<Semaphore>,
    entries: Arc<AtomicU32>,
}

impl Node for Slow {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        self.entries.fetch_add(1, Ordering::SeqCst);
        self.begun.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        Ok(Outputs::new())
    }
}

/// A run whose node is at work, is told this, and then may go on.
async fn told(place: Place, commands: &[Command]) -> (House, RunRef, Slow) {
    let slow = Slow {
        begun: Arc::new(Semaphore::new(0)),
        open: Arc::new(Semaphore::new(0)),
        entries: Arc::new(AtomicU32::new(0)),
    };
    let house = House::with(place, |options| options.node("test.slow", slow.clone())).await;
    house.register(line("slow", &[("s", "test.slow", json!({})), ("z", "core.noop", json!({}))])).await;
    let of = house.start("slow").await;
    let tell = async {
        slow.begun.acquire().await.unwrap().forget();
        for command in commands {
            house.engine.execute(&of, command).await.unwrap();
        }
        slow.open.add_permits(1);
    };
    let mut worker = house.engine.worker();
    let (drained, ()) = tokio::join!(worker.drain(), tell);
    drained.unwrap();
    (house, of, slow)
}

async fn a_node_at_work_finishes_when_its_run_is_drained(place: Place) {
    let (house, of, slow) = told(place, &[pause(Drain::DrainCurrentNode)]).await;
    assert_eq!(house.status(&of).await, "paused");
    let log = house.log(&of).await;
    let [.., completed, paused] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!(completed, r#"{"type":"node.completed","node":"s"}"#);
    assert!(paused.contains("run.paused"), "after the node: {paused}");
    house.engine.execute(&of, &resume()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(slow.entries.load(Ordering::SeqCst), 1);
}

async fn a_node_at_work_is_entered_again_when_its_run_was_stopped_at_once(place: Place) {
    let (house, of, slow) = told(place, &[pause(Drain::Immediate)]).await;
    assert_eq!(house.status(&of).await, "paused");
    assert!(
        house.log(&of).await.last().unwrap().contains("run.paused"),
        "what the node came to was not taken"
    );
    house.engine.execute(&of, &resume()).await.unwrap();
    slow.open.add_permits(1);
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(slow.entries.load(Ordering::SeqCst), 2);
}

async fn a_run_that_is_resumed_under_its_worker_goes_on_once(place: Place) {
    let (house, of, slow) = told(place, &[pause(Drain::DrainCurrentNode), resume()]).await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(slow.entries.load(Ordering::SeqCst), 1);
}
