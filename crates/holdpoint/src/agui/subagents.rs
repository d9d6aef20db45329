//! The subagents of a segment: child runs that the run waits for, and the runs below them. Each has one start and one
//! end in each segment in which something happens to it.

use holdpoint_api::agui::{Event, SubagentOutcome};
use holdpoint_core::{ChildInterrupt, ChildRunState, Event as RunEvent, Run, RunId, Status, WorkflowId};

use super::ids;

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

impl Subagents {
    /// Translates an event of the run of the thread. `run` is the run right after it.
    pub(super) fn translate(&mut self, event: &RunEvent, run: &Run, events: &mut Vec<Event>) {
        match event {
            RunEvent::NodeDispatched { child, .. } => {
                let child = run.child(child).filter(|child| child.is_awaited());
                self.start_child(run, child.map(AsRef::as_ref), events);
            }
            RunEvent::ChildChanged { child, interrupts, .. } => {
                let Some(child) = run.child(child).filter(|child| child.is_awaited()) else { return };
                self.start_child(run, Some(child), events);
                interrupts.opened.iter().for_each(|open| self.start_below(child, open, events));
            }
            RunEvent::ChildEnded { child, status, result, .. } => {
                let Some(child) = run.child(child).filter(|child| child.wait || child.call.is_some()) else {
                    return;
                };
                self.start_child(run, Some(child), events);
                let error = result.error.as_ref().map(|error| (error.code.as_str(), error.message.as_str()));
                self.end_child(&child.run, *status, error, events);
            }
            _ => {}
        }
    }

    fn start_child(&mut self, run: &Run, child: Option<&ChildRunState>, events: &mut Vec<Event>) {
        let Some(child) = child else { return };
        let parent_tool_call_id = child.call.as_ref().map(|call| ids::wire_id(run, &child.node, call));
        self.start(&child.run, &child.workflow, &child.run, None, parent_tool_call_id, events);
    }

    /// Starts the subagents down to the run of an interrupt.
    fn start_below(&mut self, child: &ChildRunState, open: &ChildInterrupt, events: &mut Vec<Event>) {
        let mut parent = &child.run;
        for step in &open.below {
            self.start(&step.run, &step.workflow, &child.run, Some(parent), None, events);
            parent = &step.run;
        }
    }

    fn start(
        &mut self,
        run: &RunId,
        workflow: &WorkflowId,
        child: &RunId,
        parent: Option<&RunId>,
        parent_tool_call_id: Option<String>,
        events: &mut Vec<Event>,
    ) {
        if self.open.iter().any(|open| open.run == *run) {
            return;
        }
        self.open.push(Subagent { run: run.clone(), child: child.clone() });
        events.push(Event::SubagentStarted {
            subagent_run_id: run.to_string(),
            name: workflow.to_string(),
            description: None,
            parent_subagent_run_id: parent.map(ToString::to_string),
            parent_tool_call_id,
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

    /// Ends all open subagents at the end of a segment. Those that wait for an answer are suspended.
    pub(super) fn close(&mut self, run: &Run, events: &mut Vec<Event>) {
        for one in std::mem::take(&mut self.open).into_iter().rev() {
            let below = run.child_interrupts().filter(|(child, open)| {
                child.run == one.run || open.below.iter().any(|step| step.run == one.run)
            });
            let interrupt_ids: Vec<_> =
                below.map(|(child, open)| ids::interrupt_id(open.run(&child.run), open.id)).collect();
            let outcome = (!interrupt_ids.is_empty()).then_some(SubagentOutcome::Suspended { interrupt_ids });
            let subagent_run_id = one.run.to_string();
            events.push(Event::SubagentFinished { subagent_run_id, result: None, outcome });
        }
    }
}
