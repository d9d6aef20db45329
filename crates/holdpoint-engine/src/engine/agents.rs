//! Agents: declaring them, talking to them in threads, and deciding about their calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::agent::{Message, ToolCallResume};
use holdpoint_core::mailbox::MailboxInterrupt;
use holdpoint_core::{
    Answer, Command, InputMode, InterruptId, NodeId, Owner, Principal, Refusal, Run, RunId, RunRef, Start,
    Status, TenantId, Workflow, WorkflowId,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::definitions::Author;
use super::starting::fresh_id;
use super::{ATTEMPTS_MAX, Engine, Once, Registration, StartOptions};
use crate::agent::{AgentFlaw, Agents, NODE, check_reserved_names, workflow_id};
use crate::error::Error;
use crate::store::messages::{self, Said};
use crate::store::runs::{RunFilter, RunSummary};
use crate::store::threads::scope_of;

/// What is said to an agent, and where.
#[derive(Clone, Debug)]
pub struct Talk {
    pub agent: String,
    /// Nothing for a new one.
    pub thread: Option<String>,
    pub messages: Vec<Message>,
    pub owner: Owner,
    pub start: Option<Box<Start>>,
    /// The request whose receipt is written with the message.
    pub once: Option<Once<Run>>,
}

/// What an interruption of a thread has ended.
#[derive(Clone, Debug)]
pub struct Interrupted {
    pub mail: MailboxInterrupt,
    pub cancelled: Option<RunId>,
}

impl Engine {
    pub(crate) fn agents(&self) -> &Agents {
        &self.0.agents
    }

    /// Returns the newest revision of a workflow.
    pub async fn latest(&self, tenant: &TenantId, id: &WorkflowId) -> Result<Option<Arc<Workflow>>, Error> {
        self.0.registry.latest(&self.0.db, tenant, id).await
    }

    pub(crate) async fn latest_revision(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<u64>, Error> {
        Ok(self.latest(tenant, id).await?.map(|latest| latest.revision))
    }

    /// Declares an agent: a workflow of one node. The same one again changes nothing; another is a new revision. A
    /// definition that names a connection of an agent file is rejected; see [`Engine::put_agent_of_file`].
    pub async fn put_agent(
        &self,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        check_reserved_names(&definition, None).map_err(invalid)?;
        self.declare_agent(Author::Caller, tenant, definition, once).await
    }

    /// Declares an agent from a file of the operator's. It may name the connections that were made from this file
    /// ([`Connection::of_agent`](crate::agent::Connection::of_agent)).
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

    /// The definition of an agent as it is now.
    pub async fn agent(&self, tenant: &TenantId, agent: &str) -> Result<Value, Error> {
        let id = workflow_id(agent).map_err(|_| Error::NotFound("agent"))?;
        let found = self.workflow(tenant, &id).await.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound("agent"),
            other => other,
        })?;
        Ok(found.definition.pointer("/nodes/0/config").cloned().unwrap_or_default())
    }

    /// Says something to an agent in a new run of a thread; refused with [`Error::ScopeBusy`] while one is open there.
    pub async fn start_agent(&self, talk: Talk) -> Result<Arc<Run>, Error> {
        let id = workflow_id(&talk.agent).map_err(|_| Error::NotFound("agent"))?;
        let mut options = StartOptions { id: None, exclusive: true, once: talk.once };
        let thread = match talk.thread {
            Some(thread) => self.without_own_run(&talk.owner.tenant, thread).await?,
            None => {
                // In a thread that nobody knows yet there is no run to come behind, and nothing was said.
                let run = fresh_id()?;
                self.agents()
                    .earlier
                    .put(&RunRef { tenant: talk.owner.tenant.clone(), run: run.clone() }, Arc::default());
                options.id = Some(run);
                Uuid::now_v7().to_string()
            }
        };
        let base = talk.start.map_or_else(|| Start::new(talk.owner.clone()), |start| *start);
        let start = Start {
            scope: Some(scope_of(&thread)),
            thread: Some(thread),
            messages: Some(Box::new((agent_node()?, talk.messages))),
            ..base
        };
        self.start_with(&id, start, options).await.map_err(|error| match error {
            Error::NotFound("workflow") => Error::NotFound("agent"),
            other => other,
        })
    }

    /// Says something in a thread: to the run that is open there, or to a new one.
    pub async fn input(&self, talk: Talk, mode: InputMode) -> Result<Arc<Run>, Error> {
        let Some(thread) = talk.thread.clone() else { return self.start_agent(talk).await };
        // What is wrong is wrong also where no run begins.
        if let Some(start) = &talk.start {
            start.check()?;
        }
        let tenant = talk.owner.tenant.clone();
        for _ in 0..ATTEMPTS_MAX {
            let open = self.open_run(&tenant, &thread).await?;
            let said = match (&open, mode) {
                (None, InputMode::ResumeOpenRun) => return Err(Error::NotFound("open run")),
                (Some(of), InputMode::Queue | InputMode::LiveThenQueue | InputMode::ResumeOpenRun) => {
                    self.say(of, talk.messages.clone(), talk.once.as_ref()).await
                }
                (Some(of), InputMode::InterruptThenQueue) => {
                    self.check_growth(&tenant).await?;
                    let by = Principal::named(&talk.owner.principal);
                    self.cancel(of, Some("interrupted by input".to_owned()), by).await?;
                    continue;
                }
                (None, _) => self.start_agent(talk.clone()).await,
            };
            match said {
                // The thread is that of a run without an agent to be told anything.
                Err(Error::ScopeBusy { active_run }) if active_run.as_str() == thread => {
                    return Err(Error::ScopeBusy { active_run });
                }
                // It ended meanwhile, or another began: look again.
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

    /// Ends what a thread is at: what is queued is superseded, and the run that is open is cancelled, unless it waits
    /// and is to be kept.
    pub async fn interrupt_thread(
        &self,
        tenant: &TenantId,
        thread: &str,
        keep_waiting: bool,
        by: Principal,
    ) -> Result<Interrupted, Error> {
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
        Ok(Interrupted { mail, cancelled })
    }

    /// Says something to the run of an agent that is at work or waits.
    pub async fn say(
        &self,
        of: &RunRef,
        messages: Vec<Message>,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        let run = self.run(of).await?;
        let node = agent_of(&run).ok_or(Error::NotFound("agent"))?;
        self.execute_once(of, &[Command::Say { node, messages }], once).await
    }

    /// Answers questions of an agent's run and says something to it, in one change: what the answers carry on has heard it.
    pub async fn answer_and_say(
        &self,
        of: &RunRef,
        answers: BTreeMap<InterruptId, Answer>,
        messages: Vec<Message>,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        let run = self.run(of).await?;
        let node = agent_of(&run).ok_or(Error::NotFound("agent"))?;
        self.execute_once(of, &[Command::Resolve { answers }, Command::Say { node, messages }], once).await
    }

    /// Answers interrupts of an agent's run and adds messages that the agent reads behind what the answers do, in one
    /// change. Interrupts that stay open are not taken back.
    pub async fn answer_and_queue(
        &self,
        of: &RunRef,
        answers: BTreeMap<InterruptId, Answer>,
        messages: Vec<Message>,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        let run = self.run(of).await?;
        let node = agent_of(&run).ok_or(Error::NotFound("agent"))?;
        self.execute_once(of, &[Command::Resolve { answers }, Command::Queue { node, messages }], once).await
    }

    /// Decides about a call that waits: by its own name, or by that of its ticket.
    pub async fn decide_call(
        &self,
        of: &RunRef,
        ticket: &str,
        resume: &ToolCallResume,
        by: Principal,
    ) -> Result<Arc<Run>, Error> {
        let run = self.run(of).await?;
        let asked = run.question_about(ticket, &resume.decision_id).ok_or(Refusal::InterruptNotFound)?;
        let answer =
            Answer { decision: Some(resume.decision_id.clone()), ..Answer::new(resume.answer(asked), by) };
        self.execute(of, &Command::Resolve { answers: [(asked.id, answer)].into() }).await
    }

    /// The run of a thread that has not ended, if there is one.
    pub async fn open_run(&self, tenant: &TenantId, thread: &str) -> Result<Option<RunRef>, Error> {
        let latest = self.thread_runs(tenant, thread, None, 1).await?;
        let open = latest.into_iter().find(|run| !is_end(run.status));
        Ok(open.map(|run| RunRef { tenant: tenant.clone(), run: run.run }))
    }

    /// The newest first.
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

    /// What was said in a thread behind a place.
    pub async fn messages(
        &self,
        tenant: &TenantId,
        thread: &str,
        behind: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<Said>, Error> {
        let behind = behind.map(|(run, seq)| (run.as_str(), seq));
        Ok(messages::page(&self.0.db, tenant, thread, behind, limit).await?)
    }

    /// Returns the last messages of a thread, or those before a place, the last one first.
    pub async fn last_messages(
        &self,
        tenant: &TenantId,
        thread: &str,
        before: Option<(&RunId, u64)>,
        limit: u64,
    ) -> Result<Vec<Said>, Error> {
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

/// The node at which something can be said: the first agent that has not ended.
fn agent_of(run: &Run) -> Option<NodeId> {
    let nodes = run.workflow.nodes.iter().zip(&run.nodes);
    let mut agents = nodes.filter(|(node, _)| node.type_id == "core.agent");
    agents.find(|(_, state)| !state.status.has_ended()).map(|(node, _)| node.id.clone())
}
