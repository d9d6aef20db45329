//! Graphs, which clients start and resume by a state key. A native graph is a workflow; the graph of a provider is a
//! workflow with one graph node.

use holdpoint_core::{Owner, Refusal, RequestSource, RunRef, TenantId, Timestamp, WorkflowId};
use holdpoint_engine::extension::Handle;
use holdpoint_engine::{Engine, Error, StartOptions, new_run_id};
use serde_json::{Value, json};

use crate::{NODE_TYPE, Providers};

mod agent_input;
mod conversation;
mod expiry;
mod history;
mod resume;
mod status;
mod turns;

pub(crate) use conversation::find_handle;
pub use conversation::is_provider_graph;
pub(crate) use expiry::expire_handles;
pub use history::{TurnAnswer, TurnInterrupt, TurnRecord};
pub use resume::GraphResume;
pub use status::{GraphProgress, GraphStatus};
use turns::NewTurn;

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
    /// The caller's id of the turn. Required for a further turn of a state key.
    pub turn_id: Option<String>,
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
    /// The run of the turn: the last one, or the one that a repeated request has started.
    pub of: RunRef,
    /// The run of the first turn.
    pub first: RunRef,
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
    /// The last turn has ended, and the request for the next one has no turn id.
    #[error(
        "turnId: is missing; the graph of this stateKey has ended, and a request for its next turn needs a turnId of your choice"
    )]
    TurnIdRequired,
    /// The turn id was used for a different input.
    #[error("this turnId was used with another input; a new turn needs a new turnId")]
    TurnIdReused,
    /// The last turn executes.
    #[error(
        "the graph is running: another turn is in flight; wait for its outcome with GET /api/v1/ai/chat/{{stateKey}}, or cancel it"
    )]
    TurnInFlight,
    /// The last turn waits for an answer.
    #[error(
        "the graph waits for an answer; resume it with resumeValue and resumeId before the next turn, or cancel it"
    )]
    TurnNeedsInput,
    /// The state key has the maximum number of turns.
    #[error(
        "this stateKey has {0} turns, the maximum (turnsMax); start a new conversation under another stateKey"
    )]
    TooManyTurns(u64),
    /// The graph does not wait for an answer now.
    #[error(
        "the graph is running: another resume is in flight; check GET /api/v1/ai/chat/{{stateKey}} and try again"
    )]
    InFlight,
    /// The graph has ended.
    #[error("the graph has ended and accepts no answers; send its next turn with turnId and input")]
    Ended,
    /// The conversation was deleted or has expired.
    #[error(
        "the conversation of this stateKey was deleted or has expired; start a new one under another stateKey"
    )]
    Closed,
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
        Self { state_key, graph, first: of.clone(), of, created_at, expires_at }
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

    /// Starts a graph with a state key, or its next turn if the start has a turn id and the last turn has ended. A
    /// repeated start returns the existing handle. Returns true if a run was started now.
    pub async fn start(self, start: GraphStart) -> Result<(GraphHandle, bool), GraphError> {
        let workflow = self.workflow_of(&start.owner.tenant, &start.graph).await?;
        let state_key = start.state_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let of = RunRef { tenant: start.owner.tenant.clone(), run: new_run_id()? };
        let mut handle = new_handle(self.engine, &of, state_key, &start.graph);
        let turn = NewTurn::new(start);
        handle.start_digest.clone_from(&turn.digest);
        // The run has its own thread, so that clients that use threads find it. Further turns are runs of this thread.
        handle.thread = Some(of.run.as_str().to_owned());
        // Checks the input before the state key is taken.
        turn.messages(&workflow)?;
        let fresh = self.engine.handles().insert(&handle).await?;
        if !fresh {
            let found = self.engine.handles().by_key(&handle.tenant, &handle.state_key).await?;
            handle = found.ok_or(GraphError::StateKeyInUse)?;
            if handle.graph != turn.start.graph {
                return Err(GraphError::StateKeyInUse);
            }
            if self.is_started(&handle).await? {
                return self.repeat_or_continue(handle, turn, &workflow).await;
            }
            // A start that crashed left a state key without a run.
            if handle.start_digest != turn.digest {
                return Err(GraphError::StateKeyInUse);
            }
        }
        let once = turn.once(&handle);
        let options = StartOptions { id: Some(handle.run.clone()), exclusive: false, once };
        let begin = turn.request(&workflow, handle.run.as_str())?;
        match self.engine.runs().create_with(&workflow, begin, options).await {
            Ok(_) => Ok((handle.into(), true)),
            Err(Error::Duplicate(_) | Error::Refused(Refusal::AlreadyStarted)) => {
                self.repeat_or_continue(handle, turn, &workflow).await
            }
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

    /// Returns the handle of a state key, with its last turn.
    pub async fn handle(self, tenant: &TenantId, state_key: &str) -> Result<GraphHandle, GraphError> {
        let row = self.row(tenant, state_key).await?;
        let of = self.current_run(&row).await?;
        Ok(GraphHandle { of, ..row.into() })
    }

    async fn row(self, tenant: &TenantId, state_key: &str) -> Result<Handle, GraphError> {
        let find = || self.engine.handles().by_key(tenant, state_key);
        let row = find().await?.ok_or(GraphError::UnknownStateKey)?;
        // An expired handle is ended now, even if the upkeep has not seen it yet.
        if row.expires_at > self.engine.now() || row.settled_at.is_some() {
            return Ok(row);
        }
        self.expire(&row).await?;
        find().await?.ok_or(GraphError::UnknownStateKey)
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
