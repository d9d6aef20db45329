//! Names on the wire. Models call their calls `c1` in every run, and agents their replies `reply-1`; to a front end,
//! names are those of a whole thread.

use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{InterruptId, NodeId, Run, RunId};

/// An interrupt as lists of pending ones name it.
pub(super) fn interrupt(run: &RunId, id: InterruptId) -> String {
    format!("{run}:{id}")
}

/// The run and the interrupt in it; nothing if it is no such name.
pub(super) fn parse_interrupt(text: &str) -> Option<(RunId, InterruptId)> {
    let (run, ordinal) = text.rsplit_once(":i")?;
    let parsed = ordinal.parse::<u32>().ok().filter(|number| number.to_string() == ordinal)?;
    Some((RunId::parse(run).ok()?, InterruptId(parsed)))
}

/// A reply of an agent, a call in it or its result: what is called so in the visit that a node is in now.
pub(super) fn said(run: &Run, node: &NodeId, name: &str) -> String {
    if run.workflow.id.as_str().starts_with(AGENT_PREFIX) {
        return of_agent(&run.id, name);
    }
    // Several agents of a workflow, and one that comes round, say the same names.
    match visit(run, node) {
        1 => format!("{}:{node}:{name}", run.id),
        visit => format!("{}:{node}:{visit}:{name}", run.id),
    }
}

/// The same in a run that is of one agent alone.
pub(super) fn of_agent(run: &RunId, name: &str) -> String {
    format!("{run}:{name}")
}

/// What a node says that is no agent.
pub(super) fn text(run: &Run, node: &NodeId) -> String {
    format!("{}:{node}:{}", run.id, visit(run, node))
}

fn visit(run: &Run, node: &NodeId) -> u32 {
    run.node_state(node).map_or(1, |state| state.visit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_found_by_its_name_and_by_no_other() {
        let run = RunId::parse("01-a:b").unwrap();
        let name = interrupt(&run, InterruptId(12));
        assert_eq!(name, "01-a:b:i12");
        assert_eq!(parse_interrupt(&name), Some((run, InterruptId(12))));
        for other in ["", "x", "r:12", "r:i", "r:i01", "r:i-1", ":i1", "r:i99999999999"] {
            assert_eq!(parse_interrupt(other), None, "{other}");
        }
    }
}
