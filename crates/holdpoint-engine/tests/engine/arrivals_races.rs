//! Events and those who wait for them, at the same moment, on several nodes, and with a crash in between: they meet,
//! and they meet once.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Event, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, EventReception, Fault};
use serde_json::json;

use crate::arrivals::{count, paid, runs, send, waiting, waiting_with};
use crate::house::{House, alice, run_id, start, stopping, tenant};
use crate::place::{Place, on_both};

on_both! {
    an_event_and_a_wait_at_the_same_moment_meet_once,
    of_two_who_come_for_one_kept_event_one_gets_it,
    an_event_that_is_sent_many_times_at_once_arrives_once,
    an_event_and_a_cancellation_leave_one_end,
    an_event_and_a_deadline_leave_one_end,
    events_that_are_sent_at_once_are_used_one_by_one,
    a_crash_around_any_commit_loses_no_event,
    an_event_whose_sender_went_away_is_finished_by_a_worker,
    a_commit_whose_answer_was_lost_is_found,
}

const ROUNDS: usize = 60;

/// A file belongs to one process, so that there is nobody else.
async fn another_node(house: &House) -> Engine {
    match house.place {
        Place::Sqlite(_) => house.engine.clone(),
        Place::Postgres(_) => house.second_engine(|options| options).await,
    }
}

async fn begin(engine: &Engine, flow: &str) -> RunRef {
    let run = engine.start(&WorkflowId::parse(flow).unwrap(), start(json!({}))).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// How many events the run got.
async fn deliveries(engine: &Engine, of: &RunRef) -> usize {
    let log = engine.events(of, 0).await.unwrap();
    log.iter().filter(|one| matches!(one.event, Event::InterruptResolved { .. })).count()
}

async fn an_event_and_a_wait_at_the_same_moment_meet_once(house: House) {
    let other = another_node(&house).await;
    let (mut kept, mut matched) = (0, 0);
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        house.register(waiting(&flow, json!({"order": round, "shop": "north"}))).await;
        let event = paid(&format!("e{round}"), json!({"shop": "north", "order": round}));
        let (mut one, mut two) = (house.engine.worker(), other.worker());
        let starting = async {
            let of = begin(&house.engine, &flow).await;
            one.drain().await.unwrap();
            of
        };
        let sending = async {
            let received = send(&other, &event).await.unwrap();
            two.drain().await.unwrap();
            received
        };
        let (of, received) = if round % 2 == 0 {
            tokio::join!(starting, sending)
        } else {
            let (received, of) = tokio::join!(sending, starting);
            (of, received)
        };
        match received.reception {
            EventReception::Kept => kept += 1,
            EventReception::Matched => matched += 1,
            EventReception::Ignored => panic!("events are kept here"),
        }
        // Whoever came last has looked by now, and there is nothing else to do.
        assert_eq!(house.status(&of).await, "completed", "round {round}: {received:?}");
        assert_eq!(deliveries(&house.engine, &of).await, 1);
    }
    assert_eq!(house.drain().await, 0);
    assert_eq!(count(&house, "awaited").await, 0);
    assert_eq!(count(&house, "arrivals WHERE state <> 'used'").await, 0, "{kept} kept, {matched} matched");
}

async fn of_two_who_come_for_one_kept_event_one_gets_it(house: House) {
    let other = another_node(&house).await;
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        house.register(waiting(&flow, json!({"order": round}))).await;
        send(&other, &paid(&format!("e{round}"), json!({"order": round}))).await.unwrap();
        let come = async |engine: Engine| {
            let of = begin(&engine, &flow).await;
            engine.worker().drain().await.unwrap();
            of
        };
        let (one, two) = tokio::join!(come(house.engine.clone()), come(other.clone()));
        let got = deliveries(&house.engine, &one).await + deliveries(&house.engine, &two).await;
        assert_eq!(got, 1, "round {round}");
    }
}

async fn an_event_that_is_sent_many_times_at_once_arrives_once(house: House) {
    let other = another_node(&house).await;
    house.register(waiting("flow", json!({"order": 7}))).await;
    for round in 0..ROUNDS / 4 {
        let of = begin(&house.engine, "flow").await;
        let event = paid(&format!("e{round}"), json!({"order": 7}));
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..8 {
            let (engine, event) =
                (if n % 2 == 0 { house.engine.clone() } else { other.clone() }, event.clone());
            calls.spawn(async move { send(&engine, &event).await.unwrap() });
        }
        let all = calls.join_all().await;
        assert_eq!(all.iter().filter(|received| !received.repeated).count(), 1, "one of them was first");
        for received in &all {
            assert_eq!(runs(received), [of.run.as_str()], "and all are told the same");
        }
        assert_eq!(deliveries(&house.engine, &of).await, 1);
    }
}

