//! What node code sees of its run: its inputs, the time, and the ways to pause or to do something once.

use std::sync::Arc;

use holdpoint_core::agent::{Act, Agent, ResumePolicy};
use holdpoint_core::{
    ChannelWrite, Child, Chunk, Command, Completion, Decision, Dispatch, GateOutputs, Outcome, Reducer,
    limits, workflow,
};
use holdpoint_core::{Interrupt, InterruptId, NodeId, Request, Resolution, Run, RunError, RunId, Timestamp};
use serde_json::{Map, Value};

use crate::approved;
use crate::error::Error;
use crate::trace::{SpanName, trace_headers};

mod effects;

pub use effects::EffectContext;

/// Why node code stops before it has outputs. Pass it on with `?`; only `Failed` and `TimedOut` are worth a look.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// The node fails.
    Failed(RunError),
    /// The interrupt's deadline passed and nobody had answered.
    TimedOut,
    /// The run pauses here; the node is entered again when there is an answer.
    #[doc(hidden)]
    Asked(Box<Request>),
    #[doc(hidden)]
    Joined(InterruptId),
    #[doc(hidden)]
    Sleeping(Timestamp),
    /// An agent waits for decisions about its calls.
    #[doc(hidden)]
    Suspended(ResumePolicy),
    /// A run is started; the node is entered again, at once or when that run has ended.
    #[doc(hidden)]
    Dispatched(Box<Dispatch>),
    /// The run ended or went to another worker meanwhile; whatever this node still does, it does in vain.
    Lost,
    /// A server outside that the node needs is away. The node is entered again, with longer and longer pauses, until the
    /// server is back or an operator has to let the run go on; what is on record is not done again.
    Unavailable(String),
    /// The store failed, or the run is not as it should be; the dispatch is tried again.
    #[doc(hidden)]
    Broken(String),
}

impl Stop {
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed(RunError::new(code, message))
    }

    /// Returns the outcome of the node for the run. An error if the node is to be entered again.
    pub(crate) fn outcome(self, node: &NodeId) -> Result<Outcome, Error> {
        Ok(match self {
            Self::Failed(error) => Outcome::Failed(error),
            Self::TimedOut => {
                let message = "nobody answered before the interrupt's deadline";
                Outcome::Failed(RunError::timed_out("interrupt_timeout", message))
            }
            Self::Asked(request) => Outcome::Asked(request),
            Self::Joined(id) => Outcome::Joined(id),
            Self::Sleeping(until) => Outcome::Sleeping(until),
            Self::Suspended(policy) => Outcome::Suspended { policy },
            Self::Dispatched(dispatch) => Outcome::Dispatched(dispatch),
            // Refused when the run really is lost, which is the usual case.
            Self::Lost => Outcome::Failed(RunError::new("run_lost", "the node says that it lost its run")),
            Self::Unavailable(why) => return Err(Error::Unavailable { node: node.clone(), why }),
            Self::Broken(why) => return Err(Error::Unfinished(why)),
        })
    }
}

/// How a write to a channel differs from what the channel's declaration says.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelOptions {
    pub reducer: Option<Reducer>,
    pub ttl_ms: Option<u64>,
    pub max_size: Option<u64>,
}

/// Things that an agent may have done before they are written.
const GATHERED_MAX: usize = 256;

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
    left: Completion,
    /// What an agent has done that is not written down yet; the run is as if it were.
    acts: Vec<Act>,
}

impl Context {
    /// For a node that is running in `run`; an input that cannot be filled fails the node.
    pub(crate) fn new(run: Arc<Run>, position: usize, now: Timestamp) -> Result<Self, Stop> {
        let node = &run.workflow.nodes[position];
        let inputs = run.inputs_of(node).map_err(|missing| {
            Stop::failed(missing.code, format!("input {}: {}", missing.port, missing.why))
        })?;
        let (variables, left) = (run.variables_of(node), Completion::default());
        Ok(Self {
            inputs,
            run,
            position,
            variables,
            interrupts: 0,
            sleeps: 0,
            children: 0,
            now,
            left,
            acts: Vec::new(),
        })
    }

    /// What the node leaves when it completes with these outputs.
    pub(crate) fn complete(self, outputs: Map<String, Value>) -> Outcome {
        Outcome::Completed(Box::new(Completion { outputs, ..self.left }))
    }

