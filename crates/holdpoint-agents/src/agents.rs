//! Agents: definitions, and decisions about tool calls.

use std::sync::Arc;

use holdpoint_core::agent::ToolCallResume;
use holdpoint_core::{Answer, Command, Principal, Refusal, Run, RunRef, TenantId, WorkflowId};
use holdpoint_engine::{Engine, Error, Once, Registration};
use serde_json::{Value, json};

use crate::{AgentFlaw, AgentTraits, NODE, NODE_TYPE, check_reserved_names, workflow_id};

/// The operations on agents.
#[derive(Clone, Copy, Debug)]
pub struct Agents<'e> {
    pub(crate) engine: &'e Engine,
}

/// Adds the facet of agents to the engine.
pub trait EngineAgents {
    /// Agents: their definitions, their input, and decisions about their tool calls.
    fn agents(&self) -> Agents<'_>;
}

impl EngineAgents for Engine {
    fn agents(&self) -> Agents<'_> {
        Agents { engine: self }
    }
}

impl Agents<'_> {
    /// Stores the definition of an agent as a workflow with one node. An unchanged definition has no effect; a changed
    /// one is a new revision. Rejects a definition that names a connection of an agent file; see
    /// [`Agents::put_of_file`].
    pub async fn put(
        self,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        check_reserved_names(&definition, None).map_err(invalid)?;
        let workflow = to_workflow(&definition)?;
        self.engine.workflows().register_once(tenant, workflow, once).await
    }

    /// Stores the definition of an agent from a file of the operator. It may name the connections that this file
    /// defines ([`Connection::of_agent`](crate::Connection::of_agent)).
    pub async fn put_of_file(self, tenant: &TenantId, definition: Value) -> Result<Registration, Error> {
        let own = definition.get("agentId").and_then(Value::as_str);
        check_reserved_names(&definition, own).map_err(invalid)?;
        let workflow = to_workflow(&definition)?;
        self.engine.workflows().register_for_operator(tenant, workflow).await
    }

    /// Returns the current definition of an agent.
    pub async fn get(self, tenant: &TenantId, agent: &str) -> Result<Value, Error> {
        let id = workflow_id(agent).map_err(|_| Error::NotFound("agent"))?;
        let found = self.engine.workflows().get(tenant, &id).await.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound("agent"),
            other => other,
        })?;
        Ok(found.definition.pointer("/nodes/0/config").cloned().unwrap_or_default())
    }

    /// Returns the properties of an agent for front ends. None if its definition is not usable now.
    pub async fn traits(
        self,
        tenant: &TenantId,
        workflow: &WorkflowId,
    ) -> Result<Option<AgentTraits>, Error> {
        AgentTraits::of(self.engine, tenant, workflow).await
    }

    /// Decides a suspended tool call. `ticket` is the id of the call or of its ticket.
    pub async fn decide_call(
        self,
        of: &RunRef,
        ticket: &str,
        resume: &ToolCallResume,
        by: Principal,
    ) -> Result<Arc<Run>, Error> {
        let run = self.engine.runs().get(of).await?;
        let asked = run.find_call_interrupt(ticket, &resume.decision_id).ok_or(Refusal::InterruptNotFound)?;
        let answer =
            Answer { decision: Some(resume.decision_id.clone()), ..Answer::new(resume.answer(asked), by) };
        self.engine.runs().execute(of, &Command::Resolve { answers: [(asked.id, answer)].into() }).await
    }
}

/// Returns the workflow that an agent is registered as: its only node is the agent.
fn to_workflow(definition: &Value) -> Result<Value, Error> {
    crate::check(definition).map_err(invalid)?;
    let agent = definition.get("agentId").and_then(Value::as_str).unwrap_or_default();
    let id: WorkflowId = workflow_id(agent).map_err(invalid)?;
    let name = definition.get("name").cloned().unwrap_or_else(|| json!(agent));
    let settings =
        definition.pointer("/limits/timeMs").map_or_else(|| json!({}), |ms| json!({ "timeout": ms }));
    let node = json!({
        "id": NODE, "typeId": NODE_TYPE, "name": name, "position": { "x": 0, "y": 0 }, "config": definition,
        "inputs": {},
    });
    Ok(json!({
        "id": id.as_str(), "name": name, "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": crate::variables(definition), "metadata": {}, "settings": settings,
    }))
}

fn invalid(flaw: AgentFlaw) -> Error {
    Error::Refused(Refusal::invalid(flaw.field, flaw.message))
}
