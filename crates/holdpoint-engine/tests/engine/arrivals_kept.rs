//! Events that come before anybody waits for them, and events that come again.

use std::time::Duration;

use holdpoint_engine::core::ExternalEvent;
use holdpoint_engine::{Error, EventReception, Options, Received};
use serde_json::json;

use crate::arrivals::{count, got, paid, runs, send, waiting, waiting_with};
use crate::house::House;
use crate::place::{Place, on_both};

on_both! {
    an_event_that_comes_first_is_kept_and_used_once,
    a_kept_event_is_passed_over_by_whom_it_does_not_suit,
    of_several_kept_events_the_oldest_is_used,
    a_kept_event_expires,
    events_that_are_not_kept_are_ignored_and_still_remembered,
    the_same_id_again_is_the_same_event,
    an_id_is_forgotten_after_its_time,
    who_was_not_looked_at_when_an_event_came_looks_for_it,
    who_refuses_very_many_kept_events_still_finds_the_one_behind_them,
    a_tenant_keeps_no_more_events_than_it_may,
}

async fn an_event_that_comes_first_is_kept_and_used_once(house: House) {
    house.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let event = paid("e1", json!({"order": 7, "shop": "north"}));
    let received = send(&house.engine, &event).await.unwrap();
    assert_eq!(received.reception, EventReception::Kept);
    assert_eq!(received.kept_until.unwrap().0, house.clock.now().0 + 86_400_000);
    let (one, other) = (house.start("flow").await, house.start("flow").await);
    assert_eq!(house.status(&one).await, "waiting-external");
    house.drain().await;
    let mut statuses = [house.status(&one).await, house.status(&other).await];
    statuses.sort_unstable();
    assert_eq!(statuses, ["completed", "waiting-external"]);
    let again = send(&house.engine, &event).await.unwrap();
    assert_eq!(again, Received { repeated: true, ..received }, "what was said stays said");
    assert_eq!(house.drain().await, 0);
    let last = send(&house.engine, &paid("e2", json!({"order": 7}))).await.unwrap();
    assert_eq!(last.matched.len(), 1);
}

async fn a_kept_event_is_passed_over_by_whom_it_does_not_suit(house: House) {
    send(&house.engine, &paid("e1", json!({"order": 7, "shop": "north"}))).await.unwrap();
    let data = json!({"eventType": "paid", "correlation": {"order": 7, "shop": "north"}});
    let schema = json!({"properties": {"eventPayload": {"required": ["receipt"]}}});
    house.register(waiting_with("picky", json!({"data": data, "resumeSchema": schema}))).await;
    house.register(waiting("less", json!({"order": 7}))).await;
    house.register(waiting("south", json!({"order": 7, "shop": "south"}))).await;
    house.register(waiting("right", json!({"order": 7, "shop": "north", "till": 1}))).await;
    let mut of = Vec::new();
    for flow in ["picky", "less", "south", "right"] {
        of.push(house.start(flow).await);
        house.drain().await;
    }
    for of in &of[..3] {
        assert_eq!(house.status(of).await, "waiting-external");
    }
    assert_eq!(house.status(&of[3]).await, "completed");
}

async fn of_several_kept_events_the_oldest_is_used(house: House) {
    for id in ["b", "a", "c"] {
        send(&house.engine, &paid(id, json!({"order": 7}))).await.unwrap();
        house.clock.advance(1);
    }
    house.register(waiting("flow", json!({"order": 7}))).await;
    for id in ["b", "a", "c"] {
        let of = house.start("flow").await;
        house.drain().await;
        assert_eq!(got(&house, &of, "wait").await["value"]["eventId"], *id);
    }
}

async fn a_kept_event_expires(place: Place) {
    let hour = |options: Options| options.keep_events(Duration::from_secs(3600));
    let house = House::with(place, hour).await;
    house.register(waiting("flow", json!({"order": 7}))).await;
    send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    house.clock.advance(3_600_000);
    let of = house.start("flow").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "waiting-external");
    send(&house.engine, &paid("e2", json!({"order": 8}))).await.unwrap();
    house.register(waiting("eight", json!({"order": 8}))).await;
    house.clock.advance(3_599_999);
    let of = house.start("eight").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed", "a moment before its end");
}

async fn events_that_are_not_kept_are_ignored_and_still_remembered(place: Place) {
    let house = House::with(place, |options| options.keep_events(Duration::ZERO)).await;
    house.register(waiting("flow", json!({"order": 7}))).await;
    let event = paid("e1", json!({"order": 7}));
    let received = send(&house.engine, &event).await.unwrap();
    assert_eq!((received.reception, received.kept_until), (EventReception::Ignored, None));
    let of = house.start("flow").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "waiting-external");
    let again = send(&house.engine, &event).await.unwrap();
    assert_eq!((again.reception, again.repeated), (EventReception::Ignored, true));
    assert_eq!(send(&house.engine, &paid("e2", json!({"order": 7}))).await.unwrap().matched.len(), 1);
}

