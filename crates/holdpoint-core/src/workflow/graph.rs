//! Checks what only the whole graph can tell: references between nodes, a place to begin. Finds out which values come
//! over a way back.

use super::loops::reached;
use super::{Edge, Flaw, Loop, Node, PortValue, Workflow};

pub(super) fn flaws(workflow: &Workflow) -> Vec<Flaw> {
    let mut flaws: Vec<Flaw> = workflow.nodes.iter().flat_map(|node| port_flaws(workflow, node)).collect();
    flaws.extend(type_flaws(workflow));
    flaws.extend(beginning_flaw(workflow));
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

/// A connection to a node that may run later, or never before, would make the value a matter of luck. Over a way back
/// it is there from the second visit on.
fn port_flaws(workflow: &Workflow, node: &Node) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (port, value) in &node.inputs {
        let PortValue::Connection { node: source, optional, .. } = value else { continue };
        let (field, name) = (format!("inputs.{port}.nodeId"), source.as_str());
        let (Some(from), Some(to)) = (workflow.position(source), workflow.position(&node.id)) else {
            flaws.push(Flaw::of_node(&node.id, field, format!("there is no node {name:?}")));
            continue;
        };
        if comes_before(workflow, from, to, Ways::Forward) {
            continue;
        }
        if !comes_before(workflow, from, to, Ways::All) {
            let message = format!("no path of edges leads from {name:?} to here");
            flaws.push(Flaw::of_node(&node.id, field, message));
        } else if !optional {
            let message = format!("only a way back leads from {name:?} to here: the port must be optional");
            flaws.push(Flaw::of_node(&node.id, field, message));
        }
    }
    flaws
}

impl Workflow {
    /// Whether a path of edges leads from one node to another, without ways back. Nodes by position.
    pub fn leads_to(&self, source: usize, target: usize) -> bool {
        comes_before(self, source, target, Ways::Forward)
    }

    /// Returns whether a path of edges leads from one node to another, edges back included. Nodes by position.
    pub fn reaches(&self, source: usize, target: usize) -> bool {
        comes_before(self, source, target, Ways::All)
    }

    /// Returns whether a run goes on when this node fails, because an edge leads on from there. The node by position.
    pub fn admits_failure_of(&self, node: usize) -> bool {
        self.outgoing(node).any(|edge| edge.rule.admits_failure())
    }

    /// Returns whether a round of a loop can come to a node along edges that `follows` admits. Nodes by position.
    pub fn round_reaches(&self, round: &Loop, node: usize, follows: impl Fn(&Edge) -> bool) -> bool {
        let next = |from: usize| {
            let edges = self.outgoing[from].iter().map(|edge| &self.edges[*edge]);
            edges.filter(|edge| round.region[edge.target] && follows(edge)).map(|edge| edge.target)
        };
        reached(vec![self.edges[round.edge].target], self.nodes.len(), next)[node]
    }
}

/// Marks connections whose value comes over a way back.
pub(super) fn mark_ways_back(workflow: &mut Workflow) {
    if workflow.loops.is_empty() {
        return;
    }
    let mut found = Vec::new();
    for (to, node) in workflow.nodes.iter().enumerate() {
        for (port, value) in &node.inputs {
            if let PortValue::Connection { node: source, .. } = value
                && let Some(from) = workflow.position(source)
                && !comes_before(workflow, from, to, Ways::Forward)
            {
                found.push((to, port.clone()));
            }
        }
    }
    for (position, port) in found {
        if let Some(PortValue::Connection { back, .. }) = workflow.nodes[position].inputs.get_mut(&port) {
            *back = true;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    Forward,
    All,
}

fn comes_before(workflow: &Workflow, source: usize, target: usize, ways: Ways) -> bool {
    let is_back = |edge: usize| workflow.loops.iter().any(|found| found.edge == edge);
    let next = |from: usize| {
        let edges = workflow.outgoing[from].iter().copied();
        let edges = edges.filter(move |edge| ways == Ways::All || !is_back(*edge));
        edges.map(|edge| workflow.edges[edge].target).collect::<Vec<_>>().into_iter()
    };
    reached(next(source).collect(), workflow.nodes.len(), next)[target]
}

/// Nodes in a circle that nothing leads into would wait for each other.
fn beginning_flaw(workflow: &Workflow) -> Option<Flaw> {
    if workflow.unreached.is_empty() {
        return None;
    }
    let names: Vec<&str> =
        workflow.unreached.iter().map(|position| workflow.nodes[*position].id.as_str()).collect();
    let message = format!(
        "lead in a circle without a beginning through {}; a node without incoming edges must lead into it",
        names.join(", ")
    );
    Some(Flaw::at_top("edges", message))
}
