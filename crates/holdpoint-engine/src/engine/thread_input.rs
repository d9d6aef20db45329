//! Input for threads. The rules that all protocols share: the open run of a thread gets the input, otherwise a new run
//! starts; input that a concurrent change of the thread prevents is tried again.

use std::sync::Arc;

use holdpoint_core::agent::Message;
use holdpoint_core::mailbox::MailboxInterrupt;
use holdpoint_core::{
    Command, InputMode, NodeId, Owner, Principal, Refusal, Run, RunId, RunRef, StartRequest, TenantId,
};
use uuid::Uuid;

use super::starting::new_run_id;
use super::{ATTEMPTS_MAX, Engine, Once, StartOptions};
use crate::agent::{NODE, workflow_id};
use crate::error::Error;
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

impl Error {
    /// Returns whether a concurrent change of the thread prevented input: the run or its agent ended, or another run
    /// started. The input is then tried again on the changed thread. A thread that is itself an open run of a workflow
    /// has no other run until that one has ended.
    pub fn is_thread_change(&self, thread: &str) -> bool {
        match self {
            Self::Refused(Refusal::RunFinished(_) | Refusal::NodeNotRunning) => true,
            Self::ScopeBusy { active_run } => active_run.as_str() != thread,
            _ => false,
        }
    }
}

impl Engine {
    /// Repeats an attempt to send input to a thread until it succeeds or fails. The attempt reads the thread and returns
    /// `None` if a concurrent change of the thread prevented the input. Fails with [`Error::Busy`] after many changes.
    pub async fn repeat_input<T, E: From<Error>, A: Future<Output = Result<Option<T>, E>>>(
        &self,
        attempt: impl Fn() -> A,
    ) -> Result<T, E> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(done) = attempt().await? {
                return Ok(done);
            }
        }
        Err(Error::Busy.into())
    }

    /// Sends messages to the open run of a thread, or starts a new run, as `mode` says.
    pub async fn send_input(&self, input: AgentInput, mode: InputMode) -> Result<Arc<Run>, Error> {
        let Some(thread) = input.thread.clone() else { return self.start_agent(input).await };
        let tenant = &input.owner.tenant;
        if mode == InputMode::InterruptThenQueue {
            // Input for an unknown agent must not cancel the open run.
            self.agent(tenant, &input.agent).await?;
        }
        // The start is checked even if no run starts, so that the outcome does not depend on the state of the
        // thread.
        if let Some(start) = &input.start {
            start.check()?;
        }
        self.repeat_input(|| self.try_send_input(&input, &thread, mode)).await
    }

    /// Returns `None` if a concurrent change of the thread prevented the input.
    async fn try_send_input(
        &self,
        input: &AgentInput,
        thread: &str,
        mode: InputMode,
    ) -> Result<Option<Arc<Run>>, Error> {
        let tenant = &input.owner.tenant;
        let sent = match (self.open_run(tenant, thread).await?, mode) {
            (None, InputMode::ResumeOpenRun) => return Err(Error::NotFound("open run")),
            (None, _) => self.start_agent(input.clone()).await,
            (Some(of), InputMode::InterruptThenQueue) => {
                // The receipt is written with the start: a cancellation alone does not complete the request.
                self.check_growth(tenant).await?;
                let by = Principal::named(&input.owner.principal);
                self.cancel(&of, Some("interrupted by input".to_owned()), by).await?;
                return Ok(None);
            }
            (Some(of), InputMode::Queue | InputMode::LiveThenQueue | InputMode::ResumeOpenRun) => {
                match self.send_messages(&of, input.messages.clone(), input.once.as_ref()).await {
                    Err(Error::NotFound("agent")) => return Ok(None),
                    sent => sent,
                }
            }
        };
        match sent {
            Err(error) if error.is_thread_change(thread) => Ok(None),
            sent => sent.map(Some),
        }
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
