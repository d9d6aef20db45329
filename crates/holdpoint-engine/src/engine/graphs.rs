//! Graphs by their state key: started, answered and told of in the same words wherever they run. A graph of ours is a
//! workflow; one of a provider is a workflow of one node that stands for it.

use holdpoint_core::{Owner, Refusal, RunRef, Start, TenantId, Timestamp, WorkflowId};
use serde_json::{Map, Value, json};

use super::{Engine, starting};
use crate::committer::Reply;
use crate::error::Error;
use crate::providers::Providers;
use crate::store::handles::{self, HandleRow};
use crate::store::threads;

mod expiry;
mod resuming;
mod shipped;
mod standing;
mod words;

pub use resuming::Resume;
pub use standing::Standing;

/// The node of a workflow that stands for a graph.
const NODE: &str = "graph";

/// A graph that somebody wants to begin.
#[derive(Clone, Debug)]
pub struct GraphStart {
    pub owner: Owner,
    /// `native:…`, `langgraph:…` or `claude:…`.
    pub graph: String,
    /// Nothing for a new one.
    pub state_key: Option<String>,
    pub input: Value,
}

/// What may be known of a handle. What its provider keeps in it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    pub state_key: String,
    pub graph: String,
    pub of: RunRef,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Why a graph cannot be begun or answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    #[error("{0}")]
    NoGraph(String),
    #[error(
        "this stateKey is in use for another start; choose a new one, or resume it with resumeValue and resumeId"
    )]
    StateKeyInUse,
    #[error("nothing was started under this stateKey, or it is so long ago that it was deleted")]
    NoState,
    #[error(
        "the graph is at work: another resume is in flight; ask GET /api/v1/ai/chat/{{stateKey}} and try again"
    )]
    InFlight,
    #[error("the graph has ended and takes no more answers")]
    Ended,
    #[error(
        "the graph asks something else now than what this answers; ask GET /api/v1/ai/chat/{{stateKey}} what it is"
    )]
    AsksOther,
    #[error("this resumeId was used with another resumeValue; a new answer needs a new resumeId")]
    OtherValue,
    #[error("several questions are open: resumeValue must be an object with some of the keys {}", keys.join(", "))]
    Several { keys: Vec<String>, interrupts: Vec<String> },
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

impl From<HandleRow> for Handle {
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

