//! Event triggers: an event starts one run for each trigger that matches it, and answers no approval.

use holdpoint_engine::core::trigger::{TriggerSource, TriggerSpec};
use holdpoint_engine::core::{ExternalEvent, Principal, RunRef};
use holdpoint_engine::{EventOutcome, EventReception, NewTrigger};
use serde_json::{Value, json};

use super::{gate, mapped, on_event, quick};
use crate::external_events::waiting;
use crate::test_database::on_both;
use crate::test_env::{TestEnv, tenant};

on_both! {
    an_event_starts_one_run_and_a_repetition_none,
    only_events_that_match_the_filter_start_runs,
    an_event_resolves_an_interrupt_and_starts_a_run,
    an_event_starts_a_run_for_each_trigger,
    a_triggered_event_resolves_no_approval,
    the_sender_of_an_event_is_a_requester,
    an_event_of_another_tenant_starts_nothing,
    an_event_during_a_pause_starts_nothing,
    an_event_whose_receiver_stopped_starts_one_run,
}

fn event(id: &str, payload: Value) -> ExternalEvent {
    let correlation = json!({"order": 7}).as_object().cloned().unwrap();
    ExternalEvent { event_type: "paid".to_owned(), event_id: id.to_owned(), correlation, payload }
}

impl TestEnv {
    async fn receive(&self, event: &ExternalEvent) -> EventOutcome {
        self.engine.events().receive(&tenant(), event, &Principal::named("shop")).await.unwrap()
    }
}

async fn an_event_starts_one_run_and_a_repetition_none(env: TestEnv) {
    env.register(quick("quick")).await;
    let mapping = json!({"id": {"$from": "/eventId"}, "amount": {"$from": "/payload/amount"}});
    let trigger = env.add_trigger(mapped(on_event("quick", "paid"), mapping)).await;
    let sent = event("e1", json!({"amount": 30}));
    let first = env.receive(&sent).await;
    env.drain().await;
    let again = env.receive(&sent).await;
    env.drain().await;
    assert_eq!(again, EventOutcome { repeated: true, ..first.clone() });
    let runs = env.all_runs().await;
    assert_eq!(runs.len(), 1);
    let started = runs[0].started.as_ref().unwrap();
    assert_eq!(Value::from(started.inputs.clone()), json!({"id": "e1", "amount": 30}));
    let [triggered] = &first.triggered[..] else { panic!("one trigger matches") };
    assert_eq!((&triggered.run, &triggered.trigger), (&runs[0].id, &trigger.id));
    assert_eq!(started.trigger.as_ref().unwrap().delivery, triggered.delivery);
    // After more than a day, the id is forgotten. The same event is a new one.
    env.clock.advance(25 * 3_600_000);
    let later = env.receive(&sent).await;
    env.drain().await;
    assert!(!later.repeated);
    assert_eq!(env.all_runs().await.len(), 2);
}

async fn only_events_that_match_the_filter_start_runs(env: TestEnv) {
    env.register(quick("quick")).await;
    let new = on_event("quick", "paid");
    let source = TriggerSource::Event {
        event_type: "paid".to_owned(),
        correlation: json!({"order": 7.0}).as_object().cloned().unwrap(),
        payload: json!({"/state": "done", "/lines/0/n": 1}).as_object().cloned().unwrap(),
    };
    env.add_trigger(NewTrigger { spec: TriggerSpec { source, ..new.spec }, ..new }).await;
    let fits = json!({"state": "done", "lines": [{"n": 1}], "more": true});
    let mut other_type = event("e0", fits.clone());
    other_type.event_type = "refunded".to_owned();
    let mut other_order = event("e1", fits.clone());
    other_order.correlation = json!({"order": 8}).as_object().cloned().unwrap();
    let wrong = [other_type, other_order, event("e2", json!({"state": "done"})), event("e3", Value::Null)];
    for event in &wrong {
        assert_eq!(env.receive(event).await.triggered, []);
    }
    assert_eq!(env.receive(&event("e4", fits)).await.triggered.len(), 1);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1);
}