async fn the_same_id_again_is_the_same_event(house: House) {
    house.register(waiting("flow", json!({"order": 7}))).await;
    let of = house.start("flow").await;
    let event = paid("e1", json!({"order": 7}));
    let first = send(&house.engine, &event).await.unwrap();
    house.start("flow").await;
    house.drain().await;
    let same =
        ExternalEvent { correlation: json!({"order": 7.0}).as_object().unwrap().clone(), ..event.clone() };
    let again = send(&house.engine, &same).await.unwrap();
    assert_eq!(again, Received { repeated: true, ..first });
    assert_eq!(runs(&again), [of.run.as_str()], "and the other one still waits");
    for other in [
        ExternalEvent { payload: json!({"amount": 4}), ..event.clone() },
        ExternalEvent { event_type: "shipped".to_owned(), ..event.clone() },
        paid("e1", json!({"order": 8})),
    ] {
        assert!(matches!(send(&house.engine, &other).await, Err(Error::EventConflict)));
    }
}

async fn an_id_is_forgotten_after_its_time(house: House) {
    let event = paid("e1", json!({"order": 7}));
    send(&house.engine, &event).await.unwrap();
    house.clock.advance(86_399_999);
    house.engine.worker().tidy().await;
    assert!(send(&house.engine, &event).await.unwrap().repeated);
    house.clock.advance(1);
    let other = paid("e1", json!({"order": 8}));
    assert!(!send(&house.engine, &other).await.unwrap().repeated, "before anybody tidied up");
    house.clock.advance(86_400_000);
    house.engine.worker().tidy().await;
    assert_eq!(count(&house, "arrivals").await, 0);
}

async fn who_was_not_looked_at_when_an_event_came_looks_for_it(house: House) {
    house.register(waiting("flow", json!({"order": 7}))).await;
    let of = house.start("flow").await;
    house.drain().await;
    let event = paid("e1", json!({"order": 7}));
    let topic = &event.topics()[0];
    // As many as are looked at for one event wait before it, and will not take it.
    let many = format!(
        "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
        SELECT 'default', '{topic}', '0-' || n, 1, '{topic}', NULL FROM numbers"
    );
    house.place.execute(&many).await.unwrap();
    let received = send(&house.engine, &event).await.unwrap();
    assert_eq!((received.reception, received.more), (EventReception::Kept, true));
    assert_eq!(house.status(&of).await, "waiting-external");
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(got(&house, &of, "wait").await["value"]["eventId"], "e1");
    assert_eq!(house.drain().await, 0, "nobody goes on looking");
}

async fn who_refuses_very_many_kept_events_still_finds_the_one_behind_them(house: House) {
    for number in 0..300 {
        send(&house.engine, &paid(&format!("e{number:03}"), json!({"order": 7}))).await.unwrap();
    }
    house.clock.advance(1);
    let right = ExternalEvent { payload: json!({"receipt": "r"}), ..paid("right", json!({"order": 7})) };
    assert_eq!(send(&house.engine, &right).await.unwrap().reception, EventReception::Kept);
    let data = json!({"eventType": "paid", "correlation": {"order": 7}});
    let schema = json!({"properties": {"eventPayload": {"required": ["receipt"]}}});
    house.register(waiting_with("picky", json!({"data": data, "resumeSchema": schema}))).await;
    let of = house.start("picky").await;
    house.drain().await;
    assert_eq!(got(&house, &of, "wait").await["value"]["eventId"], "right");
    let left = house.start("picky").await;
    house.drain().await;
    assert_eq!(house.status(&left).await, "waiting-external");
    assert_eq!(house.drain().await, 0, "whoever has seen all of them looks no more");
}

async fn a_tenant_keeps_no_more_events_than_it_may(place: Place) {
    let house = House::with(place, |options| options.kept_events_max(5)).await;
    for number in 0..5 {
        let kept = send(&house.engine, &paid(&format!("e{number}"), json!({"order": 7}))).await.unwrap();
        assert_eq!(kept.reception, EventReception::Kept, "{number}");
    }
    let event = paid("e5", json!({"order": 7}));
    for _ in 0..2 {
        assert!(matches!(send(&house.engine, &event).await, Err(Error::TooMany("kept events"))));
    }
    assert_eq!(count(&house, "arrivals").await, 5, "nothing is left of it");
    let other = holdpoint_engine::core::TenantId::parse("other").unwrap();
    let by = holdpoint_engine::core::Principal::named("shop");
    assert_eq!(house.engine.receive(&other, &event, &by).await.unwrap().reception, EventReception::Kept);
    house.register(waiting("eight", json!({"order": 8}))).await;
    house.start("eight").await;
    let wanted = send(&house.engine, &paid("e6", json!({"order": 8}))).await.unwrap();
    assert_eq!(wanted.reception, EventReception::Matched, "what somebody waits for needs no room");
    house.register(waiting("seven", json!({"order": 7}))).await;
    house.start("seven").await;
    house.drain().await;
    assert_eq!(
        send(&house.engine, &event).await.unwrap().reception,
        EventReception::Kept,
        "there is room again"
    );
}
