//! Turns of a state key: requests that start one, and the receipts that recognize repeated requests. A receipt is written
//! in the commit that starts the run of its turn.

use std::sync::Arc;

use holdpoint_core::{Principal, Refusal, Run, RunId, RunRef, StartRequest, TenantId, WorkflowId, digest};
use holdpoint_engine::extension::Handle;
use holdpoint_engine::{Error, Once, Receipt, RequestKey, Threads};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::agent_input::{AgentMessages, read_agent_messages};
use super::conversation::parse_workflow;
use super::{GraphError, GraphHandle, GraphStart, GraphStatus, Graphs};

/// The time for which the ids of turns and answers are recognized.
const RECEIPT_MS: u64 = 90 * 24 * 3_600_000;
/// The member of the metadata of a run with the id of its turn.
pub(super) const TURN_ID: &str = "turnId";
/// The principal that cancels a turn that started while its conversation was deleted.
const DELETED_BY: &str = "system:conversation";
/// The reason of the cancellation of a turn that started while its conversation was deleted.
const DELETED: &str = "the conversation was deleted";

/// A start of a graph or of a further turn.
pub(super) struct NewTurn {
    pub(super) start: GraphStart,
    /// The digest of graph and input.
    pub(super) digest: String,
}

/// The content of a receipt: the run of the turn, and the decision id if the receipt is that of an answer.
#[derive(Deserialize, Serialize)]
pub(super) struct Recorded {
    pub(super) run: RunId,
    #[serde(default)]
    pub(super) decision: String,
}

impl Recorded {
    /// Reads a receipt. Returns None if it belongs to another body.
    pub(super) fn read(receipt: &Receipt, body_hash: &str) -> Result<Option<Self>, Error> {
        if receipt.body_hash != body_hash {
            return Ok(None);
        }
        let parsed = serde_json::from_str(&receipt.response);
        parsed.map(Some).map_err(|_| Error::unreadable("receipt", "the receipt of a turn cannot be parsed"))
    }
}

/// Returns the key of the receipt of a turn or an answer. The ids of callers are scoped to their conversation.
pub(super) fn request_key(row: &GraphHandle, operation: &str, id: &str, body_hash: String) -> RequestKey {
    RequestKey {
        tenant: row.first.tenant.clone(),
        operation: operation.to_owned(),
        key_hash: digest(&json!([row.first.run.as_str(), id])),
        body_hash,
        ttl_ms: RECEIPT_MS,
    }
}

impl NewTurn {
    pub(super) fn new(start: GraphStart) -> Self {
        let digest = digest(&json!([start.graph, start.input]));
        Self { start, digest }
    }

    fn tenant(&self) -> &TenantId {
        &self.start.owner.tenant
    }

    fn key(&self, row: &Handle) -> Option<RequestKey> {
        let id = self.start.turn_id.as_deref()?;
        Some(request_key(&row.clone().into(), "chat turn", id, self.digest.clone()))
    }

    /// Returns the request whose receipt is written with the run. None without a turn id.
    pub(super) fn once(&self, row: &Handle) -> Option<Once<Run>> {
        let respond = |run: &Run| {
            let recorded = Recorded { run: run.id.clone(), decision: String::new() };
            (200, serde_json::to_string(&recorded).unwrap_or_default())
        };
        Some(Once { request: self.key(row)?, respond: Arc::new(respond) })
    }

    /// Returns the messages, if the graph is an agent.
    pub(super) fn messages(&self, workflow: &WorkflowId) -> Result<AgentMessages, Refusal> {
        read_agent_messages(workflow, &self.start)
    }

    /// Returns the request that starts the run of the turn in a thread.
    pub(super) fn request(&self, workflow: &WorkflowId, thread: &str) -> Result<StartRequest, Refusal> {
        let GraphStart { owner, graph, input, source, turn_id, .. } = self.start.clone();
        let messages = self.messages(workflow)?;
        let mut inputs = Map::new();
        match (graph.strip_prefix("native:"), input) {
            (Some(_), Value::Object(members)) => inputs = members,
            (_, other) => drop(inputs.insert("input".to_owned(), other)),
        }
        if messages.is_some() {
            inputs.clear();
        }
        let metadata = turn_id.map(|id| (TURN_ID.to_owned(), Value::String(id))).into_iter().collect();
        let (scope, thread) = (Some(Threads::scope_of(thread)), Some(thread.to_owned()));
        Ok(StartRequest {
            inputs,
            messages,
            metadata,
            scope,
            thread,
            source: Some(source),
            ..StartRequest::new(owner)
        })
    }
}

