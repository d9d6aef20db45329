//! The run under test, and the invariants that are checked after every command.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_core::{
    ChildInterrupt, ChildInterruptChanges, ChildResult, ClosedChildInterrupt, Command, Drain, Effect, Event,
    InterruptId, Kind, NodeId, NodeStatus, NodeWork, Obligation, Run, RunError, RunId, Status, Timer,
    Timestamp, Workflow, decide, react,
};
use serde_json::{Value, json};

use crate::Move;
use crate::executor::{EXECUTIONS_MAX, ada, answer, any_outcome, perform, start};

/// A run, its log, and the timers and child runs that the engine would manage.
pub(crate) struct World {
    run: Run,
    now: Timestamp,
    log: Vec<(Timestamp, Event)>,
    timers: Vec<(Timer, Timestamp)>,
    started: Vec<RunId>,
    cancelled: Vec<RunId>,
}

impl World {
    pub(crate) fn new(definition: &Value) -> Self {
        let workflow = Workflow::parse(definition, 1).expect("a valid definition");
        let run = Run::new(RunId::parse("r").expect("a run id"), Arc::new(workflow));
        let (log, timers, started, cancelled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { run, now: Timestamp(1_700_000_000_000), log, timers, started, cancelled }
    }

    pub(crate) fn execute(&mut self, step: &Move) {
        if let Move::Tick(ms) = step {
            self.now = self.now.plus_ms(*ms);
        }
        for command in self.commands(step) {
            self.submit(&command);
            self.check();
        }
    }

    fn commands(&self, step: &Move) -> Vec<Command> {
        let node = |position: usize| {
            let known = self.run.workflow.nodes.get(position).map(|node| node.id.clone());
            known.unwrap_or_else(|| NodeId::parse("unknown").expect("a node id"))
        };
        match step {
            Move::Tick(_) => Vec::new(),
            Move::Work { lucky } => match self.run.next_work() {
                Some(NodeWork::Begin(next)) => {
                    vec![Command::Begin { node: node(next), effect: Effect::Outside }]
                }
                Some(NodeWork::Enter(next)) => {
                    let outcome = perform(&self.run, next, *lucky, self.now);
                    vec![Command::Finish { node: node(next), outcome }]
                }
                None => Vec::new(),
            },
            Move::Answer(answers) => {
                let answers =
                    answers.iter().map(|(id, choice)| (InterruptId(*id), answer(*choice))).collect();
                vec![Command::Resolve { answers }]
            }
            Move::Expire(id) => vec![Command::Expire { interrupt: InterruptId(*id) }],
            Move::Wake(position) => vec![Command::Wake { node: node(*position) }],
            Move::Begin(position) => vec![Command::Begin { node: node(*position), effect: Effect::Outside }],
            Move::Finish(position, choice) => {
                vec![Command::Finish { node: node(*position), outcome: any_outcome(*choice, self.now) }]
            }
            Move::Record(position, name) => {
                vec![Command::Record {
                    node: node(*position),
                    name: format!("step {name}"),
                    result: json!(name),
                    took_ms: None,
                }]
            }
            Move::Pause { immediate } => {
                let drain = if *immediate { Drain::Immediate } else { Drain::DrainCurrentNode };
                vec![Command::Pause { reason: None, drain, by: ada() }]
            }
            Move::Resume => vec![Command::Resume { by: ada() }],
            Move::TimeOut => vec![Command::TimeOut],
            Move::Child(place, status) => {
                let status = Status::ALL[*status];
                let ended = matches!(status, Status::Completed | Status::Failed | Status::Cancelled);
                let known = self.run.children.get(*place).map(|child| child.run.clone());
                let child = known.unwrap_or_else(|| RunId::parse("unknown").expect("a run id"));
                let interrupts = child_interrupts(&child, status);
                vec![Command::Child { child, status, interrupts, result: ended.then(ChildResult::default) }]
            }
            Move::CancelWithParent => vec![Command::CancelWithParent],
            Move::Start => vec![start()],
            Move::Cancel => vec![Command::Cancel { reason: None, by: ada() }],
            Move::Abandon => vec![Command::Abandon { error: RunError::new("lost", "the worker gave up") }],
        }
    }

    fn submit(&mut self, command: &Command) {
        let Ok(events) = decide(&self.run, command, self.now) else { return };
        assert!(!self.run.finished(), "a finished run accepted {command:?}");
        let is_child_update = matches!(command, Command::Child { .. });
        assert!(is_child_update || !events.is_empty(), "an accepted command has no events: {command:?}");
        for event in events {
            for obligation in react(&self.run, &event, self.now) {
                self.record_obligation(obligation);
            }
            self.run.apply(&event, self.now);
            self.log.push((self.now, event));
        }
    }

    fn record_obligation(&mut self, obligation: Obligation) {
        match obligation {
            Obligation::Activate => {}
            Obligation::StartChild { child } => self.started.push(child),
            Obligation::CancelChild { child } => self.cancelled.push(child),
            Obligation::SetTimer { timer, due } => self.timers.push((timer, due)),
            Obligation::ClearTimer { timer, due } => {
                let set = self.timers.iter().position(|known| *known == (timer.clone(), due));
                self.timers.swap_remove(set.unwrap_or_else(|| panic!("{timer:?} was not set for {due}")));
            }
        }
    }

    fn check(&self) {
        self.check_replay();
        self.check_end();
        self.check_interrupts();
        self.check_timers();
        self.check_progress();
        self.check_children();
        self.check_caps();
    }

    /// Checks that a round trip through JSON changes no event, and that the fold of the log equals the run.
    fn check_replay(&self) {
        let text = serde_json::to_string(&self.log.iter().map(|(_, event)| event).collect::<Vec<_>>());
        let read: Vec<Event> =
            serde_json::from_str(&text.expect("events are JSON")).expect("events are read again");
        assert!(
            read.iter().eq(self.log.iter().map(|(_, event)| event)),
            "an event changed on its way through JSON"
        );
        let times = self.log.iter().map(|(at, _)| *at);
        let again = Run::replay(self.run.id.clone(), self.run.workflow.clone(), times.zip(&read));
        assert_eq!(again, self.run);
        assert_eq!(self.run.seq, self.log.len() as u64);
    }

    fn check_end(&self) {
        let is_end = |event: &Event| {
            matches!(event, Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. })
        };
        let first = self.log.iter().position(|(_, event)| is_end(event));
        assert_eq!(first.is_some(), self.run.finished());
        assert!(first.is_none_or(|end| end + 1 == self.log.len()), "an event follows the end of the run");
    }

