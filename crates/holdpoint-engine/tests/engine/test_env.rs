//! The test environment: an engine with a manual clock in its own database, and helpers to start and answer runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_engine::core::{
    Answer, Command, Event, InterruptId, NodeId, Owner, Principal, Run, RunId, RunRef, StartRequest,
    TenantId, WorkflowId,
};
use holdpoint_engine::{Clock, CommitFault, Engine, Error, Location, Options, PendingCursor, SealKey};
use serde_json::{Value, json};

use crate::test_database::{Subject, TestDatabase};

pub(crate) const NOON: i64 = 1_800_000_000_000;

/// An engine with a manual clock in its own database.
pub(crate) struct TestEnv {
    pub clock: Clock,
    pub engine: Engine,
    // The last field: the engine is dropped before its data.
    pub database: TestDatabase,
}

impl Subject for TestEnv {
    async fn at(database: TestDatabase) -> Self {
        Self::with(database, |options| options).await
    }
}

/// Options with the seal key of all engines of a test.
fn sealed(database: &TestDatabase) -> Options {
    sealed_at(database.location())
}

pub(crate) fn sealed_at(location: Location) -> Options {
    let key: SealKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
    Options::new(location).seal_key(key)
}

impl TestEnv {
    pub(crate) async fn with(database: TestDatabase, configure: impl FnOnce(Options) -> Options) -> Self {
        let clock = Clock::manual(NOON);
        let options = sealed(&database).clock(clock.clone());
        let engine = Engine::open(configure(options)).await.unwrap();
        Self { clock, engine, database }
    }

    /// Restarts: closes the engine and opens another on the same data.
    pub(crate) async fn reopen(self, configure: impl FnOnce(Options) -> Options) -> Self {
        self.engine.close().await;
        if let TestDatabase::Postgres(_) = self.database {
            // The engine releases the claims of a SQLite file when it opens it. In PostgreSQL the leases must expire.
            self.expire_leases().await;
        }
        let options = sealed(&self.database).clock(self.clock.clone());
        let engine = Engine::open(configure(options)).await.unwrap();
        Self { engine, ..self }
    }

    /// Opens another engine on the same data and with the same clock, like another node.
    pub(crate) async fn second_engine(&self, configure: impl FnOnce(Options) -> Options) -> Engine {
        let options = sealed(&self.database).clock(self.clock.clone()).second_handle();
        Engine::open(configure(options)).await.unwrap()
    }

    /// Expires every lease without advancing the clock.
    pub(crate) async fn expire_leases(&self) {
        let sql = "UPDATE dispatches SET lease_until_ms = 0 WHERE status = 'claimed'; UPDATE timers SET held_ms = 0";
        self.database.execute(sql).await.unwrap();
    }

    pub(crate) async fn register(&self, definition: Value) {
        self.engine.register(&tenant(), definition).await.unwrap();
    }

    pub(crate) async fn start(&self, workflow: &str) -> RunRef {
        self.start_with(workflow, json!({})).await
    }

    pub(crate) async fn start_with(&self, workflow: &str, inputs: Value) -> RunRef {
        let id = WorkflowId::parse(workflow).unwrap();
        let run = self.engine.start(&id, start(inputs)).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    pub(crate) async fn run(&self, of: &RunRef) -> Arc<Run> {
        self.engine.run(of).await.unwrap()
    }

    pub(crate) async fn status(&self, of: &RunRef) -> &'static str {
        self.run(of).await.status().as_str()
    }

    pub(crate) async fn answer(&self, of: &RunRef, node: &str, value: Value) -> Result<Arc<Run>, Error> {
        let id = self
            .run(of)
            .await
            .interrupt_of_node(&NodeId::parse(node).unwrap())
            .expect("no interrupt of the node is open")
            .id;
        self.engine.execute(of, &resolve(id, value)).await
    }

    pub(crate) async fn drain(&self) -> usize {
        self.engine.worker().drain().await.unwrap()
    }

    /// The whole log as JSON, without the run's id.
    pub(crate) async fn log(&self, of: &RunRef) -> Vec<String> {
        let recorded = self.engine.events(of, 0).await.unwrap();
        let text = |event: &Event| text(event).replace(of.run.as_str(), "RUN");
        recorded
            .iter()
            .enumerate()
            .inspect(|(at, one)| assert_eq!(one.seq, *at as u64))
            .map(|(_, one)| text(&one.event))
            .collect()
    }

    pub(crate) async fn pending(&self) -> Vec<String> {
        let rows = self.engine.pending(&tenant(), PendingCursor::default(), 100).await.unwrap();
        rows.iter().map(|row| row.node.to_string()).collect()
    }
}

/// The JSON of an event without its digest, because the digested data can contain the id of the run.
pub(crate) fn text(event: &Event) -> String {
    let mut event = event.clone();
    if let Event::InterruptRequested { digest, data, .. } = &mut event {
        assert_eq!(digest.take(), Some(holdpoint_engine::core::digest(data)));
    }
    serde_json::to_string(&event).unwrap()
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("default").unwrap()
}

pub(crate) fn run_id(text: &str) -> RunId {
    RunId::parse(text).unwrap()
}

pub(crate) fn start(inputs: Value) -> StartRequest {
    let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
    let inputs = inputs.as_object().cloned().unwrap_or_default();
    StartRequest { inputs, ..StartRequest::new(owner) }
}

pub(crate) fn resolve(id: InterruptId, value: Value) -> Command {
    Command::Resolve { answers: BTreeMap::from([(id, Answer::new(value, alice()))]) }
}

pub(crate) fn alice() -> Principal {
    Principal::named("alice")
}

pub(crate) fn accept() -> Value {
    json!({"action": "accept"})
}

/// A workflow whose nodes form a line. Each node is `(id, typeId, config)`.
pub(crate) fn line(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let nodes_json: Vec<Value> =
        nodes.iter().map(|(id, type_id, config)| node(id, type_id, config.clone())).collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(|pair| json!({"id": format!("{}-{}", pair[0].0, pair[1].0), "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0}))
        .collect();
    graph(id, &nodes_json, &edges)
}

pub(crate) fn graph(id: &str, nodes: &[Value], edges: &[Value]) -> Value {
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    })
}

pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

/// A workflow with one step, a gate and another step.
pub(crate) fn gated(id: &str) -> Value {
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    line(
        id,
        &[
            ("before", "core.noop", json!({})),
            ("gate", "core.approvalGate", gate),
            ("after", "core.noop", json!({})),
        ],
    )
}

/// Options with a fault at a commit.
pub(crate) fn with_fault(fault: CommitFault) -> impl FnOnce(Options) -> Options {
    move |options| options.fault(fault)
}
