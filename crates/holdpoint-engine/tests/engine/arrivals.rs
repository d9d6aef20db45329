//! Events from outside: who gets them, in which order whatever happens, and what their senders are told.

use holdpoint_engine::core::{Event, ExternalEvent, ForkMode, NodeId, Principal, RunRef};
use holdpoint_engine::{Engine, Error, EventReception, ForkRequest, Overlay, Received};
use serde_json::{Value, json};

use crate::house::{House, graph, line, node, tenant};
use crate::place::on_both;

on_both! {
    an_event_carries_on_whoever_waits_for_it,
    an_event_reaches_all_who_wait_and_nobody_else,
    of_several_members_the_rare_one_finds_who_waits,
    an_event_finds_one_among_very_many_with_a_few_looks,
    one_run_may_wait_for_one_event_in_several_places,
    a_family_that_waits_for_one_event_goes_on_in_one_commit,
    what_the_schema_refuses_stays_waiting_and_is_named,
    an_event_resolves_no_more_than_it_may_and_says_so,
    the_rows_of_what_waits_go_with_it,
    a_branch_waits_for_itself,
    waits_of_an_older_version_are_found,
    a_tenant_gets_only_its_own_events,
}

pub(crate) fn waiting(id: &str, correlation: Value) -> Value {
    waiting_with(id, json!({"data": {"eventType": "paid", "correlation": correlation}}))
}

/// One node that waits, and one behind it.
pub(crate) fn waiting_with(id: &str, config: Value) -> Value {
    let mut config = config;
    config["kind"] = json!("external-event");
    line(id, &[("wait", "core.interrupt", config), ("after", "core.noop", json!({}))])
}

pub(crate) fn paid(id: &str, correlation: Value) -> ExternalEvent {
    ExternalEvent {
        event_type: "paid".to_owned(),
        event_id: id.to_owned(),
        correlation: correlation.as_object().unwrap().clone(),
        payload: json!({"amount": 3}),
    }
}

pub(crate) async fn send(engine: &Engine, event: &ExternalEvent) -> Result<Received, Error> {
    engine.receive(&tenant(), event, &Principal::named("shop")).await
}

pub(crate) fn runs(received: &Received) -> Vec<String> {
    received.matched.iter().map(|taker| taker.run.to_string()).collect()
}

pub(crate) async fn count(house: &House, table: &str) -> usize {
    house.place.read(&format!("SELECT * FROM {table}")).await.len()
}

pub(crate) async fn got(house: &House, of: &RunRef, node: &str) -> Value {
    let run = house.run(of).await;
    let id = run.interrupt_of_node(&NodeId::parse(node).unwrap()).unwrap().id;
    let log = house.engine.events(of, 0).await.unwrap();
    let found = log.iter().find_map(|one| match &one.event {
        Event::InterruptResolved { id: resolved, value, by, .. } if *resolved == id => {
            Some(json!({"value": value, "by": by}))
        }
        _ => None,
    });
    found.unwrap_or(Value::Null)
}

async fn an_event_carries_on_whoever_waits_for_it(house: House) {
    house.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let of = house.start("flow").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "waiting-external");
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(received.reception, EventReception::Matched);
    let taker = &received.matched[0];
    assert_eq!((&taker.run, taker.node.as_str(), taker.interrupt.0), (&of.run, "wait", 1));
    assert_eq!(house.status(&of).await, "completed", "in the same commit");
    let expected = json!({"value": {"eventPayload": {"amount": 3}, "eventId": "e1"}, "by": "shop"});
    assert_eq!(got(&house, &of, "wait").await, expected);
    assert_eq!((count(&house, "awaited").await, house.drain().await), (0, 0));
}

async fn an_event_reaches_all_who_wait_and_nobody_else(house: House) {
    house.register(waiting("seven", json!({"order": 7, "shop": "north"}))).await;
    house.register(waiting("eight", json!({"order": 8, "shop": "north"}))).await;
    house.register(waiting("text", json!({"order": "7", "shop": "north"}))).await;
    house.register(waiting("any", json!({}))).await;
    let shipped = json!({"data": {"eventType": "shipped", "correlation": {"order": 7}}});
    house.register(waiting_with("shipped", shipped)).await;
    let mut of = Vec::new();
    for flow in ["seven", "seven", "eight", "text", "any", "shipped"] {
        of.push(house.start(flow).await);
    }
    house.drain().await;
    let none = send(&house.engine, &paid("e0", json!({"order": 7, "till": 1}))).await.unwrap();
    assert_eq!(none.reception, EventReception::Kept, "a member that nobody has");
    let received = send(&house.engine, &paid("e1", json!({"order": 7.0}))).await.unwrap();
    assert_eq!(runs(&received), [of[0].run.as_str(), of[1].run.as_str()]);
    let received = send(&house.engine, &paid("e2", json!({}))).await.unwrap();
    assert_eq!(runs(&received), [of[4].run.as_str()], "without a correlation it is for who has none");
    let received = send(&house.engine, &paid("e3", json!({"shop": "north"}))).await.unwrap();
    assert_eq!(runs(&received), [of[2].run.as_str(), of[3].run.as_str()]);
    assert_eq!(house.status(&of[5]).await, "waiting-external");
}

