//! From events of a run to events of AG-UI. A state machine without a clock and without a store: it is given each event
//! and the run right after it, and keeps the order that clients insist on.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_api::agui::{Event, Outcome, PatchOperation, Usage, VERSION};
use holdpoint_core::agent::{Message, Usage as Cost};
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{End, Event as Happened, NodeId, Run};
use serde_json::{Map, Value};

use super::messages::as_text;
use super::{ids, interrupts, state};

#[derive(Debug)]
pub(super) struct Translator {
    thread: String,
    run: String,
    /// Whether the client knows what came with 1.0.
    modern: bool,
    /// The state as it was told last in this segment.
    state: Option<Arc<Value>>,
    /// The state that the client sent.
    given: Arc<Value>,
    /// Nodes that have begun in this segment, in that order.
    steps: Vec<NodeId>,
    /// What nodes are saying, by the message's name.
    speeches: BTreeMap<String, Speech>,
    costs: BTreeMap<String, Cost>,
}

#[derive(Debug, Default)]
struct Speech {
    node: Option<NodeId>,
    text: String,
    attempt: u64,
    open: bool,
    /// What was told of it does not count; the messages at the end of the segment say what does.
    void: bool,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Ended,
    Asks,
    /// Only the client itself has something to do.
    ClientTools,
}

impl Rest {
    /// Nothing while a run goes on, or waits for something that nobody decides.
    pub(super) fn of(run: &Run) -> Option<Self> {
        if run.finished() {
            return Some(Self::Ended);
        }
        if run.started.is_none() || run.next_work().is_some() {
            return None;
        }
        if interrupts::open(run).next().is_some() {
            return Some(Self::Asks);
        }
        interrupts::of_client(run).next().map(|_| Self::ClientTools)
    }
}

impl Translator {
    pub(super) fn new(thread: &str, run: &str, modern: bool, given: Value) -> Self {
        Self {
            thread: thread.to_owned(),
            run: run.to_owned(),
            modern,
            state: None,
            given: Arc::new(given),
            steps: Vec::new(),
            speeches: BTreeMap::new(),
            costs: BTreeMap::new(),
        }
    }

    pub(super) fn begin(&self) -> Event {
        Event::RunStarted {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            protocol_version: Some(VERSION.into()),
            parent_run_id: None,
            input: None,
        }
    }

    /// An event, and the run right after it.
    pub(super) fn hear(&mut self, event: &Happened, run: &Run) -> Vec<Event> {
        let mut told = Vec::new();
        if let Happened::NodeStarted { node, .. } | Happened::NodeResumed { node, .. } = event {
            self.begin_step(run, node, &mut told);
        } else if let Happened::MessageChunk { node, chunk, last, meta } = event {
            self.hear_chunk(run, (node, chunk), *last, meta, &mut told);
        } else if let Happened::ModelReplied { node, message, usage, model, .. } = event {
            let cost = self.costs.entry(model.clone()).or_default();
            cost.input_tokens = cost.input_tokens.saturating_add(usage.input_tokens);
            cost.output_tokens = cost.output_tokens.saturating_add(usage.output_tokens);
            self.hear_reply(run, node, message, &mut told);
        } else if let Happened::ToolReturned { node, call, content, .. } = event {
            told.push(Event::ToolCallResult {
                message_id: ids::said(run, node, &Message::result_of(call, content).id),
                tool_call_id: ids::said(run, node, call),
                content: as_text(content),
                role: Some("tool".into()),
            });
        } else if let Happened::NodeCompleted { node, .. }
        | Happened::NodeFailed { node, .. }
        | Happened::NodeSkipped { node, .. } = event
        {
            self.end_speeches_of(node, &mut told);
            self.end_step(node, &mut told);
        }
        self.compare_state(run, &mut told);
        told
    }

    fn begin_step(&mut self, run: &Run, node: &NodeId, told: &mut Vec<Event>) {
        // The one node of an agent is the agent.
        if run.workflow.id.as_str().starts_with(AGENT_PREFIX) || self.steps.contains(node) {
            return;
        }
        self.steps.push(node.clone());
        told.push(Event::StepStarted { step_name: node.to_string() });
    }

    fn end_step(&mut self, node: &NodeId, told: &mut Vec<Event>) {
        if let Some(at) = self.steps.iter().position(|open| open == node) {
            self.steps.remove(at);
            told.push(Event::StepFinished { step_name: node.to_string() });
        }
    }

    /// A piece of what a node says; one of an agent's names the reply that it will be part of.
    fn hear_chunk(
        &mut self,
        run: &Run,
        (node, chunk): (&NodeId, &str),
        last: bool,
        meta: &Map<String, Value>,
        told: &mut Vec<Event>,
    ) {
        let reply = meta.get("messageId").and_then(Value::as_str);
        let id = reply.map_or_else(|| ids::text(run, node), |reply| ids::said(run, node, reply));
        let attempt = meta.get("attempt").and_then(Value::as_u64).unwrap_or(1);
        let speech = self.speeches.entry(id.clone()).or_default();
        speech.node = Some(node.clone());
        if !speech.text.is_empty() && speech.attempt < attempt {
            speech.void = true;
            speech.end(&id, told);
        }
        speech.attempt = attempt;
        if !speech.void {
            speech.say(&id, chunk, told);
            if last {
                speech.end(&id, told);
            }
        }
    }

