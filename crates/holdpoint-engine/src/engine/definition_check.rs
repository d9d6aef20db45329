//! Checks of definitions without a database: the errors of a registration, and warnings about members without effect.

use holdpoint_core::workflow::DefinitionFlaw;
use holdpoint_core::{NodeId, Workflow};
use serde_json::{Map, Value};

use super::Options;

/// A definition that can be registered, with warnings.
#[derive(Debug)]
pub struct CheckedWorkflow {
    /// The workflow.
    pub workflow: Workflow,
    /// Members that are stored but have no effect, although an author may expect one. Descriptions are not listed.
    pub ignored: Vec<DefinitionFlaw>,
}

impl Options {
    /// Checks a definition as [`Workflows::register`](super::Workflows::register) does with these options. Opens no database.
    pub fn check_workflow(&self, definition: &Value) -> Result<CheckedWorkflow, Vec<DefinitionFlaw>> {
        let workflow = self.nodes.check(definition, 1)?;
        let ignored = find_ignored(definition, &workflow);
        Ok(CheckedWorkflow { workflow, ignored })
    }
}

impl CheckedWorkflow {
    /// Returns the nodes that start child runs, with the ids of their workflows.
    pub fn child_workflows(&self) -> impl Iterator<Item = (&NodeId, &str)> {
        let of = self.workflow.nodes.iter().filter(|node| CHILD_RUN_NODES.contains(&node.type_id.as_str()));
        of.filter_map(|node| Some((&node.id, node.config.get("workflowId")?.as_str()?)))
    }
}

const CHILD_RUN_NODES: [&str; 2] = ["core.subWorkflow", "core.control.subWorkflow"];

const IGNORED: &str = "is stored but has no effect";

fn find_ignored(definition: &Value, workflow: &Workflow) -> Vec<DefinitionFlaw> {
    let Some(top) = definition.as_object() else { return Vec::new() };
    let mut found = of_top(top);
    found.extend(list(top, "triggers").enumerate().filter_map(|(at, trigger)| of_trigger(at, trigger)));
    for (node, written) in workflow.nodes.iter().zip(list(top, "nodes")) {
        found.extend(of_node(node, written));
    }
    for (at, (edge, written)) in workflow.edges.iter().zip(list(top, "edges")).enumerate() {
        let port = written["targetInput"].as_str().filter(|port| !port.is_empty() && *port != "input");
        let target = &workflow.nodes[edge.target];
        if let Some(port) = port.filter(|port| !target.inputs.contains_key(*port)) {
            let message = format!(
                "{IGNORED}: values are passed through the ports of a node, and {} has no port {port:?}",
                target.id
            );
            found.push(DefinitionFlaw::at_top(format!("edges[{at}].targetInput"), message));
        }
    }
    for (at, variable) in list(top, "variables").enumerate() {
        if is_set(&variable["format"]) {
            found.push(DefinitionFlaw::at_top(format!("variables[{at}].format"), IGNORED));
        }
    }
    let channels = top.get("channels").and_then(Value::as_object).into_iter().flatten();
    found.extend(channels.flat_map(|(name, channel)| of_channel(name, channel)));
    found
}

fn of_top(top: &Map<String, Value>) -> Vec<DefinitionFlaw> {
    let mut found = Vec::new();
    for name in ["defaults", "acceptsInheritedArtifacts", "scopeId"] {
        if top.get(name).is_some_and(is_set) {
            found.push(DefinitionFlaw::at_top(name, IGNORED));
        }
    }
    if top.get("tenantId").is_some_and(is_set) {
        let message =
            "is stored but has no effect: a definition belongs to the tenant of the key that registers it";
        found.push(DefinitionFlaw::at_top("tenantId", message));
    }
    let is_off = |name: &str, on: &Value| top.get(name).is_some_and(|value| !value.is_null() && value != on);
    for (name, on) in [("isActive", Value::Bool(true)), ("status", Value::from("active"))] {
        if is_off(name, &on) {
            let message =
                "is stored but has no effect: every caller that may start runs can start this workflow";
            found.push(DefinitionFlaw::at_top(name, message));
        }
    }
    let known = ["timeout", "maxRetries", "maxLoopbackIterations", "maxParallelNodes"];
    let settings = top.get("settings").and_then(Value::as_object).into_iter().flatten();
    let unknown = settings.filter(|(name, value)| !known.contains(&name.as_str()) && is_set(value));
    found.extend(unknown.map(|(name, _)| DefinitionFlaw::at_top(format!("settings.{name}"), IGNORED)));
    found
}

fn of_trigger(at: usize, trigger: &Value) -> Option<DefinitionFlaw> {
    let is_manual = trigger["type"].as_str().is_none_or(|kind| kind == "manual");
    let message = "is stored but has no effect: only requests start runs";
    (!is_manual && trigger["enabled"] != false)
        .then(|| DefinitionFlaw::at_top(format!("triggers[{at}]"), message))
}

