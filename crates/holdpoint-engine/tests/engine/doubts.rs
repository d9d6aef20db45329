//! Loses the connection around every commit of a story. Nobody restarts anything: whoever changes a run is told what
//! became of it, and whoever asks the mailbox is told that nobody knows.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::mailbox::{MailboxError, RunDispatch};
use holdpoint_engine::core::{RunRef, WorkflowId};
use holdpoint_engine::{Error, Fault, StoreError};
use serde_json::{Value, json};

use crate::effects::{Shop, shopping, with_shop};
use crate::house::{House, accept, gated, run_id, start, stopping, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_connection_that_is_lost_around_any_commit_changes_nothing_for_those_who_command,
    a_lost_enqueue_is_unknown_to_its_caller_whether_the_row_is_there_or_not,
}

/// What is registered, and the node that is answered with a value.
type Story = (Value, &'static str, Value);

struct Told {
    log: Vec<String>,
    commits: u64,
    changes: u64,
    /// Times that somebody who changed no run was told that nobody knows.
    unknown: usize,
}

async fn told(place: Place, (definition, node, answer): &Story, fault: Option<Fault>) -> Told {
    let shop = Shop::default();
    let house = match fault {
        Some(fault) => House::with(place, |options| stopping(fault)(with_shop(&shop)(options))).await,
        None => House::with(place, with_shop(&shop)).await,
    };
    let mut unknown = 0;
    if let Err(error) = house.engine.register(&tenant(), definition.clone()).await {
        unknown += is_unknown(&error);
        house.register(definition.clone()).await;
    }
    let workflow = WorkflowId::parse(definition["id"].as_str().unwrap()).unwrap();
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    house.engine.start_as(&of.run, &workflow, start(json!({}))).await.unwrap();
    unknown += house.drain_in_doubt().await;
    house.answer(&of, node, answer.clone()).await.unwrap();
    unknown += house.drain_in_doubt().await;

    assert_eq!(house.status(&of).await, "completed", "{fault:?}");
    let (quotes, payments) = (shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst));
    let steps = house.run(&of).await.nodes.iter().map(|node| node.steps.len()).sum::<usize>();
    assert_eq!(usize::try_from(quotes + payments).unwrap(), steps, "each effect is done once, {fault:?}");
    house.has_nothing_left().await;
    let counters = house.engine.counters();
    let (commits, changes) =
        (counters.commits.load(Ordering::SeqCst), counters.changes.load(Ordering::SeqCst));
    Told { log: house.log(&of).await, commits, changes, unknown }
}

impl House {
    /// Drains. A worker that does not know whether it has claimed leaves the row to the end of its lease, which here
    /// is at once. How often that happened.
    async fn drain_in_doubt(&self) -> usize {
        let Err(error) = self.engine.worker().drain().await else { return 0 };
        self.lapse().await;
        self.drain().await;
        is_unknown(&error)
    }

    async fn has_nothing_left(&self) {
        assert_eq!(self.drain().await, 0);
        assert!(self.pending().await.is_empty());
        let mail = self.engine.mailbox(&tenant());
        let [queued, claimed, acked, ended @ ..] = mail.count_by_status().await.unwrap();
        assert!((queued, claimed, ended) == (0, 0, [0; 3]) && acked > 0, "every dispatch was carried out");
        assert!(self.place.read("SELECT run_id FROM timers").await.is_empty());
    }
}

fn is_unknown(error: &Error) -> usize {
    assert!(matches!(error, Error::Store(StoreError::Unknown(_))), "{error}");
    1
}

async fn a_connection_that_is_lost_around_any_commit_changes_nothing_for_those_who_command(place: Place) {
    let stories: [Story; 2] = [(gated("gated"), "gate", accept()), (shopping(), "buy", json!("r1"))];
    for story in &stories {
        let calm = told(place.another().await, story, None).await;
        assert!(calm.commits >= 3 && calm.unknown == 0, "there is something to lose");
        let mut unknown = 0;
        for n in 1..=calm.commits {
            for fault in [Fault::LoseBefore(n), Fault::LoseAfter(n)] {
                let troubled = told(place.another().await, story, Some(fault)).await;
                assert_eq!(troubled.log, calm.log, "{fault:?} in {}", story.0["id"]);
                assert_eq!(troubled.changes, calm.changes, "each change is told of once, {fault:?}");
                unknown += troubled.unknown;
            }
        }
        // Every commit was lost twice: those of changes passed unnoticed, all others did not.
        assert_eq!(unknown as u64, 2 * (calm.commits - calm.changes));
    }
}

async fn a_lost_enqueue_is_unknown_to_its_caller_whether_the_row_is_there_or_not(place: Place) {
    for (fault, there) in [(Fault::LoseAfter(1), true), (Fault::LoseBefore(1), false)] {
        let house = House::with(place.another().await, stopping(fault)).await;
        let mail = house.engine.mailbox(&tenant());
        let row = RunDispatch::queued(&tenant(), "d", "t", "r", house.clock.now());
        let error = mail.enqueue(&row).await.unwrap_err();
        assert!(matches!(error, MailboxError::CommitUnknown(_)), "{fault:?}: {error}");
        assert_eq!(mail.load_dispatch("d").await.unwrap(), there.then(|| row.clone()), "{fault:?}");
        // Whoever looks can go on.
        if !there {
            assert_eq!(mail.enqueue(&row).await.unwrap(), row);
        }
    }
}
