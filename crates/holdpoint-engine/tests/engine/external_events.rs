//! External events: the interrupts that receive them, their order, and the response to their senders.

use holdpoint_engine::core::{Event, ExternalEvent, ForkMode, NodeId, Principal, RunRef};
use holdpoint_engine::{Engine, Error, EventOutcome, EventReception, ForkRequest, Overlay};
use serde_json::{Value, json};

use crate::test_database::on_both;
use crate::test_env::{TestEnv, graph, line, node, tenant};

on_both! {
    an_event_continues_the_run_that_waits_for_it,
    an_event_reaches_all_matching_interrupts_and_no_others,
    an_event_is_matched_by_its_most_selective_member,
    an_event_finds_one_interrupt_among_many_in_few_round_trips,
    one_run_can_wait_for_one_event_in_several_nodes,
    one_event_continues_a_parent_and_its_child_runs,
    an_interrupt_that_rejects_the_event_stays_open_and_is_reported,
    an_event_resolves_a_limited_number_of_interrupts_and_reports_more,
    the_rows_of_an_interrupt_are_deleted_when_it_closes,
    a_branch_waits_for_its_own_event,
    interrupts_of_an_older_version_are_found,
    a_tenant_gets_only_its_own_events,
}

pub(crate) fn waiting(id: &str, correlation: Value) -> Value {
    waiting_with(id, json!({"data": {"eventType": "paid", "correlation": correlation}}))
}

/// A workflow with a node that waits for an event and a node after it.
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

pub(crate) async fn send(engine: &Engine, event: &ExternalEvent) -> Result<EventOutcome, Error> {
    engine.events().receive(&tenant(), event, &Principal::named("shop")).await
}

pub(crate) fn runs(received: &EventOutcome) -> Vec<String> {
    received.matched.iter().map(|matched| matched.run.to_string()).collect()
}

pub(crate) async fn count(env: &TestEnv, table: &str) -> usize {
    env.database.read(&format!("SELECT * FROM {table}")).await.len()
}

pub(crate) async fn resolution(env: &TestEnv, of: &RunRef, node: &str) -> Value {
    let run = env.run(of).await;
    let id = run.interrupt_of_node(&NodeId::parse(node).unwrap()).unwrap().id;
    let log = env.engine.events().list(of, 0).await.unwrap();
    let found = log.iter().find_map(|one| match &one.event {
        Event::InterruptResolved { id: resolved, value, by, .. } if *resolved == id => {
            Some(json!({"value": value, "by": by}))
        }
        _ => None,
    });
    found.unwrap_or(Value::Null)
}

async fn an_event_continues_the_run_that_waits_for_it(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let of = env.start("flow").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "waiting-external");
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(received.reception, EventReception::Matched);
    let matched = &received.matched[0];
    assert_eq!((&matched.run, matched.node.as_str(), matched.interrupt.0), (&of.run, "wait", 1));
    assert_eq!(env.status(&of).await, "completed", "in the same commit");
    let expected = json!({"value": {"eventPayload": {"amount": 3}, "eventId": "e1"}, "by": "shop"});
    assert_eq!(resolution(&env, &of, "wait").await, expected);
    assert_eq!((count(&env, "awaited").await, env.drain().await), (0, 0));
}

async fn an_event_reaches_all_matching_interrupts_and_no_others(env: TestEnv) {
    env.register(waiting("seven", json!({"order": 7, "shop": "north"}))).await;
    env.register(waiting("eight", json!({"order": 8, "shop": "north"}))).await;
    env.register(waiting("text", json!({"order": "7", "shop": "north"}))).await;
    env.register(waiting("any", json!({}))).await;
    let shipped = json!({"data": {"eventType": "shipped", "correlation": {"order": 7}}});
    env.register(waiting_with("shipped", shipped)).await;
    let mut of = Vec::new();
    for flow in ["seven", "seven", "eight", "text", "any", "shipped"] {
        of.push(env.start(flow).await);
    }
    env.drain().await;
    let none = send(&env.engine, &paid("e0", json!({"order": 7, "till": 1}))).await.unwrap();
    assert_eq!(none.reception, EventReception::Kept, "no interrupt has the member till");
    let received = send(&env.engine, &paid("e1", json!({"order": 7.0}))).await.unwrap();
    assert_eq!(runs(&received), [of[0].run.as_str(), of[1].run.as_str()]);
    let received = send(&env.engine, &paid("e2", json!({}))).await.unwrap();
    assert_eq!(
        runs(&received),
        [of[4].run.as_str()],
        "an event without a correlation matches interrupts without one"
    );
    let received = send(&env.engine, &paid("e3", json!({"shop": "north"}))).await.unwrap();
    assert_eq!(runs(&received), [of[2].run.as_str(), of[3].run.as_str()]);
    assert_eq!(env.status(&of[5]).await, "waiting-external");
}

