//! Stops the writer before and after every commit: an event and what is to be told of it are there together, or neither
//! is; and whatever is there is told in the end.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use holdpoint_engine::core::{NodeId, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, Fault, NewWebhook};
use serde_json::json;

use super::{courier, durably, furnished, ok};
use crate::house::{House, accept, gated, resolve, run_id, start, tenant};
use crate::peer::Peer;
use crate::place::{Place, on_both};

on_both! {
    after_a_crash_around_any_commit_every_event_is_told_and_nothing_else,
}

const EVENTS: [&str; 4] = ["run.started", "interrupt.requested", "node.completed", "run.completed"];

fn the_run() -> RunRef {
    RunRef { tenant: tenant(), run: run_id("the-run") }
}

/// Somebody subscribes, starts a run, answers, and delivers what is to be told. Everything may have happened already.
async fn story(engine: &Engine, url: &str) -> Result<(), Error> {
    engine.register(&tenant(), gated("gated")).await?;
    if engine.webhooks(&tenant(), None, 1).await?.is_empty() {
        let mut new = NewWebhook::new(tenant(), url, EVENTS.map(str::to_owned));
        durably(&mut new);
        engine.add_webhook(new).await?;
    }
    let workflow = WorkflowId::parse("gated").unwrap();
    match engine.start_as(&the_run().run, &workflow, start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    courier(engine).drain().await?;
    let run = engine.run(&the_run()).await?;
    if let Some(asked) = run.interrupt_of_node(&NodeId::parse("gate").unwrap()).filter(|_| !run.finished()) {
        engine.execute(&the_run(), &resolve(asked.id, accept())).await?;
    }
    courier(engine).drain().await?;
    // Couriers that cannot write only leave things behind; whoever writes last finds out.
    engine.register(&tenant(), gated("last")).await.map(|_| ())
}

/// The numbers of events in the log that somebody wants to hear of, and of those for which there is a delivery.
async fn wanted_and_written(house: &House) -> (BTreeSet<String>, BTreeSet<String>) {
    let log = house.engine.events(&the_run(), 0).await.unwrap();
    let wanted = log.iter().filter(|one| EVENTS.contains(&one.event.name())).map(|one| one.seq.to_string());
    let rows = house.place.read("SELECT event_seq FROM deliveries").await;
    let written = rows.iter().map(|row| row[0].1.clone().unwrap());
    (wanted.collect(), written.collect())
}

async fn told(place: Place, stop: Option<Fault>) -> u64 {
    let peer = Peer::saying([ok()]).await;
    let url = peer.url("/");
    let house = House::with(place, |options| match stop {
        Some(stop) => furnished(options).fault(stop),
        None => furnished(options),
    });
    let house = house.await;
    let crashed = story(&house.engine, &url).await.is_err();
    assert_eq!(crashed, stop.is_some(), "{stop:?}");
    let commits = house.engine.counters().commits.load(Ordering::SeqCst);
    let house = house.reopen(furnished).await;
    let (wanted, written) = wanted_and_written(&house).await;
    assert_eq!(wanted, written, "right after {stop:?}");
    house.clock.advance(60_000);
    story(&house.engine, &url).await.unwrap();
    let (wanted, written) = wanted_and_written(&house).await;
    assert_eq!(wanted, written, "{stop:?}");
    assert_eq!(wanted.len(), 6, "there is something to tell");
    let left = house.place.read("SELECT 1 FROM deliveries WHERE state <> 'delivered'").await;
    assert!(left.is_empty(), "{stop:?}");
    let heard: Vec<String> = peer.header("X-openwop-Delivery-Id").into_iter().flatten().collect();
    assert_eq!(heard.iter().collect::<BTreeSet<_>>().len(), 6, "{stop:?}");
    // What was under way when the crash came may be told twice.
    assert!(heard.len() == 6 || (crashed && heard.len() == 7), "{} after {stop:?}", heard.len());
    commits
}

async fn after_a_crash_around_any_commit_every_event_is_told_and_nothing_else(place: Place) {
    let commits = told(place.another().await, None).await;
    assert!(commits >= 10, "there is something to interrupt");
    for n in 1..=commits {
        for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
            told(place.another().await, Some(stop)).await;
        }
    }
}