    /// Begins a graph under its state key. The same start again finds what was begun; true when it was begun now.
    pub async fn start_graph(&self, start: GraphStart) -> Result<(Handle, bool), GraphError> {
        let workflow = self.workflow_of(&start.owner.tenant, &start.graph).await?;
        let state_key = start.state_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let messages = words::to_agent(&workflow, &start.input, &start.owner.principal)?;
        let what = json!([start.graph, start.input]);
        let now = self.now();
        let row = HandleRow {
            tenant: start.owner.tenant.clone(),
            state_key,
            run: starting::fresh_id()?,
            graph: start.graph.clone(),
            start_digest: holdpoint_core::digest(&what),
            provider_ref: None,
            locked_until: None,
            created_at: now,
            expires_at: now.plus_ms(self.providers().limits.expires_ms),
            settled_at: None,
        };
        let fresh = matches!(self.write(vec![handles::insert(&row)]).await?, Reply::Touched(1));
        let row = if fresh { row } else { self.same_start(&row).await? };
        // A start that died in between has left a key without a run.
        let mut inputs = Map::new();
        match (start.graph.strip_prefix("native:"), start.input) {
            (Some(_), Value::Object(members)) => inputs = members,
            (_, other) => drop(inputs.insert("input".to_owned(), other)),
        }
        if messages.is_some() {
            inputs.clear();
        }
        // A thread of its own, so that whoever talks in threads finds it.
        let thread = row.run.as_str().to_owned();
        let scope = Some(threads::scope_of(&thread));
        let begin = Start { inputs, messages, scope, thread: Some(thread), ..Start::new(start.owner) };
        match self.start_as(&row.run, &workflow, begin).await {
            Ok(_) => Ok((row.into(), true)),
            Err(Error::Refused(Refusal::AlreadyStarted)) => Ok((row.into(), false)),
            Err(error) => {
                // What may have been begun by now, by us or by somebody who sent the same, keeps its key.
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

    /// What is known under a state key.
    pub async fn handle(&self, tenant: &TenantId, state_key: &str) -> Result<Handle, GraphError> {
        let row = handles::by_key(self.db(), tenant, state_key).await?.ok_or(GraphError::NoState)?;
        // Whoever comes too late is told so at once, though nobody has looked yet.
        if row.expires_at > self.now() || row.settled_at.is_some() {
            return Ok(row.into());
        }
        self.expire(&row).await?;
        let row = handles::by_key(self.db(), tenant, state_key).await?.ok_or(GraphError::NoState)?;
        Ok(row.into())
    }

    /// The handle of a run that has come to a graph of a provider. A run that nobody gave a state key has its own name.
    pub(crate) async fn handle_of(&self, of: &RunRef, graph: &str) -> Result<HandleRow, Error> {
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
        // Somebody may have chosen the name of this run as a state key.
        handles::by_run(self.db(), of).await?.ok_or(Error::NotFound("handle"))
    }

    /// The workflow that is the graph, or stands for it.
    async fn workflow_of(&self, tenant: &TenantId, graph: &str) -> Result<WorkflowId, GraphError> {
        let no_graph = |why: &str| GraphError::NoGraph(format!("there is no graph {graph:?}: {why}"));
        if let Some(name) = graph.strip_prefix("native:") {
            let id = WorkflowId::parse(name).map_err(|error| no_graph(&error.to_string()))?;
            if self.latest(tenant, &id).await?.is_none() && !self.ensure_shipped(tenant, &id).await? {
                return Err(no_graph(
                    "no workflow of this name is registered; GET /v1/workflows lists those that are",
                ));
            }
            return Ok(id);
        }
        if let Err(trouble) = self.providers().find(graph, tenant) {
            return Err(GraphError::NoGraph(trouble.message));
        }
        let id = WorkflowId::parse(graph).map_err(|error| no_graph(&error.to_string()))?;
        self.ensure_graph(tenant, &id).await?;
        Ok(id)
    }

    /// Returns the definition of a workflow, or of a graph that is registered when its first run starts. Registers nothing.
    pub async fn definition(&self, tenant: &TenantId, id: &WorkflowId) -> Result<Value, Error> {
        match self.workflow(tenant, id).await {
            Ok(registered) => Ok(registered.definition),
            Err(Error::NotFound(what)) => {
                let is_of_provider = || self.providers().find(id.as_str(), tenant).is_ok();
                let graph = shipped::definition(id.as_str())
                    .or_else(|| is_of_provider().then(|| standing_for(id.as_str())));
                graph.ok_or(Error::NotFound(what))
            }
            Err(error) => Err(error),
        }
    }

    /// Registers the workflow that stands for a graph of a provider, or one that comes with the engine, if there is such a
    /// graph. False when there is none.
    pub(super) async fn ensure_graph(&self, tenant: &TenantId, id: &WorkflowId) -> Result<bool, Error> {
        if self.ensure_shipped(tenant, id).await? {
            return Ok(true);
        }
        if self.providers().find(id.as_str(), tenant).is_err() {
            return Ok(false);
        }
        let known = self.latest(tenant, id).await?;
        if known.is_none_or(|known| !stands_for(&known, id.as_str())) {
            self.register_for_operator(tenant, standing_for(id.as_str())).await?;
        }
        Ok(true)
    }

    /// Registers a workflow that comes with the engine, unless the tenant has one of its own. False when none has the name.
    async fn ensure_shipped(&self, tenant: &TenantId, id: &WorkflowId) -> Result<bool, Error> {
        let Some(shipped) = shipped::definition(id.as_str()) else { return Ok(false) };
        if self.latest(tenant, id).await?.is_none() {
            self.register_for_operator(tenant, shipped).await?;
        }
        Ok(true)
    }
}

fn stands_for(workflow: &holdpoint_core::Workflow, graph: &str) -> bool {
    let [node] = workflow.nodes.as_slice() else { return false };
    node.type_id == handles::NODE_TYPE && node.config.get("graph").and_then(Value::as_str) == Some(graph)
}

fn standing_for(graph: &str) -> Value {
    let node = json!({
        "id": NODE, "typeId": handles::NODE_TYPE, "name": graph, "position": { "x": 0, "y": 0 },
        "config": { "graph": graph }, "inputs": {},
    });
    json!({
        "id": graph, "name": graph, "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    })
}
