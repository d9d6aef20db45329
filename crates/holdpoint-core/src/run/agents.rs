//! Folds the events of agents: messages, model replies and tool calls.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{NodeState, NodeStatus, Run};
use crate::agent::{Agent, CallInterrupt, CallRun, CallStatus, Message, Role, StreamProgress, ToolCall};
use crate::event::Event;
use crate::{InterruptId, NodeId, RunId};

impl Run {
    /// Records the progress of a streamed reply that is not complete. The text is not kept, because the complete reply
    /// contains it.
    pub(super) fn apply_stream_chunk(&mut self, node: &NodeId, meta: &Map<String, Value>) {
        let Some(progress) = StreamProgress::from_meta(meta) else { return };
        // A chunk does not end a delay of the node: a model that fails repeatedly may stream chunks before each
        // failure.
        let Some(position) = self.workflow.position(node) else { return };
        self.nodes[position].streamed = Some(progress);
    }

    /// Counts a reported activity. Like a chunk, it does not end a delay of the node.
    pub(super) fn count_activity(&mut self, node: &NodeId) {
        let Some(position) = self.workflow.position(node) else { return };
        let state = &mut self.nodes[position];
        state.activities = state.activities.saturating_add(1);
    }

    /// Folds an event of an agent. The return of a call abandons the child run that executes it.
    pub(super) fn apply_agent_event(&mut self, event: &Event) {
        let (Event::MessageAdded { node, .. }
        | Event::ModelReplied { node, .. }
        | Event::ToolCalled { node, .. }
        | Event::ToolSuspended { node, .. }
        | Event::ToolBegun { node, .. }
        | Event::ToolReturned { node, .. }) = event
        else {
            return;
        };
        let abandoned =
            if let Event::ToolReturned { call, .. } = event { self.run_of_call(node, call) } else { None };
        self.update_node(node, |state| {
            // A provider can stream several messages at a time, so its chunks are counted over all of them.
            if let Event::ModelReplied { provider: false, .. } = event {
                state.streamed = None;
            }
            let agent = state.agent.get_or_insert_default();
            Arc::make_mut(agent).apply(event);
            // An agent that no longer waits for a child run continues.
            if abandoned.is_some() && matches!(state.status, NodeStatus::Awaiting(_)) {
                state.status = NodeStatus::Running;
            }
        });
        if let Some(child) = abandoned {
            self.abandon_child(&child);
        }
    }

    /// Marks the calls that are suspended on this interrupt as resuming.
    pub(super) fn resume_calls(&mut self, id: InterruptId) {
        for state in &mut self.nodes {
            let Some(agent) = state.agent.as_mut().filter(|agent| agent.waits_for(id)) else { continue };
            for call in &mut Arc::make_mut(agent).calls {
                if call.is_suspended_on(id) {
                    Arc::make_mut(call).status = CallStatus::Resuming;
                }
            }
        }
    }

    /// Returns the thread of the run: the one that it was started with, otherwise the id of the run.
    pub fn thread(&self) -> &str {
        self.named_thread().unwrap_or_else(|| self.id.as_str())
    }

    /// Returns whether the run was started in a thread, as runs of agents are.
    pub fn is_in_thread(&self) -> bool {
        self.named_thread().is_some()
    }

    fn named_thread(&self) -> Option<&str> {
        self.started.as_ref()?.thread.as_deref()
    }
}

impl NodeState {
    /// Returns whether an answer to this interrupt resumes the node.
    pub(crate) fn is_resumed_by(&self, id: InterruptId) -> bool {
        let NodeStatus::Waiting(first) = self.status else { return false };
        let Some(agent) = self.agent.as_ref().filter(|agent| agent.waits_for(id)) else { return first == id };
        !self.waits_for_all || agent.suspended_calls().all(|call| call.is_suspended_on(id))
    }
}

