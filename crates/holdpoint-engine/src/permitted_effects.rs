//! The effects that a gate permits, read from the definition: for the check at registration, for the lists that
//! approvers and operators see, and for the comparison of a body with the approved payload.

use holdpoint_core::workflow::{DefinitionFlaw, Node, PortValue, Workflow};
use holdpoint_core::{Effect, NodeId, covered_node};
use serde_json::Value;

use crate::nodes::{NodeTypes, config_flaw};

const APPROVAL_GATES: [&str; 2] = ["core.approvalGate", "core.openwop.governance.approvalGate"];

/// The config member of a gate that names the effects it permits.
pub(crate) const COVERS: &str = "covers";

/// One effect that a gate permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermittedEffect {
    /// The node with the effect.
    pub node: NodeId,
    /// Its node type.
    pub type_id: String,
    /// The relation between the approval and the payload.
    pub payload: PayloadBinding,
    /// True if every iteration of a loop may use the grant.
    pub repeat: bool,
}

/// The relation between an approval and the payload of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadBinding {
    /// The body is compared with the payload that was approved.
    Fixed,
    /// The body is compared; the address or other inputs are not.
    BodyFixed,
    /// The workflow decides what the effect sends.
    NotFixed,
    /// The node has `grant: "none"`: the gate leads to the effect, and the effect does not depend on it.
    NoGrant,
}

/// An effect that needs no grant although a gate leads to it, or that repeats with one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantNote {
    /// The node.
    pub node: NodeId,
    /// The note.
    pub message: String,
}

impl NodeTypes {
    /// Returns the effects that a gate permits, and those after it that need no grant, in the order of the
    /// definition.
    pub(crate) fn permitted_effects(&self, workflow: &Workflow, gate: &NodeId) -> Vec<PermittedEffect> {
        let Some(from) = workflow.position(gate).filter(|from| self.grants_effects(&workflow.nodes[*from]))
        else {
            return Vec::new();
        };
        let covering = &workflow.nodes[from];
        let permit = |node: &Node| {
            let repeat = covers(covering, &node.id).or((!node.needs_grant).then_some(false))?;
            let payload =
                if node.needs_grant { payload_binding(covering, node) } else { PayloadBinding::NoGrant };
            Some(PermittedEffect { node: node.id.clone(), type_id: node.type_id.clone(), payload, repeat })
        };
        self.effects_after(workflow, from).filter_map(permit).collect()
    }

    fn effects_after<'a>(&'a self, workflow: &'a Workflow, gate: usize) -> impl Iterator<Item = &'a Node> {
        let nodes = workflow.nodes.iter().enumerate();
        nodes
            .filter(move |(to, node)| self.effect_of(node) == Effect::Outside && workflow.reaches(gate, *to))
            .map(|(_, node)| node)
    }

    /// Returns the notes for operators about the grants of a definition.
    pub(crate) fn grant_notes(&self, workflow: &Workflow) -> Vec<GrantNote> {
        let opted_out = workflow.nodes.iter().filter(|node| !node.needs_grant);
        let opted_out = opted_out.map(|node| GrantNote {
            node: node.id.clone(),
            message: "needs no grant: the definition says grant: \"none\"".to_owned(),
        });
        let repeated = self.repeat_flaws(workflow).into_iter().filter_map(|flaw| {
            Some(GrantNote { node: flaw.node?, message: format!("{}: {}", flaw.field, flaw.message) })
        });
        opted_out.chain(repeated).collect()
    }

    /// Checks the `covers` of gates, and rejects loops that repeat an effect with one grant unless the gate has
    /// `repeat`.
    pub(crate) fn grant_flaws(&self, workflow: &Workflow) -> Vec<DefinitionFlaw> {
        let mut flaws = self.repeat_flaws(workflow);
        flaws.extend(self.uncovered_flaws(workflow));
        for gate in workflow.nodes.iter().filter(|node| self.grants_effects(node)) {
            let listed = covers_of(gate).into_iter().flatten();
            for (at, name) in listed.enumerate().filter_map(|(at, entry)| Some((at, covered_node(entry)?))) {
                if let Some(why) = self.find_cover_flaw(workflow, gate, name) {
                    flaws.push(config_flaw(gate, &format!("{COVERS}[{at}]"), why));
                }
            }
        }
        flaws
    }

    fn find_cover_flaw(&self, workflow: &Workflow, gate: &Node, name: &str) -> Option<String> {
        let to = NodeId::parse(name).ok().and_then(|id| workflow.position(&id));
        let (Some(from), Some(to)) = (workflow.position(&gate.id), to) else {
            return Some(format!("there is no node {name:?}"));
        };
        if self.effect_of(&workflow.nodes[to]) == Effect::None {
            return Some(format!("node {name:?} has no effect outside of the run and needs no grant"));
        }
        (!workflow.reaches(from, to)).then(|| format!("no path of edges leads from the gate to {name:?}"))
    }

