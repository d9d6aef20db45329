//! One engine in a place of its own, and short words for what tests do with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_engine::core::{
    Answer, Command, Event, InterruptId, NodeId, Owner, Principal, Run, RunId, RunRef, Start, TenantId,
    WorkflowId,
};
use holdpoint_engine::{Clock, Engine, Error, Fault, Location, Options, PendingCursor, SealKey};
use serde_json::{Value, json};

use crate::place::{Place, Subject};

pub(crate) const NOON: i64 = 1_800_000_000_000;

pub(crate) struct House {
    pub clock: Clock,
    pub engine: Engine,
    // Last, so that the engine is gone before its data is.
    pub place: Place,
}

impl Subject for House {
    async fn at(place: Place) -> Self {
        Self::with(place, |options| options).await
    }
}

/// All engines of a house have one key, as nodes must.
fn sealed(place: &Place) -> Options {
    sealed_at(place.location())
}

pub(crate) fn sealed_at(location: Location) -> Options {
    let key: SealKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
    Options::new(location).seal_key(key)
}

impl House {
    pub(crate) async fn with(place: Place, furnish: impl FnOnce(Options) -> Options) -> Self {
        let clock = Clock::manual(NOON);
        let options = sealed(&place).clock(clock.clone());
        let engine = Engine::open(furnish(options)).await.unwrap();
        Self { clock, engine, place }
    }

    /// Closes the engine and opens another on the same data, as a restart does.
    pub(crate) async fn reopen(self, furnish: impl FnOnce(Options) -> Options) -> Self {
        self.engine.close().await;
        if let Place::Postgres(_) = self.place {
            // Whoever opens a file knows that the holders of its claims are gone; here their leases must run out.
            self.lapse().await;
        }
        let options = sealed(&self.place).clock(self.clock.clone());
        let engine = Engine::open(furnish(options)).await.unwrap();
        Self { engine, ..self }
    }

    /// Another engine on the same data and with the same clock, as another node would be.
    pub(crate) async fn second_engine(&self, furnish: impl FnOnce(Options) -> Options) -> Engine {
        let options = sealed(&self.place).clock(self.clock.clone()).second_handle();
        Engine::open(furnish(options)).await.unwrap()
    }

    /// Lets every lease run out without letting time pass.
    pub(crate) async fn lapse(&self) {
        let lapse = "UPDATE dispatches SET lease_until_ms = 0 WHERE status = 'claimed'; UPDATE timers SET held_ms = 0";
        self.place.execute(lapse).await.unwrap();
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
        let id = self.run(of).await.interrupt_of_node(&NodeId::parse(node).unwrap()).expect("asked").id;
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

/// The JSON of an event without its digest: that is of data which may carry the run's id.
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

pub(crate) fn start(inputs: Value) -> Start {
    let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
    let inputs = inputs.as_object().cloned().unwrap_or_default();
    Start { inputs, ..Start::new(owner) }
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

/// A line of nodes, each `(id, typeId, config)`.
pub(crate) fn line(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let boxes: Vec<Value> =
        nodes.iter().map(|(id, type_id, config)| node(id, type_id, config.clone())).collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(|pair| json!({"id": format!("{}-{}", pair[0].0, pair[1].0), "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0}))
        .collect();
    graph(id, &boxes, &edges)
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

/// One step, a gate, one step.
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

/// Options that stop the writer at a commit.
pub(crate) fn stopping(stop: Fault) -> impl FnOnce(Options) -> Options {
    move |options| options.fault(stop)
}
