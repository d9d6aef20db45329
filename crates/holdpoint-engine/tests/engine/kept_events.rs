//! Events that arrive before an interrupt waits for them, and repeated events.

use std::time::Duration;

use holdpoint_engine::core::ExternalEvent;
use holdpoint_engine::{Error, EventOutcome, EventReception, Options};
use serde_json::json;

use crate::external_events::{count, paid, resolution, runs, send, waiting, waiting_with};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::TestEnv;

on_both! {
    an_event_that_arrives_first_is_kept_and_used_once,
    a_kept_event_is_skipped_by_interrupts_that_do_not_match,
    of_several_kept_events_the_oldest_is_used,
    a_kept_event_expires,
    ignored_events_are_still_deduplicated,
    an_event_with_a_known_id_is_a_repetition_or_a_conflict,
    the_id_of_an_event_is_forgotten_after_its_retention,
    an_interrupt_beyond_the_search_limit_finds_the_kept_event,
    an_interrupt_that_rejects_many_kept_events_finds_a_later_one,
    the_kept_events_of_a_tenant_are_limited,
}

async fn an_event_that_arrives_first_is_kept_and_used_once(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let event = paid("e1", json!({"order": 7, "shop": "north"}));
    let received = send(&env.engine, &event).await.unwrap();
    assert_eq!(received.reception, EventReception::Kept);
    assert_eq!(received.kept_until.unwrap().0, env.clock.now().0 + 86_400_000);
    let (one, other) = (env.start("flow").await, env.start("flow").await);
    assert_eq!(env.status(&one).await, "waiting-external");
    env.drain().await;
    let mut statuses = [env.status(&one).await, env.status(&other).await];
    statuses.sort_unstable();
    assert_eq!(statuses, ["completed", "waiting-external"]);
    let again = send(&env.engine, &event).await.unwrap();
    assert_eq!(
        again,
        EventOutcome { repeated: true, ..received },
        "the response of a repetition is the same"
    );
    assert_eq!(env.drain().await, 0);
    let last = send(&env.engine, &paid("e2", json!({"order": 7}))).await.unwrap();
    assert_eq!(last.matched.len(), 1);
}

async fn a_kept_event_is_skipped_by_interrupts_that_do_not_match(env: TestEnv) {
    send(&env.engine, &paid("e1", json!({"order": 7, "shop": "north"}))).await.unwrap();
    let data = json!({"eventType": "paid", "correlation": {"order": 7, "shop": "north"}});
    let schema = json!({"properties": {"eventPayload": {"required": ["receipt"]}}});
    env.register(waiting_with("picky", json!({"data": data, "resumeSchema": schema}))).await;
    env.register(waiting("less", json!({"order": 7}))).await;
    env.register(waiting("south", json!({"order": 7, "shop": "south"}))).await;
    env.register(waiting("right", json!({"order": 7, "shop": "north", "till": 1}))).await;
    let mut of = Vec::new();
    for flow in ["picky", "less", "south", "right"] {
        of.push(env.start(flow).await);
        env.drain().await;
    }
    for of in &of[..3] {
        assert_eq!(env.status(of).await, "waiting-external");
    }
    assert_eq!(env.status(&of[3]).await, "completed");
}

async fn of_several_kept_events_the_oldest_is_used(env: TestEnv) {
    for id in ["b", "a", "c"] {
        send(&env.engine, &paid(id, json!({"order": 7}))).await.unwrap();
        env.clock.advance(1);
    }
    env.register(waiting("flow", json!({"order": 7}))).await;
    for id in ["b", "a", "c"] {
        let of = env.start("flow").await;
        env.drain().await;
        assert_eq!(resolution(&env, &of, "wait").await["value"]["eventId"], *id);
    }
}

async fn a_kept_event_expires(database: TestDatabase) {
    let hour = |options: Options| options.keep_events(Duration::from_secs(3600));
    let env = TestEnv::with(database, hour).await;
    env.register(waiting("flow", json!({"order": 7}))).await;
    send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    env.clock.advance(3_600_000);
    let of = env.start("flow").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "waiting-external");
    send(&env.engine, &paid("e2", json!({"order": 8}))).await.unwrap();
    env.register(waiting("eight", json!({"order": 8}))).await;
    env.clock.advance(3_599_999);
    let of = env.start("eight").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed", "a millisecond before it expires");
}

async fn ignored_events_are_still_deduplicated(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.keep_events(Duration::ZERO)).await;
    env.register(waiting("flow", json!({"order": 7}))).await;
    let event = paid("e1", json!({"order": 7}));
    let received = send(&env.engine, &event).await.unwrap();
    assert_eq!((received.reception, received.kept_until), (EventReception::Ignored, None));
    let of = env.start("flow").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "waiting-external");
    let again = send(&env.engine, &event).await.unwrap();
    assert_eq!((again.reception, again.repeated), (EventReception::Ignored, true));
    assert_eq!(send(&env.engine, &paid("e2", json!({"order": 7}))).await.unwrap().matched.len(), 1);
}