    /// Returns a flaw for each effect that a gate leads to and that no gate covers.
    fn uncovered_flaws(&self, workflow: &Workflow) -> Vec<DefinitionFlaw> {
        let gates = || workflow.nodes.iter().enumerate().filter(|(_, node)| self.grants_effects(node));
        let mut flaws = Vec::new();
        for (from, gate) in gates() {
            for effect in self.effects_after(workflow, from).filter(|effect| effect.needs_grant) {
                let Some(to) = workflow.position(&effect.id) else { continue };
                let mut before = gates().filter(|(gate, _)| workflow.reaches(*gate, to));
                if before.all(|(_, gate)| covers(gate, &effect.id).is_none()) {
                    let message = format!(
                        "no gate before node {:?} covers it: add it to covers, or set \"grant\": \"none\" on the node",
                        effect.id.as_str()
                    );
                    flaws.push(config_flaw(gate, COVERS, message));
                }
            }
        }
        flaws
    }

    fn repeat_flaws(&self, workflow: &Workflow) -> Vec<DefinitionFlaw> {
        let mut flaws = Vec::new();
        for gate in workflow.nodes.iter().filter(|node| self.grants_effects(node)) {
            let permits = self.permitted_effects(workflow, &gate.id).into_iter();
            for permit in permits.filter(|permit| permit.payload != PayloadBinding::NoGrant && !permit.repeat)
            {
                let covering = |(_, node): &(usize, &Node)| {
                    self.grants_effects(node) && covers(node, &permit.node).is_some()
                };
                let nodes = workflow.nodes.iter().enumerate();
                let gates: Vec<usize> = nodes.filter(covering).map(|(position, _)| position).collect();
                if workflow.position(&permit.node).is_some_and(|to| repeats_without(workflow, &gates, to)) {
                    let message = format!(
                        "a loop can repeat the effect of node {:?} without passing this gate: one approval would permit \
                         every round; put the gate into every round, or list {{\"node\": {:?}, \"repeat\": true}}",
                        permit.node.as_str(),
                        permit.node.as_str()
                    );
                    flaws.push(config_flaw(gate, COVERS, message));
                }
            }
        }
        flaws
    }
}

/// Returns whether a loop can reach a node repeatedly without passing one of these gates. Nodes are given by position.
/// A node outside the loop can still be reached twice; the second use of the grant is refused then.
fn repeats_without(workflow: &Workflow, gates: &[usize], node: usize) -> bool {
    workflow.loops.iter().any(|round| {
        let (source, head) = (workflow.edges[round.edge].source, workflow.edges[round.edge].target);
        let reaches = |to| workflow.iteration_reaches(round, to, |edge| !gates.contains(&edge.target));
        let is_inside = round.region[node] && !round.exits[node];
        is_inside && !gates.contains(&head) && reaches(source) && reaches(node)
    })
}

/// Returns the port of a gate that reads the same value as the body of an effect.
pub(crate) fn find_shown_port<'a>(gate: &'a Node, effect: &Node) -> Option<&'a str> {
    let body =
        effect.inputs.get("body").filter(|_| effect.type_id == "core.http" && is_approval_gate(gate))?;
    let artifact = gate.inputs.get("artifact");
    let ports = gate.inputs.iter().filter(|(port, _)| artifact.is_none() || *port == "artifact");
    ports.into_iter().find(|(_, port)| read_the_same(port, body)).map(|(port, _)| port.as_str())
}

/// Returns the value of a port of a gate from its granted payload.
pub(crate) fn read_port<'a>(granted: &'a Value, port: &str) -> Option<&'a Value> {
    if port == "artifact" { Some(granted) } else { granted.get(port) }
}

fn read_the_same(one: &PortValue, other: &PortValue) -> bool {
    match (one, other) {
        (PortValue::Variable { name, .. }, PortValue::Variable { name: other, .. }) => name == other,
        (
            PortValue::Connection { node, output, .. },
            PortValue::Connection { node: other, output: key, .. },
        ) => node == other && output == key,
        (PortValue::Static(_) | PortValue::Expression(_), _)
        | (PortValue::Variable { .. } | PortValue::Connection { .. }, _) => false,
    }
}

fn payload_binding(gate: &Node, effect: &Node) -> PayloadBinding {
    let named = effect.config.get(crate::approval_check::APPROVED_BY).and_then(Value::as_str)
        == Some(gate.id.as_str());
    if !named && find_shown_port(gate, effect).is_none() {
        return PayloadBinding::NotFixed;
    }
    let mut others = effect.inputs.iter().filter(|(port, _)| *port != "body");
    let is_static = |value: &PortValue| matches!(value, PortValue::Static(_));
    if others.all(|(_, value)| is_static(value)) { PayloadBinding::Fixed } else { PayloadBinding::BodyFixed }
}

/// Returns whether the node is an approval gate, whose artifact can be compared with a payload.
pub(crate) fn is_approval_gate(node: &Node) -> bool {
    APPROVAL_GATES.contains(&node.type_id.as_str())
}

/// Returns whether every iteration of a loop may use the grant, or None if the gate does not cover the node.
fn covers(gate: &Node, node: &NodeId) -> Option<bool> {
    let Some(listed) = covers_of(gate) else { return Some(false) };
    let entry = listed.iter().find(|entry| covered_node(entry) == Some(node.as_str()))?;
    Some(entry.get("repeat") == Some(&Value::Bool(true)))
}

/// Returns the list of covered nodes. `core.interrupt` has it in the data that it shows.
fn covers_of(gate: &Node) -> Option<&Vec<Value>> {
    gate.config.get(COVERS).or_else(|| gate.config.get("data")?.get(COVERS))?.as_array()
}
