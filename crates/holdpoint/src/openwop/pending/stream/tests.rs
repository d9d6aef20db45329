//! Tests of shared counts: many subscribers of a filter cost one query and leave no task behind.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use holdpoint_core::{Owner, StartRequest, TenantId, WorkflowId};
use holdpoint_engine::{Engine, Location, Options};
use serde_json::{Value, json};

use super::*;
use crate::app::AppState;
use crate::auth::stored_key;

const WATCHERS: usize = 1000;

struct PendingFixture {
    app: App,
    caller: Caller,
    tenant: TenantId,
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

async fn fixture() -> PendingFixture {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    let engine =
        Engine::open(crate::extensions::add_default(Options::new(location).manual_worker())).await.unwrap();
    let tenant = TenantId::parse("default").unwrap();
    let gate = json!({"id": "gate", "typeId": "core.approvalGate", "name": "gate", "position": {"x": 0, "y": 0}, "config": {"title": "Go on?"}, "inputs": {}});
    let definition = json!({
        "id": "gated", "name": "gated", "version": "1", "nodes": [gate], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    engine.workflows().register(&tenant, definition).await.unwrap();
    let key = stored_key("secret", tenant.clone(), engine.now()).unwrap();
    let (stop, stopping) = watch::channel(false);
    let app = Arc::new(AppState::new(engine, stopping));
    PendingFixture { app, caller: Caller(Arc::new(key), None), tenant, _stop: stop, _folder: folder }
}

impl PendingFixture {
    async fn start_run(&self) {
        let owner = Owner { tenant: self.tenant.clone(), principal: "ann".to_owned() };
        let workflow = WorkflowId::parse("gated").unwrap();
        self.app.engine.runs().create(&workflow, StartRequest::new(owner)).await.unwrap();
    }

    fn watch(&self) -> BoxStream<'static, Bytes> {
        let counts = subscribe(&self.app, self.caller.clone(), ListPending::default());
        let (stopping, ends) = (self.app.stopping.clone(), Instant::now() + Duration::from_secs(60));
        CountFrames { counts, stopping, ends }.into_frames().boxed()
    }
}

/// Returns the total of the next frame.
async fn next_total(frames: &mut BoxStream<'static, Bytes>) -> u64 {
    let frame = frames.next().await.unwrap();
    let text = std::str::from_utf8(&frame).unwrap();
    let data = text.strip_prefix("event: counts\ndata: ").unwrap();
    serde_json::from_str::<Value>(data).unwrap()["total"].as_u64().unwrap()
}

#[tokio::test]
async fn a_thousand_subscribers_of_one_filter_cost_one_count() {
    let fixture = fixture().await;
    let mut watchers: Vec<_> = (0..WATCHERS).map(|_| fixture.watch()).collect();
    for frames in &mut watchers {
        assert_eq!(next_total(frames).await, 0);
    }
    fixture.start_run().await;
    for frames in &mut watchers {
        assert_eq!(next_total(frames).await, 1);
    }
    let counted = fixture.app.watches.counted.load(Ordering::Relaxed);
    assert!(counted <= 3, "{counted} counts for one change");
    let mut late = fixture.watch();
    assert_eq!(next_total(&mut late).await, 1, "a late subscriber gets the last counts at once");
}

#[tokio::test]
async fn counting_ends_when_the_last_subscriber_leaves() {
    let fixture = fixture().await;
    let mut frames = fixture.watch();
    next_total(&mut frames).await;
    let known = || fixture.app.watches.by_key.lock().unwrap().values().cloned().collect::<Vec<_>>();
    let sender = Arc::downgrade(&known()[0]);
    drop(frames);
    // The task that counts holds the last reference.
    while sender.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(known().is_empty());
}
