//! Test of two workers that find the same event: the commit decides which one uses it.

use holdpoint_core::{ExternalEvent, Owner, Principal, StartRequest, TenantId, WorkflowId};
use serde_json::json;

use super::matching::{OfferOutcome, RunDrafts};
use crate::committer::{ArrivalCause, Precondition};
use crate::engine::{CommitOutcome, Engine, Options};
use crate::location::Location;
use crate::store::arrivals::{ArrivalKey, ArrivalState};
use crate::store::awaited;

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_two_workers_found_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine =
        Engine::open(Options::new(Location::Sqlite(folder.path().join("db"))).manual_worker()).await.unwrap();
    let (tenant, by) = (TenantId::parse("default").unwrap(), Principal::named("shop"));
    let config = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {}}});
    let node = json!({"id": "wait", "typeId": "core.interrupt", "name": "wait", "config": config, "inputs": {},
        "position": {"x": 0, "y": 0}});
    let flow = json!({"id": "flow", "name": "flow", "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {}});
    engine.workflows().register(&tenant, flow).await.unwrap();
    let event = ExternalEvent {
        event_type: "paid".to_owned(),
        event_id: "e1".to_owned(),
        correlation: serde_json::Map::new(),
        payload: json!(1),
    };
    engine.events().receive(&tenant, &event, &by).await.unwrap();
    let owner = Owner { tenant: tenant.clone(), principal: "tester".to_owned() };
    for _ in 0..2 {
        engine
            .runs()
            .create(&WorkflowId::parse("flow").unwrap(), StartRequest::new(owner.clone()))
            .await
            .unwrap();
    }
    let key = ArrivalKey { tenant, event_id: "e1".to_owned() };
    let mut found = Vec::new();
    for wait in awaited::due(engine.db(), engine.now(), 10).await.unwrap() {
        let mut drafts = RunDrafts::new();
        let outcome = engine.offer_event(&mut drafts, &wait.of, wait.id, &event, &by).await.unwrap();
        assert!(matches!(outcome, OfferOutcome::Accepted(_)), "both accept the event");
        found.push(drafts);
    }
    let mut outcomes = Vec::new();
    for drafts in found {
        let cause = ArrivalCause { key: key.clone(), state: ArrivalState::Kept, outcome: String::new() };
        outcomes.push(engine.commit_delivery(cause, drafts, Vec::new()).await.unwrap());
    }
    assert_eq!(outcomes, [CommitOutcome::Written, CommitOutcome::Conflict(Precondition::Arrival)]);
    engine.close().await;
}