fn of_node(node: &holdpoint_core::workflow::Node, written: &Value) -> Vec<DefinitionFlaw> {
    let mut found = Vec::new();
    for name in ["credentialsRef", "agent", "outputRole", "cardType", "outputSensitivity"] {
        if is_set(&written[name]) {
            found.push(DefinitionFlaw::of_node(&node.id, name, IGNORED));
        }
    }
    let settings = written["settings"].as_object().into_iter().flatten();
    let unknown = settings.filter(|(name, value)| *name != "maxRetries" && is_set(value));
    found.extend(
        unknown.map(|(name, _)| DefinitionFlaw::of_node(&node.id, format!("settings.{name}"), IGNORED)),
    );
    if node.type_id == "core.approvalGate" && node.config.get("onTimeout").is_some_and(is_set) {
        let message = "is stored but has no effect: a gate fails if its deadline passes";
        found.push(DefinitionFlaw::of_node(&node.id, "config.onTimeout", message));
    }
    found
}

fn of_channel(name: &str, channel: &Value) -> Vec<DefinitionFlaw> {
    let mut found = Vec::new();
    for member in ["compatibleWith", "options"] {
        if is_set(&channel[member]) {
            found.push(DefinitionFlaw::at_top(format!("channels.{name}.{member}"), IGNORED));
        }
    }
    if channel["sensitive"] == true {
        let message = "is stored but has no effect: every caller that can read a run can read its channels";
        found.push(DefinitionFlaw::at_top(format!("channels.{name}.sensitive"), message));
    }
    found
}

fn list<'a>(top: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    top.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Returns whether a member has a value other than `null`, `false` or an empty string, list or object.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::location::Location;

    fn options() -> Options {
        Options::new(Location::Sqlite("/nonexistent/never opened".into()))
    }

    fn definition(more: &Value) -> Value {
        let mut definition = json!({
            "id": "f", "name": "f", "version": "1", "description": "a description", "metadata": {"a": 1},
            "nodes": [
                {"id": "a", "typeId": "core.identity", "name": "a", "position": {"x": 0, "y": 0}, "config": {},
                 "inputs": {"port": {"type": "static", "value": 1}}, "notes": "n"},
                {"id": "b", "typeId": "core.subWorkflow", "name": "b", "config": {"workflowId": "other"}, "inputs": {}},
            ],
            "edges": [{"id": "e", "sourceNodeId": "b", "targetNodeId": "a", "label": "l"}],
            "triggers": [{"id": "m", "type": "manual", "enabled": true}], "variables": [],
            "settings": {"timeout": 0, "maxRetries": 1},
        });
        let more = more.as_object().unwrap().iter();
        more.for_each(|(pointer, value)| match definition.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                definition.pointer_mut(parent).unwrap()[name] = value.clone();
            }
        });
        definition
    }

    fn fields(more: &Value) -> Vec<String> {
        let checked = options().check_workflow(&definition(more)).unwrap();
        checked.ignored.into_iter().map(|flaw| flaw.field).collect()
    }

    #[test]
    fn members_with_an_effect_cause_no_warning() {
        assert_eq!(fields(&json!({})), [""; 0]);
        let quiet =
            json!({"/isActive": true, "/status": "active", "/defaults": {}, "/edges/0/targetInput": "port"});
        assert_eq!(fields(&quiet), [""; 0]);
    }

    #[test]
    fn members_without_an_effect_cause_a_warning() {
        for (pointer, value, field) in [
            ("/isActive", json!(false), "isActive"),
            ("/status", json!("draft"), "status"),
            ("/tenantId", json!("t"), "tenantId"),
            ("/settings/logLevel", json!("debug"), "settings.logLevel"),
            ("/settings/retention", json!("30d"), "settings.retention"),
            ("/triggers/0", json!({"type": "schedule", "enabled": true}), "triggers[0]"),
            ("/nodes/0/credentialsRef", json!("c"), "credentialsRef"),
            ("/nodes/0/settings", json!({"timeout": 5}), "settings.timeout"),
            ("/edges/0/targetInput", json!("prot"), "edges[0].targetInput"),
            (
                "/variables",
                json!([{"name": "v", "type": "string", "format": "email"}]),
                "variables[0].format",
            ),
            (
                "/channels",
                json!({"c": {"reducer": "append", "compatibleWith": ["1"]}}),
                "channels.c.compatibleWith",
            ),
            ("/channels", json!({"c": {"reducer": "append", "sensitive": true}}), "channels.c.sensitive"),
        ] {
            assert_eq!(fields(&json!({pointer: value})), [field]);
        }
    }

    #[test]
    fn a_check_reports_the_errors_of_registration_and_knows_custom_node_types() {
        let flaws = |options: Options| {
            let strange = definition(&json!({"/nodes/0/typeId": "acme.own"}));
            options.check_workflow(&strange).map(|_| ()).map_err(|flaws| flaws[0].field.clone())
        };
        assert_eq!(flaws(options()), Err("typeId".to_owned()));
        struct Own;
        impl crate::nodes::PureNode for Own {
            fn run(&self, _: &mut crate::Context) -> Result<crate::Outputs, crate::Stop> {
                Ok(crate::Outputs::new())
            }
        }
        assert_eq!(flaws(options().pure_node("acme.own", Own)), Ok(()));
    }

    #[test]
    fn a_check_returns_the_workflows_of_child_runs() {
        let checked = options().check_workflow(&definition(&json!({}))).unwrap();
        let starts: Vec<_> = checked.child_workflows().map(|(node, flow)| (node.as_str(), flow)).collect();
        assert_eq!(starts, [("b", "other")]);
    }
}
