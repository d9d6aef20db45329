//! Checks what only the whole graph can tell: references between nodes, a place to begin, no way back.

use super::{Flaw, Node, PortValue, Workflow};

pub(super) fn flaws(workflow: &Workflow) -> Vec<Flaw> {
    let mut flaws: Vec<Flaw> = workflow.nodes.iter().flat_map(|node| port_flaws(workflow, node)).collect();
    flaws.extend(type_flaws(workflow));
    flaws.extend(cycle_flaw(workflow));
    flaws
}

fn type_flaws(workflow: &Workflow) -> impl Iterator<Item = Flaw> {
    let well_formed = |type_id: &str| {
        type_id.starts_with(|first: char| first.is_ascii_lowercase())
            && type_id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let wrong = workflow.nodes.iter().filter(move |node| !well_formed(&node.type_id));
    wrong.map(|node| Flaw::of_node(&node.id, "typeId", "must match ^[a-z][a-zA-Z0-9._-]*$"))
}

fn port_flaws(workflow: &Workflow, node: &Node) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (port, value) in &node.inputs {
        let PortValue::Connection { node: source, .. } = value else { continue };
        let field = format!("inputs.{port}.nodeId");
        match workflow.position(source) {
            None => {
                flaws.push(Flaw::of_node(&node.id, field, format!("there is no node {:?}", source.as_str())));
            }
            Some(source) if !comes_before(workflow, source, &node.id) => {
                let message =
                    format!("no path of edges leads from {:?} to here", workflow.nodes[source].id.as_str());
                flaws.push(Flaw::of_node(&node.id, field, message));
            }
            Some(_) => {}
        }
    }
    flaws
}

/// A connection to a node that may run later, or never before, would make the value a matter of luck.
fn comes_before(workflow: &Workflow, source: usize, target: &crate::ids::NodeId) -> bool {
    let mut seen = vec![false; workflow.nodes.len()];
    let mut open = vec![source];
    while let Some(position) = open.pop() {
        for edge in workflow.outgoing(position) {
            if workflow.nodes[edge.target].id == *target {
                return true;
            }
            if !std::mem::replace(&mut seen[edge.target], true) {
                open.push(edge.target);
            }
        }
    }
    false
}

/// Removes nodes without open incoming edges until none is left; what remains lies on a cycle or behind one.
fn cycle_flaw(workflow: &Workflow) -> Option<Flaw> {
    let mut open: Vec<usize> =
        (0..workflow.nodes.len()).map(|position| workflow.incoming(position).count()).collect();
    let mut ready: Vec<usize> = (0..open.len()).filter(|position| open[*position] == 0).collect();
    let mut removed = 0;
    while let Some(position) = ready.pop() {
        removed += 1;
        for edge in workflow.outgoing(position) {
            open[edge.target] -= 1;
            if open[edge.target] == 0 {
                ready.push(edge.target);
            }
        }
    }
    if removed == workflow.nodes.len() {
        return None;
    }
    let stuck: Vec<&str> = (0..open.len())
        .filter(|position| open[*position] > 0)
        .map(|position| workflow.nodes[position].id.as_str())
        .collect();
    let message =
        format!("lead in a circle through {}; this version runs graphs without cycles", stuck.join(", "));
    Some(Flaw::at_top("edges", message))
}
