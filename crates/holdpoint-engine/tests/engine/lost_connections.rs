//! Lost connections around every commit, without a restart: commands on runs return their outcome, and calls of the
//! mailbox return that it is unknown.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::mailbox::{MailboxError, RunDispatch};
use holdpoint_engine::core::{RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, Error, StoreError};
use serde_json::{Value, json};

use crate::effects::{Shop, shopping, with_shop};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, gated, run_id, start, tenant, with_fault};

on_both! {
    commands_succeed_when_the_connection_is_lost_around_any_commit,
    an_enqueue_with_a_lost_connection_has_an_unknown_outcome,
}

/// A definition, the node that is answered, and the answer.
type Scenario = (Value, &'static str, Value);

struct Outcome {
    log: Vec<String>,
    commits: u64,
    changes: u64,
    /// The number of calls with an unknown outcome. Changes of runs are not among them.
    unknown: usize,
}

async fn perform(
    database: TestDatabase,
    (definition, node, answer): &Scenario,
    fault: Option<CommitFault>,
) -> Outcome {
    let shop = Shop::default();
    let env = match fault {
        Some(fault) => TestEnv::with(database, |options| with_fault(fault)(with_shop(&shop)(options))).await,
        None => TestEnv::with(database, with_shop(&shop)).await,
    };
    let mut unknown = 0;
    if let Err(error) = env.engine.workflows().register(&tenant(), definition.clone()).await {
        unknown += is_unknown(&error);
        env.register(definition.clone()).await;
    }
    let workflow = WorkflowId::parse(definition["id"].as_str().unwrap()).unwrap();
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    env.engine.runs().create_as(&of.run, &workflow, start(json!({}))).await.unwrap();
    unknown += env.drain_after_loss().await;
    env.answer(&of, node, answer.clone()).await.unwrap();
    unknown += env.drain_after_loss().await;

    assert_eq!(env.status(&of).await, "completed", "{fault:?}");
    let (quotes, payments) = (shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst));
    let steps = env.run(&of).await.nodes.iter().map(|node| node.steps.len()).sum::<usize>();
    assert_eq!(usize::try_from(quotes + payments).unwrap(), steps, "each effect is done once, {fault:?}");
    env.assert_no_work_left().await;
    let counters = env.engine.counters();
    let (commits, changes) =
        (counters.commits.load(Ordering::SeqCst), counters.changes.load(Ordering::SeqCst));
    Outcome { log: env.log(&of).await, commits, changes, unknown }
}

impl TestEnv {
    /// Drains the worker and returns the number of unknown outcomes. A worker with an unknown claim leaves the row
    /// until its lease expires, so this expires all leases.
    async fn drain_after_loss(&self) -> usize {
        let Err(error) = self.engine.worker().drain().await else { return 0 };
        self.expire_leases().await;
        self.drain().await;
        is_unknown(&error)
    }

    async fn assert_no_work_left(&self) {
        assert_eq!(self.drain().await, 0);
        assert!(self.pending().await.is_empty());
        let mail = self.engine.mailbox(&tenant());
        let [queued, claimed, _, ended @ ..] = mail.count_by_status().await.unwrap();
        assert_eq!((queued, claimed, ended), (0, 0, [0; 3]), "every dispatch is acknowledged");
        assert!(self.database.read("SELECT run_id FROM timers").await.is_empty());
    }
}

fn is_unknown(error: &Error) -> usize {
    assert!(matches!(error, Error::Store(StoreError::Unknown(_))), "{error}");
    1
}

async fn commands_succeed_when_the_connection_is_lost_around_any_commit(database: TestDatabase) {
    let scenarios: [Scenario; 2] = [(gated("gated"), "gate", accept()), (shopping(), "buy", json!("r1"))];
    for scenario in &scenarios {
        let expected = perform(database.another().await, scenario, None).await;
        assert!(expected.commits >= 3 && expected.unknown == 0);
        let mut unknown = 0;
        for n in 1..=expected.commits {
            for fault in [CommitFault::LoseConnectionBefore(n), CommitFault::LoseConnectionAfter(n)] {
                let found = perform(database.another().await, scenario, Some(fault)).await;
                assert_eq!(found.log, expected.log, "{fault:?} in {}", scenario.0["id"]);
                assert_eq!(found.changes, expected.changes, "each change is counted once, {fault:?}");
                unknown += found.unknown;
            }
        }
        // Every commit was lost twice. Only commits without a change of a run have an unknown outcome.
        assert_eq!(unknown as u64, 2 * (expected.commits - expected.changes));
    }
}

async fn an_enqueue_with_a_lost_connection_has_an_unknown_outcome(database: TestDatabase) {
    for (fault, is_stored) in
        [(CommitFault::LoseConnectionAfter(1), true), (CommitFault::LoseConnectionBefore(1), false)]
    {
        let env = TestEnv::with(database.another().await, with_fault(fault)).await;
        let mail = env.engine.mailbox(&tenant());
        let row = RunDispatch::queued(&tenant(), "d", "t", "r", env.clock.now());
        let error = mail.enqueue(&row).await.unwrap_err();
        assert!(matches!(error, MailboxError::CommitUnknown(_)), "{fault:?}: {error}");
        assert_eq!(mail.load_dispatch("d").await.unwrap(), is_stored.then(|| row.clone()), "{fault:?}");
        // The caller reads the row and repeats the enqueue if it is missing.
        if !is_stored {
            assert_eq!(mail.enqueue(&row).await.unwrap(), row);
        }
    }
}