async fn an_event_is_matched_by_its_most_selective_member(env: TestEnv) {
    for order in 0..300 {
        let id = format!("flow-{order}");
        env.register(waiting(&id, json!({"order": order, "shop": "north", "by": "card"}))).await;
        env.start(&id).await;
    }
    let event = paid("e1", json!({"shop": "north", "by": "card", "order": 299}));
    let received = send(&env.engine, &event).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (1, false));
    let event = paid("e2", json!({"shop": "north", "by": "cash", "order": 1}));
    assert_eq!(send(&env.engine, &event).await.unwrap().reception, EventReception::Kept);
    // More interrupts than one read returns, under every topic.
    let received = send(&env.engine, &paid("e3", json!({"shop": "north", "by": "card"}))).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (100, true));
}

async fn an_event_finds_one_interrupt_among_many_in_few_round_trips(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let of = env.start("flow").await;
    env.drain().await;
    let [common] = &paid("e0", json!({"shop": "north"})).topics()[..] else {
        panic!("one member has one topic")
    };
    let many = format!(
        "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 50000)
        SELECT 'default', '{common}', '0-' || n, 1, '{common} ffff', NULL FROM numbers"
    );
    env.database.execute(&many).await.unwrap();
    let trips = || env.engine.counters().round_trips.load(std::sync::atomic::Ordering::SeqCst);
    let before = trips();
    let event = paid("e1", json!({"shop": "north", "order": 7}));
    assert_eq!(runs(&send(&env.engine, &event).await.unwrap()), [of.run.as_str()]);
    // The record of the event, two lists, the run and the commit. The 50,000 rows add no round trip.
    assert!(trips() - before <= 16, "{} round trips", trips() - before);
    assert_eq!(env.status(&of).await, "completed");
}

async fn one_run_can_wait_for_one_event_in_several_nodes(env: TestEnv) {
    let wait = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {"order": 7}}});
    let nodes = [node("left", "core.interrupt", wait.clone()), node("right", "core.interrupt", wait)];
    env.register(graph("both", &nodes, &[])).await;
    let of = env.start("both").await;
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    let mut matched: Vec<_> = received.matched.iter().map(|matched| matched.node.as_str()).collect();
    matched.sort_unstable();
    assert_eq!(matched, ["left", "right"]);
    assert_eq!(env.status(&of).await, "completed");
}

async fn one_event_continues_a_parent_and_its_child_runs(env: TestEnv) {
    env.register(waiting("child", json!({"order": 7}))).await;
    let wait = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {"order": 7}}});
    let call = |id: &str| {
        let call = json!({"workflowId": "child", "waitForCompletion": true});
        node(id, "core.subWorkflow", call)
    };
    let nodes = [call("one"), call("two"), node("wait", "core.interrupt", wait)];
    env.register(graph("parent", &nodes, &[])).await;
    let of = env.start("parent").await;
    env.drain().await;
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(received.matched.len(), 3, "two children and their parent");
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!((count(&env, "awaited").await, env.drain().await), (0, 0));
}

async fn an_interrupt_that_rejects_the_event_stays_open_and_is_reported(env: TestEnv) {
    let data = json!({"eventType": "paid", "correlation": {"order": 7}});
    let closed = json!({"type": "object", "additionalProperties": false,
        "properties": {"eventPayload": {"type": "object", "required": ["receipt"]}}});
    env.register(waiting_with("picky", json!({"data": data, "resumeSchema": closed}))).await;
    env.register(waiting("easy", json!({"order": 7}))).await;
    let (picky, easy) = (env.start("picky").await, env.start("easy").await);
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(runs(&received), [easy.run.as_str()]);
    let refused = &received.refused[0];
    assert_eq!((&refused.by.run, refused.code.as_str()), (&picky.run, "validation_error"));
    assert!(refused.message.starts_with("resumeValue/eventPayload"), "{}", refused.message);
    assert_eq!(env.status(&picky).await, "waiting-external");
    let contrary = ExternalEvent { payload: json!({"order": 8}), ..paid("e2", json!({"order": 7})) };
    let received = send(&env.engine, &contrary).await.unwrap();
    assert_eq!(received.refused[0].code, "correlation_mismatch");
    assert_eq!(received.reception, EventReception::Kept, "another interrupt can use it");
    let right = ExternalEvent { payload: json!({"receipt": "r"}), ..paid("e3", json!({"order": 7})) };
    assert_eq!(runs(&send(&env.engine, &right).await.unwrap()), [picky.run.as_str()]);
}

