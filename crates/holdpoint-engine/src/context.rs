//! The interface between node code and its run: inputs, variables, time, interrupts, child runs and sleeps.

use std::sync::Arc;

use holdpoint_core::agent::{Agent, AgentAction};
use holdpoint_core::{
    AgentDecision, ChannelWrite, ChildRunRequest, ChildRunState, Command, Completion, GateOutputs,
    NodeOutcome, Reducer, TextChunk, limits, workflow,
};
use holdpoint_core::{Interrupt, InterruptRequest, NodeId, Resolution, Run, RunId, Timestamp};
use serde_json::{Map, Value};

use crate::approval_check;
use crate::trace::{SpanContext, trace_headers};

mod effects;
mod stop;
mod suspend;

pub use effects::EffectContext;
pub use stop::Stop;
pub use suspend::SuspendRequest;

/// Options of a write to a channel. Each one overrides the declaration of the channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelOptions {
    /// The reducer that combines the value with the channel.
    pub reducer: Option<Reducer>,
    /// The time to live of the value, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The maximum number of values in the channel.
    pub max_size: Option<u64>,
}

/// The number of uncommitted actions from which on an agent must commit.
const PENDING_ACTIONS_MAX: usize = 256;

/// The context of one execution of a node.
#[derive(Debug)]
pub struct Context {
    /// The values of the node's input ports.
    pub inputs: Map<String, Value>,
    run: Arc<Run>,
    position: usize,
    variables: Arc<Value>,
    interrupts: u32,
    sleeps: u32,
    children: usize,
    now: Timestamp,
    completion: Completion,
    /// Actions of an agent that are not committed yet. `run` already includes them.
    actions: Vec<AgentAction>,
}

impl Context {
    /// Creates the context of a node of `run`. Fails the node if an input cannot be resolved.
    pub(crate) fn new(run: Arc<Run>, position: usize, now: Timestamp) -> Result<Self, Stop> {
        let node = &run.workflow.nodes[position];
        let inputs = run.inputs_of(node).map_err(|missing| {
            Stop::failed(missing.code, format!("input {}: {}", missing.port, missing.why))
        })?;
        let (variables, completion) = (run.variables_of(node), Completion::default());
        Ok(Self {
            inputs,
            run,
            position,
            variables,
            interrupts: 0,
            sleeps: 0,
            children: 0,
            now,
            completion,
            actions: Vec::new(),
        })
    }

    /// Returns the outcome of a node that completes with these outputs.
    pub(crate) fn complete(self, outputs: Map<String, Value>) -> NodeOutcome {
        NodeOutcome::Completed(Box::new(Completion { outputs, ..self.completion }))
    }

    /// Returns the record of the start of the run.
    pub fn started(&self) -> Option<&holdpoint_core::RunParameters> {
        self.run.started.as_deref()
    }

    /// Returns the number of this visit of the node, from 1.
    pub fn visit(&self) -> u32 {
        self.run.nodes[self.position].visit
    }

    /// Returns the trace headers of this visit. Empty if the run was never started.
    pub fn trace_headers(&self) -> Vec<(String, String)> {
        let Some(started) = self.started() else { return Vec::new() };
        let span = SpanContext::of_visit(&started.owner.tenant, &self.run, &self.node().id, self.visit());
        trace_headers(span, &self.run)
    }

    /// Returns the definition of the node.
    pub fn node(&self) -> &workflow::Node {
        &self.run.workflow.nodes[self.position]
    }

