//! Translates events of a run into events of AG-UI. A state machine without a clock and a store: it gets each event
//! with the run right after it, and keeps the order that clients require.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_api::agui::{Event, Outcome, Usage, VERSION};
use holdpoint_core::agent::{Message, Usage as Cost};
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{Event as RunEvent, NodeId, Run, RunEnd};
use holdpoint_engine::OpenInterrupt;
use serde_json::{Map, Value};

use super::messages::{result_content, with_text_results};
use super::open_interrupts::describe_all;
use super::subagents::Subagents;
use super::{ids, interrupts, state};

mod activities;
mod patch;
mod replies;

pub(super) use replies::reasoning_id;

use activities::Activities;
use patch::difference;
use replies::StreamedReplies;

/// The version of the protocol that a client supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientVersion {
    /// A version before 1.0.
    V0,
    V1,
}

/// Translates the events of one segment.
#[derive(Debug)]
pub(super) struct Translator {
    thread: String,
    run: String,
    /// The run that the client continues, as it named it.
    parent: Option<String>,
    client: ClientVersion,
    /// The last state that was sent in this segment.
    state: Option<Arc<Value>>,
    /// The state that the client sent.
    given: Arc<Value>,
    /// The open steps of this segment, in the order of their start.
    steps: Vec<NodeId>,
    /// The replies of models that are being streamed.
    replies: StreamedReplies,
    /// The subagents of this segment. Only clients of 1.0 get their events.
    subagents: Option<Subagents>,
    activities: Activities,
    costs: BTreeMap<String, Cost>,
}

/// The end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentEnd {
    Ended,
    Interrupts,
    /// The run waits only for results of client tools.
    ClientTools,
}

impl SegmentEnd {
    /// Returns None if the run continues by itself: it has work, or it waits for a timer or another run.
    pub(super) fn of(run: &Run) -> Option<Self> {
        if run.finished() {
            return Some(Self::Ended);
        }
        if run.started.is_none() || run.next_work().is_some() {
            return None;
        }
        if interrupts::open_for_people(run).next().is_some() || run.child_interrupts().next().is_some() {
            return Some(Self::Interrupts);
        }
        interrupts::client_tool_calls(run).next().map(|_| Self::ClientTools)
    }
}

impl Translator {
    pub(super) fn new(thread: &str, run: &str, client: ClientVersion, given: Value) -> Self {
        Self {
            thread: thread.to_owned(),
            run: run.to_owned(),
            parent: None,
            client,
            state: None,
            given: Arc::new(given),
            steps: Vec::new(),
            replies: StreamedReplies::default(),
            subagents: (client == ClientVersion::V1).then(Subagents::default),
            activities: Activities::default(),
            costs: BTreeMap::new(),
        }
    }

    /// Sets the run that the client continues.
    pub(super) fn with_parent(self, parent: Option<String>) -> Self {
        Self { parent, ..self }
    }

    /// Returns an event in the form that the client accepts.
    pub(super) fn adapt(&self, event: Event) -> Event {
        match self.client {
            ClientVersion::V0 => with_text_results(event),
            ClientVersion::V1 => event,
        }
    }

    pub(super) fn begin(&self) -> Event {
        Event::RunStarted {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            protocol_version: Some(VERSION.into()),
            parent_run_id: self.parent.clone(),
            input: None,
        }
    }

