//! Holds: pauses without a workflow of their own. Each is a run of one workflow that comes with the engine, so that all
//! that is true of runs and of what they ask is true of holds.

use std::sync::Arc;

use holdpoint_core::{
    HoldStatus, Interrupt, Kind, Refusal, Request, Resolution, Run, Start, TenantId, WorkflowId,
};
use serde_json::{Map, Value, json};

use super::{Engine, Once, StartOptions};
use crate::error::Error;
use crate::nodes::hold::ASKED;

const NODE: &str = "hold";

impl Engine {
    /// The workflow that every hold is a run of.
    pub const HOLD_WORKFLOW: &str = "holdpoint-hold";

    /// Makes sure that a tenant can make holds. To be called before one is made: it may be a commit of its own.
    pub async fn prepare_holds(&self, tenant: &TenantId) -> Result<(), Error> {
        if self.latest(tenant, &hold_workflow()?).await?.is_none_or(|known| !is_hold_workflow(&known)) {
            self.register_for_operator(tenant, definition()).await?;
        }
        Ok(())
    }

    /// Asks, without a workflow of the caller's.
    pub async fn hold(
        &self,
        asked: &Request,
        mut start: Start,
        once: Option<Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        asked.check().map_err(|bad| Refusal::invalid(bad.field, bad.message))?;
        start.inputs = [(ASKED.to_owned(), Value::Object(as_json(asked)))].into_iter().collect();
        self.start_with(&hold_workflow()?, start, StartOptions { once, ..StartOptions::default() }).await
    }

    /// What a hold asks. Nothing where the run is no hold.
    pub fn held(run: &Run) -> Option<&Interrupt> {
        let is_hold = run.workflow.id.as_str() == Self::HOLD_WORKFLOW && is_hold_workflow(&run.workflow);
        run.interrupts.first().filter(|_| is_hold).map(AsRef::as_ref)
    }

    /// Returns the status of a hold, as its requester sees it.
    pub fn hold_status(run: &Run, held: &Interrupt) -> HoldStatus {
        match &held.resolution {
            Some(Resolution::TimedOut { .. }) => HoldStatus::TimedOut,
            Some(Resolution::Answered { .. }) if held.kind != Kind::Approval => HoldStatus::Answered,
            Some(Resolution::Answered { value, .. }) => match value.get("action").and_then(Value::as_str) {
                Some("reject") => HoldStatus::Rejected,
                _ => HoldStatus::Approved,
            },
            // Whatever ends a run ends its hold without an answer, too.
            None if run.finished() => HoldStatus::Cancelled,
            None => HoldStatus::Waiting,
        }
    }
}

fn hold_workflow() -> Result<WorkflowId, Error> {
    Ok(WorkflowId::parse(Engine::HOLD_WORKFLOW)
        .map_err(|error| crate::store::unreadable("workflow", error))?)
}

fn is_hold_workflow(workflow: &holdpoint_core::Workflow) -> bool {
    matches!(workflow.nodes.as_slice(), [node] if node.type_id == "core.hold")
}

fn definition() -> Value {
    let node = json!({
        "id": NODE, "typeId": "core.hold", "name": "Hold", "position": {"x": 0, "y": 0}, "config": {},
        "inputs": {ASKED: {"type": "variable", "variableName": ASKED}},
    });
    json!({
        "id": Engine::HOLD_WORKFLOW, "name": "Hold", "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "description": "One question of somebody who has no workflow for it: made by POST /v1/holds and holdpoint ask.",
        "variables": [{"name": ASKED, "type": "object", "description": "What is asked, as core.interrupt takes it."}],
        "metadata": {}, "settings": {},
    })
}

/// As [`Request::from_json`] reads it.
fn as_json(asked: &Request) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("kind".to_owned(), json!(asked.kind.as_str()));
    members.insert("data".to_owned(), asked.data.clone());
    let mut put = |name: &str, value: Option<Value>| {
        members.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("key", asked.key.clone().map(Value::from));
    put("resumeSchema", asked.resume_schema.clone());
    put("timeoutMs", asked.timeout_ms.map(Value::from));
    members
}
