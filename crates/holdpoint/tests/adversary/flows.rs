//! The workflows and agents that sequences attack. All effects are behind a gate.

use serde_json::{Value, json};

/// The kinds of flows that sequences attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A gate and a call.
    Single,
    /// A gate that every key with `approvals:respond` may answer, requesters too, and a call.
    Open,
    /// A gate with two votes, two parallel calls and one call after them.
    Quorum,
    /// A gate, a delay and a call.
    Delayed,
    /// A governed gate and a call.
    Governed,
    /// A gate and a child run that makes the call.
    Child,
    /// A loop that passes a gate and a call twice.
    Loop,
    /// A gate and an agent whose calls need no approval of their own.
    GatedAgent,
    /// An agent whose tool calls need approval.
    Agent,
    /// A hold; the effect is that a client consumes the grant.
    Hold,
}

impl Shape {
    pub(crate) const ALL: [Self; 10] = [
        Self::Single,
        Self::Open,
        Self::Quorum,
        Self::Delayed,
        Self::Governed,
        Self::Child,
        Self::Loop,
        Self::GatedAgent,
        Self::Agent,
        Self::Hold,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Open => "open",
            Self::Quorum => "quorum",
            Self::Delayed => "delayed",
            Self::Governed => "governed",
            Self::Child => "parent",
            Self::Loop => "loop",
            Self::GatedAgent => "gated-agent",
            Self::Agent => "clerk",
            Self::Hold => "holdpoint-hold",
        }
    }

    /// The number of approvals that the gate `node` of this flow needs.
    pub(crate) fn votes(self, node: &str) -> usize {
        if self == Self::Quorum && node == "gate" { 2 } else { 1 }
    }

    /// True if requesters may not approve.
    pub(crate) fn excludes_requesters(self) -> bool {
        self != Self::Open
    }

    pub(crate) fn is_workflow(self) -> bool {
        !matches!(self, Self::Agent | Self::Hold)
    }

    /// Returns the definition, whose calls go to `/ok` below this address, or `None` if the shape is not a workflow.
    pub(crate) fn definition(self, id: &str, url: &str) -> Option<Value> {
        let call = |node: &str| call(node, &format!("{url}/ok/{node}"));
        let (nodes, edges) = match self {
            Self::Single => (vec![gate(json!({})), call("pay")], vec![("gate", "pay")]),
            Self::Open => {
                let gate = gate(json!({"requesterMayNotApprove": false}));
                (vec![gate, call("pay")], vec![("gate", "pay")])
            }
            Self::Quorum => (
                vec![gate(json!({"requiredApprovals": 2})), call("pay"), call("book"), call("tell")],
                vec![("gate", "pay"), ("gate", "book"), ("pay", "tell"), ("book", "tell")],
            ),
            Self::Delayed => (
                vec![gate(json!({})), node("delay", "core.delay", json!({"ms": 40})), call("pay")],
                vec![("gate", "delay"), ("delay", "pay")],
            ),
            Self::Governed => (vec![governed(), call("pay")], vec![("gate", "pay")]),
            // The payload of a child run is not fixed by the approval: an edit would not reach it.
            Self::Child => (
                vec![gate(json!({"actions": ["accept", "reject", "ask"]})), child()],
                vec![("gate", "child")],
            ),
            Self::Loop => {
                let each = node("each", "core.loop", json!({"count": 2}));
                let start = node("start", "core.start", json!({}));
                let edges = vec![("start", "each"), ("each", "gate"), ("gate", "pay"), ("pay", "each")];
                (vec![start, each, gate(json!({})), call("pay")], edges)
            }
            Self::GatedAgent => {
                let mut agent = node("agent", "core.agent", clerk("gated-clerk", url, "allow"));
                agent["inputs"] = json!({"message": {"type": "expression", "expression": "payment.marker"}});
                (vec![gate(json!({})), agent], vec![("gate", "agent")])
            }
            Self::Agent | Self::Hold => return None,
        };
        let mut flow = graph(id, nodes, &edges);
        if self == Self::Loop {
            flow["edges"][1]["sourceOutput"] = json!("body");
        }
        Some(flow)
    }

    /// Returns a forged revision under the same id: its calls go to `/forged`, and it has no gate or a gate that every
    /// principal may answer.
    pub(crate) fn forged(self, id: &str, url: &str, way: usize) -> Value {
        let call = |node: &str| call(node, &format!("{url}/forged/{node}"));
        let (nodes, edges) = match way % 3 {
            0 => (vec![call("pay"), call("book"), call("tell")], vec![]),
            1 => {
                let gate = node("gate", "core.noop", json!({}));
                (vec![gate, call("pay"), call("child")], vec![("gate", "pay"), ("gate", "child")])
            }
            _ => {
                let mut open = gate(json!({"actions": ["accept", "edit-accept"]}));
                open["config"]["requesterMayNotApprove"] = json!(false);
                (vec![open, call("pay")], vec![("gate", "pay")])
            }
        };
        graph(id, nodes, &edges)
    }
}

/// The workflow that [`Shape::Child`] starts.
pub(crate) fn paying_child(url: &str) -> Value {
    graph("child", vec![call("pay", &format!("{url}/ok/pay"))], &[])
}

/// An agent that makes two payments in one turn and one in the next.
pub(crate) fn clerk(id: &str, url: &str, permission: &str) -> Value {
    let call = |id: &str| json!({"id": id, "name": "pay", "arguments": {"to": "supplier", "what": id, "marker": "{{user}}"}});
    json!({
        "agentId": id,
        "model": {"provider": "scripted", "steps": [{"calls": [call("c1"), call("c2")]}, {"calls": [call("c3")]}, {"text": "Done."}]},
        "tools": [{
            "type": "http", "name": "pay", "description": "pays", "method": "POST", "url": format!("{url}/ok/agent"),
            "parameters": {"type": "object", "required": ["to"]},
        }],
        "permissions": {"default": permission, "rules": []},
        "approval": {"requesterMayNotApprove": true},
    })
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

fn payment() -> Value {
    json!({"type": "variable", "variableName": "payment"})
}

fn gate(more: Value) -> Value {
    let mut config = json!({"title": "Pay?", "requesterMayNotApprove": true});
    config["actions"] = match more.get("requiredApprovals") {
        Some(_) => json!(["accept", "reject", "ask"]),
        None => json!(["accept", "reject", "ask", "edit-accept"]),
    };
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut gate = node("gate", "core.approvalGate", config);
    gate["inputs"] = json!({"artifact": payment()});
    gate
}

fn governed() -> Value {
    let config = json!({"title": "Pay?", "requiredRole": "release", "requesterMayNotApprove": true});
    let mut gate = node("gate", "core.openwop.governance.approvalGate", config);
    gate["inputs"] = json!({"artifact": payment()});
    gate
}

fn call(id: &str, url: &str) -> Value {
    let mut call = node(id, "core.http", json!({"method": "POST", "url": url}));
    call["inputs"] = json!({"body": payment()});
    call
}

fn child() -> Value {
    node("child", "core.subWorkflow", json!({"workflowId": "child", "inputMapping": {"payment": "payment"}}))
}

fn graph(id: &str, nodes: Vec<Value>, edges: &[(&str, &str)]) -> Value {
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to}))
        .collect();
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "metadata": {},
        "variables": [{"name": "payment", "type": "object"}], "settings": {"maxRetries": 1},
    })
}