async fn an_event_resolves_a_limited_number_of_interrupts_and_reports_more(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7}))).await;
    let mut of = Vec::new();
    for _ in 0..103 {
        of.push(env.start("flow").await);
    }
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (100, true));
    let oldest: Vec<_> = of[..100].iter().map(|of| of.run.to_string()).collect();
    assert_eq!(runs(&received), oldest);
    let received = send(&env.engine, &paid("e2", json!({"order": 7}))).await.unwrap();
    assert_eq!((received.matched.len(), received.more), (3, false));
}

async fn the_rows_of_an_interrupt_are_deleted_when_it_closes(env: TestEnv) {
    let data = json!({"eventType": "paid", "correlation": {"order": 7, "shop": "north"}});
    env.register(waiting_with("flow", json!({"data": data, "timeoutMs": 1000}))).await;
    let (cancelled, answered, late) =
        (env.start("flow").await, env.start("flow").await, env.start("flow").await);
    assert_eq!(count(&env, "awaited").await, 6);
    env.engine.runs().cancel(&cancelled, None, crate::test_env::alice()).await.unwrap();
    assert_eq!(count(&env, "awaited").await, 4);
    env.answer(&answered, "wait", json!({"order": 7, "more": true})).await.unwrap();
    assert_eq!(env.status(&answered).await, "completed", "the interrupt can be answered directly");
    env.clock.advance(1000);
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    assert_eq!(received.reception, EventReception::Kept, "an expired interrupt gets no event");
    env.drain().await;
    assert_eq!(env.status(&late).await, "failed");
    assert_eq!(count(&env, "awaited").await, 0);
}

async fn a_branch_waits_for_its_own_event(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7}))).await;
    let of = env.start("flow").await;
    let seq = env.run(&of).await.seq;
    env.drain().await;
    let branch = || ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Branch,
        from_seq: seq,
        overlay: Overlay::default(),
        once: None,
    };
    let copy = env.engine.runs().fork(&of, branch()).await.unwrap();
    assert_eq!(count(&env, "awaited").await, 2);
    let received = send(&env.engine, &paid("e1", json!({"order": 7}))).await.unwrap();
    let mut expected = [of.run.to_string(), copy.id.to_string()];
    expected.sort_unstable();
    assert_eq!(runs(&received), expected);
    send(&env.engine, &paid("e2", json!({"order": 7}))).await.unwrap();
    let copy = env.engine.runs().fork(&of, branch()).await.unwrap();
    env.drain().await;
    let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
    assert_eq!(env.status(&copy).await, "completed", "a copy finds a kept event");
}

async fn interrupts_of_an_older_version_are_found(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7, "shop": "north"}))).await;
    let (one, other) = (env.start("flow").await, env.start("flow").await);
    env.drain().await;
    // The rows as the migration writes them.
    let older =
        "DELETE FROM awaited; INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
        SELECT tenant_id, '', run_id, interrupt_id, '', 0 FROM pending WHERE kind = 'external-event'";
    env.database.execute(older).await.unwrap();
    env.engine.runs().cancel(&other, None, crate::test_env::alice()).await.unwrap();
    let event = paid("e1", json!({"shop": "north"}));
    assert_eq!(send(&env.engine, &event).await.unwrap().reception, EventReception::Kept);
    env.drain().await;
    assert_eq!(env.status(&one).await, "completed");
    assert_eq!((count(&env, "awaited").await, env.drain().await), (0, 0));
}

async fn a_tenant_gets_only_its_own_events(env: TestEnv) {
    env.register(waiting("flow", json!({"order": 7}))).await;
    let of = env.start("flow").await;
    let other = holdpoint_engine::core::TenantId::parse("other").unwrap();
    let event = paid("e1", json!({"order": 7}));
    let received = env.engine.events().receive(&other, &event, &Principal::named("shop")).await.unwrap();
    assert_eq!(received.reception, EventReception::Kept);
    env.drain().await;
    assert_eq!(env.status(&of).await, "waiting-external");
    assert!(!send(&env.engine, &event).await.unwrap().repeated, "event ids are separate for each tenant");
    assert_eq!(env.status(&of).await, "completed");
}