    fn hear_reply(&mut self, run: &Run, node: &NodeId, message: &Message, told: &mut Vec<Event>) {
        let id = ids::said(run, node, &message.id);
        let mut speech = self.speeches.remove(&id).unwrap_or_default();
        let text = message.text();
        if let Some(rest) = text.strip_prefix(speech.text.as_str())
            && !speech.void
            // What was closed already is put right by the messages at the end of the segment.
            && (speech.open || speech.text.is_empty())
        {
            speech.say(&id, rest, told);
        }
        speech.end(&id, told);
        for call in &message.calls {
            let tool_call_id = ids::said(run, node, &call.id);
            told.extend([
                Event::ToolCallStart {
                    tool_call_id: tool_call_id.clone(),
                    tool_call_name: call.name.clone(),
                    parent_message_id: Some(id.clone()),
                },
                Event::ToolCallArgs { tool_call_id: tool_call_id.clone(), delta: call.arguments.to_string() },
                Event::ToolCallEnd { tool_call_id },
            ]);
        }
    }

    fn end_speeches_of(&mut self, node: &NodeId, told: &mut Vec<Event>) {
        for (id, speech) in &mut self.speeches {
            if speech.node.as_ref() == Some(node) {
                speech.end(id, told);
            }
        }
    }

    /// Tells the state as a whole when it first differs from what the client sent, and then the members that change: a
    /// delta is never the first thing a segment says of the state, because clients of 0.x may apply it to nothing.
    fn compare_state(&mut self, run: &Run, told: &mut Vec<Event>) {
        let now = state::of(run);
        match &self.state {
            Some(known) if Arc::ptr_eq(known, &now) => {}
            Some(known) => {
                let delta = difference(known, &now);
                if !delta.is_empty() {
                    told.push(Event::StateDelta { delta });
                }
            }
            None if Arc::ptr_eq(&now, &self.given) || now == self.given => {
                self.given = now;
                return;
            }
            None => told.push(Event::StateSnapshot { snapshot: (*now).clone() }),
        }
        self.state = Some(now);
    }

    /// Everything is closed, and the end of the segment is told; what comes between is for the caller to put in.
    pub(super) fn close(&mut self) -> Vec<Event> {
        let mut told = Vec::new();
        for (id, speech) in &mut self.speeches {
            speech.end(id, &mut told);
        }
        for node in std::mem::take(&mut self.steps).into_iter().rev() {
            told.push(Event::StepFinished { step_name: node.to_string() });
        }
        told
    }

    pub(super) fn end(&self, run: &Run, rest: Rest) -> Event {
        match (rest, &run.end) {
            (Rest::Asks, _) => {
                let shown = interrupts::open(run).map(|asked| interrupts::shown(run, asked));
                self.finished(None, Outcome::Interrupt { interrupts: shown.collect() })
            }
            (Rest::ClientTools, _) => {
                let pending = interrupts::of_client(run).map(|(call, _)| call).filter(|_| self.modern);
                self.finished(None, Outcome::Success { pending_tool_call_ids: pending.collect() })
            }
            (Rest::Ended, Some(End::Failed { error, .. })) => self.error(&error.code, &error.message),
            (Rest::Ended, Some(End::Cancelled { .. })) if self.modern => {
                self.finished(None, Outcome::Cancelled)
            }
            (Rest::Ended, Some(End::Cancelled { reason, .. })) => {
                self.error("cancelled", reason.as_deref().unwrap_or("the run was cancelled"))
            }
            (Rest::Ended, Some(End::Completed { .. }) | None) => {
                self.finished(result(run), Outcome::Success { pending_tool_call_ids: Vec::new() })
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

    /// Of this segment alone.
    fn usage(&self) -> Vec<Usage> {
        let costs = self.costs.iter().filter(|(_, cost)| cost.total() > 0);
        costs
            .map(|(model, cost)| Usage {
                model: Some(model.clone()).filter(|model| !model.is_empty()),
                input_tokens: cost.input_tokens,
                output_tokens: cost.output_tokens,
                total_tokens: cost.total(),
            })
            .collect()
    }
}

impl Speech {
    fn say(&mut self, id: &str, text: &str, told: &mut Vec<Event>) {
        if text.is_empty() {
            return;
        }
        if !self.open {
            self.open = true;
            let role = Some("assistant".into());
            told.push(Event::TextMessageStart { message_id: id.to_owned(), role, name: None });
        }
        self.text.push_str(text);
        told.push(Event::TextMessageContent { message_id: id.to_owned(), delta: text.to_owned() });
    }

    fn end(&mut self, id: &str, told: &mut Vec<Event>) {
        if std::mem::take(&mut self.open) {
            told.push(Event::TextMessageEnd { message_id: id.to_owned() });
        }
    }
}

/// Returns the changes between two states, as in RFC 6902, by the members of the whole.
fn difference(before: &Value, after: &Value) -> Vec<PatchOperation> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return vec![PatchOperation::Replace { path: String::new(), value: after.clone() }];
    };
    let path = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| PatchOperation::Remove { path: path(name) });
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| {
        let (path, value) = (path(name), value.clone());
        match before.contains_key(name) {
            true => PatchOperation::Replace { path, value },
            false => PatchOperation::Add { path, value },
        }
    });
    gone.chain(changed).collect()
}

/// What the last nodes of a run leave, but for what must not be shown.
fn result(run: &Run) -> Option<Value> {
    let left: Map<String, Value> =
        run.outputs().into_iter().filter(|(name, _)| !run.is_hidden(name)).collect();
    (!left.is_empty()).then_some(Value::Object(left))
}

#[cfg(test)]
mod tests;