async fn an_event_with_a_known_id_is_a_repetition_or_a_conflict(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7}))).await;
    let of = env.start("flow").await;
    let event = paid("e1", json!({"order": 7}));
    let first = send(&env.engine, &event).await.unwrap();
    env.start("flow").await;
    env.drain().await;
    let same =
        ExternalEvent { correlation: json!({"order": 7.0}).as_object().unwrap().clone(), ..event.clone() };
    let again = send(&env.engine, &same).await.unwrap();
    assert_eq!(again, EventOutcome { repeated: true, ..first });
    assert_eq!(runs(&again), [of.run.as_str()], "the other run still waits");
    for other in [
        ExternalEvent { payload: json!({"amount": 4}), ..event.clone() },
        ExternalEvent { event_type: "shipped".to_owned(), ..event.clone() },
        paid("e1", json!({"order": 8})),
    ] {
        assert!(matches!(send(&env.engine, &other).await, Err(Error::EventConflict)));
    }
}

async fn the_id_of_an_event_is_forgotten_after_its_retention(env: TestEnv) {
    let event = paid("e1", json!({"order": 7}));
    send(&env.engine, &event).await.unwrap();
    env.clock.advance(86_399_999);
    env.engine.worker().tidy().await;
    assert!(send(&env.engine, &event).await.unwrap().repeated);
    env.clock.advance(1);
    let other = paid("e1", json!({"order": 8}));
    assert!(
        !send(&env.engine, &other).await.unwrap().repeated,
        "an expired id is free before maintenance deletes it"
    );
    env.clock.advance(86_400_000);
    env.engine.worker().tidy().await;
    assert_eq!(count(&env, "arrivals").await, 0);
}

async fn an_interrupt_beyond_the_search_limit_finds_the_kept_event(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7}))).await;
    let of = env.start("flow").await;
    env.drain().await;
    let event = paid("e1", json!({"order": 7}));
    let topic = &event.topics()[0];
    // These rows reach the search limit of one event and do not match it.
    let many = format!(
        "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
        SELECT 'default', '{topic}', '0-' || n, 1, '{topic}', NULL FROM numbers"
    );
    env.database.execute(&many).await.unwrap();
    let received = send(&env.engine, &event).await.unwrap();
    assert_eq!((received.reception, received.more), (EventReception::Kept, true));
    assert_eq!(env.status(&of).await, "waiting-external");
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(resolution(&env, &of, "wait").await["value"]["eventId"], "e1");
    assert_eq!(env.drain().await, 0, "no interrupt searches again");
}

async fn an_interrupt_that_rejects_many_kept_events_finds_a_later_one(env: TestEnv) {
    for number in 0..300 {
        send(&env.engine, &paid(&format!("e{number:03}"), json!({"order": 7}))).await.unwrap();
    }
    env.clock.advance(1);
    let right = ExternalEvent { payload: json!({"receipt": "r"}), ..paid("right", json!({"order": 7})) };
    assert_eq!(send(&env.engine, &right).await.unwrap().reception, EventReception::Kept);
    let data = json!({"eventType": "paid", "correlation": {"order": 7}});
    let schema = json!({"properties": {"eventPayload": {"required": ["receipt"]}}});
    env.register(waiting_with("picky", json!({"data": data, "resumeSchema": schema}))).await;
    let of = env.start("picky").await;
    env.drain().await;
    assert_eq!(resolution(&env, &of, "wait").await["value"]["eventId"], "right");
    let left = env.start("picky").await;
    env.drain().await;
    assert_eq!(env.status(&left).await, "waiting-external");
    assert_eq!(env.drain().await, 0, "an interrupt that has seen all kept events does not search again");
}

async fn the_kept_events_of_a_tenant_are_limited(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.kept_events_max(5)).await;
    for number in 0..5 {
        let kept = send(&env.engine, &paid(&format!("e{number}"), json!({"order": 7}))).await.unwrap();
        assert_eq!(kept.reception, EventReception::Kept, "{number}");
    }
    let event = paid("e5", json!({"order": 7}));
    for _ in 0..2 {
        assert!(matches!(send(&env.engine, &event).await, Err(Error::TooMany("kept events"))));
    }
    assert_eq!(count(&env, "arrivals").await, 5, "a rejected event leaves no row");
    let other = holdpoint_engine::core::TenantId::parse("other").unwrap();
    let by = holdpoint_engine::core::Principal::named("shop");
    assert_eq!(
        env.engine.events().receive(&other, &event, &by).await.unwrap().reception,
        EventReception::Kept
    );
    env.register(waiting("eight", json!({"order": 8}))).await;
    env.start("eight").await;
    let matched = send(&env.engine, &paid("e6", json!({"order": 8}))).await.unwrap();
    assert_eq!(matched.reception, EventReception::Matched, "a matched event is not kept");
    env.register(waiting("seven", json!({"order": 7}))).await;
    env.start("seven").await;
    env.drain().await;
    assert_eq!(
        send(&env.engine, &event).await.unwrap().reception,
        EventReception::Kept,
        "a used event makes room"
    );
}
