//! Ids on the wire. Ids of calls (`c1`) and replies (`reply-1`) are unique only in a run; a front end needs ids that
//! are unique in the thread.

use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{InterruptId, NodeId, Run, RunId};

/// Returns the id of an interrupt, the same as in lists of pending interrupts.
pub(super) fn interrupt_id(run: &RunId, id: InterruptId) -> String {
    format!("{run}:{id}")
}

/// Parses the id of an interrupt. Returns None if the text is not such an id.
pub(super) fn parse_interrupt_id(text: &str) -> Option<(RunId, InterruptId)> {
    let (run, ordinal) = text.rsplit_once(":i")?;
    let parsed = ordinal.parse::<u32>().ok().filter(|number| number.to_string() == ordinal)?;
    Some((RunId::parse(run).ok()?, InterruptId(parsed)))
}

/// Returns the id of a reply of an agent, of a call or of its result, in the current visit of the node.
pub(super) fn wire_id(run: &Run, node: &NodeId, name: &str) -> String {
    if run.workflow.id.as_str().starts_with(AGENT_PREFIX) {
        return agent_wire_id(&run.id, name);
    }
    // Several agents of a workflow, and several visits of one agent, use the same names.
    match visit(run, node) {
        1 => format!("{}:{node}:{name}", run.id),
        visit => format!("{}:{node}:{visit}:{name}", run.id),
    }
}

/// Returns the same id in a run of a single agent.
pub(super) fn agent_wire_id(run: &RunId, name: &str) -> String {
    format!("{run}:{name}")
}

/// Returns the id of the text message of a node that is not an agent.
pub(super) fn text_message_id(run: &Run, node: &NodeId) -> String {
    format!("{}:{node}:{}", run.id, visit(run, node))
}

fn visit(run: &Run, node: &NodeId) -> u32 {
    run.node_state(node).map_or(1, |state| state.visit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_interrupt_ids_are_parsed() {
        let run = RunId::parse("01-a:b").unwrap();
        let name = interrupt_id(&run, InterruptId(12));
        assert_eq!(name, "01-a:b:i12");
        assert_eq!(parse_interrupt_id(&name), Some((run, InterruptId(12))));
        for other in ["", "x", "r:12", "r:i", "r:i01", "r:i-1", ":i1", "r:i99999999999"] {
            assert_eq!(parse_interrupt_id(other), None, "{other}");
        }
    }
}