    /// Returns the config of the node.
    pub fn config(&self) -> &Map<String, Value> {
        &self.node().config
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// Returns the default id of the artifact that this node creates or asks about.
    pub fn artifact_id(&self) -> String {
        self.run.artifact_id(&self.node().id)
    }

    /// Returns the variables of the run as a JSON object, without the channels that the node may not read. They are those
    /// of the moment at which the node began or was resumed: a node does not see what other nodes change meanwhile.
    pub fn variables(&self) -> &Value {
        &self.variables
    }

    /// Evaluates expressions of the node. They can name its inputs and the variables of the run; inputs have
    /// precedence.
    pub(crate) fn with_scope<T>(&self, evaluate: impl FnOnce(&workflow::ExpressionScope<'_>) -> T) -> T {
        let inputs = Value::Object(self.inputs.clone());
        let scope = workflow::ExpressionScope::new()
            .root("inputs", &inputs)
            .root("variables", self.variables())
            .fallback(&inputs)
            .fallback(self.variables());
        evaluate(&scope)
    }

    /// Returns the options that the run was started with.
    pub fn configurable(&self) -> Option<&Map<String, Value>> {
        self.run.started.as_ref().map(|started| &started.configurable)
    }

    /// Returns the iteration of the loop that contains this node, from 0.
    pub fn iteration(&self) -> u32 {
        self.run.iteration_of(self.position)
    }

    /// Returns the outputs of a gate. Outputs that the definition does not map do not become variables.
    pub(crate) fn gate_outputs(&mut self, gate: GateOutputs) -> Map<String, Value> {
        self.completion.unmapped = gate.unmapped;
        gate.outputs
    }

    /// Sets a variable of the run when the node completes.
    pub fn set_variable(&mut self, name: impl Into<String>, value: Value) {
        self.completion.variables.push((name.into(), value));
    }

    /// Writes to a channel when the node completes. The reducer is that of the options, else that of the declaration,
    /// else `append`.
    pub fn write_channel(&mut self, channel: impl Into<String>, value: Value, write: ChannelOptions) {
        let channel = channel.into();
        let declared = self.run.workflow.channels.get(&channel).map(|declared| declared.reducer);
        let reducer = write.reducer.or(declared).unwrap_or(Reducer::Append);
        let (ttl_ms, max_size) = (write.ttl_ms, write.max_size);
        self.completion.channels.push(ChannelWrite { channel, value, reducer, ttl_ms, max_size });
    }

    /// Selects a branch: of the edges with a `sourceOutput`, only the edges with this one are taken.
    pub fn choose(&mut self, branch: impl Into<String>) {
        self.completion.branch = Some(branch.into());
    }

    /// Emits a chunk of the output of a model to subscribers.
    pub fn emit_chunk(&mut self, text: impl Into<String>, meta: Map<String, Value>) {
        self.completion.chunks.push(TextChunk { text: text.into(), meta });
    }

    /// Starts a child run and returns its state, at once or after it has ended, as the request says. When the node
    /// executes again, the call returns the same child run; a second call in one execution starts another one.
    pub fn start_child(&mut self, request: ChildRunRequest) -> Result<Arc<ChildRunState>, Stop> {
        let count = self.children;
        self.children += 1;
        let started = self.run.nodes[self.position].children.get(count);
        let known = started.and_then(|child| self.run.child(child)).cloned();
        known.ok_or_else(|| Stop::Dispatched(Box::new(request)))
    }

    /// Returns the time at which this visit of the node began. It is the same in every execution of the visit, so
    /// that code is deterministic. To use a later time, record it with a step.
    pub fn now(&self) -> Timestamp {
        self.run.nodes[self.position].started_at.unwrap_or(self.now)
    }

    /// Opens an interrupt and returns its answer. A run has at most one interrupt per key: a second call with the key
    /// returns the recorded answer, or waits for the open interrupt.
    pub fn interrupt(&mut self, request: InterruptRequest) -> Result<Value, Stop> {
        self.request_interrupt(request).map(|(answer, _)| answer)
    }

    /// Like [`Self::interrupt`]; also returns the request.
    pub(crate) fn request_interrupt(
        &mut self,
        mut request: InterruptRequest,
    ) -> Result<(Value, InterruptRequest), Stop> {
        let key = request.key.clone().unwrap_or_else(|| self.next_key());
        self.interrupts += 1;
        let Some(asked) = self.run.interrupt_by_key(&key) else {
            request.key = Some(key);
            return Err(Stop::Asked(Box::new(request)));
        };
        match &asked.resolution {
            Some(Resolution::Answered { .. }) => {
                approval_check::check_as_shown(asked)?;
                Ok((asked.answer().unwrap_or_default(), request))
            }
            Some(Resolution::TimedOut { .. }) => Err(Stop::TimedOut),
            None => Err(Stop::Joined(asked.id)),
        }
    }

    /// Returns the next interrupt of this execution, if it was opened before.
    pub fn next_interrupt(&self) -> Option<&Interrupt> {
        self.run.interrupt_by_key(&self.next_key())
    }

    /// Returns the default key of the next interrupt. Each visit of a loop has its own keys, so that its interrupts
    /// open again.
    fn next_key(&self) -> String {
        let from = self.run.nodes[self.position].keys_from;
        self.run.interrupt_key(self.position, from.saturating_add(self.interrupts))
    }

    /// Fails with `approval_mismatch` unless the gate granted exactly this payload in the visit that led here. Call it
    /// right before an effect that needs an approval; see [`crate::Node::approved_by`].
    pub fn check_approved(&self, gate: &str, payload: Option<&Value>) -> Result<(), Stop> {
        let gate =
            NodeId::parse(gate).map_err(|error| Stop::failed("approval_mismatch", error.to_string()))?;
        approval_check::check_granted(&self.run, &gate, payload)
    }

    /// Records the decision of an agent and returns its value. If the confidence is below the threshold of the run's
    /// options, opens a low confidence interrupt and returns its answer instead.
    pub fn record_decision(&mut self, decision: AgentDecision) -> Result<Value, Stop> {
        match decision.escalation(self.configurable()) {
            Some(request) => self.interrupt(request),
            None => {
                let value = decision.decision.clone();
                self.completion.decisions.push(decision);
                Ok(value)
            }
        }
    }

    /// Returns the default name of the conversation of this visit. Generated node ids can be long: the position of
    /// the node replaces an id that is too long.
    pub(crate) fn conversation_name(&self) -> String {
        let (node, visit) = (&self.node().id, self.visit());
        let name = format!("{node}.{visit}");
        let fits = name.chars().count() <= limits::CONVERSATION_ID_CHARS_MAX;
        if fits { name } else { format!("#{}.{visit}", self.position) }
    }

    /// Returns the id of the conversation with this name.
    pub fn conversation_id(&self, name: &str) -> Option<String> {
        self.run.conversation(Some(name)).map(|known| known.id.clone())
    }

    /// Returns the state of the agent in this visit of the node.
    pub fn agent(&self) -> Option<&Arc<Agent>> {
        self.run.nodes[self.position].agent.as_ref()
    }

    /// Returns the run as it was when the node was entered or made its last change. It contains changes that other nodes
    /// made meanwhile; code that must have the same result in every execution reads only the parts of its own node.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Applies an action of an agent. It is committed with the outcome of the node, or by
    /// [`EffectContext::commit_actions`], which must be called before an outside effect that depends on the action.
    pub fn apply_action(&mut self, action: AgentAction) -> Result<(), Stop> {
        self.apply_actions(vec![action])
    }

    /// Applies several actions, which are committed together.
    pub fn apply_actions(&mut self, actions: Vec<AgentAction>) -> Result<(), Stop> {
        let command = Command::Act { node: self.node().id.clone(), actions };
        let events = holdpoint_core::decide(&self.run, &command, self.now)
            .map_err(|refusal| Stop::failed(refusal.code().as_str(), refusal.to_string()))?;
        let run = Arc::make_mut(&mut self.run);
        events.iter().for_each(|event| run.apply(event, self.now));
        if let Command::Act { actions, .. } = command {
            self.actions.extend(actions);
        }
        Ok(())
    }

    /// Returns whether the agent must commit its actions although no outside effect requires it. This limits the size
    /// of a commit.
    pub fn has_many_pending_actions(&self) -> bool {
        self.actions.len() >= PENDING_ACTIONS_MAX
    }

    /// Returns whether a reply of a model is not committed yet. It is committed before the node waits for anything, so
    /// that a crash does not repeat a call that has a cost.
    pub fn has_pending_reply(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, AgentAction::Reply(_)))
    }

