//! Conversations: the runs of one thread that are the turns of a state key, and the handle that they share.

use holdpoint_core::{Run, RunId, RunRef, Transport, WorkflowId};
use holdpoint_engine::extension::Handle;
use holdpoint_engine::{Engine, Error, RunFilter, Threads};

use super::{Graphs, NODE, new_handle};
use crate::NODE_TYPE;

/// Returns the id of the workflow whose runs are the turns of a graph.
pub(super) fn workflow_id(graph: &str) -> &str {
    graph.strip_prefix("native:").unwrap_or(graph)
}

/// Returns whether a run is a turn of a graph of a provider: the graph is the only node of its workflow.
pub fn is_provider_graph(run: &Run) -> bool {
    let [node] = run.workflow.nodes.as_slice() else { return false };
    node.type_id == NODE_TYPE && node.id.as_str() == NODE
}

impl Graphs<'_> {
    /// Returns the run of the last turn of a handle.
    pub(super) async fn current_run(self, row: &Handle) -> Result<RunRef, Error> {
        let newest = self.engine.runs().list(&row.tenant, turns_filter(row, None, 1)).await?;
        let newest = newest.into_iter().next().map(|found| found.run);
        Ok(RunRef { run: newest.unwrap_or_else(|| row.run.clone()), tenant: row.tenant.clone() })
    }

    /// Returns whether the first run of a handle exists.
    pub(super) async fn is_started(self, row: &Handle) -> Result<bool, Error> {
        match self.engine.runs().get(&row.of()).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the filter for the turns of a handle. Runs that the thread got after the end of the conversation are no
/// turns of it.
pub(super) fn turns_filter(row: &Handle, before: Option<String>, limit: u64) -> RunFilter {
    let thread = row.thread.as_deref().unwrap_or(row.run.as_str());
    RunFilter {
        scope: Some(Threads::scope_of(thread)),
        workflow: Some(workflow_id(&row.graph).to_owned()),
        created_to: row.closed_at.or(row.settled_at).map(|at| at.plus_ms(1)),
        before,
        limit,
        ..RunFilter::default()
    }
}

/// Returns the handle of a run that has reached the graph of a provider: the one of the run, or that of its
/// conversation. Creates one with the run id as state key if there is none. Returns None if the run is a turn of a
/// conversation that has ended.
pub(crate) async fn find_handle(engine: &Engine, of: &RunRef, graph: &str) -> Result<Option<Handle>, Error> {
    if let Some(found) = engine.handles().by_run(of).await? {
        return Ok(Some(found));
    }
    let run = engine.runs().get(of).await?;
    let thread = conversation_of(&run, graph);
    if let Some(thread) = thread {
        let found = match engine.handles().by_thread(&of.tenant, thread, graph).await? {
            Some(found) => Some(found),
            // A process of an earlier version stored no thread.
            None => first_handle(engine, of, thread).await?.filter(|found| found.graph == graph),
        };
        let open = found.filter(|found| found.closed_at.is_none() && found.settled_at.is_none());
        if open.is_some() || is_chat_turn(&run) {
            return Ok(open);
        }
    }
    let mut handle = new_handle(engine, of, of.run.as_str().to_owned(), graph);
    handle.thread = thread.map(str::to_owned);
    engine.handles().insert(&handle).await?;
    // Another caller may have chosen the id of this run as a state key.
    engine.handles().by_run(of).await?.ok_or(Error::NotFound("handle")).map(Some)
}

/// Returns the thread of a run, if the run is a turn of the graph. A fork has no conversation: it must not change that of
/// its source.
fn conversation_of<'r>(run: &'r Run, graph: &str) -> Option<&'r str> {
    let started = run.started.as_deref()?;
    let is_turn = is_provider_graph(run)
        && run.workflow.id.as_str() == graph
        && started.fork.is_none()
        && started.parent.is_none();
    started.thread.as_deref().filter(|_| is_turn)
}

async fn first_handle(engine: &Engine, of: &RunRef, thread: &str) -> Result<Option<Handle>, Error> {
    let Ok(run) = RunId::parse(thread) else { return Ok(None) };
    engine.handles().by_run(&RunRef { run, tenant: of.tenant.clone() }).await
}

/// Returns whether the run is a further turn of a state key. It fails if the state of the earlier turns is gone. A front
/// end starts a new graph instead.
fn is_chat_turn(run: &Run) -> bool {
    let source = run.started.as_ref().and_then(|started| started.source);
    source.is_some_and(|source| source.transport == Transport::Chat) && run.thread() != run.id.as_str()
}

/// Returns the workflow of a graph, for counting.
pub(super) fn parse_workflow(graph: &str) -> Result<WorkflowId, Error> {
    WorkflowId::parse(workflow_id(graph)).map_err(|_| Error::NotFound("workflow"))
}
