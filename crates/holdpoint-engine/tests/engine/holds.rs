//! Holds: questions without a workflow of their own.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Kind, Request, Resolution, RunId, RunRef};
use holdpoint_engine::{Engine, Error};
use serde_json::json;

use crate::house::{House, gated, run_id, start, tenant};
use crate::place::{Place, Subject, on_both};

on_both! {
    a_hold_completes_whatever_comes_of_it,
    the_workflow_of_holds_is_there_when_it_is_needed,
}

fn approval() -> Request {
    let data =
        json!({"title": "Go?", "artifactId": "a", "artifactType": "t", "actions": ["accept", "reject"]});
    Request { timeout_ms: Some(1000), ..Request::new(Kind::Approval, data) }
}

async fn a_hold_completes_whatever_comes_of_it(house: House) {
    house.engine.prepare_holds(&tenant()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        let run = house.engine.hold(&approval(), start(json!({})), None).await.unwrap();
        assert_eq!(Engine::held(&run).unwrap().title(), "Go?");
        held.push(holdpoint_engine::core::RunRef { tenant: tenant(), run: run.id.clone() });
    }
    for (of, action) in held.iter().zip(["accept", "reject"]) {
        house.answer(of, "hold", json!({"action": action})).await.unwrap();
    }
    house.clock.advance(1000);
    house.drain().await;
    for of in &held {
        assert_eq!(house.status(of).await, "completed");
    }
    let silent = house.run(&held[2]).await;
    assert!(matches!(Engine::held(&silent).unwrap().resolution, Some(Resolution::TimedOut { .. })));
    let odd = Request::new(Kind::Approval, json!({}));
    assert!(matches!(house.engine.hold(&odd, start(json!({})), None).await, Err(Error::Refused(_))));
}

async fn the_workflow_of_holds_is_there_when_it_is_needed(house: House) {
    house.register(gated("flow")).await;
    let other = house.start("flow").await;
    assert_eq!(Engine::held(&*house.run(&other).await), None, "not every question is a hold");
    for _ in 0..2 {
        house.engine.prepare_holds(&tenant()).await.unwrap();
    }
    let rows = house.place.read("SELECT revision FROM workflows WHERE workflow_id = 'holdpoint-hold'").await;
    assert_eq!(rows, [[("revision".to_owned(), Some("1".to_owned()))]], "and once");
}

/// On one thread, so that all of them are asked for before the database is.
#[tokio::test]
async fn many_holds_are_read_in_a_few_round_trips() {
    let house = House::at(Place::postgres().await).await;
    house.engine.prepare_holds(&tenant()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..60 {
        let run = house.engine.hold(&approval(), start(json!({})), None).await.unwrap();
        held.push(RunRef { tenant: tenant(), run: run.id.clone() });
    }
    let house = house.reopen(|options| options).await;
    let trips = || house.engine.counters().round_trips.load(Ordering::SeqCst);
    for (cache, most) in [("empty", 5), ("full", 2)] {
        let before = trips();
        let runs = house.engine.run_each(&held).await.unwrap();
        assert!(trips() - before <= most, "{} round trips with the cache {cache}", trips() - before);
        let found: Vec<&RunId> = runs.iter().map(|run| &run.id).collect();
        assert_eq!(found, held.iter().map(|of| &of.run).collect::<Vec<_>>());
    }
    let unknown = RunRef { tenant: tenant(), run: run_id("unknown") };
    let missing = house.engine.run_each(&[held[0].clone(), unknown]).await;
    assert!(matches!(missing, Err(Error::NotFound("run"))), "{missing:?}");
}
