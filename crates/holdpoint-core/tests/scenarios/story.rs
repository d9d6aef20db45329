//! The driver of the scenarios. Only this module calls the core, so scenarios do not change with its API.

use std::sync::Arc;

use holdpoint_core::workflow::InputError;
use holdpoint_core::{
    Command, Event, Fork, ForkMode, Interrupt, NodeId, NodeStatus, NodeWork, Obligation, Refusal, Run,
    RunEnd, RunId, Status, Timestamp, Workflow, decide, limits, react,
};
use serde_json::{Map, Value};

use crate::vocabulary::gate_then_after;

/// The time at which every scenario starts.
pub(crate) const START_TIME: Timestamp = Timestamp(1_700_000_000_000);

/// A run, its log, and the result of the last command.
pub(crate) struct Story {
    run: Run,
    /// Every event of the run with its time.
    log: Vec<(Timestamp, Event)>,
    now: Timestamp,
    decided: Result<Vec<Event>, Refusal>,
    obligations: Vec<Obligation>,
}

/// One step of the past of a story: an event, or a command that is accepted.
pub(crate) enum Past {
    Command(Box<Command>),
    Event(Box<Event>),
}

/// Returns a story about a run with a gate and a node after it.
#[track_caller]
pub(crate) fn given<T: Into<Past>>(past: impl IntoIterator<Item = T>) -> Story {
    on(gate_then_after()).given(past)
}

/// Returns a story about a run of this workflow that has no events yet.
pub(crate) fn on(workflow: Workflow) -> Story {
    let id = RunId::parse("run-1").expect("a run id");
    let run = Run::new(id, Arc::new(workflow));
    Story { run, log: Vec::new(), now: START_TIME, decided: Ok(Vec::new()), obligations: Vec::new() }
}

impl Story {
    #[track_caller]
    pub(crate) fn given<T: Into<Past>>(mut self, past: impl IntoIterator<Item = T>) -> Self {
        for step in past {
            match step.into() {
                Past::Command(command) => self = self.when(*command).accepted(),
                Past::Event(event) => self.apply(*event),
            }
        }
        self
    }

    pub(crate) fn later(mut self, ms: u64) -> Self {
        self.now = self.now.plus_ms(ms);
        self
    }

    #[expect(clippy::needless_pass_by_value, reason = "commands are written in place in a story")]
    pub(crate) fn when(mut self, command: Command) -> Self {
        self.decided = decide(&self.run, &command, self.now);
        self.obligations = Vec::new();
        for event in self.decided.clone().into_iter().flatten() {
            self.obligations.extend(react(&self.run, &event, self.now));
            self.apply(event);
        }
        self
    }

    fn apply(&mut self, event: Event) {
        self.run.apply(&event, self.now);
        self.log.push((self.now, event));
    }

    /// Returns the story of a branch that is forked now, with the events before `from_seq`.
    #[track_caller]
    pub(crate) fn branched(&self, from_seq: usize) -> Self {
        let copied = &self.log[..from_seq];
        self.copied(copied, Fork { from_seq: from_seq as u64, ..self.fork(ForkMode::Branch) })
    }

    /// Returns the story of a replay that is forked now, with all events of the run.
    pub(crate) fn replayed(&self) -> Self {
        let fork = self.fork(ForkMode::Replay);
        self.copied(&self.log, Fork { copied: Some(self.log.len() as u64), ..fork })
    }

    pub(crate) fn fork(&self, mode: ForkMode) -> Fork {
        Fork {
            source: self.run.id.clone(),
            origin: RunId::parse("run-1").expect("a run id"),
            from_seq: 0,
            mode,
            at: Some(self.now),
            artifacts: None,
            copied: None,
        }
    }

    /// Returns the story of a fork of the run with these events.
    pub(crate) fn copied(&self, events: &[(Timestamp, Event)], fork: Fork) -> Self {
        let id = RunId::parse(&format!("{}-copy", self.run.id)).expect("a run id");
        let run = Run::new(id, self.run.workflow.clone());
        let mut log = events.to_vec();
        if let Some((_, Event::RunStarted(started))) = log.first_mut() {
            std::sync::Arc::make_mut(started).fork = Some(fork);
        }
        let mut copy = Self { run, log, now: self.now, decided: Ok(Vec::new()), obligations: Vec::new() };
        copy.log.iter().for_each(|(at, event)| copy.run.apply(event, *at));
        copy
    }

