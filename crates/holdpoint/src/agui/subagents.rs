//! The subagents of a segment: child runs that the run waits for, and the runs below them. Each has one start and one
//! end in each segment in which something happens to it.

use holdpoint_api::agui::{Event, SubagentOutcome};
use holdpoint_core::{
    ChildInterrupt, ChildInterruptChanges, ChildRunState, Event as RunEvent, Run, RunId, Status, WorkflowId,
};
use holdpoint_engine::OpenInterrupt;

use super::ids;
use super::open_interrupts::{record_of, wire_id};

/// The subagents that are open on the wire, parents before their children.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    open: Vec<Subagent>,
}

#[derive(Debug)]
struct Subagent {
    run: RunId,
    /// The child run of the run of the thread to which the subagent belongs: itself, or the first run above it.
    child: RunId,
}

/// The start of a subagent.
struct SubagentStart<'r> {
    run: &'r RunId,
    workflow: &'r WorkflowId,
    /// The first run on the path from the run of the thread.
    child: &'r RunId,
    parent: Option<&'r RunId>,
    call: Option<String>,
}

impl Subagents {
    /// Starts the subagents whose interrupts an event closes. `run` is the run of the thread right before the event.
    pub(super) fn translate_closed(&mut self, event: &RunEvent, run: &Run, events: &mut Vec<Event>) {
        let (RunEvent::ChildChanged { child, interrupts: ChildInterruptChanges { closed, .. }, .. }
        | RunEvent::ChildEnded { child, closed, .. }) = event
        else {
            return;
        };
        let Some(child) = run.child(child).filter(|child| child.is_awaited()) else { return };
        let is_closed = |open: &&ChildInterrupt| {
            closed.iter().any(|one| one.id == open.id && one.run == *open.run(&child.run))
        };
        child.interrupts.iter().filter(is_closed).for_each(|open| self.start_path(run, child, open, events));
    }

    /// Translates an event of the run of the thread. `run` is the run right after it.
    pub(super) fn translate(&mut self, event: &RunEvent, run: &Run, events: &mut Vec<Event>) {
        match event {
            RunEvent::NodeDispatched { child, .. } => {
                if let Some(child) = run.child(child).filter(|child| child.is_awaited()) {
                    self.start_child(run, child, events);
                }
            }
            RunEvent::ChildChanged { child, interrupts, .. } => {
                let Some(child) = run.child(child).filter(|child| child.is_awaited()) else { return };
                self.start_child(run, child, events);
                interrupts.opened.iter().for_each(|open| self.start_path(run, child, open, events));
            }
            RunEvent::ChildEnded { child, status, result, .. } => {
                let Some(child) = run.child(child).filter(|child| child.wait || child.call.is_some()) else {
                    return;
                };
                self.start_child(run, child, events);
                let error = result.error.as_ref().map(|error| (error.code.as_str(), error.message.as_str()));
                self.end_child(&child.run, *status, error, events);
            }
            _ => {}
        }
    }

    fn start_child(&mut self, run: &Run, child: &ChildRunState, events: &mut Vec<Event>) {
        let call = child.call.as_ref().map(|call| ids::wire_id(run, &child.node, call));
        let (workflow, id) = (&child.workflow, &child.run);
        self.start(SubagentStart { run: id, workflow, child: id, parent: None, call }, events);
    }

    /// Starts the subagents from a child run down to the run of an interrupt.
    fn start_path(
        &mut self,
        run: &Run,
        child: &ChildRunState,
        open: &ChildInterrupt,
        events: &mut Vec<Event>,
    ) {
        self.start_child(run, child, events);
        let mut parent = &child.run;
        for step in &open.below {
            let (workflow, child) = (&step.workflow, &child.run);
            let below = SubagentStart { run: &step.run, workflow, child, parent: Some(parent), call: None };
            self.start(below, events);
            parent = &step.run;
        }
    }

    fn start(&mut self, one: SubagentStart<'_>, events: &mut Vec<Event>) {
        if self.open.iter().any(|open| open.run == *one.run) {
            return;
        }
        self.open.push(Subagent { run: one.run.clone(), child: one.child.clone() });
        events.push(Event::SubagentStarted {
            subagent_run_id: one.run.to_string(),
            name: one.workflow.to_string(),
            description: None,
            parent_subagent_run_id: one.parent.map(ToString::to_string),
            parent_tool_call_id: one.call,
            parent_message_id: None,
        });
    }

    /// Ends a child run and the open subagents below it. The ends of the runs below it are not recorded in this run.
    fn end_child(
        &mut self,
        child: &RunId,
        status: Status,
        error: Option<(&str, &str)>,
        events: &mut Vec<Event>,
    ) {
        let (ended, open) = std::mem::take(&mut self.open).into_iter().partition(|one| one.child == *child);
        self.open = open;
        let ended: Vec<Subagent> = ended;
        for one in ended.into_iter().rev() {
            let id = one.run.to_string();
            events.push(if one.run != *child || status == Status::Completed {
                Event::SubagentFinished {
                    subagent_run_id: id,
                    result: None,
                    outcome: (one.run == *child).then_some(SubagentOutcome::Success),
                }
            } else {
                let (code, message) = error.unwrap_or(("cancelled", "the run was cancelled"));
                Event::SubagentError {
                    subagent_run_id: id,
                    message: message.to_owned(),
                    code: Some(code.to_owned()),
                }
            });
        }
    }

    /// Ends all open subagents at the end of a segment. Those above an interrupt of `waiting`, which the end of the
    /// segment shows, are suspended. Starts them first if the segment has no event of them.
    pub(super) fn close(&mut self, run: &Run, waiting: &[OpenInterrupt], events: &mut Vec<Event>) {
        let below: Vec<_> = waiting
            .iter()
            .filter_map(|one| record_of(run, one).map(|(child, open)| (one, child, open)))
            .collect();
        for (_, child, open) in &below {
            self.start_path(run, child, open, events);
        }
        for one in std::mem::take(&mut self.open).into_iter().rev() {
            let is_below = |child: &ChildRunState, open: &ChildInterrupt| {
                child.run == one.run || open.below.iter().any(|step| step.run == one.run)
            };
            let waits = below.iter().filter(|(_, child, open)| is_below(child, open));
            let interrupt_ids: Vec<_> = waits.map(|(waiting, ..)| wire_id(waiting)).collect();
            let outcome = (!interrupt_ids.is_empty()).then_some(SubagentOutcome::Suspended { interrupt_ids });
            let subagent_run_id = one.run.to_string();
            events.push(Event::SubagentFinished { subagent_run_id, result: None, outcome });
        }
    }
}
