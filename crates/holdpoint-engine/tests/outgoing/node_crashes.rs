//! `core.http` around crashes and cancellations: recorded once, not repeated, and the same key when nobody can know
//! whether the first call came through.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, Fault, Options};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::house::{House, alice, line, run_id, start, tenant};
use crate::node::open;
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    a_crash_around_any_commit_calls_once_or_again_under_the_same_key,
    a_recorded_answer_is_used_even_if_the_host_may_no_longer_be_called,
    a_run_that_is_cancelled_under_its_call_stays_cancelled,
}

fn definition(peer: &Peer) -> Value {
    let config = json!({"url": peer.url("/pay"), "method": "POST"});
    line("pay", &[("a", "core.noop", json!({})), ("pay", "core.http", config), ("z", "core.noop", json!({}))])
}

fn the_run() -> RunRef {
    RunRef { tenant: tenant(), run: run_id("the-run") }
}

/// Everything in it may already have happened.
async fn tell(engine: &Engine, definition: Value) -> Result<(), Error> {
    engine.register(&tenant(), definition).await?;
    let workflow = WorkflowId::parse("pay").unwrap();
    match engine.start_as(&the_run().run, &workflow, start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    engine.worker().drain().await.map(|_| ())
}

/// Carries out the run with a crash somewhere. How often it called, its log, the commits until then.
async fn told(place: Place, stop: Option<Fault>) -> (usize, Vec<String>, u64) {
    let peer = Peer::saying([Reply::json(200, r#"{"paid":true}"#)]).await;
    let crashing = |options: Options| match stop {
        Some(stop) => open(options).fault(stop),
        None => open(options),
    };
    let house = House::with(place, crashing).await;
    let crashed = tell(&house.engine, definition(&peer)).await.is_err();
    assert_eq!(crashed, stop.is_some(), "{stop:?} was reached");
    let commits = house.engine.counters().commits.load(Ordering::SeqCst);
    let house = house.reopen(open).await;
    tell(&house.engine, definition(&peer)).await.unwrap();
    assert_eq!(house.status(&the_run()).await, "completed", "{stop:?}");
    let mut keys = peer.header("idempotency-key");
    keys.dedup();
    assert!(keys.len() == 1 && keys[0].is_some(), "{stop:?}: {keys:?}");
    // The port is another one in every telling.
    let log = house.log(&the_run()).await;
    (peer.heard().len(), log, commits)
}

async fn a_crash_around_any_commit_calls_once_or_again_under_the_same_key(place: Place) {
    let (calls, expected, commits) = told(place.another().await, None).await;
    assert_eq!(calls, 1);
    assert!(commits >= 4, "{commits} commits");
    let mut repeated = 0;
    for n in 1..=commits {
        for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
            let (calls, log, _) = told(place.another().await, Some(stop)).await;
            assert_eq!(log, expected, "{stop:?}");
            assert!(calls <= 2, "{stop:?}: {calls} calls");
            repeated += calls - 1;
        }
    }
    assert_eq!(repeated, 1, "only the crash between the call and its record repeats it");
}

async fn a_recorded_answer_is_used_even_if_the_host_may_no_longer_be_called(place: Place) {
    // Between the record and the end of the node: found by looking for the first crash that leaves a record behind.
    for n in 1..20 {
        let peer = Peer::saying([Reply::json(200, "7")]).await;
        let crashing = |options: Options| open(options).fault(Fault::StopAfter(n));
        let house = House::with(place.another().await, crashing).await;
        assert!(tell(&house.engine, definition(&peer)).await.is_err());
        let house = house.reopen(|options| options).await;
        let recorded = match house.engine.run(&the_run()).await {
            Ok(run) => run.nodes[1].steps.contains_key("request"),
            Err(_) => false,
        };
        if recorded {
            house.drain().await;
            let run = house.run(&the_run()).await;
            assert_eq!((run.status().as_str(), &run.variables["body"]), ("completed", &json!(7)));
            assert_eq!(peer.heard().len(), 1);
            return;
        }
    }
    panic!("no crash left a record behind");
}

async fn a_run_that_is_cancelled_under_its_call_stays_cancelled(place: Place) {
    let told = Arc::new(Notify::new());
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned();
    let peer = Peer::saying([Reply::When(told.clone(), answer)]).await;
    let house = House::with(place, open).await;
    house.register(definition(&peer)).await;
    let of = house.start("pay").await;
    let engine = house.engine.clone();
    let working = tokio::spawn(async move { engine.worker().drain().await.unwrap() });
    peer.heard_times(1).await;
    house.engine.cancel(&of, None, alice()).await.unwrap();
    told.notify_one();
    working.await.unwrap();
    let log = house.log(&of).await;
    assert_eq!(house.status(&of).await, "cancelled");
    assert!(log.last().unwrap().contains("run.cancelled"), "{log:?}");
    assert!(!log.concat().contains("step.recorded"), "{log:?}");
    assert_eq!((house.drain().await, peer.heard().len()), (0, 1));
}