    /// Sets the size of the run so that this many bytes are left. Filling the run with events would take seconds.
    pub(crate) fn with_room(mut self, bytes: usize) -> Self {
        self.run.bytes = limits::RUN_BYTES_MAX - bytes;
        self
    }

    pub(crate) fn log(&self) -> &[(Timestamp, Event)] {
        &self.log
    }

    #[track_caller]
    pub(crate) fn accepted(self) -> Self {
        assert!(self.decided.is_ok(), "the command was refused: {:?}", self.decided);
        self
    }

    #[track_caller]
    pub(crate) fn then(self, events: impl Into<Vec<Event>>) -> Self {
        assert_eq!(self.decided, Ok(events.into()));
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, refusal: Refusal) -> Self {
        assert_eq!(self.decided, Err(refusal));
        self
    }

    /// Asserts that the command was refused as an invalid request because of this field. The message is not compared.
    #[track_caller]
    pub(crate) fn refused_for(self, field: &str) -> Self {
        match &self.decided {
            Err(Refusal::InvalidRequest { field: found, .. }) => assert_eq!(found, field),
            other => panic!("not refused for {field}: {other:?}"),
        }
        self
    }

    /// Asserts that the run failed with this code and a message with this prefix.
    #[track_caller]
    pub(crate) fn failed_with(self, code: &str, message: &str) -> Self {
        let Some(RunEnd::Failed { error, .. }) = &self.run.end else {
            panic!("not failed: {:?}", self.run.end)
        };
        assert_eq!(error.code, code);
        assert!(error.message.starts_with(message), "{}", error.message);
        self
    }

    /// Asserts the obligations of the last command.
    #[track_caller]
    pub(crate) fn obliges(self, obligations: impl Into<Vec<Obligation>>) -> Self {
        assert_eq!(self.obligations, obligations.into());
        self
    }

    #[track_caller]
    pub(crate) fn status_is(self, status: Status) -> Self {
        assert_eq!(self.run.status(), status);
        self
    }

    #[track_caller]
    pub(crate) fn node_is(self, node: &str, status: &NodeStatus) -> Self {
        let id = NodeId::parse(node).expect("a node id");
        assert_eq!(&self.run.node_state(&id).expect("a node of the workflow").status, status, "{node}");
        self
    }

    /// Asserts the number of completed sleeps of a node. A node that is entered again uses it to skip them.
    #[track_caller]
    pub(crate) fn slept(self, node: &str, times: u32) -> Self {
        let id = NodeId::parse(node).expect("a node id");
        assert_eq!(self.run.node_state(&id).expect("a node of the workflow").slept, times, "{node}");
        self
    }

    #[track_caller]
    pub(crate) fn variables_are(self, variables: &Value) -> Self {
        assert_eq!(self.run.variables.as_ref(), variables);
        self
    }

    /// Asserts the next work of the run: `begin a`, `enter a` or `nothing`.
    #[track_caller]
    pub(crate) fn next_is(self, expected: &str) -> Self {
        assert_eq!(self.next(), expected);
        self
    }

    pub(crate) fn next(&self) -> String {
        let name = |position: usize| self.run.workflow.nodes[position].id.as_str();
        match self.run.next_work() {
            Some(NodeWork::Begin(position)) => format!("begin {}", name(position)),
            Some(NodeWork::Enter(position)) => format!("enter {}", name(position)),
            None => "nothing".to_owned(),
        }
    }

    /// Returns the values of the input ports of a node, or the error of the first port without a value.
    pub(crate) fn inputs_of(&self, node: &str) -> Result<Map<String, Value>, InputError> {
        let id = NodeId::parse(node).expect("a node id");
        self.run.inputs_of(self.run.workflow.node(&id).expect("a node of the workflow"))
    }

    /// Returns the run, for assertions without a method of their own.
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the interrupt that an answer to this node reaches.
    pub(crate) fn interrupt_of(&self, node: &str) -> Option<&Interrupt> {
        self.run.interrupt_of_node(&NodeId::parse(node).expect("a node id"))
    }
}

impl From<Command> for Past {
    fn from(command: Command) -> Self {
        Self::Command(Box::new(command))
    }
}

impl From<Event> for Past {
    fn from(event: Event) -> Self {
        Self::Event(Box::new(event))
    }
}
