//! Races of events and interrupts: on several nodes and with crashes, each event is used once.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Event, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, Engine, Error, EventReception};
use serde_json::json;

use crate::external_events::{count, paid, runs, send, waiting, waiting_with};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, run_id, start, tenant, with_fault};

on_both! {
    an_event_and_a_concurrent_interrupt_match_once,
    of_two_concurrent_runs_one_gets_a_kept_event,
    an_event_sent_many_times_concurrently_arrives_once,
    an_event_and_a_concurrent_cancellation_leave_one_outcome,
    an_event_and_a_concurrent_deadline_leave_one_outcome,
    concurrent_events_are_each_used_by_one_run,
    a_crash_around_any_commit_loses_no_event,
    an_event_recorded_before_a_crash_is_processed_by_a_worker,
    a_commit_whose_acknowledgement_was_lost_is_found,
}

const ROUNDS: usize = 60;

/// Another engine on the same data. A SQLite file belongs to one process, so it is the same engine there.
async fn another_node(env: &TestEnv) -> Engine {
    match env.database {
        TestDatabase::Sqlite(_) => env.engine.clone(),
        TestDatabase::Postgres(_) => env.second_engine(|options| options).await,
    }
}

async fn begin(engine: &Engine, flow: &str) -> RunRef {
    let run = engine.runs().create(&WorkflowId::parse(flow).unwrap(), start(json!({}))).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// Counts the events that resolved an interrupt of the run.
async fn deliveries(engine: &Engine, of: &RunRef) -> usize {
    let log = engine.events().list(of, 0).await.unwrap();
    log.iter().filter(|one| matches!(one.event, Event::InterruptResolved { .. })).count()
}

async fn an_event_and_a_concurrent_interrupt_match_once(env: TestEnv) {
    let other = another_node(&env).await;
    let (mut kept, mut matched) = (0, 0);
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        env.register(waiting(&flow, json!({"order": round, "shop": "north"}))).await;
        let event = paid(&format!("e{round}"), json!({"shop": "north", "order": round}));
        let (mut one, mut two) = (env.engine.worker(), other.worker());
        let starting = async {
            let of = begin(&env.engine, &flow).await;
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
        // Both workers are drained, so the event and the interrupt have matched.
        assert_eq!(env.status(&of).await, "completed", "round {round}: {received:?}");
        assert_eq!(deliveries(&env.engine, &of).await, 1);
    }
    assert_eq!(env.drain().await, 0);
    assert_eq!(count(&env, "awaited").await, 0);
    assert_eq!(count(&env, "arrivals WHERE state <> 'used'").await, 0, "{kept} kept, {matched} matched");
}

async fn of_two_concurrent_runs_one_gets_a_kept_event(env: TestEnv) {
    let other = another_node(&env).await;
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        env.register(waiting(&flow, json!({"order": round}))).await;
        send(&other, &paid(&format!("e{round}"), json!({"order": round}))).await.unwrap();
        let start_and_drain = async |engine: Engine| {
            let of = begin(&engine, &flow).await;
            engine.worker().drain().await.unwrap();
            of
        };
        let (one, two) = tokio::join!(start_and_drain(env.engine.clone()), start_and_drain(other.clone()));
        let delivered = deliveries(&env.engine, &one).await + deliveries(&env.engine, &two).await;
        assert_eq!(delivered, 1, "round {round}");
    }
}

async fn an_event_sent_many_times_concurrently_arrives_once(env: TestEnv) {
    let other = another_node(&env).await;
    env.register(waiting("flow", json!({"order": 7}))).await;
    for round in 0..ROUNDS / 4 {
        let of = begin(&env.engine, "flow").await;
        let event = paid(&format!("e{round}"), json!({"order": 7}));
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..8 {
            let (engine, event) =
                (if n % 2 == 0 { env.engine.clone() } else { other.clone() }, event.clone());
            calls.spawn(async move { send(&engine, &event).await.unwrap() });
        }
        let all = calls.join_all().await;
        assert_eq!(
            all.iter().filter(|received| !received.repeated).count(),
            1,
            "one request is not a repetition"
        );
        for received in &all {
            assert_eq!(runs(received), [of.run.as_str()], "all requests get the same response");
        }
        assert_eq!(deliveries(&env.engine, &of).await, 1);
    }
}

async fn an_event_and_a_concurrent_cancellation_leave_one_outcome(env: TestEnv) {
    let other = another_node(&env).await;
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        env.register(waiting(&flow, json!({"order": round}))).await;
        let of = begin(&env.engine, &flow).await;
        let event = paid(&format!("e{round}"), json!({"order": round}));
        let (received, cancelled) =
            tokio::join!(send(&other, &event), env.engine.runs().cancel(&of, None, alice()));
        cancelled.unwrap();
        let (received, end) = (received.unwrap(), env.status(&of).await);
        let expected = if received.reception == EventReception::Matched { "completed" } else { "cancelled" };
        assert_eq!(end, expected, "round {round}: {received:?}");
        env.drain().await;
        assert_eq!(deliveries(&env.engine, &of).await, usize::from(end == "completed"));
    }
    assert_eq!(count(&env, "awaited").await, 0);
}

