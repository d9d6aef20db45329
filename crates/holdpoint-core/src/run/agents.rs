//! Folds what agents hear, say and do.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{NodeState, NodeStatus, Run};
use crate::agent::{Agent, CallRun, CallStatus, Message, Role, Told, ToolCall, Waiting};
use crate::event::Event;
use crate::{InterruptId, NodeId, RunId};

impl Run {
    /// Of what a model says only how far it has got is kept; the text comes once more with the reply.
    pub(super) fn hear_piece(&mut self, node: &NodeId, last: bool, meta: &Map<String, Value>) {
        let Some(told) = Told::with(meta).filter(|_| !last) else { return };
        // Not touched: a model that breaks off again and again ends no delay with what it says.
        let Some(position) = self.workflow.position(node) else { return };
        if let Some(agent) = &mut self.nodes[position].agent {
            Arc::make_mut(agent).told = Some(told);
        }
    }

    pub(super) fn hear_agent(&mut self, event: &Event) {
        let (Event::MessageAdded { node, .. }
        | Event::ModelReplied { node, .. }
        | Event::ToolCalled { node, .. }
        | Event::ToolSuspended { node, .. }
        | Event::ToolBegun { node, .. }
        | Event::ToolReturned { node, .. }) = event
        else {
            return;
        };
        let given_up =
            if let Event::ToolReturned { call, .. } = event { self.run_of_call(node, call) } else { None };
        self.touch(node, |state| {
            let agent = state.agent.get_or_insert_default();
            Arc::make_mut(agent).hear(event);
            // Whoever does not wait for a run any longer has something to do.
            if given_up.is_some() && matches!(state.status, NodeStatus::Awaiting(_)) {
                state.status = NodeStatus::Running;
            }
        });
        if let Some(child) = given_up {
            self.give_up(&child);
        }
    }

    /// What somebody has decided about can be carried out.
    pub(super) fn release_calls(&mut self, id: InterruptId) {
        for state in &mut self.nodes {
            let Some(agent) = state.agent.as_mut().filter(|agent| agent.waits_for(id)) else { continue };
            for call in &mut Arc::make_mut(agent).calls {
                if call.is_suspended_on(id) {
                    Arc::make_mut(call).status = CallStatus::Resuming;
                }
            }
        }
    }

    /// The thread it belongs to; one of its own where nobody named another.
    pub fn thread(&self) -> &str {
        let named = self.started.as_ref().and_then(|started| started.thread.as_deref());
        named.unwrap_or_else(|| self.id.as_str())
    }
}

impl NodeState {
    /// Whether an answer to this interrupt is what the node still waits for.
    pub(crate) fn goes_on_with(&self, id: InterruptId) -> bool {
        let NodeStatus::Waiting(first) = self.status else { return false };
        let Some(agent) = self.agent.as_ref().filter(|agent| agent.waits_for(id)) else { return first == id };
        !self.waits_for_all || agent.suspended().all(|call| call.is_suspended_on(id))
    }
}

impl NodeState {
    /// A call is carried out by a run.
    pub(super) fn carry_out(&mut self, call: &str, child: &RunId) {
        let agent = Arc::make_mut(self.agent.get_or_insert_default());
        let known = agent.calls.iter_mut().find(|known| known.id == call);
        if let Some(known) = known {
            Arc::make_mut(known).run = Some(CallRun { id: child.clone(), ended: false });
        }
    }

    pub(super) fn hear_end_of(&mut self, child: &RunId) {
        let carries_out = |call: &Arc<ToolCall>| call.run_under_way() == Some(child);
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.calls.iter().any(carries_out)) else {
            return;
        };
        for call in Arc::make_mut(agent).calls.iter_mut().filter(|call| carries_out(call)) {
            if let Some(run) = &mut Arc::make_mut(call).run {
                run.ended = true;
            }
        }
    }

    /// Whether this answer is one of several that an agent waits for, and not the last.
    pub(crate) fn waits_on_after(&self, id: InterruptId) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.waits_for(id)) && !self.goes_on_with(id)
    }
}

impl Agent {
    fn waits_for(&self, id: InterruptId) -> bool {
        self.suspended().any(|call| call.is_suspended_on(id))
    }

    fn hear(&mut self, event: &Event) {
        if let Event::MessageAdded { message, .. } = event {
            self.messages.push(Arc::new((**message).clone()));
            self.doubt = self.doubt.filter(|doubt| !doubt.overruled);
        } else if let Event::ModelReplied { message, seen, usage, .. } = event {
            self.steps += 1;
            self.usage.input_tokens = self.usage.input_tokens.saturating_add(usage.input_tokens);
            self.usage.output_tokens = self.usage.output_tokens.saturating_add(usage.output_tokens);
            self.messages.push(Arc::new((**message).clone()));
            self.seen = seen + 1;
            self.told = None;
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
                waiting: None,
                begun: 0,
                begun_with: None,
                run: None,
            }));
        } else {
            self.change(event);
        }
    }

    fn change(&mut self, event: &Event) {
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
            known.waiting = Some(Waiting { interrupt: *interrupt, mode: *mode });
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
        self.status == CallStatus::Suspended && self.waiting.is_some_and(|waiting| waiting.interrupt == id)
    }
}

impl Message {
    /// What a call came to, as the model is told.
    pub fn result_of(call: &str, content: &Value) -> Self {
        let mut message = Self::new(format!("{call}:result"), Role::Tool, content.clone());
        message.call_id = Some(call.to_owned());
        message
    }
}
