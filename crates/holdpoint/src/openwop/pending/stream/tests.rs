//! A thousand who watch cost what one costs, and leave nothing behind.

use std::sync::Arc;

use holdpoint_core::{Owner, Start, TenantId, WorkflowId};
use holdpoint_engine::{Engine, Location, Options};
use serde_json::{Value, json};

use super::*;
use crate::app::Shared;
use crate::auth::stored_key;

const WATCHERS: usize = 1000;

struct House {
    app: App,
    caller: Caller,
    tenant: TenantId,
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

async fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    let engine = Engine::open(Options::new(location)).await.unwrap();
    let tenant = TenantId::parse("default").unwrap();
    let gate = json!({"id": "gate", "typeId": "core.approvalGate", "name": "gate", "position": {"x": 0, "y": 0}, "config": {"title": "Go on?"}, "inputs": {}});
    let definition = json!({
        "id": "gated", "name": "gated", "version": "1", "nodes": [gate], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    engine.register(&tenant, definition).await.unwrap();
    let key = stored_key("secret", tenant.clone(), engine.now()).unwrap();
    let (stop, stopping) = watch::channel(false);
    let app = Arc::new(Shared::new(engine, stopping));
    House { app, caller: Caller(Arc::new(key), None), tenant, _stop: stop, _folder: folder }
}

impl House {
    async fn begin(&self) {
        let owner = Owner { tenant: self.tenant.clone(), principal: "ann".to_owned() };
        let workflow = WorkflowId::parse("gated").unwrap();
        self.app.engine.start(&workflow, Start::new(owner)).await.unwrap();
    }

    fn watch(&self) -> Frames {
        let counts = join(&self.app, self.caller.clone(), ListPending::default());
        Frames { counts, stopping: self.app.stopping.clone(), ends: Instant::now() + Duration::from_secs(60) }
    }
}

/// The next total that is told.
async fn total(frames: &mut Frames) -> u64 {
    let frame = frames.next().await.unwrap();
    let text = std::str::from_utf8(&frame).unwrap();
    let data = text.strip_prefix("event: counts\ndata: ").unwrap();
    serde_json::from_str::<Value>(data).unwrap()["total"].as_u64().unwrap()
}

#[tokio::test]
async fn a_thousand_who_watch_the_same_cost_one_count() {
    let house = house().await;
    let mut watchers: Vec<Frames> = (0..WATCHERS).map(|_| house.watch()).collect();
    for frames in &mut watchers {
        assert_eq!(total(frames).await, 0);
    }
    house.begin().await;
    for frames in &mut watchers {
        assert_eq!(total(frames).await, 1);
    }
    let counted = house.app.watches.counted.load(Ordering::Relaxed);
    assert!(counted <= 3, "{counted} counts for one change");
    let mut late = house.watch();
    assert_eq!(total(&mut late).await, 1, "what is known is told at once");
}

#[tokio::test]
async fn those_who_have_gone_leave_nothing_behind() {
    let house = house().await;
    let mut frames = house.watch();
    total(&mut frames).await;
    let known = || house.app.watches.by_key.lock().unwrap().values().cloned().collect::<Vec<_>>();
    let sender = Arc::downgrade(&known()[0]);
    drop(frames);
    // The task that counts has the last one.
    while sender.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(known().is_empty());
}
