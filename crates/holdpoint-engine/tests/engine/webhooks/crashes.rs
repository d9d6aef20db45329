//! Crashes before and after every commit: an event and its deliveries are stored together or not at all, and every
//! stored delivery is sent.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use holdpoint_engine::core::{NodeId, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, Engine, Error, NewWebhook};
use serde_json::json;

use super::{delivery_worker, durably, ok, with_loopback};
use crate::peer::Peer;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, gated, resolve, run_id, start, tenant};

on_both! {
    after_a_crash_around_any_commit_exactly_the_subscribed_events_are_delivered,
}

const EVENTS: [&str; 4] = ["run.started", "interrupt.requested", "node.completed", "run.completed"];

fn the_run() -> RunRef {
    RunRef { tenant: tenant(), run: run_id("the-run") }
}

/// Registers a webhook, starts a run, answers it and sends the deliveries. Steps that already happened are skipped.
async fn perform(engine: &Engine, url: &str) -> Result<(), Error> {
    engine.workflows().register(&tenant(), gated("gated")).await?;
    if engine.webhooks().list(&tenant(), None, 1).await?.is_empty() {
        let mut new = NewWebhook::new(tenant(), url, EVENTS.map(str::to_owned));
        durably(&mut new);
        engine.webhooks().add(new).await?;
    }
    let workflow = WorkflowId::parse("gated").unwrap();
    match engine.runs().create_as(&the_run().run, &workflow, start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    delivery_worker(engine).drain().await?;
    let run = engine.runs().get(&the_run()).await?;
    if let Some(asked) = run.interrupt_of_node(&NodeId::parse("gate").unwrap()).filter(|_| !run.finished()) {
        engine.runs().execute(&the_run(), &resolve(asked.id, accept())).await?;
    }
    delivery_worker(engine).drain().await?;
    // A delivery worker does not return a failed commit. The last registration does.
    engine.workflows().register(&tenant(), gated("last")).await.map(|_| ())
}

/// The sequences of the subscribed events in the log, and those of the stored deliveries.
async fn subscribed_and_stored(env: &TestEnv) -> (BTreeSet<String>, BTreeSet<String>) {
    let log = env.engine.events().list(&the_run(), 0).await.unwrap();
    let subscribed =
        log.iter().filter(|one| EVENTS.contains(&one.event.name())).map(|one| one.seq.to_string());
    let rows = env.database.read("SELECT event_seq FROM deliveries").await;
    let stored = rows.iter().map(|row| row[0].1.clone().unwrap());
    (subscribed.collect(), stored.collect())
}

async fn perform_with_crash(database: TestDatabase, stop: Option<CommitFault>) -> u64 {
    let peer = Peer::with_replies([ok()]).await;
    let url = peer.url("/");
    let env = TestEnv::with(database, |options| match stop {
        Some(stop) => with_loopback(options).fault(stop),
        None => with_loopback(options),
    });
    let env = env.await;
    let crashed = perform(&env.engine, &url).await.is_err();
    assert_eq!(crashed, stop.is_some(), "{stop:?}");
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    let env = env.reopen(with_loopback).await;
    let (subscribed, stored) = subscribed_and_stored(&env).await;
    assert_eq!(subscribed, stored, "right after {stop:?}");
    env.clock.advance(60_000);
    perform(&env.engine, &url).await.unwrap();
    let (subscribed, stored) = subscribed_and_stored(&env).await;
    assert_eq!(subscribed, stored, "{stop:?}");
    assert_eq!(subscribed.len(), 6, "the run has subscribed events");
    let left = env.database.read("SELECT 1 FROM deliveries WHERE state <> 'delivered'").await;
    assert!(left.is_empty(), "{stop:?}");
    let ids: Vec<String> = peer.header("Test-Delivery-Id").into_iter().flatten().collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6, "{stop:?}");
    // An attempt during the crash can be repeated.
    assert!(ids.len() == 6 || (crashed && ids.len() == 7), "{} after {stop:?}", ids.len());
    commits
}

async fn after_a_crash_around_any_commit_exactly_the_subscribed_events_are_delivered(database: TestDatabase) {
    let commits = perform_with_crash(database.another().await, None).await;
    assert!(commits >= 10, "{commits} commits");
    for n in 1..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            perform_with_crash(database.another().await, Some(stop)).await;
        }
    }
}
