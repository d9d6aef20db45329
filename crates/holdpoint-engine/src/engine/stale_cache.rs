//! Tests with a cache that lags behind the store by a commit: a decision on an outdated run must not be final.

use std::collections::BTreeMap;

use holdpoint_core::{Answer, Command, Owner, Principal, RunRef, StartRequest, TenantId, WorkflowId};
use serde_json::{Value, json};

use super::{Engine, Options};
use crate::clock::Clock;
use crate::context::{EffectContext, Stop};
use crate::location::Location;
use crate::nodes::{Node, Outputs};

struct Quick;

impl Node for Quick {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}

/// Starts a run of a gate and then `last`, and answers the gate. The cache still has the run from before the answer.
async fn answer_with_stale_cache(engine: &Engine, last: Value) -> RunRef {
    let node = |id: &str, type_id: &str, config: &Value| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}});
    let (type_id, config) = (last["typeId"].as_str().unwrap(), &last["config"]);
    let definition = json!({
        "id": "flow", "name": "flow", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [node("gate", "core.approvalGate", &json!({})), node("last", type_id, config)],
        "edges": [{"id": "e", "sourceNodeId": "gate", "targetNodeId": "last"}],
    });
    let tenant = TenantId::parse("default").unwrap();
    engine.workflows().register(&tenant, definition).await.unwrap();
    let owner = Owner { tenant: tenant.clone(), principal: "tester".to_owned() };
    let start = StartRequest::new(owner);
    let old = engine.runs().create(&WorkflowId::parse("flow").unwrap(), start).await.unwrap();
    let of = RunRef { tenant, run: old.id.clone() };
    let by = Principal::named("alice");
    let answer = Answer::new(json!({"action": "accept"}), by);
    let answers = BTreeMap::from([(old.waiting_on().unwrap().id, answer)]);
    engine.runs().execute(&of, &Command::Resolve { answers }).await.unwrap();
    engine.0.cache.forget(&of);
    engine.0.cache.put(&of, old, 1);
    of
}

async fn engine(folder: &tempfile::TempDir) -> Engine {
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    let options = Options::new(location)
        .manual_worker()
        .clock(Clock::manual(1_800_000_000_000))
        .node("test.quick", Quick);
    Engine::open(options).await.unwrap()
}

#[tokio::test]
async fn a_timer_fires_if_the_cached_run_does_not_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let of = answer_with_stale_cache(&engine, json!({"typeId": "core.delay", "config": {"ms": 5}})).await;
    engine.clock().advance(5);
    assert_eq!(engine.worker().drain().await.unwrap(), 1);
    assert_eq!(engine.runs().get_stored(&of).await.unwrap().status().as_str(), "completed");
}

#[tokio::test]
async fn a_dispatch_is_executed_if_the_cached_run_does_not_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let of = answer_with_stale_cache(&engine, json!({"typeId": "test.quick", "config": {}})).await;
    assert_eq!(engine.worker().drain().await.unwrap(), 1);
    assert_eq!(engine.runs().get_stored(&of).await.unwrap().status().as_str(), "completed");
}
