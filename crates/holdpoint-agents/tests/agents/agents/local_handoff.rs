//! Local handoff of dispatches to a worker of the same process: its number of changes, the order of a thread, and
//! dispatches without a worker.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holdpoint_agents::EngineAgents;
use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::RunDispatch;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{AgentEnv, agent, input, resume, send_script};
use crate::test_database::on_both;
use crate::test_env::tenant;

on_both! {
    an_agent_run_with_one_approval_needs_five_changes,
    a_dispatch_of_a_busy_thread_stays_queued,
    a_dispatch_without_a_worker_stays_queued,
}

impl AgentEnv {
    /// Starts a worker. The sender stops it.
    fn worker(&self) -> (watch::Sender<bool>, JoinHandle<()>) {
        let (stop, stopping) = watch::channel(false);
        (stop, tokio::spawn(self.env.engine.worker().run(stopping)))
    }

    async fn wait_for_status(&self, of: &RunRef, status: &str) {
        let mut changes = self.env.engine.events().subscribe(of);
        let arrived = async {
            while self.env.status(of).await != status {
                changes.changed().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), arrived)
            .await
            .expect("the run does not reach the status");
    }

    async fn start_in_thread(&self, thread: Option<&str>) -> RunRef {
        let run = self.env.engine.agents().start(input(thread, "please")).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }
}

async fn an_agent_run_with_one_approval_needs_five_changes(agents: AgentEnv) {
    agents.declare(agent(&send_script())).await;
    let (stop, worker) = agents.worker();
    // The worker may subscribe only after the first run, so that run is not measured.
    let first = agents.start_in_thread(None).await;
    agents.wait_for_status(&first, "waiting-approval").await;
    let changes = || agents.env.engine.counters().changes.load(Ordering::SeqCst);
    let before = changes();
    let of = agents.start_in_thread(None).await;
    agents.wait_for_status(&of, "waiting-approval").await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    agents.wait_for_status(&of, "completed").await;
    assert_eq!((changes() - before, agents.calls().len()), (5, 1));
    stop.send(true).unwrap();
    worker.await.unwrap();
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 3)].into());
}

async fn a_dispatch_of_a_busy_thread_stays_queued(agents: AgentEnv) {
    agents.declare(agent(&send_script())).await;
    let mailbox = agents.env.engine.mailbox(&tenant());
    let now = agents.env.engine.now();
    mailbox.enqueue(&RunDispatch::queued(&tenant(), "other", "t", "other-run", now)).await.unwrap();
    mailbox.claims().claim("t", "other-worker", 3_600_000, now, 1).await.unwrap();
    let (stop, worker) = agents.worker();
    let first = agents.start_in_thread(None).await;
    agents.wait_for_status(&first, "waiting-approval").await;
    agents.start_in_thread(Some("t")).await;
    stop.send(true).unwrap();
    worker.await.unwrap();
    let counts = [("acked".to_owned(), 1), ("claimed".to_owned(), 1), ("queued".to_owned(), 1)];
    assert_eq!(agents.dispatches().await, counts.into());
}

async fn a_dispatch_without_a_worker_stays_queued(agents: AgentEnv) {
    agents.declare(agent(&send_script())).await;
    let (stop, worker) = agents.worker();
    stop.send(true).unwrap();
    worker.await.unwrap();
    let of = agents.start_in_thread(None).await;
    assert_eq!(agents.dispatches().await, [("queued".to_owned(), 1)].into());
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
}