impl NodeState {
    /// Records the child run that executes a tool call.
    pub(super) fn set_call_run(&mut self, call: &str, child: &RunId) {
        let agent = Arc::make_mut(self.agent.get_or_insert_default());
        let known = agent.calls.iter_mut().find(|known| known.id == call);
        if let Some(known) = known {
            Arc::make_mut(known).run = Some(CallRun { id: child.clone(), ended: false });
        }
    }

    /// Marks the child run of a tool call as ended.
    pub(super) fn mark_child_ended(&mut self, child: &RunId) {
        let executes_call = |call: &Arc<ToolCall>| call.unfinished_run() == Some(child);
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.calls.iter().any(executes_call)) else {
            return;
        };
        for call in Arc::make_mut(agent).calls.iter_mut().filter(|call| executes_call(call)) {
            if let Some(run) = &mut Arc::make_mut(call).run {
                run.ended = true;
            }
        }
    }

    /// Returns whether an agent that waits for this interrupt stays suspended after its answer.
    pub(crate) fn stays_suspended_after(&self, id: InterruptId) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.waits_for(id)) && !self.is_resumed_by(id)
    }
}

impl Agent {
    fn waits_for(&self, id: InterruptId) -> bool {
        self.suspended_calls().any(|call| call.is_suspended_on(id))
    }

    fn apply(&mut self, event: &Event) {
        if let Event::MessageAdded { message, .. } = event {
            self.messages.push(Arc::new((**message).clone()));
            self.unratified = self.unratified.filter(|reply| !reply.overruled);
        } else if let Event::ModelReplied { message, seen, usage, provider, .. } = event {
            self.steps += 1;
            self.usage.add(*usage);
            self.messages.push(Arc::new((**message).clone()));
            self.seen = seen + 1;
            self.at_provider |= provider;
        } else if let Event::ToolCalled { call, behaviour, why, idempotent, client, .. } = event {
            let Some(wanted) =
                self.last_reply().and_then(|reply| reply.calls.iter().find(|wanted| wanted.id == *call))
            else {
                return;
            };
            let (name, arguments) = (wanted.name.clone(), wanted.arguments.clone());
            self.calls.push(Arc::new(ToolCall {
                id: call.clone(),
                name,
                arguments,
                step: self.steps,
                behaviour: *behaviour,
                why: why.clone(),
                idempotent: *idempotent,
                client: *client,
                status: CallStatus::New,
                interrupt: None,
                begun: 0,
                begun_with: None,
                run: None,
            }));
        } else {
            self.apply_call_event(event);
        }
    }

    fn apply_call_event(&mut self, event: &Event) {
        let (Event::ToolSuspended { call, .. }
        | Event::ToolBegun { call, .. }
        | Event::ToolReturned { call, .. }) = event
        else {
            return;
        };
        let Some(known) = self.calls.iter_mut().find(|known| known.id == *call) else { return };
        let known = Arc::make_mut(known);
        if let Event::ToolSuspended { interrupt, mode, .. } = event {
            known.status = CallStatus::Suspended;
            known.interrupt = Some(CallInterrupt { id: *interrupt, mode: *mode });
        } else if let Event::ToolBegun { arguments, .. } = event {
            known.status = CallStatus::Running;
            known.begun += 1;
            known.begun_with = arguments.clone();
        } else if let Event::ToolReturned { status, content, .. } = event {
            known.status = *status;
            let message = Message::result_of(call, content);
            self.messages.push(Arc::new(message));
        }
    }
}

impl ToolCall {
    fn is_suspended_on(&self, id: InterruptId) -> bool {
        self.status == CallStatus::Suspended && self.interrupt.is_some_and(|waiting| waiting.id == id)
    }
}

impl Message {
    /// Returns the message with the result of a tool call for the model.
    pub fn result_of(call: &str, content: &Value) -> Self {
        let mut message = Self::new(format!("{call}:result"), Role::Tool, content.clone());
        message.call_id = Some(call.to_owned());
        message
    }
}