async fn an_event_and_a_concurrent_deadline_leave_one_outcome(env: TestEnv) {
    let other = another_node(&env).await;
    for round in 0..ROUNDS {
        let flow = format!("flow-{round}");
        let data = json!({"eventType": "paid", "correlation": {"order": round}});
        env.register(waiting_with(&flow, json!({"data": data, "timeoutMs": 1000}))).await;
        let of = begin(&env.engine, &flow).await;
        env.drain().await;
        env.clock.advance(999);
        let event = paid(&format!("e{round}"), json!({"order": round}));
        let passing = async {
            env.clock.advance(1);
            env.drain().await
        };
        let (received, _) = tokio::join!(send(&other, &event), passing);
        let received = received.unwrap();
        env.drain().await;
        let expected = if received.reception == EventReception::Matched { "completed" } else { "failed" };
        assert_eq!(env.status(&of).await, expected, "round {round}: {received:?}");
    }
    assert_eq!((count(&env, "awaited").await, count(&env, "timers").await), (0, 0));
}

async fn concurrent_events_are_each_used_by_one_run(env: TestEnv) {
    let other = another_node(&env).await;
    env.register(waiting("flow", json!({"order": 7}))).await;
    let mut work = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { env.engine.clone() } else { other.clone() };
        work.spawn(
            async move { send(&engine, &paid(&format!("e{n}"), json!({"order": 7}))).await.map(|_| ()) },
        );
    }
    work.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    let mut starts = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { env.engine.clone() } else { other.clone() };
        starts.spawn(async move {
            let of = begin(&engine, "flow").await;
            engine.worker().drain().await.unwrap();
            of
        });
    }
    let of = starts.join_all().await;
    env.drain().await;
    for of in &of {
        assert_eq!(env.status(of).await, "completed");
    }
    assert_eq!(count(&env, "arrivals WHERE state = 'used'").await, 20, "each run used one event");
}

/// Sends an event before or after the start of the run that waits for it. Steps that already happened are skipped.
async fn perform(engine: &Engine, event_first: bool) -> Result<(), Error> {
    engine.workflows().register(&tenant(), waiting("flow", json!({"order": 7, "shop": "north"}))).await?;
    let event = paid("e1", json!({"order": 7, "shop": "north"}));
    if event_first {
        send(engine, &event).await?;
    }
    match engine
        .runs()
        .create_as(&run_id("the-run"), &WorkflowId::parse("flow").unwrap(), start(json!({})))
        .await
    {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    engine.worker().drain().await?;
    if !event_first {
        send(engine, &event).await?;
    }
    Ok(())
}

async fn a_crash_around_any_commit_loses_no_event(database: TestDatabase) {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    for event_first in [false, true] {
        let env = TestEnv::with(database.another().await, |options| options).await;
        perform(&env.engine, event_first).await.unwrap();
        let commits = env.engine.counters().commits.load(Ordering::SeqCst);
        let expected = env.log(&of).await;
        assert!(commits >= 4, "{commits} commits");
        for n in 1..=commits {
            for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
                let env = TestEnv::with(database.another().await, with_fault(stop)).await;
                assert!(perform(&env.engine, event_first).await.is_err(), "{stop:?} was reached");
                let env = env.reopen(|options| options).await;
                perform(&env.engine, event_first).await.unwrap();
                env.drain().await;
                assert_eq!(env.status(&of).await, "completed", "{stop:?}, event first: {event_first}");
                assert_eq!(env.log(&of).await, expected);
                assert_eq!(count(&env, "awaited").await, 0);
                assert_eq!(count(&env, "arrivals WHERE state = 'used'").await, 1);
            }
        }
    }
}

async fn an_event_recorded_before_a_crash_is_processed_by_a_worker(database: TestDatabase) {
    // The commits: definition, start, event, resolution. The crash is before the resolution.
    let env = TestEnv::with(database, with_fault(CommitFault::StopBefore(4))).await;
    env.register(waiting("flow", json!({"order": 7}))).await;
    let of = env.start("flow").await;
    assert!(send(&env.engine, &paid("e1", json!({"order": 7}))).await.is_err());
    let env = env.reopen(|options| options).await;
    assert_eq!(count(&env, "arrivals WHERE state = 'open'").await, 1, "the event is recorded");
    assert_eq!(env.status(&of).await, "waiting-external");
    env.clock.advance(5_000);
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed", "the event is not sent again");
    let again = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!((again.repeated, runs(&again)), (true, vec![of.run.to_string()]));
}

async fn a_commit_whose_acknowledgement_was_lost_is_found(database: TestDatabase) {
    for lost in [CommitFault::LoseConnectionBefore(4), CommitFault::LoseConnectionAfter(4)] {
        let env = TestEnv::with(database.another().await, with_fault(lost)).await;
        env.register(waiting("flow", json!({"order": 7}))).await;
        let of = env.start("flow").await;
        let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
        assert_eq!(runs(&received), [of.run.as_str()], "{lost:?}");
        assert_eq!(deliveries(&env.engine, &of).await, 1);
    }
}
