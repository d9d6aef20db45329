//! Checks the graph of a workflow: references between nodes and entry nodes. Marks the connections whose value comes
//! over a back edge.

use super::loops::reached;
use super::{DefinitionFlaw, Edge, Loop, Node, PortValue, Workflow};

pub(super) fn flaws(workflow: &Workflow) -> Vec<DefinitionFlaw> {
    let mut flaws: Vec<DefinitionFlaw> =
        workflow.nodes.iter().flat_map(|node| port_flaws(workflow, node)).collect();
    flaws.extend(type_flaws(workflow));
    flaws.extend(entry_flaw(workflow));
    flaws
}

fn type_flaws(workflow: &Workflow) -> impl Iterator<Item = DefinitionFlaw> {
    let well_formed = |type_id: &str| {
        type_id.starts_with(|first: char| first.is_ascii_lowercase())
            && type_id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let wrong = workflow.nodes.iter().filter(move |node| !well_formed(&node.type_id));
    wrong.map(|node| DefinitionFlaw::of_node(&node.id, "typeId", "must match ^[a-z][a-zA-Z0-9._-]*$"))
}

/// Rejects connections from nodes without a path to this node, because their values would depend on the order of
/// execution. A connection over a back edge has a value from the second visit on, so its port must be optional.
fn port_flaws(workflow: &Workflow, node: &Node) -> Vec<DefinitionFlaw> {
    let mut flaws = Vec::new();
    for (port, value) in &node.inputs {
        let PortValue::Connection { node: source, optional, .. } = value else { continue };
        let (field, name) = (format!("inputs.{port}.nodeId"), source.as_str());
        let (Some(from), Some(to)) = (workflow.position(source), workflow.position(&node.id)) else {
            flaws.push(DefinitionFlaw::of_node(&node.id, field, format!("there is no node {name:?}")));
            continue;
        };
        if comes_before(workflow, from, to, EdgeSet::Forward) {
            continue;
        }
        if !comes_before(workflow, from, to, EdgeSet::All) {
            let message = format!("no path of edges leads from {name:?} to this node");
            flaws.push(DefinitionFlaw::of_node(&node.id, field, message));
        } else if !optional {
            let message =
                format!("only a back edge leads from {name:?} to this node; the port must be optional");
            flaws.push(DefinitionFlaw::of_node(&node.id, field, message));
        }
    }
    flaws
}

impl Workflow {
    /// Returns whether a path of edges without back edges leads from one node to another. Nodes are given by position.
    pub fn leads_to(&self, source: usize, target: usize) -> bool {
        comes_before(self, source, target, EdgeSet::Forward)
    }

    /// Returns whether a path of edges, back edges included, leads from one node to another. Nodes are given by
    /// position.
    pub fn reaches(&self, source: usize, target: usize) -> bool {
        comes_before(self, source, target, EdgeSet::All)
    }

    /// Returns whether a run continues after a failure of this node, because an outgoing edge admits failures. The node
    /// is given by position.
    pub fn admits_failure_of(&self, node: usize) -> bool {
        self.outgoing(node).any(|edge| edge.rule.admits_failure())
    }

    /// Returns whether an iteration of a loop can reach a node along edges that `follows` admits. Nodes are given by
    /// position.
    pub fn iteration_reaches(&self, found: &Loop, node: usize, follows: impl Fn(&Edge) -> bool) -> bool {
        let next = |from: usize| {
            let edges = self.outgoing[from].iter().map(|edge| &self.edges[*edge]);
            edges.filter(|edge| found.region[edge.target] && follows(edge)).map(|edge| edge.target)
        };
        reached(vec![self.edges[found.edge].target], self.nodes.len(), next)[node]
    }
}

/// Marks the connections whose value comes over a back edge.
pub(super) fn mark_back_connections(workflow: &mut Workflow) {
    if workflow.loops.is_empty() {
        return;
    }
    let mut found = Vec::new();
    for (to, node) in workflow.nodes.iter().enumerate() {
        for (port, value) in &node.inputs {
            if let PortValue::Connection { node: source, .. } = value
                && let Some(from) = workflow.position(source)
                && !comes_before(workflow, from, to, EdgeSet::Forward)
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
enum EdgeSet {
    Forward,
    All,
}

fn comes_before(workflow: &Workflow, source: usize, target: usize, edge_set: EdgeSet) -> bool {
    let is_back = |edge: usize| workflow.loops.iter().any(|found| found.edge == edge);
    let next = |from: usize| {
        let edges = workflow.outgoing[from].iter().copied();
        let edges = edges.filter(move |edge| edge_set == EdgeSet::All || !is_back(*edge));
        edges.map(|edge| workflow.edges[edge].target).collect::<Vec<_>>().into_iter()
    };
    reached(next(source).collect(), workflow.nodes.len(), next)[target]
}

/// Rejects cycles that no entry node leads to: their nodes would wait for each other.
fn entry_flaw(workflow: &Workflow) -> Option<DefinitionFlaw> {
    if workflow.unreachable.is_empty() {
        return None;
    }
    let names: Vec<&str> =
        workflow.unreachable.iter().map(|position| workflow.nodes[*position].id.as_str()).collect();
    let message = format!(
        "form a cycle without an entry node through {}; add a path from a node without incoming edges",
        names.join(", ")
    );
    Some(DefinitionFlaw::at_top("edges", message))
}