impl Graphs<'_> {
    /// Returns the turn that a repeated request has started, or starts the next one.
    pub(super) async fn repeat_or_continue(
        self,
        row: Handle,
        turn: NewTurn,
        workflow: &WorkflowId,
    ) -> Result<(GraphHandle, bool), GraphError> {
        let Some(request) = turn.key(&row) else {
            let handle = GraphHandle { of: self.current_run(&row).await?, ..row.clone().into() };
            if row.start_digest == turn.digest {
                return Ok((handle, false));
            }
            let ended = self.engine.runs().get(&handle.of).await?.finished();
            let is_open = row.closed_at.is_none() && row.settled_at.is_none();
            return Err(if ended && is_open {
                GraphError::TurnIdRequired
            } else {
                GraphError::StateKeyInUse
            });
        };
        if let Some(run) = self.recorded_turn(&request).await? {
            let of = RunRef { run, tenant: row.tenant.clone() };
            return Ok((GraphHandle { of, ..row.into() }, false));
        }
        match self.start_next_turn(&row, &turn, workflow).await {
            Ok(of) => Ok((GraphHandle { of, ..row.into() }, true)),
            // A concurrent request with the same id may have been faster.
            Err(error) => match (self.recorded_turn(&request).await?, error) {
                (Some(run), _) => {
                    let of = RunRef { run, tenant: row.tenant.clone() };
                    Ok((GraphHandle { of, ..row.into() }, false))
                }
                (None, GraphError::Engine(Error::Duplicate(_) | Error::ScopeBusy { .. })) => {
                    Err(GraphError::TurnInFlight)
                }
                (None, error) => Err(error),
            },
        }
    }

    async fn recorded_turn(self, request: &RequestKey) -> Result<Option<RunId>, GraphError> {
        let Some(receipt) = self.engine.receipts().get(request).await? else { return Ok(None) };
        let recorded = Recorded::read(&receipt, &request.body_hash)?;
        recorded.map(|recorded| Some(recorded.run)).ok_or(GraphError::TurnIdReused)
    }

    async fn start_next_turn(
        self,
        row: &Handle,
        turn: &NewTurn,
        workflow: &WorkflowId,
    ) -> Result<RunRef, GraphError> {
        let row = self.row(&row.tenant, &row.state_key).await?;
        if row.closed_at.is_some() || row.settled_at.is_some() {
            return Err(GraphError::Closed);
        }
        let last = self.current_run(&row).await?;
        match self.status(&last).await? {
            GraphStatus::Running => return Err(GraphError::TurnInFlight),
            GraphStatus::Waiting { .. } => return Err(GraphError::TurnNeedsInput),
            GraphStatus::Completed(_) | GraphStatus::Failed(_) | GraphStatus::Cancelled { .. } => {}
        }
        let thread = row.thread.as_deref().unwrap_or(row.run.as_str());
        let most = self.providers().limits.turns_max;
        if self.engine.handles().count_turns(turn.tenant(), thread, workflow, most).await? >= most {
            return Err(GraphError::TooManyTurns(most));
        }
        let life_ms = self.providers().limits.expires_ms;
        self.engine.handles().prolong(&row.of(), self.engine.now().plus_ms(life_ms)).await?;
        let begin = turn.request(workflow, thread)?;
        let run = self.engine.threads().start(workflow, thread, begin, turn.once(&row)).await?;
        let of = RunRef { run: run.id.clone(), tenant: row.tenant.clone() };
        let now = self.engine.handles().by_key(&row.tenant, &row.state_key).await?;
        if now.is_none_or(|now| now.closed_at.is_some() || now.settled_at.is_some()) {
            let by = Principal::named(DELETED_BY);
            self.engine.runs().cancel(&of, Some(DELETED.to_owned()), by).await?;
            return Err(GraphError::Closed);
        }
        Ok(of)
    }

    /// Starts the next turn of a state key. The graph is that of the key.
    pub async fn next_turn(self, start: GraphStart) -> Result<(GraphHandle, bool), GraphError> {
        let key = start.state_key.as_deref().unwrap_or_default();
        let row = self.row(&start.owner.tenant, key).await?;
        if !self.is_started(&row).await? {
            return Err(GraphError::UnknownStateKey);
        }
        let start = GraphStart { graph: row.graph.clone(), ..start };
        let workflow = parse_workflow(&row.graph)?;
        self.repeat_or_continue(row, NewTurn::new(start), &workflow).await
    }

    /// Ends the conversation of a state key: cancels its turn and lets the provider delete its state. The history can be
    /// read until the retention ends.
    pub async fn close(
        self,
        tenant: &TenantId,
        state_key: &str,
        by: Principal,
    ) -> Result<GraphHandle, GraphError> {
        let row = self.row(tenant, state_key).await?;
        self.engine.handles().close(&row).await?;
        let of = self.current_run(&row).await?;
        self.engine.runs().cancel(&of, None, by).await?;
        let row = self.row(tenant, state_key).await?;
        Ok(GraphHandle { of, ..row.into() })
    }
}