async fn of_several_members_the_rare_one_finds_who_waits(house: House) {
    for order in 0..300 {
        let id = format!("flow-{order}");
        house.register(waiting(&id, json!({"order": order, "shop": "north", "by": "card"}))).await;
        house.start(&id).await;
    }
    let event = paid("e1", json!({"shop": "north", "by": "card", "order": 299}));
    let received = send(&house.engine, &event).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (1, false));
    let event = paid("e2", json!({"shop": "north", "by": "cash", "order": 1}));
    assert_eq!(send(&house.engine, &event).await.unwrap().reception, EventReception::Kept);
    // More of them than are read in one go, under every topic.
    let received = send(&house.engine, &paid("e3", json!({"shop": "north", "by": "card"}))).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (100, true));
}

async fn an_event_finds_one_among_very_many_with_a_few_looks(house: House) {
    house.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let of = house.start("flow").await;
    house.drain().await;
    let [common] = &paid("e0", json!({"shop": "north"})).topics()[..] else {
        panic!("one member, one topic")
    };
    let many = format!(
        "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 50000)
        SELECT 'default', '{common}', '0-' || n, 1, '{common} ffff', NULL FROM numbers"
    );
    house.place.execute(&many).await.unwrap();
    let trips = || house.engine.counters().round_trips.load(std::sync::atomic::Ordering::SeqCst);
    let before = trips();
    let event = paid("e1", json!({"shop": "north", "order": 7}));
    assert_eq!(runs(&send(&house.engine, &event).await.unwrap()), [of.run.as_str()]);
    // Writing it down, two lists, the run, the commit; without those 50,000 it is the same.
    assert!(trips() - before <= 16, "{} round trips", trips() - before);
    assert_eq!(house.status(&of).await, "completed");
}

async fn one_run_may_wait_for_one_event_in_several_places(house: House) {
    let wait = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {"order": 7}}});
    let boxes = [node("left", "core.interrupt", wait.clone()), node("right", "core.interrupt", wait)];
    house.register(graph("both", &boxes, &[])).await;
    let of = house.start("both").await;
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    let mut nodes: Vec<_> = received.matched.iter().map(|taker| taker.node.as_str()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["left", "right"]);
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_family_that_waits_for_one_event_goes_on_in_one_commit(house: House) {
    house.register(waiting("child", json!({"order": 7}))).await;
    let wait = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {"order": 7}}});
    let call = |id: &str| {
        let call = json!({"workflowId": "child", "waitForCompletion": true});
        node(id, "core.subWorkflow", call)
    };
    let boxes = [call("one"), call("two"), node("wait", "core.interrupt", wait)];
    house.register(graph("parent", &boxes, &[])).await;
    let of = house.start("parent").await;
    house.drain().await;
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(received.matched.len(), 3, "two children and their parent");
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!((count(&house, "awaited").await, house.drain().await), (0, 0));
}

async fn what_the_schema_refuses_stays_waiting_and_is_named(house: House) {
    let data = json!({"eventType": "paid", "correlation": {"order": 7}});
    let closed = json!({"type": "object", "additionalProperties": false,
        "properties": {"eventPayload": {"type": "object", "required": ["receipt"]}}});
    house.register(waiting_with("picky", json!({"data": data, "resumeSchema": closed}))).await;
    house.register(waiting("easy", json!({"order": 7}))).await;
    let (picky, easy) = (house.start("picky").await, house.start("easy").await);
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(runs(&received), [easy.run.as_str()]);
    let refused = &received.refused[0];
    assert_eq!((&refused.by.run, refused.code.as_str()), (&picky.run, "validation_error"));
    assert!(refused.message.starts_with("resumeValue/eventPayload"), "{}", refused.message);
    assert_eq!(house.status(&picky).await, "waiting-external");
    let contrary = ExternalEvent { payload: json!({"order": 8}), ..paid("e2", json!({"order": 7})) };
    let received = send(&house.engine, &contrary).await.unwrap();
    assert_eq!(received.refused[0].code, "correlation_mismatch");
    assert_eq!(received.reception, EventReception::Kept, "somebody else may want it");
    let right = ExternalEvent { payload: json!({"receipt": "r"}), ..paid("e3", json!({"order": 7})) };
    assert_eq!(runs(&send(&house.engine, &right).await.unwrap()), [picky.run.as_str()]);
}