async fn an_event_and_a_cancellation_leave_one_end(house: House) {
    let other = another_node(&house).await;
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        house.register(waiting(&flow, json!({"order": round}))).await;
        let of = begin(&house.engine, &flow).await;
        let event = paid(&format!("e{round}"), json!({"order": round}));
        let (received, cancelled) =
            tokio::join!(send(&other, &event), house.engine.cancel(&of, None, alice()));
        cancelled.unwrap();
        let (received, end) = (received.unwrap(), house.status(&of).await);
        let expected = if received.reception == EventReception::Matched { "completed" } else { "cancelled" };
        assert_eq!(end, expected, "round {round}: {received:?}");
        house.drain().await;
        assert_eq!(deliveries(&house.engine, &of).await, usize::from(end == "completed"));
    }
    assert_eq!(count(&house, "awaited").await, 0);
}

async fn an_event_and_a_deadline_leave_one_end(house: House) {
    let other = another_node(&house).await;
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        let data = json!({"eventType": "paid", "correlation": {"order": round}});
        house.register(waiting_with(&flow, json!({"data": data, "timeoutMs": 1000}))).await;
        let of = begin(&house.engine, &flow).await;
        house.drain().await;
        house.clock.advance(999);
        let event = paid(&format!("e{round}"), json!({"order": round}));
        let passing = async {
            house.clock.advance(1);
            house.drain().await
        };
        let (received, _) = tokio::join!(send(&other, &event), passing);
        let received = received.unwrap();
        house.drain().await;
        let expected = if received.reception == EventReception::Matched { "completed" } else { "failed" };
        assert_eq!(house.status(&of).await, expected, "round {round}: {received:?}");
    }
    assert_eq!((count(&house, "awaited").await, count(&house, "timers").await), (0, 0));
}

async fn events_that_are_sent_at_once_are_used_one_by_one(house: House) {
    let other = another_node(&house).await;
    house.register(waiting("flow", json!({"order": 7}))).await;
    let mut work = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { house.engine.clone() } else { other.clone() };
        work.spawn(
            async move { send(&engine, &paid(&format!("e{n}"), json!({"order": 7}))).await.map(|_| ()) },
        );
    }
    work.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    let mut begun = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { house.engine.clone() } else { other.clone() };
        begun.spawn(async move {
            let of = begin(&engine, "flow").await;
            engine.worker().drain().await.unwrap();
            of
        });
    }
    let of = begun.join_all().await;
    house.drain().await;
    for of in &of {
        assert_eq!(house.status(of).await, "completed");
    }
    assert_eq!(count(&house, "arrivals WHERE state = 'used'").await, 20, "each run has one of its own");
}

/// Somebody who wants an event to arrive and does not give up; a run that waits for it before or after.
async fn tell(engine: &Engine, event_first: bool) -> Result<(), Error> {
    engine.register(&tenant(), waiting("flow", json!({"order": 7, "shop": "north"}))).await?;
    let event = paid("e1", json!({"order": 7, "shop": "north"}));
    if event_first {
        send(engine, &event).await?;
    }
    match engine.start_as(&run_id("the-run"), &WorkflowId::parse("flow").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    engine.worker().drain().await?;
    if !event_first {
        send(engine, &event).await?;
    }
    Ok(())
}

async fn a_crash_around_any_commit_loses_no_event(place: Place) {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    for event_first in [false, true] {
        let house = House::with(place.another().await, |options| options).await;
        tell(&house.engine, event_first).await.unwrap();
        let commits = house.engine.counters().commits.load(Ordering::SeqCst);
        let expected = house.log(&of).await;
        assert!(commits >= 4, "there is something to interrupt");
        for n in 1..=commits {
            for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
                let house = House::with(place.another().await, stopping(stop)).await;
                assert!(tell(&house.engine, event_first).await.is_err(), "{stop:?} was reached");
                let house = house.reopen(|options| options).await;
                tell(&house.engine, event_first).await.unwrap();
                house.drain().await;
                assert_eq!(house.status(&of).await, "completed", "{stop:?}, event first: {event_first}");
                assert_eq!(house.log(&of).await, expected);
                assert_eq!(count(&house, "awaited").await, 0);
                assert_eq!(count(&house, "arrivals WHERE state = 'used'").await, 1);
            }
        }
    }
}

async fn an_event_whose_sender_went_away_is_finished_by_a_worker(place: Place) {
    // The definition, the start, the event, and then what it does: that is where the crash is.
    let house = House::with(place, stopping(Fault::StopBefore(4))).await;
    house.register(waiting("flow", json!({"order": 7}))).await;
    let of = house.start("flow").await;
    assert!(send(&house.engine, &paid("e1", json!({"order": 7}))).await.is_err());
    let house = house.reopen(|options| options).await;
    assert_eq!(count(&house, "arrivals WHERE state = 'open'").await, 1, "it arrived");
    assert_eq!(house.status(&of).await, "waiting-external");
    house.clock.advance(5_000);
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed", "nobody had to send it again");
    let again = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!((again.repeated, runs(&again)), (true, vec![of.run.to_string()]));
}

async fn a_commit_whose_answer_was_lost_is_found(place: Place) {
    for lost in [Fault::LoseBefore(4), Fault::LoseAfter(4)] {
        let house = House::with(place.another().await, stopping(lost)).await;
        house.register(waiting("flow", json!({"order": 7}))).await;
        let of = house.start("flow").await;
        let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
        assert_eq!(runs(&received), [of.run.as_str()], "{lost:?}");
        assert_eq!(deliveries(&house.engine, &of).await, 1);
    }
}