    fn check_interrupts(&self) {
        let (mut ids, mut keys, mut closed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (_, event) in &self.log {
            match event {
                Event::InterruptRequested { id, key, .. } => {
                    ids.push(*id);
                    assert!(keys.insert(key.clone()), "{key} was requested twice");
                }
                Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                    assert!(ids.contains(id), "{id} was closed before it was requested");
                    assert!(closed.insert(*id), "{id} was closed twice");
                }
                _ => {}
            }
        }
        let in_order: Vec<InterruptId> = (1..).take(ids.len()).map(InterruptId).collect();
        assert_eq!(ids, in_order);
        let open: Vec<InterruptId> = self.run.open_interrupts().map(|interrupt| interrupt.id).collect();
        assert_eq!(open, ids.into_iter().filter(|id| !closed.contains(id)).collect::<Vec<_>>());
    }

    /// Checks that the timers that are set are the deadlines and sleeps that an unfinished run waits for.
    fn check_timers(&self) {
        let deadlines = self
            .run
            .open_interrupts()
            .filter_map(|interrupt| interrupt.expires_at().map(|due| (Timer::Interrupt(interrupt.id), due)));
        let nodes = std::iter::zip(&self.run.workflow.nodes, &self.run.nodes);
        let sleeps = nodes.filter_map(|(node, state)| match state.status {
            NodeStatus::Sleeping(until) => Some((Timer::Sleep(node.id.clone()), until)),
            _ => None,
        });
        let limit = self.run.deadline().map(|due| (Timer::Run, due));
        let expected: Vec<(Timer, Timestamp)> =
            if self.run.finished() { Vec::new() } else { deadlines.chain(sleeps).chain(limit).collect() };
        assert_eq!(self.timers.len(), expected.len(), "{:?} instead of {expected:?}", self.timers);
        assert!(expected.iter().all(|timer| self.timers.contains(timer)), "{:?}", self.timers);
    }