async fn an_event_resolves_no_more_than_it_may_and_says_so(house: House) {
    house.register(waiting("flow", json!({"order": 7}))).await;
    let mut of = Vec::new();
    for _ in 0..103 {
        of.push(house.start("flow").await);
    }
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (100, true));
    let oldest: Vec<_> = of[..100].iter().map(|of| of.run.to_string()).collect();
    assert_eq!(runs(&received), oldest);
    let received = send(&house.engine, &paid("e2", json!({"order": 7}))).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (3, false));
}

async fn the_rows_of_what_waits_go_with_it(house: House) {
    let data = json!({"eventType": "paid", "correlation": {"order": 7, "shop": "north"}});
    house.register(waiting_with("flow", json!({"data": data, "timeoutMs": 1000}))).await;
    let (cancelled, answered, late) =
        (house.start("flow").await, house.start("flow").await, house.start("flow").await);
    assert_eq!(count(&house, "awaited").await, 6);
    house.engine.cancel(&cancelled, None, crate::house::alice()).await.unwrap();
    assert_eq!(count(&house, "awaited").await, 4);
    house.answer(&answered, "wait", json!({"order": 7, "more": true})).await.unwrap();
    assert_eq!(house.status(&answered).await, "completed", "a run may be answered by its name, as ever");
    house.clock.advance(1000);
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(received.reception, EventReception::Kept, "what is too late gets nothing");
    house.drain().await;
    assert_eq!(house.status(&late).await, "failed");
    assert_eq!(count(&house, "awaited").await, 0);
}

async fn a_branch_waits_for_itself(house: House) {
    house.register(waiting("flow", json!({"order": 7}))).await;
    let of = house.start("flow").await;
    let seq = house.run(&of).await.seq;
    house.drain().await;
    let branch = || ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Branch,
        from_seq: seq,
        overlay: Overlay::default(),
        once: None,
    };
    let copy = house.engine.fork(&of, branch()).await.unwrap();
    assert_eq!(count(&house, "awaited").await, 2);
    let received = send(&house.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    let mut expected = [of.run.to_string(), copy.id.to_string()];
    expected.sort_unstable();
    assert_eq!(runs(&received), expected);
    send(&house.engine, &paid("e2", json!({"order": 7}))).await.unwrap();
    let copy = house.engine.fork(&of, branch()).await.unwrap();
    house.drain().await;
    let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
    assert_eq!(house.status(&copy).await, "completed", "an event that was kept is found by a copy, too");
}

async fn waits_of_an_older_version_are_found(house: House) {
    house.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let (one, other) = (house.start("flow").await, house.start("flow").await);
    house.drain().await;
    // As the migration leaves it.
    let older =
        "DELETE FROM awaited; INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
        SELECT tenant_id, '', run_id, interrupt_id, '', 0 FROM pending WHERE kind = 'external-event'";
    house.place.execute(older).await.unwrap();
    house.engine.cancel(&other, None, crate::house::alice()).await.unwrap();
    let event = paid("e1", json!({"shop": "north"}));
    assert_eq!(send(&house.engine, &event).await.unwrap().reception, EventReception::Kept);
    house.drain().await;
    assert_eq!(house.status(&one).await, "completed");
    assert_eq!((count(&house, "awaited").await, house.drain().await), (0, 0));
}

async fn a_tenant_gets_only_its_own_events(house: House) {
    house.register(waiting("flow", json!({"order": 7}))).await;
    let of = house.start("flow").await;
    let other = holdpoint_engine::core::TenantId::parse("other").unwrap();
    let event = paid("e1", json!({"order": 7}));
    let received = house.engine.receive(&other, &event, &Principal::named("shop")).await.unwrap();
    assert_eq!(received.reception, EventReception::Kept);
    house.drain().await;
    assert_eq!(house.status(&of).await, "waiting-external");
    assert!(!send(&house.engine, &event).await.unwrap().repeated, "ids of others are others");
    assert_eq!(house.status(&of).await, "completed");
}
