//! One mailbox in a place of its own, and short words for what the cases do with it.

use std::sync::Arc;

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_engine::{Clock, Engine, Mailbox, Options};
use tokio::sync::Barrier;

use crate::place::{Place, Subject};
use crate::rows::{CONSUMER, LEASE_MS, done, tenant, token};

pub(crate) struct Harness {
    pub mail: Mailbox,
    pub engine: Engine,
    // Last, so that the engine is gone before its data is.
    pub place: Place,
}

/// How many do something at once, half of them on either handle.
pub(crate) const CROWD: usize = 16;

impl Subject for Harness {
    async fn at(place: Place) -> Self {
        Self::open(place, |options| options).await
    }
}

impl Harness {
    async fn open(place: Place, choose: impl FnOnce(Options) -> Options) -> Self {
        // The engine's own clock stands still: only what the cases say is time.
        let options = Options::new(place.location()).clock(Clock::manual(0));
        let engine = Engine::open(choose(options)).await.unwrap();
        Self { mail: engine.mailbox(&tenant()), engine, place }
    }

    /// Another engine on the same database, as another process would have it.
    pub(crate) async fn second_handle(&self) -> Mailbox {
        let options = Options::new(self.place.location()).clock(Clock::manual(0)).second_handle();
        Engine::open(options).await.unwrap().mailbox(&tenant())
    }

    pub(crate) async fn two_handles(&self) -> [Mailbox; 2] {
        [self.mail.clone(), self.second_handle().await]
    }

    /// Closes the engine and opens another. Opened as a second handle, because the first one on a file takes back
    /// every claim in it, and what is asked here is what was stored.
    pub(crate) async fn reopen(self) -> Self {
        let Self { mail, engine, place } = self;
        engine.close().await;
        drop((mail, engine));
        Self::open(place, Options::second_handle).await
    }

    pub(crate) async fn given(&self, rows: impl IntoIterator<Item = RunDispatch>) {
        for row in rows {
            self.mail.enqueue(&row).await.unwrap();
        }
    }

    pub(crate) async fn load(&self, id: &str) -> RunDispatch {
        self.mail.load_dispatch(id).await.unwrap().unwrap_or_else(|| panic!("there is no dispatch {id:?}"))
    }

    /// All rows of a thread in the order of claims.
    pub(crate) async fn list(&self, thread: &str) -> Vec<RunDispatch> {
        self.mail.list_dispatches(thread, None, 1000, 0).await.unwrap()
    }

    pub(crate) async fn claim(&self, thread: &str, now: Timestamp, limit: usize) -> Vec<RunDispatch> {
        self.mail.claim(thread, CONSUMER, LEASE_MS, now, limit).await.unwrap()
    }

    /// The one row that a claim of the thread yields.
    pub(crate) async fn claim_one(&self, thread: &str, now: Timestamp) -> RunDispatch {
        let mut rows = self.claim(thread, now, 1).await;
        assert_eq!(rows.len(), 1, "one row of {thread} was to be claimed");
        rows.remove(0)
    }

    pub(crate) async fn claim_dispatch(&self, id: &str, now: Timestamp) -> Option<RunDispatch> {
        self.mail.claim_dispatch(id, CONSUMER, LEASE_MS, now).await.unwrap()
    }

    /// Enqueues a row and claims it at once.
    pub(crate) async fn held(&self, row: RunDispatch, now: Timestamp) -> RunDispatch {
        self.given([row.clone()]).await;
        self.claim_dispatch(&row.dispatch_id, now).await.expect("nothing stands in its way")
    }

    /// A claimed row with a recorded result.
    pub(crate) async fn held_with_result(&self, row: RunDispatch, now: Timestamp) -> RunDispatch {
        let held = self.held(row, now).await;
        self.mail.record_run_result(&held.dispatch_id, token(&held), &done(&held), now).await.unwrap()
    }

    /// Enqueues a row and takes it into a status, ending at `now`. Its thread must be free.
    pub(crate) async fn brought(
        &self,
        row: RunDispatch,
        status: RunDispatchStatus,
        now: Timestamp,
    ) -> RunDispatch {
        let id = row.dispatch_id.clone();
        if let RunDispatchStatus::Queued | RunDispatchStatus::Cancelled = status {
            self.given([row]).await;
            if status == RunDispatchStatus::Cancelled {
                self.mail.cancel(&id, now).await.unwrap();
            }
            return self.load(&id).await;
        }
        let held = self.held(row, now).await;
        let token = token(&held);
        match status {
            RunDispatchStatus::Queued | RunDispatchStatus::Cancelled | RunDispatchStatus::Claimed => {}
            RunDispatchStatus::Acked => drop(self.mail.ack(&id, token, now).await.unwrap()),
            RunDispatchStatus::Superseded => {
                self.mail.supersede_claimed(&id, token, now, "not needed").await.unwrap();
            }
            RunDispatchStatus::DeadLetter => {
                self.mail.dead_letter(&id, token, "hopeless", now).await.unwrap();
            }
        }
        let stored = self.load(&id).await;
        assert_eq!(stored.status, status);
        stored
    }

    pub(crate) async fn interrupt(&self, thread: &str, times: usize) {
        for _ in 0..times {
            self.mail.interrupt(thread, Timestamp(0)).await.unwrap();
        }
    }
}

/// Sixteen tasks on two handles wait for each other and act at once. The results are in the order of their numbers.
pub(crate) async fn crowd<T, F>(handles: &[Mailbox; 2], act: impl Fn(usize, Mailbox) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(CROWD));
    let spawn = |number: usize| {
        let (start, act) = (start.clone(), act(number, handles[number % 2].clone()));
        tokio::spawn(async move {
            start.wait().await;
            act.await
        })
    };
    let tasks: Vec<_> = (0..CROWD).map(spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}
