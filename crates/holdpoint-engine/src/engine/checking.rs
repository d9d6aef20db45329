//! Checking definitions without a database: what registering them would say, and what their authors should know
//! although it would say nothing.

use holdpoint_core::workflow::Flaw;
use holdpoint_core::{NodeId, Workflow};
use serde_json::{Map, Value};

use super::Options;

/// A definition that can be registered.
#[derive(Debug)]
pub struct Checked {
    pub workflow: Workflow,
    /// Members that are accepted and kept although nothing comes of them. Only those that somebody may count on: a
    /// description does what it should.
    pub unheeded: Vec<Flaw>,
}

impl Options {
    /// Says of a definition what [`Engine::register`](super::Engine::register) would say with these options. Opens
    /// nothing.
    pub fn check_workflow(&self, definition: &Value) -> Result<Checked, Vec<Flaw>> {
        let workflow = self.nodes.check(definition, 1)?;
        let unheeded = unheeded(definition, &workflow);
        Ok(Checked { workflow, unheeded })
    }
}

impl Checked {
    /// The nodes that start runs of other workflows, and which.
    pub fn starts(&self) -> impl Iterator<Item = (&NodeId, &str)> {
        let of = self.workflow.nodes.iter().filter(|node| STARTING.contains(&node.type_id.as_str()));
        of.filter_map(|node| Some((&node.id, node.config.get("workflowId")?.as_str()?)))
    }
}

const STARTING: [&str; 2] = ["core.subWorkflow", "core.control.subWorkflow"];

const KEPT: &str = "is kept and not acted on";

fn unheeded(definition: &Value, workflow: &Workflow) -> Vec<Flaw> {
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
                "{KEPT}: values travel through the ports of a node, and {} has no port {port:?}",
                target.id
            );
            found.push(Flaw::at_top(format!("edges[{at}].targetInput"), message));
        }
    }
    for (at, variable) in list(top, "variables").enumerate() {
        if is_said(&variable["format"]) {
            found.push(Flaw::at_top(format!("variables[{at}].format"), KEPT));
        }
    }
    let channels = top.get("channels").and_then(Value::as_object).into_iter().flatten();
    found.extend(channels.flat_map(|(name, channel)| of_channel(name, channel)));
    found
}

fn of_top(top: &Map<String, Value>) -> Vec<Flaw> {
    let mut found = Vec::new();
    for name in ["defaults", "acceptsInheritedArtifacts", "scopeId"] {
        if top.get(name).is_some_and(is_said) {
            found.push(Flaw::at_top(name, KEPT));
        }
    }
    if top.get("tenantId").is_some_and(is_said) {
        let message =
            "is kept and not acted on: a definition belongs to the tenant of the key that registers it";
        found.push(Flaw::at_top("tenantId", message));
    }
    let is_off = |name: &str, on: &Value| top.get(name).is_some_and(|value| !value.is_null() && value != on);
    for (name, on) in [("isActive", Value::Bool(true)), ("status", Value::from("active"))] {
        if is_off(name, &on) {
            let message = "is kept and not acted on: whoever may start runs can start one of this workflow";
            found.push(Flaw::at_top(name, message));
        }
    }
    let known = ["timeout", "maxRetries", "maxLoopbackIterations"];
    let settings = top.get("settings").and_then(Value::as_object).into_iter().flatten();
    let unknown = settings.filter(|(name, value)| !known.contains(&name.as_str()) && is_said(value));
    found.extend(unknown.map(|(name, _)| Flaw::at_top(format!("settings.{name}"), KEPT)));
    found
}

fn of_trigger(at: usize, trigger: &Value) -> Option<Flaw> {
    let is_manual = trigger["type"].as_str().is_none_or(|kind| kind == "manual");
    let message = "is kept and not acted on: runs are started by requests only";
    (!is_manual && trigger["enabled"] != false).then(|| Flaw::at_top(format!("triggers[{at}]"), message))
}

fn of_node(node: &holdpoint_core::workflow::Node, written: &Value) -> Vec<Flaw> {
    let mut found = Vec::new();
    for name in ["credentialsRef", "agent", "outputRole", "cardType", "outputSensitivity"] {
        if is_said(&written[name]) {
            found.push(Flaw::of_node(&node.id, name, KEPT));
        }
    }
    let settings = written["settings"].as_object().into_iter().flatten();
    let unknown = settings.filter(|(name, value)| *name != "maxRetries" && is_said(value));
    found.extend(unknown.map(|(name, _)| Flaw::of_node(&node.id, format!("settings.{name}"), KEPT)));
    if node.type_id == "core.approvalGate" && node.config.get("onTimeout").is_some_and(is_said) {
        let message = "is kept and not acted on: a gate whose deadline passes fails";
        found.push(Flaw::of_node(&node.id, "config.onTimeout", message));
    }
    found
}

fn of_channel(name: &str, channel: &Value) -> Vec<Flaw> {
    let mut found = Vec::new();
    for member in ["compatibleWith", "options"] {
        if is_said(&channel[member]) {
            found.push(Flaw::at_top(format!("channels.{name}.{member}"), KEPT));
        }
    }
    if channel["sensitive"] == true {
        let message = "is kept and not acted on: whoever can read a run can read what is in its channels";
        found.push(Flaw::at_top(format!("channels.{name}.sensitive"), message));
    }
    found
}

fn list<'a>(top: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    top.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Nothing, `false` and what is empty ask for nothing.
fn is_said(value: &Value) -> bool {
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
            "id": "f", "name": "f", "version": "1", "description": "what it is for", "metadata": {"a": 1},
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
        checked.unheeded.into_iter().map(|flaw| flaw.field).collect()
    }

    #[test]
    fn what_does_what_it_should_is_not_remarked_upon() {
        assert_eq!(fields(&json!({})), [""; 0]);
        let quiet =
            json!({"/isActive": true, "/status": "active", "/defaults": {}, "/edges/0/targetInput": "port"});
        assert_eq!(fields(&quiet), [""; 0]);
    }

    #[test]
    fn what_somebody_may_count_on_is_told() {
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
    fn flaws_are_those_of_registration_and_types_of_ones_own_are_known() {
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
    fn it_tells_which_workflows_are_started() {
        let checked = options().check_workflow(&definition(&json!({}))).unwrap();
        let starts: Vec<_> = checked.starts().map(|(node, flow)| (node.as_str(), flow)).collect();
        assert_eq!(starts, [("b", "other")]);
    }
}
