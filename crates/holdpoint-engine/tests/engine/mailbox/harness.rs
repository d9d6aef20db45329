//! A mailbox on a database of its own, with helper functions for the cases.

use std::sync::Arc;

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_engine::{Clock, Engine, Mailbox, Options};
use tokio::sync::Barrier;

use crate::mailbox::rows::{CONSUMER, LEASE_MS, done, tenant, token};
use crate::test_database::{Subject, TestDatabase};

pub(crate) struct Harness {
    pub mail: Mailbox,
    pub engine: Engine,
    // The last field, so that the engine is dropped before its data.
    pub database: TestDatabase,
}

/// The number of concurrent tasks. Half of them use each handle.
pub(crate) const TASKS: usize = 16;

impl Subject for Harness {
    async fn at(database: TestDatabase) -> Self {
        Self::open(database, |options| options).await
    }
}

impl Harness {
    async fn open(database: TestDatabase, choose: impl FnOnce(Options) -> Options) -> Self {
        // The clock of the engine does not move: the cases pass the time to each call.
        let options = Options::new(database.location()).manual_worker().clock(Clock::manual(0));
        let engine = Engine::open(choose(options)).await.unwrap();
        Self { mail: engine.mailbox(&tenant()), engine, database }
    }

    /// Opens another engine on the same database, like another process.
    pub(crate) async fn second_handle(&self) -> Mailbox {
        let options =
            Options::new(self.database.location()).manual_worker().clock(Clock::manual(0)).second_handle();
        Engine::open(options).await.unwrap().mailbox(&tenant())
    }

    pub(crate) async fn two_handles(&self) -> [Mailbox; 2] {
        [self.mail.clone(), self.second_handle().await]
    }

    /// Closes the engine and opens another as a second handle. The first handle on a file would release all claims, but
    /// the cases read the claims that were stored.
    pub(crate) async fn reopen(self) -> Self {
        let Self { mail, engine, database } = self;
        engine.close().await;
        drop((mail, engine));
        Self::open(database, Options::second_handle).await
    }

    pub(crate) async fn enqueue_all(&self, rows: impl IntoIterator<Item = RunDispatch>) {
        for row in rows {
            self.mail.enqueue(&row).await.unwrap();
        }
    }

    pub(crate) async fn load(&self, id: &str) -> RunDispatch {
        self.mail.load_dispatch(id).await.unwrap().unwrap_or_else(|| panic!("there is no dispatch {id:?}"))
    }

    /// Returns all rows of a thread in claim order.
    pub(crate) async fn list(&self, thread: &str) -> Vec<RunDispatch> {
        self.mail.list_dispatches(thread, None, 1000, 0).await.unwrap()
    }

    pub(crate) async fn claim(&self, thread: &str, now: Timestamp, limit: usize) -> Vec<RunDispatch> {
        self.mail.claims().claim(thread, CONSUMER, LEASE_MS, now, limit).await.unwrap()
    }

    /// Claims one row of the thread.
    pub(crate) async fn claim_one(&self, thread: &str, now: Timestamp) -> RunDispatch {
        let mut rows = self.claim(thread, now, 1).await;
        assert_eq!(rows.len(), 1, "a claim of {thread} returns one row");
        rows.remove(0)
    }

    pub(crate) async fn claim_dispatch(&self, id: &str, now: Timestamp) -> Option<RunDispatch> {
        self.mail.claims().claim_dispatch(id, CONSUMER, LEASE_MS, now).await.unwrap()
    }

    /// Enqueues a row and claims it.
    pub(crate) async fn claim_new(&self, row: RunDispatch, now: Timestamp) -> RunDispatch {
        self.enqueue_all([row.clone()]).await;
        self.claim_dispatch(&row.dispatch_id, now).await.expect("the row can be claimed")
    }

    /// Enqueues a row, claims it and records a result.
    pub(crate) async fn claim_new_with_result(&self, row: RunDispatch, now: Timestamp) -> RunDispatch {
        let held = self.claim_new(row, now).await;
        self.mail
            .claims()
            .record_run_result(&held.dispatch_id, token(&held), &done(&held), now)
            .await
            .unwrap()
    }

    /// Enqueues a row and moves it to a status. A terminal status is reached at `now`. The thread must be free.
    pub(crate) async fn enqueue_in_status(
        &self,
        row: RunDispatch,
        status: RunDispatchStatus,
        now: Timestamp,
    ) -> RunDispatch {
        let id = row.dispatch_id.clone();
        if let RunDispatchStatus::Queued | RunDispatchStatus::Cancelled = status {
            self.enqueue_all([row]).await;
            if status == RunDispatchStatus::Cancelled {
                self.mail.cancel(&id, now).await.unwrap();
            }
            return self.load(&id).await;
        }
        let held = self.claim_new(row, now).await;
        let token = token(&held);
        match status {
            RunDispatchStatus::Queued | RunDispatchStatus::Cancelled | RunDispatchStatus::Claimed => {}
            RunDispatchStatus::Acked => drop(self.mail.claims().ack(&id, token, now).await.unwrap()),
            RunDispatchStatus::Superseded => {
                self.mail.claims().supersede_claimed(&id, token, now, "not needed").await.unwrap();
            }
            RunDispatchStatus::DeadLetter => {
                self.mail.claims().dead_letter(&id, token, "hopeless", now).await.unwrap();
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

/// Runs [`TASKS`] tasks on two handles; they start together. Returns the results by task number.
pub(crate) async fn run_concurrently<T, F>(
    handles: &[Mailbox; 2],
    act: impl Fn(usize, Mailbox) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(TASKS));
    let spawn = |number: usize| {
        let (start, act) = (start.clone(), act(number, handles[number % 2].clone()));
        tokio::spawn(async move {
            start.wait().await;
            act.await
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}
