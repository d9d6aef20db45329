//! Agents: definitions, stored messages, and decisions about tool calls.

use std::sync::Arc;

use holdpoint_core::agent::ToolCallResume;
use holdpoint_core::{
    Answer, Command, Principal, Refusal, Run, RunId, RunRef, TenantId, Workflow, WorkflowId,
};
use serde_json::{Value, json};

use super::definitions::Author;
use super::{Engine, Once, Registration};
use crate::agent::{AgentFlaw, AgentRuntime, NODE, check_reserved_names, workflow_id};
use crate::error::Error;
use crate::store::messages::{self, MessagePosition, ThreadMessage};

impl Engine {
    pub(crate) fn agents(&self) -> &AgentRuntime {
        &self.0.agents
    }

    /// Returns the newest revision of a workflow.
    pub async fn latest_workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<Arc<Workflow>>, Error> {
        self.0.registry.latest(&self.0.db, tenant, id).await
    }

    pub(crate) async fn latest_revision(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<u64>, Error> {
        Ok(self.latest_workflow(tenant, id).await?.map(|latest| latest.revision))
    }

    /// Stores the definition of an agent as a workflow with one node. An unchanged definition has no effect; a changed
    /// one is a new revision. Rejects a definition that names a connection of an agent file; see
    /// [`Engine::put_agent_of_file`].
    pub async fn put_agent(
        &self,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        check_reserved_names(&definition, None).map_err(invalid)?;
        self.declare_agent(Author::Caller, tenant, definition, once).await
    }

    /// Stores the definition of an agent from a file of the operator. It may name the connections that this file
    /// defines ([`Connection::of_agent`](crate::agent::Connection::of_agent)).
    pub async fn put_agent_of_file(
        &self,
        tenant: &TenantId,
        definition: Value,
    ) -> Result<Registration, Error> {
        let own = definition.get("agentId").and_then(Value::as_str);
        check_reserved_names(&definition, own).map_err(invalid)?;
        self.declare_agent(Author::Operator, tenant, definition, None).await
    }

    async fn declare_agent(
        &self,
        author: Author,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        crate::agent::check(&definition).map_err(invalid)?;
        let agent = definition.get("agentId").and_then(Value::as_str).unwrap_or_default();
        let id = workflow_id(agent).map_err(invalid)?;
        let name = definition.get("name").cloned().unwrap_or_else(|| json!(agent));
        let settings =
            definition.pointer("/limits/timeMs").map_or_else(|| json!({}), |ms| json!({ "timeout": ms }));
        let node = json!({
            "id": NODE, "typeId": "core.agent", "name": name, "position": { "x": 0, "y": 0 }, "config": definition,
            "inputs": {},
        });
        let workflow = json!({
            "id": id.as_str(), "name": name, "version": "1", "nodes": [node], "edges": [], "triggers": [],
            "variables": crate::agent::variables(&definition), "metadata": {}, "settings": settings,
        });
        self.register_by(author, tenant, workflow, once).await
    }

    /// Returns the current definition of an agent.
    pub async fn agent(&self, tenant: &TenantId, agent: &str) -> Result<Value, Error> {
        let id = workflow_id(agent).map_err(|_| Error::NotFound("agent"))?;
        let found = self.workflow(tenant, &id).await.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound("agent"),
            other => other,
        })?;
        Ok(found.definition.pointer("/nodes/0/config").cloned().unwrap_or_default())
    }

    /// Decides a suspended tool call. `ticket` is the id of the call or of its ticket.
    pub async fn decide_call(
        &self,
        of: &RunRef,
        ticket: &str,
        resume: &ToolCallResume,
        by: Principal,
    ) -> Result<Arc<Run>, Error> {
        let run = self.run(of).await?;
        let asked = run.find_call_interrupt(ticket, &resume.decision_id).ok_or(Refusal::InterruptNotFound)?;
        let answer =
            Answer { decision: Some(resume.decision_id.clone()), ..Answer::new(resume.answer(asked), by) };
        self.execute(of, &Command::Resolve { answers: [(asked.id, answer)].into() }).await
    }

    /// Returns the messages of a thread after a position, oldest first.
    pub async fn messages(
        &self,
        tenant: &TenantId,
        thread: &str,
        after: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<ThreadMessage>, Error> {
        let after = after.map(|(run, seq)| MessagePosition { run: run.as_str(), seq });
        Ok(messages::page(&self.0.db, tenant, thread, after, limit).await?)
    }

    /// Returns the last messages of a thread, or the last ones before a position, newest first.
    pub async fn last_messages(
        &self,
        tenant: &TenantId,
        thread: &str,
        before: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<ThreadMessage>, Error> {
        let before = before.map(|(run, seq)| MessagePosition { run: run.as_str(), seq });
        Ok(messages::last(&self.0.db, tenant, thread, before, limit).await?)
    }
}

fn invalid(flaw: AgentFlaw) -> Error {
    Error::Refused(Refusal::invalid(flaw.field, flaw.message))
}
