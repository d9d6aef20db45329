//! Graphs, which clients start and resume by a state key. A native graph is a workflow; the graph of a provider is a
//! workflow with one graph node.

use holdpoint_core::{Owner, Refusal, RequestSource, RunRef, StartRequest, TenantId, Timestamp, WorkflowId};
use holdpoint_engine::extension::Handle;
use holdpoint_engine::{Engine, Error, Threads, new_run_id};
use serde_json::{Map, Value, json};

use crate::{NODE_TYPE, Providers};

mod agent_input;
mod expiry;
mod resume;
mod status;

pub(crate) use expiry::expire_handles;
pub use resume::GraphResume;
pub use status::{GraphProgress, GraphStatus};

/// The id of the node that represents the graph of a provider.
const NODE: &str = "graph";

/// A request to start a graph.
#[derive(Clone, Debug)]
pub struct GraphStart {
    /// The owner of the run.
    pub owner: Owner,
    /// The name of the graph: `native:WORKFLOW` or `KIND:NAME`.
    pub graph: String,
    /// The state key. `None` for a generated one.
    pub state_key: Option<String>,
    /// The input of the graph.
    pub input: Value,
    /// The source of the request.
    pub source: RequestSource,
}

/// The public part of the handle of a graph, without the state of its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphHandle {
    /// The state key.
    pub state_key: String,
    /// The name of the graph.
    pub graph: String,
    /// The run.
    pub of: RunRef,
    /// The time of the start.
    pub created_at: Timestamp,
    /// The time at which an unanswered graph is ended.
    pub expires_at: Timestamp,
}

/// An error of the start or the resume of a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The graph does not exist or is not available to the tenant.
    #[error("{0}")]
    UnknownGraph(String),
    /// A different start used the state key.
    #[error(
        "this stateKey is in use for another start; choose a new one, or resume it with resumeValue and resumeId"
    )]
    StateKeyInUse,
    /// The state key is unknown or was deleted after its retention.
    #[error("no graph was started with this stateKey, or its state was deleted")]
    UnknownStateKey,
    /// The graph does not wait for an answer now.
    #[error(
        "the graph is running: another resume is in flight; check GET /api/v1/ai/chat/{{stateKey}} and try again"
    )]
    InFlight,
    /// The graph has ended.
    #[error("the graph has ended and accepts no answers")]
    Ended,
    /// The resume answers another interrupt than the open one.
    #[error(
        "the graph waits at another interrupt than this resume answers; read it with GET /api/v1/ai/chat/{{stateKey}}"
    )]
    InterruptChanged,
    /// The resume id was used for a different value.
    #[error("this resumeId was used with another resumeValue; a new answer needs a new resumeId")]
    ResumeIdReused,
    /// Several interrupts are open and the value does not select some of them by key.
    #[error("several interrupts are open: resumeValue must be an object with some of the keys {}", keys.join(", "))]
    SeveralInterrupts {
        /// The keys of the open interrupts in `resumeValue`.
        keys: Vec<String>,
        /// The ids of the open interrupts.
        interrupts: Vec<String>,
    },
    /// Another error of the engine.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl From<Refusal> for GraphError {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl From<Handle> for GraphHandle {
    fn from(row: Handle) -> Self {
        let of = row.of();
        let Handle { state_key, graph, created_at, expires_at, .. } = row;
        Self { state_key, graph, of, created_at, expires_at }
    }
}

/// The operations on graphs.
#[derive(Clone, Copy, Debug)]
pub struct Graphs<'e> {
    engine: &'e Engine,
}

/// Adds the facet of graphs to the engine.
pub trait EngineGraphs {
    /// Graphs: started and resumed by a state key.
    fn graphs(&self) -> Graphs<'_>;
}

impl EngineGraphs for Engine {
    fn graphs(&self) -> Graphs<'_> {
        Graphs { engine: self }
    }
}

