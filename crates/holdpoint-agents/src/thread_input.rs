//! Input for threads. The rules that all protocols share: the open run of a thread gets the input, otherwise a new run
//! starts; input that a concurrent change of the thread prevents is tried again.

use std::sync::Arc;

use holdpoint_core::agent::Message;
use holdpoint_core::{Command, InputMode, NodeId, Owner, Principal, Run, RunRef, StartRequest};
use holdpoint_engine::{Error, ExecuteOptions, Once, StartOptions, Threads, new_run_id};
use uuid::Uuid;

use crate::{AgentRuntime, Agents, NODE, NODE_TYPE, workflow_id};

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

impl Agents<'_> {
    /// Sends messages to the open run of a thread, or starts a new run, as `mode` says.
    pub async fn send_input(self, input: AgentInput, mode: InputMode) -> Result<Arc<Run>, Error> {
        let Some(thread) = input.thread.clone() else { return self.start(input).await };
        let tenant = &input.owner.tenant;
        if mode == InputMode::InterruptThenQueue {
            // Input for an unknown agent must not cancel the open run.
            self.get(tenant, &input.agent).await?;
        }
        // The start is checked even if no run starts, so that the outcome does not depend on the state of the
        // thread.
        if let Some(start) = &input.start {
            start.check()?;
        }
        self.engine.threads().repeat_input(|| self.try_send_input(&input, &thread, mode)).await
    }

    /// Returns `None` if a concurrent change of the thread prevented the input.
    async fn try_send_input(
        self,
        input: &AgentInput,
        thread: &str,
        mode: InputMode,
    ) -> Result<Option<Arc<Run>>, Error> {
        let tenant = &input.owner.tenant;
        let sent = match (self.engine.threads().open_run(tenant, thread).await?, mode) {
            (None, InputMode::ResumeOpenRun) => return Err(Error::NotFound("open run")),
            (None, _) => self.start(input.clone()).await,
            (Some(of), InputMode::InterruptThenQueue) => {
                // The receipt is written with the start: a cancellation alone does not complete the request.
                self.engine.limits().check_growth(tenant).await?;
                // Input with the key of a live dispatch is refused, and must not cancel the open run.
                let key = input.start.as_ref().and_then(|start| start.dispatch.dedupe_key.as_deref());
                if let Some(key) = key {
                    self.engine.dispatches().check_key_free(tenant, thread, key).await?;
                }
                let by = Principal::named(&input.owner.principal);
                self.engine.runs().cancel(&of, Some("interrupted by input".to_owned()), by).await?;
                return Ok(None);
            }
            (Some(of), InputMode::Queue | InputMode::LiveThenQueue | InputMode::ResumeOpenRun) => {
                let dispatch = input.start.as_ref().map(|start| start.dispatch.clone()).unwrap_or_default();
                let options = ExecuteOptions { once: input.once.as_ref(), dispatch };
                match self.send_messages(&of, input.messages.clone(), options).await {
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
    pub async fn start(self, input: AgentInput) -> Result<Arc<Run>, Error> {
        let id = workflow_id(&input.agent).map_err(|_| Error::NotFound("agent"))?;
        let base = input.start.map_or_else(|| StartRequest::new(input.owner.clone()), |start| *start);
        let start = StartRequest { messages: Some(Box::new((agent_node(), input.messages))), ..base };
        let started = match input.thread {
            Some(thread) => self.engine.threads().start(&id, &thread, start, input.once).await,
            None => {
                // A new thread has no previous run and no earlier messages.
                let (run, thread) = (new_run_id()?, Uuid::now_v7().to_string());
                let of = RunRef { tenant: input.owner.tenant, run };
                if let Some(runtime) = self.engine.extension::<AgentRuntime>() {
                    runtime.history.insert_new(&of, &thread);
                }
                let start =
                    StartRequest { scope: Some(Threads::scope_of(&thread)), thread: Some(thread), ..start };
                let options = StartOptions { id: Some(of.run), exclusive: true, once: input.once };
                self.engine.runs().create_with(&id, start, options).await
            }
        };
        started.map_err(|error| match error {
            Error::NotFound("workflow") => Error::NotFound("agent"),
            other => other,
        })
    }

    /// Sends messages to the agent of a run that has not ended.
    pub async fn send_messages(
        self,
        of: &RunRef,
        messages: Vec<Message>,
        options: ExecuteOptions<'_>,
    ) -> Result<Arc<Run>, Error> {
        self.execute_and_send(of, Vec::new(), messages, options).await
    }

    /// Executes commands of an agent's run and sends messages to the agent, in one change. The agent reads the messages
    /// before it continues after the commands.
    pub async fn execute_and_send(
        self,
        of: &RunRef,
        mut commands: Vec<Command>,
        messages: Vec<Message>,
        options: ExecuteOptions<'_>,
    ) -> Result<Arc<Run>, Error> {
        let node = agent_of(&*self.engine.runs().get(of).await?).ok_or(Error::NotFound("agent"))?;
        commands.push(Command::SendMessages { node, messages });
        self.engine.runs().execute_once(of, &commands, options).await
    }

    /// Returns the command that gives messages to the agent of a run. `None` if the run has no agent that takes
    /// messages.
    pub fn message_command(
        self,
        run: &Run,
        messages: Vec<Message>,
        timing: MessageTiming,
    ) -> Option<Command> {
        let node = agent_of(run)?;
        Some(match timing {
            MessageTiming::BeforeNextStep => Command::SendMessages { node, messages },
            MessageTiming::AfterEffects => Command::QueueMessages { node, messages },
        })
    }
}

/// The time at which an agent reads messages that come with other commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageTiming {
    /// Before it continues after the commands.
    BeforeNextStep,
    /// After the effects of the commands. Other open interrupts stay open.
    AfterEffects,
}

fn agent_node() -> NodeId {
    NodeId::parse(NODE).expect("the name is a valid id")
}

/// Returns the node that takes messages: the first agent that has not ended.
fn agent_of(run: &Run) -> Option<NodeId> {
    let nodes = run.workflow.nodes.iter().zip(&run.nodes);
    let mut agents = nodes.filter(|(node, _)| node.type_id == NODE_TYPE);
    agents.find(|(_, state)| !state.status.has_ended()).map(|(node, _)| node.id.clone())
}
