//! Agents and their threads.

use holdpoint_api::agents::{
    Agent, AgentList, AgentRegistered, CancelThread, InterruptThread, MessageAccepted, MessageList,
    SayInThread, StartAgent, ThreadInterrupted, ThreadRunNow, ThreadRuns,
};
use holdpoint_api::agui::RunAgentInput;
use holdpoint_api::decisions::{CallDecided, DecideCall};
use holdpoint_api::events::{After, ThreadEvents};
use holdpoint_api::ids::encode_segment;
use serde::Serialize;

use crate::events::{EventStream, StreamEnd};
use crate::{Client, Request, RetryPolicy};

/// Declares agents and starts their runs.
#[derive(Clone, Copy, Debug)]
pub struct Agents<'a>(pub(super) &'a Client);

impl Agents<'_> {
    /// Lists the declared agents.
    pub fn list(self) -> Request<AgentList> {
        self.0.get("/v1/agents")
    }

    /// Returns the definition of an agent.
    pub fn get(self, agent: &str) -> Request<Agent> {
        self.0.get(format!("/v1/agents/{}", encode_segment(agent)))
    }

    /// Declares an agent, or a new revision of it.
    pub fn put(self, agent: &str, definition: &impl Serialize) -> Request<AgentRegistered> {
        self.0.put(format!("/v1/agents/{}", encode_segment(agent))).body(definition)
    }

    /// Declares an agent from its JSON text, which is sent unchanged.
    pub fn put_text(self, agent: &str, definition: String) -> Request<AgentRegistered> {
        self.0.put(format!("/v1/agents/{}", encode_segment(agent))).body_text(definition)
    }

    /// Starts a run of an agent with a message.
    pub fn start(self, agent: &str, input: &StartAgent) -> Request<MessageAccepted> {
        self.0.post(format!("/v1/agents/{}/runs", encode_segment(agent))).body(input)
    }

    /// Sends an input of AG-UI and watches the events of its run. A lost connection is an error, because the input is
    /// not sent twice.
    pub fn run_ag_ui(self, agent: &str, input: &RunAgentInput) -> EventStream {
        let request = self.0.post(format!("/ag-ui/{}", encode_segment(agent))).body(input);
        EventStream::new(request, StreamEnd::AtClose).reconnect(RetryPolicy::OFF)
    }
}

/// Reads and continues threads: conversations with agents.
#[derive(Clone, Copy, Debug)]
pub struct Threads<'a>(pub(super) &'a Client);

impl Threads<'_> {
    /// Sends a message in a thread.
    pub fn send_message(self, thread: &str, message: &SayInThread) -> Request<MessageAccepted> {
        self.0.post(format!("/v1/threads/{}/messages", encode_segment(thread))).body(message)
    }

    /// Lists the messages of a thread, the oldest first.
    pub fn messages(self, thread: &str, query: &After) -> Request<MessageList> {
        self.0.get(format!("/v1/threads/{}/messages", encode_segment(thread))).query(query)
    }

    /// Interrupts a thread: cancels its open run and its queued messages.
    pub fn interrupt(self, thread: &str, interrupt: &InterruptThread) -> Request<ThreadInterrupted> {
        self.0.post(format!("/v1/threads/{}/interrupt", encode_segment(thread))).body(interrupt)
    }

    /// Cancels the open run of a thread.
    pub fn cancel(self, thread: &str, cancel: &CancelThread) -> Request<MessageAccepted> {
        self.0.post(format!("/v1/threads/{}/cancel", encode_segment(thread))).body(cancel)
    }

    /// Decides about a tool call of the open run.
    pub fn decide(self, thread: &str, decision: &DecideCall) -> Request<CallDecided> {
        self.0.post(format!("/v1/threads/{}/decision", encode_segment(thread))).body(decision)
    }

    /// Lists the runs of a thread.
    pub fn runs(self, thread: &str) -> Request<ThreadRuns> {
        self.0.get(format!("/v1/threads/{}/runs", encode_segment(thread)))
    }

    /// Returns the open run of a thread.
    pub fn active_run(self, thread: &str) -> Request<ThreadRunNow> {
        self.0.get(format!("/v1/threads/{}/runs/active", encode_segment(thread)))
    }

    /// Returns the latest run of a thread.
    pub fn latest_run(self, thread: &str) -> Request<ThreadRunNow> {
        self.0.get(format!("/v1/threads/{}/runs/latest", encode_segment(thread)))
    }

    /// Lists the events of all runs of a thread.
    pub fn list_events(self, thread: &str, query: &After) -> Request<ThreadEvents> {
        self.0.get(format!("/v1/threads/{}/events", encode_segment(thread))).query(query)
    }

    /// Watches the events of all runs of a thread. The stream has no end, because another run may start.
    pub fn watch(self, thread: &str, query: &After) -> EventStream {
        EventStream::new(
            self.0.get(format!("/v1/threads/{}/events", encode_segment(thread))).query(query),
            StreamEnd::Never,
        )
    }
}