    pub(crate) fn take_actions(&mut self) -> Vec<AgentAction> {
        std::mem::take(&mut self.actions)
    }

    /// Sleeps for `ms` milliseconds. The sleep survives restarts.
    pub fn sleep(&mut self, ms: u64) -> Result<(), Stop> {
        self.sleep_to(self.now.plus_ms(ms))
    }

    /// Sleeps until an instant. The sleep survives restarts. Returns at once if the instant is not after the begin of
    /// this visit ([`Self::now`]). Fails with `invalid_input` if it is more than [`limits::SLEEP_MS_MAX`] after it.
    pub fn sleep_until(&mut self, until: Timestamp) -> Result<(), Stop> {
        // The comparison is with the begin of the visit, so that it has the same result in every execution.
        let begun = self.now();
        if until <= begun {
            return Ok(());
        }
        if until > begun.plus_ms(limits::SLEEP_MS_MAX) {
            let days = limits::SLEEP_MS_MAX / (24 * 60 * 60 * 1000);
            return Err(Stop::failed("invalid_input", format!("until is more than {days} days away")));
        }
        self.sleep_to(until)
    }

    fn sleep_to(&mut self, until: Timestamp) -> Result<(), Stop> {
        let count = self.sleeps;
        self.sleeps += 1;
        if count < self.run.nodes[self.position].slept {
            return Ok(());
        }
        Err(Stop::Sleeping(until))
    }
}
