//! The history of a state key: its turns with their inputs, outcomes and interrupts.

use holdpoint_core::agent::Role;
use holdpoint_core::{Interrupt, Resolution, Run, RunId, RunRef, TenantId, Timestamp};
use holdpoint_engine::extension::Handle;
use serde_json::{Map, Value, json};

use super::conversation::turns_filter;
use super::resume::resume_id;
use super::turns::TURN_ID;
use super::{GraphError, GraphStatus, Graphs};
use crate::conversion;

/// The text in place of a sensitive value.
const REDACTED: &str = "[redacted]";

/// One turn of a state key.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRecord {
    /// The run of the turn.
    pub run: RunId,
    /// The caller's id of the turn. None for a first turn without one, and for turns of other protocols.
    pub turn_id: Option<String>,
    /// The input of the graph.
    pub input: Value,
    /// The status of the graph in this turn.
    pub status: GraphStatus,
    /// The interrupts in the order of their requests.
    pub interrupts: Vec<TurnInterrupt>,
    /// The time of the start.
    pub started_at: Timestamp,
    /// The time of the end. None if the turn has not ended.
    pub ended_at: Option<Timestamp>,
}

/// An interrupt of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnInterrupt {
    /// The kind.
    pub kind: String,
    /// The data.
    pub data: Value,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The answer that closed the interrupt.
    pub answer: Option<TurnAnswer>,
    /// True if no answer arrived before the deadline of the interrupt.
    pub timed_out: bool,
}

/// The answer to an interrupt of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnAnswer {
    /// The recorded answer.
    pub value: Value,
    /// The principal that decided.
    pub by: String,
    /// The time of the answer.
    pub at: Timestamp,
    /// The caller's id of the resume. None for answers of other protocols.
    pub resume_id: Option<String>,
}

impl Graphs<'_> {
    /// Returns turns of a state key, the newest first. `before` is the run of the last turn of the previous page.
    pub async fn history(
        self,
        tenant: &TenantId,
        state_key: &str,
        before: Option<RunId>,
        limit: u64,
    ) -> Result<Vec<TurnRecord>, GraphError> {
        let row = self.row(tenant, state_key).await?;
        let filter = turns_filter(&row, before.map(|run| run.as_str().to_owned()), limit);
        let mut turns = Vec::new();
        for summary in self.engine.runs().list(tenant, filter).await? {
            let of = RunRef { tenant: tenant.clone(), run: summary.run };
            let run = self.engine.runs().get(&of).await?;
            let status = self.status(&of).await?;
            turns.push(record(&row, &run, status));
        }
        Ok(turns)
    }
}

fn record(row: &Handle, run: &Run, status: GraphStatus) -> TurnRecord {
    let metadata = run.started.as_ref().map(|started| &started.metadata);
    let turn_id = metadata.and_then(|metadata| metadata.get(TURN_ID)?.as_str());
    TurnRecord {
        run: run.id.clone(),
        turn_id: turn_id.map(str::to_owned),
        input: input(row, run),
        status: visible_status(run, status),
        interrupts: run.interrupts.iter().map(|asked| interrupt(asked)).collect(),
        started_at: run.created_at(),
        ended_at: run.end.as_ref().map(holdpoint_core::RunEnd::at),
    }
}

/// Returns the input of a turn: the messages of the user for an agent, the inputs of a workflow, or the input of a
/// provider.
fn input(row: &Handle, run: &Run) -> Value {
    let agents: Vec<_> = run.nodes.iter().filter_map(|node| node.agent.as_deref()).collect();
    if !agents.is_empty() && row.graph.starts_with("native:agent:") {
        let messages = agents.iter().flat_map(|agent| &agent.messages).filter(|one| one.role == Role::User);
        let messages = messages.map(|one| json!({ "role": "user", "content": one.content }));
        return json!({ "messages": messages.collect::<Vec<_>>() });
    }
    let inputs = run.started.as_ref().map(|started| started.inputs.clone()).unwrap_or_default();
    if row.graph.starts_with("native:") {
        return Value::Object(redact(run, inputs));
    }
    inputs.get("input").cloned().unwrap_or(Value::Object(inputs))
}

/// Replaces the sensitive outputs of a workflow.
fn visible_status(run: &Run, status: GraphStatus) -> GraphStatus {
    match status {
        GraphStatus::Completed(Value::Object(outputs)) => {
            GraphStatus::Completed(Value::Object(redact(run, outputs)))
        }
        other => other,
    }
}

/// Replaces the values that the workflow declares as sensitive.
fn redact(run: &Run, mut values: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in &mut values {
        if run.is_hidden(name) {
            *value = Value::from(REDACTED);
        }
    }
    values
}

fn interrupt(asked: &Interrupt) -> TurnInterrupt {
    let (kind, data) = conversion::envelope(asked);
    let answer = match &asked.resolution {
        Some(Resolution::Answered { value, by, at, decision, .. }) => Some(TurnAnswer {
            value: value.clone(),
            by: by.clone(),
            at: *at,
            resume_id: decision.as_deref().and_then(resume_id).map(str::to_owned),
        }),
        Some(Resolution::TimedOut { .. }) | None => None,
    };
    let timed_out = matches!(asked.resolution, Some(Resolution::TimedOut { .. }));
    TurnInterrupt { kind, data, requested_at: asked.requested_at, answer, timed_out }
}
