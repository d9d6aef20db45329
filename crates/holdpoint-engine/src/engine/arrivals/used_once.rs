//! Two who found the same event: the commit decides, whatever they saw before.

use holdpoint_core::{ExternalEvent, Owner, Principal, Start, TenantId, WorkflowId};
use serde_json::json;

use super::matching::{Drafts, Verdict};
use crate::committer::Guard;
use crate::engine::{Engine, Options};
use crate::location::Location;
use crate::store::arrivals::{Key, State};
use crate::store::awaited;

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_found_one_event_the_second_gets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(Options::new(Location::Sqlite(folder.path().join("db")))).await.unwrap();
    let (tenant, by) = (TenantId::parse("default").unwrap(), Principal::named("shop"));
    let config = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {}}});
    let node = json!({"id": "wait", "typeId": "core.interrupt", "name": "wait", "config": config, "inputs": {},
        "position": {"x": 0, "y": 0}});
    let flow = json!({"id": "flow", "name": "flow", "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {}});
    engine.register(&tenant, flow).await.unwrap();
    let event = ExternalEvent {
        event_type: "paid".to_owned(),
        event_id: "e1".to_owned(),
        correlation: serde_json::Map::new(),
        payload: json!(1),
    };
    engine.receive(&tenant, &event, &by).await.unwrap();
    let owner = Owner { tenant: tenant.clone(), principal: "tester".to_owned() };
    for _ in 0..2 {
        engine.start(&WorkflowId::parse("flow").unwrap(), Start::new(owner.clone())).await.unwrap();
    }
    let key = Key { tenant, event_id: "e1".to_owned() };
    let mut found = Vec::new();
    for wait in awaited::to_look(engine.db(), engine.now(), 10).await.unwrap() {
        let mut drafts = Drafts::new();
        let verdict = engine.offer(&mut drafts, &wait.of, wait.id, (&event, &by)).await.unwrap();
        assert!(matches!(verdict, Verdict::Takes(_)), "both would take it");
        found.push(drafts);
    }
    let mut guards = Vec::new();
    for drafts in found {
        guards.push(engine.give(&key, State::Kept, String::new(), drafts).await.unwrap());
    }
    assert_eq!(guards, [None, Some(Guard::Arrival)]);
    engine.close().await;
}
