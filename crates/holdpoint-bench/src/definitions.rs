//! Definitions of the workflows and agents that the benchmarks register.

use holdpoint_client::api::Object;
use holdpoint_client::api::agents::AgentDefinition;
use holdpoint_client::api::workflows::WorkflowDefinition;
use serde_json::Value;

pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Object {
    Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(super) fn list(objects: impl IntoIterator<Item = Object>) -> Value {
    objects.into_iter().map(|object| object.0).collect()
}

/// A node: its id, its type and its configuration.
pub(super) type Node = (String, &'static str, Object);

/// Returns a workflow whose nodes execute one after another.
pub(super) fn workflow(id: &str, name: &str, nodes: Vec<Node>) -> WorkflowDefinition {
    let edge = |pair: &[Node]| {
        let (from, to) = (pair[0].0.as_str(), pair[1].0.as_str());
        object([
            ("id", format!("{from}-{to}").into()),
            ("sourceNodeId", from.into()),
            ("targetNodeId", to.into()),
        ])
    };
    let edges = nodes.windows(2).map(edge).collect();
    let node = |(at, (id, kind, config)): (usize, Node)| {
        object([
            ("id", id.as_str().into()),
            ("typeId", kind.into()),
            ("name", id.into()),
            ("position", object([("x", (at * 200).into()), ("y", 0.into())]).0.into()),
            ("config", config.0.into()),
            ("inputs", Object::default().0.into()),
        ])
    };
    WorkflowDefinition {
        id: id.to_owned(),
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        nodes: nodes.into_iter().enumerate().map(node).collect(),
        edges,
        ..WorkflowDefinition::default()
    }
}

pub(super) fn noop(id: impl Into<String>) -> Node {
    (id.into(), "core.noop", Object::default())
}

/// Returns an approval gate with this title and additional members of its configuration.
pub(super) fn gate<const N: usize>(title: &str, more: [(&str, Value); N]) -> Node {
    let mut config = object([("title", title.into()), ("actions", vec!["accept", "reject"].into())]);
    config.0.extend(object(more).0);
    ("gate".to_owned(), "core.approvalGate", config)
}

/// Returns an agent whose model replies with these steps.
pub(super) fn agent(id: &str, steps: Value, tools: Vec<Object>) -> AgentDefinition {
    AgentDefinition {
        agent_id: Some(id.to_owned()),
        model: object([("provider", "scripted".into()), ("steps", steps)]),
        tools: Some(tools),
        permissions: Some(object([("default", "ask".into())])),
        ..AgentDefinition::default()
    }
}
