//! Holds: interrupts without a workflow of the caller. Each hold is a run of a workflow that is shipped with the
//! engine, so that all rules of runs and interrupts apply to holds.

use std::sync::Arc;

use holdpoint_core::{
    HoldStatus, Interrupt, InterruptRequest, Kind, Refusal, Resolution, Run, StartRequest, TenantId,
    WorkflowId,
};
use serde_json::{Map, Value, json};

use super::{Holds, Once, StartOptions};
use crate::error::Error;
use crate::nodes::hold::REQUEST_INPUT;

const NODE: &str = "hold";

impl Holds<'_> {
    /// The id of the workflow of all holds.
    pub const WORKFLOW: &'static str = "holdpoint-hold";

    /// Registers the workflow of holds for a tenant. Must be called before [`Holds::create`], because it can be a
    /// separate commit.
    pub async fn prepare(self, tenant: &TenantId) -> Result<(), Error> {
        if self
            .engine
            .workflows()
            .latest(tenant, &hold_workflow()?)
            .await?
            .is_none_or(|known| !is_hold_workflow(&known))
        {
            self.engine.workflows().register_for_operator(tenant, definition()).await?;
        }
        Ok(())
    }

    /// Creates a hold.
    pub async fn create(
        self,
        asked: &InterruptRequest,
        mut start: StartRequest,
        once: Option<Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        asked.check().map_err(|bad| Refusal::invalid(bad.field, bad.message))?;
        start.inputs = [(REQUEST_INPUT.to_owned(), Value::Object(as_json(asked)))].into_iter().collect();
        self.engine
            .runs()
            .create_with(&hold_workflow()?, start, StartOptions { once, ..StartOptions::default() })
            .await
    }

    /// Returns the interrupt of a hold, or `None` if the run is not a hold.
    pub fn interrupt(run: &Run) -> Option<&Interrupt> {
        let is_hold = run.workflow.id.as_str() == Self::WORKFLOW && is_hold_workflow(&run.workflow);
        run.interrupts.first().filter(|_| is_hold).map(AsRef::as_ref)
    }

    /// Returns the status of a hold, as its requester sees it.
    pub fn status(run: &Run, held: &Interrupt) -> HoldStatus {
        match &held.resolution {
            Some(Resolution::TimedOut { .. }) => HoldStatus::TimedOut,
            Some(Resolution::Answered { .. }) if held.kind != Kind::Approval => HoldStatus::Answered,
            Some(Resolution::Answered { value, .. }) => match value.get("action").and_then(Value::as_str) {
                Some("reject") => HoldStatus::Rejected,
                _ => HoldStatus::Approved,
            },
            // The run ended without an answer.
            None if run.finished() => HoldStatus::Cancelled,
            None => HoldStatus::Waiting,
        }
    }
}

fn hold_workflow() -> Result<WorkflowId, Error> {
    Ok(WorkflowId::parse(Holds::WORKFLOW).map_err(|error| crate::store::unreadable("workflow", error))?)
}

fn is_hold_workflow(workflow: &holdpoint_core::Workflow) -> bool {
    matches!(workflow.nodes.as_slice(), [node] if node.type_id == "core.hold")
}

fn definition() -> Value {
    let node = json!({
        "id": NODE, "typeId": "core.hold", "name": "Hold", "position": {"x": 0, "y": 0}, "config": {},
        "inputs": {REQUEST_INPUT: {"type": "variable", "variableName": REQUEST_INPUT}},
    });
    json!({
        "id": Holds::WORKFLOW, "name": "Hold", "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "description": "An interrupt without a workflow of the caller: created by POST /v1/holds and holdpoint ask.",
        "variables": [{"name": REQUEST_INPUT, "type": "object", "description": "The request of the interrupt, as in the config of core.interrupt."}],
        "metadata": {}, "settings": {},
    })
}

/// Returns the JSON form of a request that [`InterruptRequest::from_json`] reads.
fn as_json(asked: &InterruptRequest) -> Map<String, Value> {
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
