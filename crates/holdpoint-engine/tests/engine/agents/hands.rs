//! Work that goes straight to a worker of its own process: what it costs, whose turn it is, and what is left when the
//! worker has gone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::RunDispatch;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Office, agent, resume, sends, talk};
use crate::house::tenant;
use crate::place::on_both;

on_both! {
    an_agent_needs_five_changes_from_its_start_over_an_approval_to_its_end,
    a_thread_that_is_busy_keeps_its_order,
    without_a_worker_work_waits_for_one,
}

impl Office {
    /// A worker that works, and how it is stopped.
    fn worker(&self) -> (watch::Sender<bool>, JoinHandle<()>) {
        let (stop, stopping) = watch::channel(false);
        (stop, tokio::spawn(self.house.engine.worker().run(stopping)))
    }

    async fn until(&self, of: &RunRef, status: &str) {
        let mut changes = self.house.engine.subscribe(of);
        let arrived = async {
            while self.house.status(of).await != status {
                changes.changed().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), arrived).await.expect("the run gets there");
    }

    async fn begun(&self, thread: Option<&str>) -> RunRef {
        let run = self.house.engine.start_agent(talk(thread, "please")).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }
}

async fn an_agent_needs_five_changes_from_its_start_over_an_approval_to_its_end(office: Office) {
    office.hire(agent(&sends())).await;
    let (stop, worker) = office.worker();
    // The worker may only have begun to listen when the first run is over.
    let first = office.begun(None).await;
    office.until(&first, "waiting-approval").await;
    let changes = || office.house.engine.counters().changes.load(Ordering::SeqCst);
    let before = changes();
    let of = office.begun(None).await;
    office.until(&of, "waiting-approval").await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    office.until(&of, "completed").await;
    assert_eq!((changes() - before, office.calls().len()), (5, 1));
    stop.send(true).unwrap();
    worker.await.unwrap();
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 3)].into());
}

async fn a_thread_that_is_busy_keeps_its_order(office: Office) {
    office.hire(agent(&sends())).await;
    let mailbox = office.house.engine.mailbox(&tenant());
    let now = office.house.engine.now();
    mailbox.enqueue(&RunDispatch::queued(&tenant(), "other", "t", "nothing", now)).await.unwrap();
    mailbox.claim("t", "somebody", 3_600_000, now, 1).await.unwrap();
    let (stop, worker) = office.worker();
    let first = office.begun(None).await;
    office.until(&first, "waiting-approval").await;
    office.begun(Some("t")).await;
    stop.send(true).unwrap();
    worker.await.unwrap();
    let counts = [("acked".to_owned(), 1), ("claimed".to_owned(), 1), ("queued".to_owned(), 1)];
    assert_eq!(office.dispatches().await, counts.into());
}

async fn without_a_worker_work_waits_for_one(office: Office) {
    office.hire(agent(&sends())).await;
    let (stop, worker) = office.worker();
    stop.send(true).unwrap();
    worker.await.unwrap();
    let of = office.begun(None).await;
    assert_eq!(office.dispatches().await, [("queued".to_owned(), 1)].into());
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "waiting-approval");
}