    /// Translates what an event closes. `run` is the run right before it.
    pub(super) fn translate_closed(&mut self, event: &RunEvent, run: &Run) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(subagents) = &mut self.subagents {
            subagents.translate_closed(event, run, &mut events);
        }
        events
    }

    /// Translates an event. `run` is the run right after it.
    pub(super) fn translate(&mut self, event: &RunEvent, run: &Run) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(subagents) = &mut self.subagents {
            subagents.translate(event, run, &mut events);
        }
        if let RunEvent::NodeStarted { node, .. } | RunEvent::NodeResumed { node, .. } = event {
            self.begin_step(run, node, &mut events);
        } else if let RunEvent::MessageChunk { .. }
        | RunEvent::ReasoningChunk { .. }
        | RunEvent::ToolCallChunk { .. } = event
        {
            self.replies.translate_chunk(event, run, &mut events);
        } else if let RunEvent::ActivityReported { .. } = event {
            self.activities.translate(event, run, &mut events);
        } else if let RunEvent::ModelReplied { node, message, usage, model, .. } = event {
            self.costs.entry(model.clone()).or_default().add(*usage);
            self.replies.translate_reply(run, node, message, &mut events);
        } else if let RunEvent::ToolReturned { node, call, content, .. } = event {
            events.push(Event::ToolCallResult {
                message_id: ids::wire_id(run, node, &Message::result_of(call, content).id),
                tool_call_id: ids::wire_id(run, node, call),
                content: result_content(content),
                role: Some("tool".into()),
            });
        } else if let RunEvent::NodeCompleted { node, .. }
        | RunEvent::NodeFailed { node, .. }
        | RunEvent::NodeSkipped { node, .. } = event
        {
            self.replies.end_node(node, &mut events);
            self.end_step(node, &mut events);
        }
        self.translate_state(run, &mut events);
        events
    }

    fn begin_step(&mut self, run: &Run, node: &NodeId, events: &mut Vec<Event>) {
        // The only node of an agent is not shown as a step.
        if run.workflow.id.as_str().starts_with(AGENT_PREFIX) || self.steps.contains(node) {
            return;
        }
        self.steps.push(node.clone());
        events.push(Event::StepStarted { step_name: node.to_string() });
    }

    fn end_step(&mut self, node: &NodeId, events: &mut Vec<Event>) {
        if let Some(at) = self.steps.iter().position(|open| open == node) {
            self.steps.remove(at);
            events.push(Event::StepFinished { step_name: node.to_string() });
        }
    }

    /// Adds a snapshot of the state when it first differs from the state of the client, and deltas after that. The
    /// first state event of a segment is never a delta, because clients of 0.x may apply it to an empty state.
    fn translate_state(&mut self, run: &Run, events: &mut Vec<Event>) {
        let now = state::visible(run);
        match &self.state {
            Some(known) if Arc::ptr_eq(known, &now) => {}
            Some(known) => {
                let delta = difference(known, &now);
                if !delta.is_empty() {
                    events.push(Event::StateDelta { delta });
                }
            }
            None if Arc::ptr_eq(&now, &self.given) || now == self.given => {
                self.given = now;
                return;
            }
            None => events.push(Event::StateSnapshot { snapshot: (*now).clone() }),
        }
        self.state = Some(now);
    }

    /// Returns whether the client has content that differs from the messages.
    pub(super) fn needs_correction(&self) -> bool {
        self.replies.needs_correction()
    }

    /// Closes all open messages, subagents and steps. `waiting` are the interrupts that the end of the segment shows. The
    /// caller sends further events before [`Self::end`].
    pub(super) fn close(&mut self, run: &Run, waiting: &[OpenInterrupt]) -> Vec<Event> {
        let mut events = Vec::new();
        self.replies.end_all(&mut events);
        if let Some(subagents) = &mut self.subagents {
            subagents.close(run, waiting, &mut events);
        }
        for node in std::mem::take(&mut self.steps).into_iter().rev() {
            events.push(Event::StepFinished { step_name: node.to_string() });
        }
        events
    }

    /// Returns the last event of a segment. `open` are the interrupts that wait for an answer.
    pub(super) fn end(&self, run: &Run, end: SegmentEnd, open: &[OpenInterrupt]) -> Event {
        match (end, &run.end) {
            (SegmentEnd::Interrupts, _) => {
                self.finished(None, Outcome::Interrupt { interrupts: describe_all(run, open) })
            }
            (SegmentEnd::ClientTools, _) => {
                let pending = interrupts::client_tool_calls(run).map(|(call, _)| call);
                let pending = pending.filter(|_| self.client == ClientVersion::V1);
                self.finished(None, Outcome::Success { pending_tool_call_ids: pending.collect() })
            }
            (SegmentEnd::Ended, Some(RunEnd::Failed { error, .. })) => {
                self.error(&error.code, &error.message)
            }
            (SegmentEnd::Ended, Some(RunEnd::Cancelled { .. })) if self.client == ClientVersion::V1 => {
                self.finished(None, Outcome::Cancelled)
            }
            (SegmentEnd::Ended, Some(RunEnd::Cancelled { reason, .. })) => {
                self.error("cancelled", reason.as_deref().unwrap_or("the run was cancelled"))
            }
            (SegmentEnd::Ended, Some(RunEnd::Completed { .. }) | None) => {
                self.finished(visible_outputs(run), Outcome::Success { pending_tool_call_ids: Vec::new() })
            }
        }
    }

    pub(super) fn error(&self, code: &str, message: &str) -> Event {
        Event::RunError { message: message.to_owned(), code: Some(code.to_owned()), usage: self.usage() }
    }

    fn finished(&self, result: Option<Value>, outcome: Outcome) -> Event {
        Event::RunFinished {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            result,
            outcome: Some(outcome),
            usage: self.usage(),
        }
    }

    /// Returns the usage of this segment.
    fn usage(&self) -> Vec<Usage> {
        let costs = self.costs.iter().filter(|(_, cost)| cost.total() > 0);
        costs
            .map(|(model, cost)| Usage {
                model: Some(model.clone()).filter(|model| !model.is_empty()),
                input_tokens: cost.input_tokens,
                output_tokens: cost.output_tokens,
                total_tokens: cost.total(),
                reasoning_tokens: Some(cost.reasoning_tokens).filter(|tokens| *tokens > 0),
            })
            .collect()
    }
}

/// Returns the outputs of the last nodes of a run without sensitive values.
fn visible_outputs(run: &Run) -> Option<Value> {
    let left: Map<String, Value> =
        run.outputs().into_iter().filter(|(name, _)| !run.is_hidden(name)).collect();
    (!left.is_empty()).then_some(Value::Object(left))
}

#[cfg(test)]
mod tests;
