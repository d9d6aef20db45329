//! Agents: definitions, messages in threads, and decisions about tool calls.

use std::sync::Arc;

use holdpoint_core::agent::{Message, ToolCallResume};
use holdpoint_core::mailbox::MailboxInterrupt;
use holdpoint_core::{
    Answer, Command, InputMode, NodeId, Owner, Principal, Refusal, Run, RunId, RunRef, StartRequest, Status,
    TenantId, Workflow, WorkflowId,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::definitions::Author;
use super::starting::new_run_id;
use super::{ATTEMPTS_MAX, Engine, Once, Registration, StartOptions};
use crate::agent::{AgentFlaw, AgentRuntime, NODE, check_reserved_names, workflow_id};
use crate::error::Error;
use crate::store::messages::{self, ThreadMessage};
use crate::store::runs::{RunFilter, RunSummary};
use crate::store::threads::scope_of;

/// Messages for an agent and their thread.
#[derive(Clone, Debug)]
pub struct AgentInput {
    /// The id of the agent.
    pub agent: String,
    /// The thread. `None` for a new one.
    pub thread: Option<String>,
    /// The messages.
    pub messages: Vec<Message>,
    /// The owner of the run, if a run is started.
    pub owner: Owner,
    /// The other members of the request that starts a run.
    pub start: Option<Box<StartRequest>>,
    /// The request whose receipt is written with the messages.
    pub once: Option<Once<Run>>,
}

/// The effects of an interruption of a thread.
#[derive(Clone, Debug)]
pub struct ThreadInterruption {
    /// The dispatches that were superseded.
    pub mail: MailboxInterrupt,
    /// The run that was cancelled.
    pub cancelled: Option<RunId>,
}

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

    /// Starts a run of an agent with messages. Fails with [`Error::ScopeBusy`] while the thread has an open run.
    pub async fn start_agent(&self, input: AgentInput) -> Result<Arc<Run>, Error> {
        let id = workflow_id(&input.agent).map_err(|_| Error::NotFound("agent"))?;
        let mut options = StartOptions { id: None, exclusive: true, once: input.once };
        let thread = match input.thread {
            Some(thread) => self.check_own_run_ended(&input.owner.tenant, thread).await?,
            None => {
                // A new thread has no previous run and no earlier messages.
                let run = new_run_id()?;
                self.agents()
                    .history
                    .insert(&RunRef { tenant: input.owner.tenant.clone(), run: run.clone() }, Arc::default());
                options.id = Some(run);
                Uuid::now_v7().to_string()
            }
        };
        let base = input.start.map_or_else(|| StartRequest::new(input.owner.clone()), |start| *start);
        let start = StartRequest {
            scope: Some(scope_of(&thread)),
            thread: Some(thread),
            messages: Some(Box::new((agent_node()?, input.messages))),
            ..base
        };
        self.start_with(&id, start, options).await.map_err(|error| match error {
            Error::NotFound("workflow") => Error::NotFound("agent"),
            other => other,
        })
    }

    /// Sends messages to the open run of a thread, or starts a new run, as `mode` says.
    pub async fn send_input(&self, input: AgentInput, mode: InputMode) -> Result<Arc<Run>, Error> {
        let Some(thread) = input.thread.clone() else { return self.start_agent(input).await };
        // The start is checked even if no run starts, so that the outcome does not depend on the state of the
        // thread.
        if let Some(start) = &input.start {
            start.check()?;
        }
        let tenant = input.owner.tenant.clone();
        for _ in 0..ATTEMPTS_MAX {
            let open = self.open_run(&tenant, &thread).await?;
            let result = match (&open, mode) {
                (None, InputMode::ResumeOpenRun) => return Err(Error::NotFound("open run")),
                (Some(of), InputMode::Queue | InputMode::LiveThenQueue | InputMode::ResumeOpenRun) => {
                    self.send_messages(of, input.messages.clone(), input.once.as_ref()).await
                }
                (Some(of), InputMode::InterruptThenQueue) => {
                    self.check_growth(&tenant).await?;
                    let by = Principal::named(&input.owner.principal);
                    self.cancel(of, Some("interrupted by input".to_owned()), by).await?;
                    continue;
                }
                (None, _) => self.start_agent(input.clone()).await,
            };
            match result {
                // The thread belongs to a run without an agent, which takes no messages.
                Err(Error::ScopeBusy { active_run }) if active_run.as_str() == thread => {
                    return Err(Error::ScopeBusy { active_run });
                }
                // The run ended, or another one started: try again.
                Err(
                    Error::Refused(Refusal::RunFinished(_) | Refusal::NodeNotRunning)
                    | Error::ScopeBusy { .. },
                ) => {}
                Err(Error::NotFound("agent")) if open.is_some() => {}
                other => return other,
            }
        }
        Err(Error::Busy)
    }

    /// Interrupts a thread: supersedes its queued dispatches and cancels its open run. With `keep_waiting`, a run that
    /// only waits is not cancelled.
    pub async fn interrupt_thread(
        &self,
        tenant: &TenantId,
        thread: &str,
        keep_waiting: bool,
        by: Principal,
    ) -> Result<ThreadInterruption, Error> {
        let mail = self.mailbox(tenant).interrupt(thread, self.now()).await?;
        let mut cancelled = None;
        if let Some(of) = self.open_run(tenant, thread).await? {
            let run = self.run(&of).await?;
            let awaits = run.children.iter().any(|child| run.awaits(&child.run));
            let waits = (awaits || run.waiting_on().is_some()) && run.next_work().is_none();
            if !(waits && keep_waiting) {
                self.cancel(&of, Some("interrupted".to_owned()), by).await?;
                cancelled = Some(of.run);
            }
        }
        Ok(ThreadInterruption { mail, cancelled })
    }

    /// Sends messages to the agent of a run that has not ended.
    pub async fn send_messages(
        &self,
        of: &RunRef,
        messages: Vec<Message>,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        self.execute_and_send(of, Vec::new(), messages, once).await
    }

    /// Executes commands of an agent's run and sends messages to the agent, in one change. The agent reads the messages
    /// before it continues after the commands.
    pub async fn execute_and_send(
        &self,
        of: &RunRef,
        mut commands: Vec<Command>,
        messages: Vec<Message>,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        let node = agent_of(&*self.run(of).await?).ok_or(Error::NotFound("agent"))?;
        commands.push(Command::SendMessages { node, messages });
        self.execute_once(of, &commands, once).await
    }

    /// Executes commands of an agent's run and queues messages that the agent reads after the effects of the commands,
    /// in one change. Other open interrupts stay open.
    pub async fn execute_and_queue(
        &self,
        of: &RunRef,
        mut commands: Vec<Command>,
        messages: Vec<Message>,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        let node = agent_of(&*self.run(of).await?).ok_or(Error::NotFound("agent"))?;
        commands.push(Command::QueueMessages { node, messages });
        self.execute_once(of, &commands, once).await
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

    /// Returns the run of a thread that has not ended, if there is one.
    pub async fn open_run(&self, tenant: &TenantId, thread: &str) -> Result<Option<RunRef>, Error> {
        let latest = self.thread_runs(tenant, thread, None, 1).await?;
        let open = latest.into_iter().find(|run| !is_end(run.status));
        Ok(open.map(|run| RunRef { tenant: tenant.clone(), run: run.run }))
    }

    /// Returns the runs of a thread, newest first. `before` is the id of the last run of the previous page.
    pub async fn thread_runs(
        &self,
        tenant: &TenantId,
        thread: &str,
        before: Option<String>,
        limit: u64,
    ) -> Result<Vec<RunSummary>, Error> {
        let filter = RunFilter { scope: Some(scope_of(thread)), before, limit, ..RunFilter::default() };
        self.runs(tenant, filter).await
    }

    /// Returns the messages of a thread after a position, oldest first.
    pub async fn messages(
        &self,
        tenant: &TenantId,
        thread: &str,
        after: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<ThreadMessage>, Error> {
        let after = after.map(|(run, seq)| (run.as_str(), seq));
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
        let before = before.map(|(run, seq)| (run.as_str(), seq));
        Ok(messages::last(&self.0.db, tenant, thread, before, limit).await?)
    }
}

fn invalid(flaw: AgentFlaw) -> Error {
    Error::Refused(Refusal::invalid(flaw.field, flaw.message))
}

fn is_end(status: Status) -> bool {
    match status {
        Status::Completed | Status::Failed | Status::Cancelled => true,
        Status::Pending
        | Status::Running
        | Status::Paused
        | Status::WaitingApproval
        | Status::WaitingInput
        | Status::WaitingExternal => false,
    }
}

fn agent_node() -> Result<NodeId, Error> {
    Ok(NodeId::parse(NODE).map_err(|error| crate::store::unreadable("node", error))?)
}

/// Returns the node that takes messages: the first agent that has not ended.
fn agent_of(run: &Run) -> Option<NodeId> {
    let nodes = run.workflow.nodes.iter().zip(&run.nodes);
    let mut agents = nodes.filter(|(node, _)| node.type_id == "core.agent");
    agents.find(|(_, state)| !state.status.has_ended()).map(|(node, _)| node.id.clone())
}
