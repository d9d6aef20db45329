//! Runs that are paused and resumed while a worker executes a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Command, Drain, RunRef};
use holdpoint_engine::{EffectContext, Node, Outputs, Stop};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, gated, line};

on_both! {
    a_paused_run_accepts_an_answer_and_continues_after_its_resume,
    a_running_node_finishes_when_its_run_is_drained,
    a_running_node_is_entered_again_after_an_immediate_pause,
    a_run_resumed_while_its_node_runs_continues_once,
}

fn pause(drain: Drain) -> Command {
    Command::Pause { reason: None, drain, by: alice() }
}

fn resume() -> Command {
    Command::Resume { by: alice() }
}

async fn a_paused_run_accepts_an_answer_and_continues_after_its_resume(env: TestEnv) {
    env.register(gated("gated")).await;
    let of = env.start("gated").await;
    env.engine.runs().execute(&of, &pause(Drain::DrainCurrentNode)).await.unwrap();
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "paused");
    assert!(env.pending().await.is_empty(), "the interrupt is answered");
    let env = env.reopen(|options| options).await;
    assert_eq!(env.status(&of).await, "paused");
    env.engine.runs().execute(&of, &resume()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

/// A node that reports its start and ends when the test allows it.
#[derive(Clone)]
struct GatedNode {
    started: Arc<Semaphore>,
    open: Arc<Semaphore>,
    entries: Arc<AtomicU32>,
}

impl Node for GatedNode {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        self.entries.fetch_add(1, Ordering::SeqCst);
        self.started.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        Ok(Outputs::new())
    }
}

/// Executes the commands while a node of the run is running, and then lets the node end.
async fn execute_during_node(database: TestDatabase, commands: &[Command]) -> (TestEnv, RunRef, GatedNode) {
    let slow = GatedNode {
        started: Arc::new(Semaphore::new(0)),
        open: Arc::new(Semaphore::new(0)),
        entries: Arc::new(AtomicU32::new(0)),
    };
    let env = TestEnv::with(database, |options| options.node("test.slow", slow.clone())).await;
    env.register(line("slow", &[("s", "test.slow", json!({})), ("z", "core.noop", json!({}))])).await;
    let of = env.start("slow").await;
    let execute = async {
        slow.started.acquire().await.unwrap().forget();
        for command in commands {
            env.engine.runs().execute(&of, command).await.unwrap();
        }
        slow.open.add_permits(1);
    };
    let mut worker = env.engine.worker();
    let (drained, ()) = tokio::join!(worker.drain(), execute);
    drained.unwrap();
    (env, of, slow)
}

async fn a_running_node_finishes_when_its_run_is_drained(database: TestDatabase) {
    let (env, of, slow) = execute_during_node(database, &[pause(Drain::DrainCurrentNode)]).await;
    assert_eq!(env.status(&of).await, "paused");
    let log = env.log(&of).await;
    let [.., completed, paused] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!(completed, r#"{"type":"node.completed","node":"s"}"#);
    assert!(paused.contains("run.paused"), "the pause follows the node: {paused}");
    env.engine.runs().execute(&of, &resume()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(slow.entries.load(Ordering::SeqCst), 1);
}

async fn a_running_node_is_entered_again_after_an_immediate_pause(database: TestDatabase) {
    let (env, of, slow) = execute_during_node(database, &[pause(Drain::Immediate)]).await;
    assert_eq!(env.status(&of).await, "paused");
    assert!(env.log(&of).await.last().unwrap().contains("run.paused"), "the result of the node is discarded");
    env.engine.runs().execute(&of, &resume()).await.unwrap();
    slow.open.add_permits(1);
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(slow.entries.load(Ordering::SeqCst), 2);
}

async fn a_run_resumed_while_its_node_runs_continues_once(database: TestDatabase) {
    let (env, of, slow) = execute_during_node(database, &[pause(Drain::DrainCurrentNode), resume()]).await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(slow.entries.load(Ordering::SeqCst), 1);
}