impl Graphs<'_> {
    fn providers(&self) -> &Providers {
        Providers::of(self.engine)
    }

    /// Starts a graph with a state key. A repeated start returns the existing handle. Returns true if the graph was
    /// started now.
    pub async fn start(self, start: GraphStart) -> Result<(GraphHandle, bool), GraphError> {
        let workflow = self.workflow_of(&start.owner.tenant, &start.graph).await?;
        let state_key = start.state_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let messages = agent_input::read_agent_messages(&workflow, &start)?;
        let what = json!([start.graph, start.input]);
        let of = RunRef { tenant: start.owner.tenant.clone(), run: new_run_id()? };
        let mut handle = new_handle(self.engine, &of, state_key, &start.graph);
        handle.start_digest = holdpoint_core::digest(&what);
        let fresh = self.engine.handles().insert(&handle).await?;
        let handle = if fresh { handle } else { self.same_start(&handle).await? };
        // A start that crashed can have left a state key without a run, so that the run is started in both cases.
        let mut inputs = Map::new();
        match (start.graph.strip_prefix("native:"), start.input) {
            (Some(_), Value::Object(members)) => inputs = members,
            (_, other) => drop(inputs.insert("input".to_owned(), other)),
        }
        if messages.is_some() {
            inputs.clear();
        }
        // The run has its own thread, so that clients that use threads find it.
        let thread = handle.run.as_str().to_owned();
        let scope = Some(Threads::scope_of(&thread));
        let begin = StartRequest {
            inputs,
            messages,
            scope,
            thread: Some(thread),
            source: Some(start.source),
            ..StartRequest::new(start.owner)
        };
        match self.engine.runs().create_as(&handle.run, &workflow, begin).await {
            Ok(_) => Ok((handle.into(), true)),
            Err(Error::Refused(Refusal::AlreadyStarted)) => Ok((handle.into(), false)),
            Err(error) => {
                // Keeps the state key unless the run certainly does not exist: this or a concurrent start may have
                // created it.
                let never =
                    matches!(error, Error::Refused(_) | Error::NotFound(_) | Error::InvalidWorkflow(_));
                if fresh && never {
                    self.engine.handles().delete(&handle).await?;
                }
                Err(error.into())
            }
        }
    }

    async fn same_start(self, wanted: &Handle) -> Result<Handle, GraphError> {
        let found = self.engine.handles().by_key(&wanted.tenant, &wanted.state_key).await?;
        found.filter(|row| row.start_digest == wanted.start_digest).ok_or(GraphError::StateKeyInUse)
    }

    /// Returns the handle of a state key.
    pub async fn handle(self, tenant: &TenantId, state_key: &str) -> Result<GraphHandle, GraphError> {
        let find = || self.engine.handles().by_key(tenant, state_key);
        let row = find().await?.ok_or(GraphError::UnknownStateKey)?;
        // An expired handle is ended now, even if the upkeep has not seen it yet.
        if row.expires_at > self.engine.now() || row.settled_at.is_some() {
            return Ok(row.into());
        }
        self.expire(&row).await?;
        Ok(find().await?.ok_or(GraphError::UnknownStateKey)?.into())
    }

    /// Returns the workflow of a graph and registers it if necessary.
    async fn workflow_of(self, tenant: &TenantId, graph: &str) -> Result<WorkflowId, GraphError> {
        let no_graph = |why: &str| GraphError::UnknownGraph(format!("there is no graph {graph:?}: {why}"));
        let workflows = self.engine.workflows();
        if let Some(name) = graph.strip_prefix("native:") {
            let id = WorkflowId::parse(name).map_err(|error| no_graph(&error.to_string()))?;
            let is_of_provider = self.providers().find(name, tenant).is_ok();
            if workflows.latest(tenant, &id).await?.is_none()
                && (is_of_provider || !workflows.register_offered(tenant, &id).await?)
            {
                return Err(no_graph(
                    "no workflow of this name is registered; GET /v1/workflows lists those that are",
                ));
            }
            return Ok(id);
        }
        if let Err(error) = self.providers().find(graph, tenant) {
            return Err(GraphError::UnknownGraph(error.message));
        }
        let id = WorkflowId::parse(graph).map_err(|error| no_graph(&error.to_string()))?;
        let known = workflows.latest(tenant, &id).await?;
        if known.is_none_or(|known| !is_graph_workflow(&known, graph)) {
            workflows.register_for_operator(tenant, graph_workflow(graph)).await?;
        }
        Ok(id)
    }
}

/// Returns the handle of a run that has reached the graph of a provider. Creates one with the run id as state key if the
/// run has none.
pub(crate) async fn handle_of_run(engine: &Engine, of: &RunRef, graph: &str) -> Result<Handle, Error> {
    if let Some(found) = engine.handles().by_run(of).await? {
        return Ok(found);
    }
    let handle = new_handle(engine, of, of.run.as_str().to_owned(), graph);
    engine.handles().insert(&handle).await?;
    // Another caller may have chosen the id of this run as a state key.
    engine.handles().by_run(of).await?.ok_or(Error::NotFound("handle"))
}

fn new_handle(engine: &Engine, of: &RunRef, state_key: String, graph: &str) -> Handle {
    let now = engine.now();
    let expires_at = now.plus_ms(Providers::of(engine).limits.expires_ms);
    let mut handle = Handle::new(of, state_key, now, expires_at);
    handle.graph = graph.to_owned();
    handle
}

fn is_graph_workflow(workflow: &holdpoint_core::Workflow, graph: &str) -> bool {
    let [node] = workflow.nodes.as_slice() else { return false };
    node.type_id == NODE_TYPE && node.config.get("graph").and_then(Value::as_str) == Some(graph)
}

/// Returns the workflow of a graph of a provider. Its only node is the graph.
pub(crate) fn graph_workflow(graph: &str) -> Value {
    let node = json!({
        "id": NODE, "typeId": NODE_TYPE, "name": graph, "position": { "x": 0, "y": 0 },
        "config": { "graph": graph }, "inputs": {},
    });
    json!({
        "id": graph, "name": graph, "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    })
}
