//! The effects that a gate permits, read from the definition: for the check at registration, for approvers and
//! operators, and for the comparison of a body with what the gate showed.

use holdpoint_core::workflow::{Flaw, Node, PortValue, Workflow};
use holdpoint_core::{Effect, NodeId, covered_node};
use serde_json::Value;

use crate::nodes::{NodeTypes, config_flaw};

/// The node types that are approval gates.
const GATES: [&str; 2] = ["core.approvalGate", "core.openwop.governance.approvalGate"];

/// The config member of a gate that names the effects it permits.
pub(crate) const COVERS: &str = "covers";

/// One effect that a gate permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pub node: NodeId,
    pub type_id: String,
    pub payload: Payload,
    /// Every round of a loop may use the grant.
    pub repeat: bool,
}

/// The relation between an approval and the payload of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The body is compared with the payload that was approved.
    Fixed,
    /// The workflow decides what the effect sends.
    NotFixed,
}

impl Payload {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed by this approval",
            Self::NotFixed => "payload not fixed by this approval",
        }
    }
}

/// An effect that needs no grant although a gate leads to it, or that repeats with one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantNote {
    pub node: NodeId,
    pub message: String,
}

impl NodeTypes {
    /// Returns the effects that a gate permits, in the order of the definition.
    pub(crate) fn permits(&self, workflow: &Workflow, gate: &NodeId) -> Vec<Permit> {
        let Some(from) = workflow.position(gate).filter(|from| is_gate(&workflow.nodes[*from])) else {
            return Vec::new();
        };
        let effects = workflow.nodes.iter().enumerate().filter(|(to, node)| {
            self.effect_of(node) == Effect::Outside && node.needs_grant && workflow.reaches(from, *to)
        });
        let covering = &workflow.nodes[from];
        let covered = effects.filter_map(|(_, node)| Some((node, covers(covering, &node.id)?)));
        covered
            .map(|(node, repeat)| Permit {
                node: node.id.clone(),
                type_id: node.type_id.clone(),
                payload: payload(covering, node),
                repeat,
            })
            .collect()
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
    pub(crate) fn grant_flaws(&self, workflow: &Workflow) -> Vec<Flaw> {
        let mut flaws = self.repeat_flaws(workflow);
        for gate in workflow.nodes.iter().filter(|node| is_gate(node)) {
            let listed = gate.config.get(COVERS).and_then(Value::as_array).into_iter().flatten();
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

    fn repeat_flaws(&self, workflow: &Workflow) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (from, gate) in workflow.nodes.iter().enumerate().filter(|(_, node)| is_gate(node)) {
            for permit in self.permits(workflow, &gate.id).into_iter().filter(|permit| !permit.repeat) {
                let Some(to) = workflow.position(&permit.node) else { continue };
                let repeats = workflow.loops.iter().any(|found| {
                    let contains = |at: usize| found.region[at] && !found.exits[at];
                    contains(to) && !contains(from)
                });
                if repeats {
                    let message = format!(
                        "a loop repeats the effect of node {:?} without passing this gate: one approval would permit \
                         every round; put the gate into the loop, or list {{\"node\": {:?}, \"repeat\": true}}",
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

/// Returns the port of a gate that reads the same value as the body of an effect.
pub(crate) fn find_shown_port<'a>(gate: &'a Node, effect: &Node) -> Option<&'a str> {
    let body = effect.inputs.get("body").filter(|_| effect.type_id == "core.http" && is_gate(gate))?;
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

fn payload(gate: &Node, effect: &Node) -> Payload {
    let named =
        effect.config.get(crate::approved::APPROVED_BY).and_then(Value::as_str) == Some(gate.id.as_str());
    if named || find_shown_port(gate, effect).is_some() { Payload::Fixed } else { Payload::NotFixed }
}

pub(crate) fn is_gate(node: &Node) -> bool {
    GATES.contains(&node.type_id.as_str())
}

/// Returns whether every round of a loop may use the grant, or None if the gate does not cover the node.
fn covers(gate: &Node, node: &NodeId) -> Option<bool> {
    let Some(listed) = gate.config.get(COVERS).and_then(Value::as_array) else { return Some(false) };
    let entry = listed.iter().find(|entry| covered_node(entry) == Some(node.as_str()))?;
    Some(entry.get("repeat") == Some(&Value::Bool(true)))
}
