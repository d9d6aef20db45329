//! The wait of a reader for a change of a run or a thread.

use std::time::Duration;

use holdpoint_engine::Subscription;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time after which a reader checks the store without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Waits for changes of a run or a thread.
#[derive(Debug)]
pub(crate) struct LogWait {
    subscription: Subscription,
    stopping: watch::Receiver<bool>,
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// A change was reported. For a run, the value is the number of its events.
    Changed(u64),
    /// No change was reported for a while. The reader must check the store.
    Poll,
    /// The server shuts down.
    Stopping,
}

impl LogWait {
    pub(crate) fn new(subscription: Subscription, stopping: &watch::Receiver<bool>) -> Self {
        Self { subscription, stopping: stopping.clone() }
    }

    /// Waits like [`Self::next`], at most until `until`. Cancel safe.
    pub(crate) async fn next_until(&mut self, until: Option<Instant>) -> Wakeup {
        match until {
            Some(until) => tokio::time::timeout_at(until, self.next()).await.unwrap_or(Wakeup::Poll),
            None => self.next().await,
        }
    }

    /// Waits for the next change, the poll interval or the shutdown. Cancel safe.
    pub(crate) async fn next(&mut self) -> Wakeup {
        // A run that reports changes faster than the client reads them must not delay a shutdown.
        if *self.stopping.borrow() {
            return Wakeup::Stopping;
        }
        tokio::select! {
            // A change that was reported before the shutdown is still read.
            biased;
            () = self.subscription.changed() => Wakeup::Changed(self.subscription.seq()),
            // An error means that the sender was dropped: the server has stopped.
            _ = self.stopping.wait_for(|stopping| *stopping) => Wakeup::Stopping,
            () = tokio::time::sleep(POLL_INTERVAL) => Wakeup::Poll,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{Owner, Principal, RunRef, StartRequest, TenantId, WorkflowId};
    use holdpoint_engine::{Engine, Location, Options};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_change_before_the_shutdown_is_read_and_a_busy_run_does_not_delay_it() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let gate = json!({"id": "gate", "typeId": "core.approvalGate", "name": "gate", "position": {"x": 0, "y": 0}, "config": {"title": "Go on?"}, "inputs": {}});
        let workflow = json!({
            "id": "gated", "name": "gated", "version": "1", "nodes": [gate], "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
        });
        engine.workflows().register(&tenant, workflow).await.unwrap();
        let owner = Owner { tenant: tenant.clone(), principal: "ann".to_owned() };
        let workflow = WorkflowId::parse("gated").unwrap();
        let run = engine.runs().create(&workflow, StartRequest::new(owner)).await.unwrap();
        let of = RunRef { tenant, run: run.id.clone() };
        let (stop, stopping) = watch::channel(false);
        let [mut waiting, mut busy] =
            [(); 2].map(|()| LogWait::new(engine.events().subscribe(&of), &stopping));
        let mut wait = Box::pin(waiting.next());
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        let ended = engine.runs().cancel(&of, None, Principal::named("ann")).await.unwrap();
        stop.send(true).unwrap();
        assert_eq!(wait.await, Wakeup::Changed(ended.seq));
        assert_eq!(waiting.next().await, Wakeup::Stopping);
        assert_eq!(busy.next().await, Wakeup::Stopping, "the change is still unread");
    }
}