async fn an_event_resolves_an_interrupt_and_starts_a_run(env: TestEnv) {
    env.register(quick("quick")).await;
    env.register(waiting("flow", json!({"order": 7}))).await;
    let waits = env.start("flow").await;
    env.add_trigger(on_event("quick", "paid")).await;
    let received = env.receive(&event("e1", json!(1))).await;
    assert_eq!((received.reception, received.matched.len()), (EventReception::Matched, 1));
    assert_eq!(received.triggered.len(), 1);
    env.drain().await;
    assert_eq!(env.status(&waits).await, "completed");
    assert_eq!(env.all_runs().await.len(), 2);
}

async fn an_event_starts_a_run_for_each_trigger(env: TestEnv) {
    env.register(quick("quick")).await;
    for _ in 0..3 {
        env.add_trigger(on_event("quick", "paid")).await;
    }
    assert_eq!(env.receive(&event("e1", json!(1))).await.triggered.len(), 3);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 3);
}

async fn a_triggered_event_resolves_no_approval(env: TestEnv) {
    env.register(gate()).await;
    env.add_trigger(on_event("gated", "paid")).await;
    let waiting = env.start("gated").await;
    for (number, payload) in [
        json!({"action": "accept"}),
        json!({"runId": waiting.run.as_str(), "nodeId": "gate", "value": {"action": "accept"}}),
    ]
    .into_iter()
    .enumerate()
    {
        let received = env.receive(&event(&format!("e{number}"), payload)).await;
        assert_eq!((received.matched.len(), received.triggered.len()), (0, 1));
        env.drain().await;
    }
    let statuses = env.all_runs().await.iter().map(|run| run.status().as_str()).collect::<Vec<_>>();
    assert_eq!(statuses, ["waiting-approval"; 3], "also the runs that the events started");
}

async fn the_sender_of_an_event_is_a_requester(env: TestEnv) {
    env.register(gate()).await;
    env.add_trigger(on_event("gated", "paid")).await;
    env.receive(&event("e1", json!(1))).await;
    env.drain().await;
    let run = &env.all_runs().await[0];
    assert_eq!(run.requesters(), ["ann", "shop"]);
}

async fn an_event_of_another_tenant_starts_nothing(env: TestEnv) {
    env.register(quick("quick")).await;
    env.add_trigger(on_event("quick", "paid")).await;
    let other = holdpoint_engine::core::TenantId::parse("other").unwrap();
    let sender = Principal::named("shop");
    let received = env.engine.events().receive(&other, &event("e1", json!(1)), &sender).await.unwrap();
    assert_eq!(received.triggered, []);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
}

async fn an_event_during_a_pause_starts_nothing(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger = env.add_trigger(on_event("quick", "paid")).await;
    env.engine.triggers().pause(&tenant(), &trigger.id, None).await.unwrap();
    assert_eq!(env.receive(&event("e1", json!(1))).await.triggered, []);
    env.engine.triggers().resume(&tenant(), &trigger.id, None, None).await.unwrap();
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
}

async fn an_event_whose_receiver_stopped_starts_one_run(env: TestEnv) {
    env.register(quick("quick")).await;
    env.add_trigger(on_event("quick", "paid")).await;
    // The first commit of the reception stores the event. The second one, with the delivery, is lost.
    let fault = holdpoint_engine::CommitFault::StopBefore(2);
    let env = env.reopen(crate::test_env::with_fault(fault)).await;
    let stopped =
        env.engine.events().receive(&tenant(), &event("e1", json!(1)), &Principal::named("shop")).await;
    assert!(stopped.is_err());
    let env = env.reopen(|options| options).await;
    env.clock.advance(10_000);
    env.drain().await;
    let runs = env.all_runs().await;
    assert_eq!(runs.len(), 1);
    let repeated = env.receive(&event("e1", json!(1))).await;
    assert_eq!(repeated.triggered[0].run, runs[0].id);
    assert_eq!(env.status(&RunRef { tenant: tenant(), run: runs[0].id.clone() }).await, "completed");
}
