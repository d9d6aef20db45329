//! A run under test with everything that happened to it, and the promises it is held to after every command.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_core::{
    ChildResult, Command, Drain, Effect, Event, InterruptId, NodeId, NodeStatus, Obligation, Run, RunError,
    RunId, Status, Timer, Timestamp, Work, Workflow, decide, react,
};
use serde_json::{Value, json};

use crate::Move;
use crate::executor::{EXECUTIONS_MAX, answer, any_outcome, perform, somebody, start};

/// A run, everything that happened to it, and the timers a shell would have set.
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
        let workflow = Workflow::parse(definition, 1).expect("a sound definition");
        let run = Run::unborn(RunId::parse("r").expect("a run id"), Arc::new(workflow));
        let (log, timers, started, cancelled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { run, now: Timestamp(1_700_000_000_000), log, timers, started, cancelled }
    }

    pub(crate) fn make(&mut self, step: &Move) {
        if let Move::Tick(ms) = step {
            self.now = self.now.plus_ms(*ms);
        }
        for command in self.commands(step) {
            self.tell(&command);
            self.check();
        }
    }

    fn commands(&self, step: &Move) -> Vec<Command> {
        let node = |position: usize| {
            let known = self.run.workflow.nodes.get(position).map(|node| node.id.clone());
            known.unwrap_or_else(|| NodeId::parse("nobody").expect("a node id"))
        };
        match step {
            Move::Tick(_) => Vec::new(),
            Move::Work { lucky } => match self.run.next_work() {
                Some(Work::Begin(next)) => vec![Command::Begin { node: node(next), effect: Effect::Outside }],
                Some(Work::Enter(next)) => {
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
                vec![Command::Pause { reason: None, drain, by: somebody() }]
            }
            Move::Resume => vec![Command::Resume { by: somebody() }],
            Move::TimeOut => vec![Command::TimeOut],
            Move::Child(place, status) => {
                let status = Status::ALL[*status];
                let ended = matches!(status, Status::Completed | Status::Failed | Status::Cancelled);
                let known = self.run.children.get(*place).map(|child| child.run.clone());
                let child = known.unwrap_or_else(|| RunId::parse("nobody").expect("a run id"));
                vec![Command::Child { child, status, result: ended.then(ChildResult::default) }]
            }
            Move::CancelWithParent => vec![Command::CancelWithParent],
            Move::Start => vec![start()],
            Move::Cancel => vec![Command::Cancel { reason: None, by: somebody() }],
            Move::Abandon => vec![Command::Abandon { error: RunError::new("lost", "the machinery gave up") }],
        }
    }

    fn tell(&mut self, command: &Command) {
        let Ok(events) = decide(&self.run, command, self.now) else { return };
        assert!(!self.run.finished(), "a finished run accepted {command:?}");
        let news = matches!(command, Command::Child { .. });
        assert!(news || !events.is_empty(), "a command that is accepted does something: {command:?}");
        for event in events {
            for obligation in react(&self.run, &event, self.now) {
                self.keep(obligation);
            }
            self.run.apply(&event, self.now);
            self.log.push((self.now, event));
        }
    }

    fn keep(&mut self, obligation: Obligation) {
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

    /// The log is the run: written down, read again and folded, it is the same.
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
        assert!(first.is_none_or(|end| end + 1 == self.log.len()), "something happened after the end");
    }

    fn check_interrupts(&self) {
        let (mut ids, mut keys, mut closed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (_, event) in &self.log {
            match event {
                Event::InterruptRequested { id, key, .. } => {
                    ids.push(*id);
                    assert!(keys.insert(key.clone()), "{key} was asked twice");
                }
                Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                    assert!(ids.contains(id), "{id} was closed before it was asked");
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

    /// Set and not cleared: exactly the deadlines and sleeps that an unfinished run still waits for.
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
        let waited_for: Vec<(Timer, Timestamp)> =
            if self.run.finished() { Vec::new() } else { deadlines.chain(sleeps).chain(limit).collect() };
        assert_eq!(self.timers.len(), waited_for.len(), "{:?} instead of {waited_for:?}", self.timers);
        assert!(waited_for.iter().all(|timer| self.timers.contains(timer)), "{:?}", self.timers);
    }

    /// A run that goes on by itself is never called waiting, and one that cannot go on waits for something.
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
        let at_work = has(NodeStatus::is_at_work);
        // What is behind a loop, or about to begin anew, waits for those at work.
        let held = at_work && !self.run.workflow.loops.is_empty();
        if idle && may_begin && !self.run.finished() && !held {
            assert_eq!(self.held_up(), None, "a node is held up by nothing that it depends on");
        }
    }

    /// Every run that was asked for is known, and none outlives a failed or cancelled parent that it belongs to.
    fn check_children(&self) {
        let known: Vec<RunId> = self.run.children.iter().map(|child| child.run.clone()).collect();
        assert_eq!(self.started, known);
        let lost = matches!(self.run.status(), Status::Failed | Status::Cancelled);
        let owed = self.run.children.iter().filter(|child| lost && child.cascade && child.result.is_none());
        assert_eq!(self.cancelled, owed.map(|child| child.run.clone()).collect::<Vec<_>>());
    }

    fn check_caps(&self) {
        let begun = self.log.iter().filter(|(_, event)| matches!(event, Event::NodeStarted { .. })).count();
        assert_eq!(self.run.starts, begun as u64);
        assert!(self.run.starts <= EXECUTIONS_MAX);
        let limit = self.run.workflow.settings.max_loopback_iterations;
        assert!(self.run.turns.iter().all(|turns| *turns <= limit), "{:?}", self.run.turns);
    }

    /// A node that has not begun although everything before it has ended.
    fn held_up(&self) -> Option<&NodeId> {
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
