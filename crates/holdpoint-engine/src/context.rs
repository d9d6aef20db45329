//! What node code sees of its run: its inputs, the time, and the ways to pause or to do something once.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use holdpoint_core::{Command, InterruptId, NodeId, Request, Resolution, Run, RunError, RunId, Timestamp};
use holdpoint_core::{Outcome, limits, workflow};
use serde_json::{Map, Value};

use crate::store;
use crate::worker::Holder;

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
    /// The run ended or went to another worker meanwhile; whatever this node still does, it does in vain.
    Lost,
    /// The store failed; the dispatch is tried again.
    #[doc(hidden)]
    Broken(String),
}

impl Stop {
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed(RunError::new(code, message))
    }

    /// What the stop means for the run.
    pub(crate) fn outcome(self) -> Result<Outcome, store::Error> {
        Ok(match self {
            Self::Failed(error) => Outcome::Failed(error),
            Self::TimedOut => {
                let message = "nobody answered before the interrupt's deadline";
                Outcome::Failed(RunError::new("interrupt_timeout", message))
            }
            Self::Asked(request) => Outcome::Asked(request),
            Self::Joined(id) => Outcome::Joined(id),
            Self::Sleeping(until) => Outcome::Sleeping(until),
            // Refused when the run really is lost, which is the usual case.
            Self::Lost => Outcome::Failed(RunError::new("run_lost", "the node says that it lost its run")),
            Self::Broken(message) => return Err(store::Error::Failed(message)),
        })
    }
}

#[derive(Debug)]
pub struct Context {
    /// The values of the node's input ports.
    pub inputs: Map<String, Value>,
    run: Arc<Run>,
    position: usize,
    interrupts: u32,
    sleeps: u32,
    now: Timestamp,
}

impl Context {
    /// For a node that is running in `run`; an input that cannot be filled fails the node.
    pub(crate) fn new(run: Arc<Run>, position: usize, now: Timestamp) -> Result<Self, Stop> {
        let inputs = run.inputs_of(&run.workflow.nodes[position]).map_err(|(port, why)| {
            Stop::Failed(RunError::new("invalid_input", format!("input {port}: {why}")))
        })?;
        Ok(Self { inputs, run, position, interrupts: 0, sleeps: 0, now })
    }

    /// What the run was started with.
    pub(crate) fn started(&self) -> Option<&holdpoint_core::Started> {
        self.run.started.as_deref()
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

    /// A JSON object of the run's variables.
    pub fn variables(&self) -> &Value {
        &self.run.variables
    }

    /// When this node began. The same on every entry, so that code which depends on it repeats itself exactly;
    /// for a later instant, record one with a step.
    pub fn now(&self) -> Timestamp {
        self.run.nodes[self.position].started_at.unwrap_or(self.now)
    }

    /// Pauses until somebody answers, and returns the answer. A key is asked at most once per run: asked again it
    /// returns the recorded answer, or waits for the one that is still open.
    pub fn interrupt(&mut self, mut request: Request) -> Result<Value, Stop> {
        let count = self.interrupts;
        self.interrupts += 1;
        let key = request.key.take().unwrap_or_else(|| self.derived_key(count));
        let Some(asked) = self.run.interrupt_by_key(&key) else {
            request.key = Some(key);
            return Err(Stop::Asked(Box::new(request)));
        };
        match &asked.resolution {
            Some(Resolution::Answered { value, .. }) => Ok(value.clone()),
            Some(Resolution::TimedOut { .. }) => Err(Stop::TimedOut),
            None => Err(Stop::Joined(asked.id)),
        }
    }

    /// Run, node and count. Tools generate node ids of any length; a key has one, so a long id becomes its place.
    fn derived_key(&self, count: u32) -> String {
        let key = format!("{}:{}:{count}", self.run.id, self.node().id);
        if key.chars().count() <= limits::INTERRUPT_KEY_CHARS_MAX {
            return key;
        }
        format!("{}:#{}:{count}", self.run.id, self.position)
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

/// A [`Context`] for nodes with outside effects.
#[derive(Debug)]
pub struct EffectContext {
    context: Context,
    holder: Holder,
}

impl Deref for EffectContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl DerefMut for EffectContext {
    fn deref_mut(&mut self) -> &mut Context {
        &mut self.context
    }
}

impl EffectContext {
    pub(crate) fn new(context: Context, holder: Holder) -> Self {
        Self { context, holder }
    }

    /// Pauses for `ms` milliseconds from now, over restarts too.
    pub fn sleep(&mut self, ms: u64) -> Result<(), Stop> {
        self.context.now = self.holder.now();
        self.context.sleep(ms)
    }

    /// Does something outside and records its result before going on. A result that is recorded is returned
    /// without doing it again; an error is not recorded, so the effect is tried again when the node is.
    ///
    /// A crash between the effect and its record cannot be told from one before it: give the other side an
    /// idempotency key (run id, node id and step name are stable) if twice would hurt.
    pub async fn step<F>(&mut self, name: &str, effect: impl FnOnce() -> F) -> Result<Value, Stop>
    where
        F: Future<Output = Result<Value, Stop>>,
    {
        let node: NodeId = self.node().id.clone();
        if let Some(result) = self.run.nodes[self.position].steps.get(name) {
            return Ok(result.clone());
        }
        self.holder.check().await?;
        let result = effect().await?;
        let command = Command::Record { node, name: name.to_owned(), result: result.clone() };
        self.context.run = self.holder.record(command).await?;
        Ok(result)
    }
}