    /// Checks that a run with work to do has no waiting status, and that a run without work waits for an interrupt, a
    /// sleep or a child run.
    fn check_progress(&self) {
        let has = |wanted: fn(&NodeStatus) -> bool| self.run.nodes.iter().any(|state| wanted(&state.status));
        let waits = has(|status| matches!(status, NodeStatus::Waiting(_)));
        let sleeps = has(|status| matches!(status, NodeStatus::Sleeping(_)));
        let awaits = has(|status| matches!(status, NodeStatus::Awaiting(_)));
        let idle = self.run.next_work().is_none();
        match self.run.status() {
            Status::WaitingApproval | Status::WaitingInput | Status::WaitingExternal => {
                assert!((waits || awaits) && idle);
            }
            Status::Running => assert!(!idle || sleeps || awaits, "the run is stuck: {:?}", self.run.nodes),
            Status::Paused => assert!(idle && self.run.paused.is_some()),
            Status::Pending => assert!(self.log.is_empty()),
            Status::Completed => assert!(idle && !waits && !sleeps && !awaits),
            Status::Failed | Status::Cancelled => assert!(idle),
        }
        let stopped = self.run.paused.is_some() || self.run.draining.is_some();
        let may_begin = self.run.status() != Status::Pending && !stopped;
        let at_work = has(NodeStatus::is_active);
        // Nodes after a loop, and nodes that are about to repeat, wait for active nodes.
        let blocked_by_loop = at_work && !self.run.workflow.loops.is_empty();
        if idle && may_begin && !self.run.finished() && !blocked_by_loop {
            assert_eq!(
                self.blocked_node(),
                None,
                "a node has not begun although all nodes before it have ended"
            );
        }
    }

    /// Checks that every child run is known, and that a failed or cancelled run cancels the children that end with it.
    fn check_children(&self) {
        let known: Vec<RunId> = self.run.children.iter().map(|child| child.run.clone()).collect();
        assert_eq!(self.started, known);
        let unsuccessful = matches!(self.run.status(), Status::Failed | Status::Cancelled);
        let to_cancel =
            self.run.children.iter().filter(|child| unsuccessful && child.cascade && child.result.is_none());
        assert_eq!(self.cancelled, to_cancel.map(|child| child.run.clone()).collect::<Vec<_>>());
    }

    fn check_caps(&self) {
        let begun = self.log.iter().filter(|(_, event)| matches!(event, Event::NodeStarted { .. })).count();
        assert_eq!(self.run.starts, begun as u64);
        assert!(self.run.starts <= EXECUTIONS_MAX);
        let limit = self.run.workflow.settings.max_loopback_iterations;
        assert!(
            self.run.loop_iterations.iter().all(|turns| *turns <= limit),
            "{:?}",
            self.run.loop_iterations
        );
    }

    /// Returns a node that has not begun although all nodes before it have ended.
    fn blocked_node(&self) -> Option<&NodeId> {
        let pending = |position: usize| self.run.nodes[position].status == NodeStatus::Pending;
        let ended = |position: usize| self.run.nodes[position].ended_at.is_some() || self.skipped(position);
        let ready = |position: usize| {
            let back = |at: usize| self.run.workflow.loops.iter().any(|found| found.edge == at);
            let edges = self.run.workflow.edges.iter().enumerate();
            let mut incoming = edges.filter(|(at, edge)| edge.target == position && !back(*at));
            incoming.all(|(_, edge)| ended(edge.source))
        };
        let found = (0..self.run.nodes.len()).find(|position| pending(*position) && ready(*position));
        found.map(|position| &self.run.workflow.nodes[position].id)
    }

    fn skipped(&self, position: usize) -> bool {
        self.run.nodes[position].status == NodeStatus::Skipped
    }
}

/// Returns the report of a child run: it opens its interrupt when it waits, and otherwise closes it.
fn child_interrupts(child: &RunId, status: Status) -> ChildInterruptChanges {
    let (id, node) = (InterruptId(1), NodeId::parse("gate").expect("a node id"));
    if status == Status::WaitingApproval {
        let opened = vec![ChildInterrupt { id, node, kind: Kind::Approval, below: Vec::new() }];
        ChildInterruptChanges { opened, closed: Vec::new() }
    } else {
        let closed = vec![ClosedChildInterrupt { run: child.clone(), id, decision: None }];
        ChildInterruptChanges { opened: Vec::new(), closed }
    }
}
