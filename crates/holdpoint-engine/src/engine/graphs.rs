//! Graphs, which clients start and resume by a state key. A native graph is a workflow; the graph of a provider is a
//! workflow with one graph node.

use holdpoint_core::{Owner, Refusal, RunRef, StartRequest, TenantId, Timestamp, WorkflowId};
use serde_json::{Map, Value, json};

use super::{Engine, starting};
use crate::committer::CommitReply;
use crate::error::Error;
use crate::providers::Providers;
use crate::store::handles::{self, HandleRow};
use crate::store::threads;

mod agent_input;
mod expiry;
mod resume;
mod shipped;
mod status;

pub use resume::GraphResume;
pub use status::GraphStatus;

/// The id of the node that represents the graph of a provider.
const NODE: &str = "graph";

/// A request to start a graph.
#[derive(Clone, Debug)]
pub struct GraphStart {
    /// The owner of the run.
    pub owner: Owner,
    /// The name of the graph: `native:…`, `langgraph:…` or `claude:…`.
    pub graph: String,
    /// The state key. `None` for a generated one.
    pub state_key: Option<String>,
    /// The input of the graph.
    pub input: Value,
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

impl From<crate::store::Error> for GraphError {
    fn from(error: crate::store::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl From<HandleRow> for GraphHandle {
    fn from(row: HandleRow) -> Self {
        let of = row.of();
        let HandleRow { state_key, graph, created_at, expires_at, .. } = row;
        Self { state_key, graph, of, created_at, expires_at }
    }
}

impl Engine {
    pub(crate) fn providers(&self) -> &Providers {
        &self.0.providers
    }

    /// Starts a graph with a state key. A repeated start returns the existing handle. Returns true if the graph was
    /// started now.
    pub async fn start_graph(&self, start: GraphStart) -> Result<(GraphHandle, bool), GraphError> {
        let workflow = self.workflow_of(&start.owner.tenant, &start.graph).await?;
        let state_key = start.state_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let messages = agent_input::read_agent_messages(&workflow, &start.input, &start.owner.principal)?;
        let what = json!([start.graph, start.input]);
        let now = self.now();
        let row = HandleRow {
            tenant: start.owner.tenant.clone(),
            state_key,
            run: starting::new_run_id()?,
            graph: start.graph.clone(),
            start_digest: holdpoint_core::digest(&what),
            provider_ref: None,
            locked_until: None,
            created_at: now,
            expires_at: now.plus_ms(self.providers().limits.expires_ms),
            settled_at: None,
        };
        let fresh = matches!(self.write(vec![handles::insert(&row)]).await?, CommitReply::Touched(1));
        let row = if fresh { row } else { self.same_start(&row).await? };
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
        let thread = row.run.as_str().to_owned();
        let scope = Some(threads::scope_of(&thread));
        let begin =
            StartRequest { inputs, messages, scope, thread: Some(thread), ..StartRequest::new(start.owner) };
        match self.start_as(&row.run, &workflow, begin).await {
            Ok(_) => Ok((row.into(), true)),
            Err(Error::Refused(Refusal::AlreadyStarted)) => Ok((row.into(), false)),
            Err(error) => {
                // Keeps the state key unless the run certainly does not exist: this or a concurrent start may have
                // created it.
                let never =
                    matches!(error, Error::Refused(_) | Error::NotFound(_) | Error::InvalidWorkflow(_));
                if fresh && never {
                    self.write(handles::delete(&row).to_vec()).await?;
                }
                Err(error.into())
            }
        }
    }

    async fn same_start(&self, wanted: &HandleRow) -> Result<HandleRow, GraphError> {
        let found = handles::by_key(self.db(), &wanted.tenant, &wanted.state_key).await?;
        found.filter(|row| row.start_digest == wanted.start_digest).ok_or(GraphError::StateKeyInUse)
    }

    /// Returns the handle of a state key.
    pub async fn graph_handle(&self, tenant: &TenantId, state_key: &str) -> Result<GraphHandle, GraphError> {
        let row = handles::by_key(self.db(), tenant, state_key).await?.ok_or(GraphError::UnknownStateKey)?;
        // An expired handle is ended now, even if the upkeep has not seen it yet.
        if row.expires_at > self.now() || row.settled_at.is_some() {
            return Ok(row.into());
        }
        self.expire(&row).await?;
        let row = handles::by_key(self.db(), tenant, state_key).await?.ok_or(GraphError::UnknownStateKey)?;
        Ok(row.into())
    }

    /// Returns the handle of a run that has reached the graph of a provider. Creates one with the run id as state key
    /// if the run has none.
    pub(crate) async fn handle_of_run(&self, of: &RunRef, graph: &str) -> Result<HandleRow, Error> {
        if let Some(row) = handles::by_run(self.db(), of).await? {
            return Ok(row);
        }
        let now = self.now();
        let row = HandleRow {
            tenant: of.tenant.clone(),
            state_key: of.run.as_str().to_owned(),
            run: of.run.clone(),
            graph: graph.to_owned(),
            start_digest: String::new(),
            provider_ref: None,
            locked_until: None,
            created_at: now,
            expires_at: now.plus_ms(self.providers().limits.expires_ms),
            settled_at: None,
        };
        self.write(vec![handles::insert(&row)]).await?;
        // Another caller may have chosen the id of this run as a state key.
        handles::by_run(self.db(), of).await?.ok_or(Error::NotFound("handle"))
    }

    /// Returns the workflow of a graph and registers it if necessary.
    async fn workflow_of(&self, tenant: &TenantId, graph: &str) -> Result<WorkflowId, GraphError> {
        let no_graph = |why: &str| GraphError::UnknownGraph(format!("there is no graph {graph:?}: {why}"));
        if let Some(name) = graph.strip_prefix("native:") {
            let id = WorkflowId::parse(name).map_err(|error| no_graph(&error.to_string()))?;
            if self.latest_workflow(tenant, &id).await?.is_none() && !self.ensure_shipped(tenant, &id).await?
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
        self.ensure_graph(tenant, &id).await?;
        Ok(id)
    }

    /// Returns the definition of a workflow, or of a graph that is registered when its first run starts. Does not
    /// register it.
    pub async fn definition(&self, tenant: &TenantId, id: &WorkflowId) -> Result<Value, Error> {
        match self.workflow(tenant, id).await {
            Ok(registered) => Ok(registered.definition),
            Err(Error::NotFound(what)) => {
                let is_of_provider = || self.providers().find(id.as_str(), tenant).is_ok();
                let graph = shipped::definition(id.as_str())
                    .or_else(|| is_of_provider().then(|| graph_workflow(id.as_str())));
                graph.ok_or(Error::NotFound(what))
            }
            Err(error) => Err(error),
        }
    }

    /// Registers the workflow of a provider's graph or a workflow that is shipped with the engine. Returns false if
    /// there is no such graph.
    pub(super) async fn ensure_graph(&self, tenant: &TenantId, id: &WorkflowId) -> Result<bool, Error> {
        if self.ensure_shipped(tenant, id).await? {
            return Ok(true);
        }
        if self.providers().find(id.as_str(), tenant).is_err() {
            return Ok(false);
        }
        let known = self.latest_workflow(tenant, id).await?;
        if known.is_none_or(|known| !is_graph_workflow(&known, id.as_str())) {
            self.register_for_operator(tenant, graph_workflow(id.as_str())).await?;
        }
        Ok(true)
    }

    /// Registers a shipped workflow, unless the tenant has its own workflow with this id. Returns false if no shipped
    /// workflow has the name.
    async fn ensure_shipped(&self, tenant: &TenantId, id: &WorkflowId) -> Result<bool, Error> {
        let Some(shipped) = shipped::definition(id.as_str()) else { return Ok(false) };
        if self.latest_workflow(tenant, id).await?.is_none() {
            self.register_for_operator(tenant, shipped).await?;
        }
        Ok(true)
    }
}

fn is_graph_workflow(workflow: &holdpoint_core::Workflow, graph: &str) -> bool {
    let [node] = workflow.nodes.as_slice() else { return false };
    node.type_id == handles::NODE_TYPE && node.config.get("graph").and_then(Value::as_str) == Some(graph)
}

fn graph_workflow(graph: &str) -> Value {
    let node = json!({
        "id": NODE, "typeId": handles::NODE_TYPE, "name": graph, "position": { "x": 0, "y": 0 },
        "config": { "graph": graph }, "inputs": {},
    });
    json!({
        "id": graph, "name": graph, "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    })
}