    /// What the run was started with.
    pub(crate) fn started(&self) -> Option<&holdpoint_core::Started> {
        self.run.started.as_deref()
    }

    /// Which of its visits of this node the run is at, from 1.
    pub(crate) fn visit(&self) -> u32 {
        self.run.nodes[self.position].visit
    }

    /// Returns the headers that name the trace of this visit; none when the run was never started.
    pub(crate) fn trace_headers(&self) -> Vec<(String, String)> {
        let Some(started) = self.started() else { return Vec::new() };
        let span = SpanName::of_visit(&started.owner.tenant, &self.run, &self.node().id, self.visit());
        trace_headers(span, &self.run)
    }

    pub fn node(&self) -> &workflow::Node {
        &self.run.workflow.nodes[self.position]
    }

    pub fn config(&self) -> &Map<String, Value> {
        &self.node().config
    }

    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// The name of what this node makes or asks about, where nobody gave it another.
    pub fn artifact_id(&self) -> String {
        self.run.artifact_id(&self.node().id)
    }

    /// A JSON object of the run's variables, without channels that the node may not read.
    pub fn variables(&self) -> &Value {
        &self.variables
    }

    /// What expressions of the node can name: its inputs, then the run's variables.
    pub(crate) fn in_scope<T>(&self, judge: impl FnOnce(&workflow::Scope<'_>) -> T) -> T {
        let inputs = Value::Object(self.inputs.clone());
        let scope = workflow::Scope::new()
            .root("inputs", &inputs)
            .root("variables", self.variables())
            .fallback(&inputs)
            .fallback(self.variables());
        judge(&scope)
    }

    /// The options that the run was started with.
    pub fn configurable(&self) -> Option<&Map<String, Value>> {
        self.run.started.as_ref().map(|started| &started.configurable)
    }

    /// How often this node was led back to, in the loop that it is in. 0 the first time.
    pub fn iteration(&self) -> u32 {
        self.run.iteration_of(self.position)
    }

    /// Returns the outputs of a gate. Outputs that the definition does not map do not become variables.
    pub(crate) fn gate_outputs(&mut self, gate: GateOutputs) -> Map<String, Value> {
        self.left.unmapped = gate.unmapped;
        gate.outputs
    }

    /// Changes a variable of the run when the node completes.
    pub fn set_variable(&mut self, name: impl Into<String>, value: Value) {
        self.left.variables.push((name.into(), value));
    }

    /// Writes to a channel when the node completes. Without a reducer, its declaration's counts, else `append`.
    pub fn write_channel(&mut self, channel: impl Into<String>, value: Value, write: ChannelOptions) {
        let channel = channel.into();
        let declared = self.run.workflow.channels.get(&channel).map(|declared| declared.reducer);
        let reducer = write.reducer.or(declared).unwrap_or(Reducer::Append);
        let (ttl_ms, max_size) = (write.ttl_ms, write.max_size);
        self.left.channels.push(ChannelWrite { channel, value, reducer, ttl_ms, max_size });
    }

    /// Chooses a way: of the edges that belong to a way (`sourceOutput`), only those of this one are taken.
    pub fn choose(&mut self, way: impl Into<String>) {
        self.left.branch = Some(way.into());
    }

    /// Says a piece of what a model says, for those who listen.
    pub fn chunk(&mut self, text: impl Into<String>, meta: Map<String, Value>) {
        self.left.chunks.push(Chunk { text: text.into(), meta });
    }

    /// Starts a run, and returns it: at once, or when it has ended if it is waited for. Called again after an entry,
    /// it returns the same run; a second call in one entry starts another.
    pub fn child(&mut self, dispatch: Dispatch) -> Result<Arc<Child>, Stop> {
        let count = self.children;
        self.children += 1;
        let started = self.run.nodes[self.position].children.get(count);
        let known = started.and_then(|child| self.run.child(child)).cloned();
        known.ok_or_else(|| Stop::Dispatched(Box::new(dispatch)))
    }

    /// When this node began. The same on every entry, so that code which depends on it repeats itself exactly;
    /// for a later instant, record one with a step.
    pub fn now(&self) -> Timestamp {
        self.run.nodes[self.position].started_at.unwrap_or(self.now)
    }

    /// Pauses until somebody answers, and returns the answer. A key is asked at most once per run: asked again it
    /// returns the recorded answer, or waits for the one that is still open.
    pub fn interrupt(&mut self, mut request: Request) -> Result<Value, Stop> {
        let key = request.key.take().unwrap_or_else(|| self.next_key());
        self.interrupts += 1;
        let Some(asked) = self.run.interrupt_by_key(&key) else {
            request.key = Some(key);
            return Err(Stop::Asked(Box::new(request)));
        };
        match &asked.resolution {
            Some(Resolution::Answered { .. }) => {
                approved::check_as_shown(asked)?;
                Ok(asked.answer().unwrap_or_default())
            }
            Some(Resolution::TimedOut { .. }) => Err(Stop::TimedOut),
            None => Err(Stop::Joined(asked.id)),
        }
    }

    /// What the next interrupt of this entry asked, if it was asked before.
    pub(crate) fn next_asked(&self) -> Option<&Interrupt> {
        self.run.interrupt_by_key(&self.next_key())
    }

    /// Goes on over the visits of a loop: what was answered in one is asked again in the next.
    fn next_key(&self) -> String {
        let from = self.run.nodes[self.position].keys_from;
        self.run.interrupt_key(self.position, from.saturating_add(self.interrupts))
    }

    /// Fails with `approval_mismatch` unless the gate granted exactly this, in the visit that led here. To be asked
    /// right before an effect that needs an approval; see [`crate::Node::approved_by`].
    pub fn check_approved(&self, gate: &str, payload: Option<&Value>) -> Result<(), Stop> {
        let gate =
            NodeId::parse(gate).map_err(|error| Stop::failed("approval_mismatch", error.to_string()))?;
        approved::check(&self.run, &gate, payload)
    }

    /// Tells what an agent decided, and returns it; or, when the agent is less sure than the run's options demand,
    /// pauses until somebody ratifies it and returns what they say.
    pub fn decided(&mut self, decision: Decision) -> Result<Value, Stop> {
        match decision.escalation(self.configurable()) {
            Some(request) => self.interrupt(request),
            None => {
                let value = decision.decision.clone();
                self.left.decisions.push(decision);
                Ok(value)
            }
        }
    }

    /// What a node calls its conversation where nobody gave it another name: another one in each visit. Tools
    /// generate node ids of any length; a long one becomes its place.
    pub(crate) fn conversation_name(&self) -> String {
        let (node, visit) = (&self.node().id, self.visit());
        let name = format!("{node}.{visit}");
        let fits = name.chars().count() <= limits::CONVERSATION_ID_CHARS_MAX;
        if fits { name } else { format!("#{}.{visit}", self.position) }
    }

    /// The id of a conversation that was opened under this name.
    pub fn conversation_id(&self, name: &str) -> Option<String> {
        self.run.conversation(Some(name)).map(|known| known.id.clone())
    }

    /// The agent at this node, as far as it has come in this visit.
    pub(crate) fn agent(&self) -> Option<&Arc<Agent>> {
        self.run.nodes[self.position].agent.as_ref()
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Does something as an agent. It is written down with what comes next, or when [`EffectContext::write_down`] says
    /// so: to be called before anything happens outside that must not happen without it.
    pub(crate) fn act(&mut self, act: Act) -> Result<(), Stop> {
        self.act_all(vec![act])
    }

    /// Does several things, of which none may be on record without the others.
    pub(crate) fn act_all(&mut self, acts: Vec<Act>) -> Result<(), Stop> {
        let command = Command::Act { node: self.node().id.clone(), acts };
        let events = holdpoint_core::decide(&self.run, &command, self.now)
            .map_err(|refusal| Stop::failed(refusal.code().as_str(), refusal.to_string()))?;
        let run = Arc::make_mut(&mut self.run);
        events.iter().for_each(|event| run.apply(event, self.now));
        if let Command::Act { acts, .. } = command {
            self.acts.extend(acts);
        }
        Ok(())
    }

    /// Whether what an agent has done must be written before it does more, though nothing outside asks for it: else a long
    /// script would be one commit, and take as long as it likes.
    pub(crate) fn has_gathered_enough(&self) -> bool {
        self.acts.len() >= GATHERED_MAX
    }

    pub(crate) fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Pauses for `ms` milliseconds, over restarts too.
    pub fn sleep(&mut self, ms: u64) -> Result<(), Stop> {
        let count = self.sleeps;
        self.sleeps += 1;
        if count < self.run.nodes[self.position].slept {
            return Ok(());
        }
        Err(Stop::Sleeping(self.now.plus_ms(ms)))
    }
}
