//! Parses a workflow definition and collects all flaws: types, names and references.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use super::expression::Expression;
use super::{
    DefinitionFlaw, Edge, EdgeCondition, Node, PortValue, TriggerRule, Variable, VariableKind, Workflow,
    is_id, loops,
};
use crate::limits;
use crate::schema::Schema;
use crate::{NodeId, WorkflowId};

mod channels;
mod members;
mod settings;

use members::{EDGE_MEMBERS, NODE_MEMBERS, TOP_MEMBERS, VARIABLE_MEMBERS};

/// The function that compiles a schema: with the limits for new schemas, or without them for stored definitions.
pub(super) type CompileSchema = fn(&Value) -> Result<Schema, String>;

pub(super) fn workflow(
    definition: &Value,
    revision: u64,
    compile_schema: CompileSchema,
) -> Result<Workflow, Vec<DefinitionFlaw>> {
    let Value::Object(top) = definition else {
        return Err(vec![DefinitionFlaw::at_top("(document)", "must be a JSON object")]);
    };
    let mut reader = DefinitionReader { flaws: Vec::new(), compile_schema };
    reader.known_members(None, "", top, &TOP_MEMBERS);
    let id = reader.workflow_id(top);
    let name = reader.text(None, "", top, "name");
    let version = reader.text(None, "", top, "version");
    for (member, is_right, kind) in [
        ("triggers", top.get("triggers").is_some_and(Value::is_array), "an array"),
        ("metadata", top.get("metadata").is_some_and(Value::is_object), "an object"),
        ("settings", top.get("settings").is_some_and(Value::is_object), "an object"),
    ] {
        if !is_right {
            reader.flaws.push(DefinitionFlaw::at_top(member, format!("must be {kind}")));
        }
    }
    let nodes = reader.nodes(top);
    let index: HashMap<NodeId, usize> =
        nodes.iter().enumerate().map(|(position, node)| (node.id.clone(), position)).collect();
    let edges = reader.edges(top, &index);
    let variables = reader.variables(top);
    let settings = reader.settings(top);
    let channels = reader.channels(top, &variables);
    let configurable_schema = reader.configurable_schema(top);
    let (Some(id), true) = (id, reader.flaws.is_empty()) else { return Err(reader.flaws) };
    let mut outgoing = vec![Vec::new(); nodes.len()];
    for (position, edge) in edges.iter().enumerate() {
        outgoing[edge.source].push(position);
    }
    let (loops, reached) = loops::find(&nodes, &edges, &outgoing);
    let mut incoming = vec![Vec::new(); nodes.len()];
    for (position, edge) in edges.iter().enumerate() {
        if !loops.iter().any(|found| found.edge == position) {
            incoming[edge.target].push(position);
        }
    }
    let unreachable = (0..nodes.len()).filter(|position| !reached[*position]).collect();
    Ok(Workflow {
        id,
        name,
        version,
        revision,
        nodes,
        edges,
        variables,
        settings,
        channels,
        compliance_class: settings::compliance_class(top),
        loops,
        loops_checked: true,
        configurable_schema,
        unreachable,
        index,
        incoming,
        outgoing,
    })
}

/// Reads the members of a definition and collects their flaws.
struct DefinitionReader {
    flaws: Vec<DefinitionFlaw>,
    compile_schema: CompileSchema,
}

impl DefinitionReader {
    fn flaw(&mut self, node: Option<&NodeId>, field: impl Into<String>, message: impl Into<String>) {
        let (field, message) = (field.into(), message.into());
        self.flaws.push(DefinitionFlaw { node: node.cloned(), field, message, capability: None });
    }

    /// Rejects unknown members, because a misspelled member would otherwise be ignored.
    fn known_members(&mut self, node: Option<&NodeId>, at: &str, map: &Map<String, Value>, known: &[&str]) {
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            self.flaw(node, format!("{at}{name}"), "is not a member that OpenWOP defines here");
        }
    }

    fn text(&mut self, node: Option<&NodeId>, at: &str, map: &Map<String, Value>, name: &str) -> String {
        match map.get(name).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => {
                self.flaw(node, format!("{at}{name}"), "must be a non-empty string");
                String::new()
            }
        }
    }

    fn flag(&mut self, node: Option<&NodeId>, at: &str, map: &Map<String, Value>, name: &str) -> bool {
        match map.get(name) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.flaw(node, format!("{at}{name}"), "must be true or false");
                false
            }
        }
    }

    fn list<'a>(&mut self, top: &'a Map<String, Value>, name: &str, max: usize) -> &'a [Value] {
        match top.get(name).and_then(Value::as_array) {
            Some(list) if list.len() <= max => list,
            Some(list) => {
                self.flaw(None, name, format!("has {} entries; at most {max} are accepted", list.len()));
                &[]
            }
            None => {
                self.flaw(None, name, "must be an array");
                &[]
            }
        }
    }

    fn workflow_id(&mut self, top: &Map<String, Value>) -> Option<WorkflowId> {
        let text = top.get("id").and_then(Value::as_str).unwrap_or_default();
        match WorkflowId::parse(text) {
            Ok(id) if is_id(text) => Some(id),
            _ => {
                self.flaw(None, "id", "must match ^[a-z][a-z0-9_-]*$ and have at most 128 characters");
                None
            }
        }
    }

    fn nodes(&mut self, top: &Map<String, Value>) -> Vec<Node> {
        let list = self.list(top, "nodes", limits::NODES_MAX);
        if list.is_empty() && top.get("nodes").is_some_and(Value::is_array) {
            self.flaw(None, "nodes", "must have at least one node");
        }
        let mut seen = HashSet::new();
        let mut nodes = Vec::with_capacity(list.len());
        for (position, value) in list.iter().enumerate() {
            let at = format!("nodes[{position}]");
            let Some(map) = value.as_object() else {
                self.flaw(None, at, "must be an object");
                continue;
            };
            let Ok(id) = NodeId::parse(map.get("id").and_then(Value::as_str).unwrap_or_default()) else {
                self.flaw(None, format!("{at}.id"), "must be a non-empty string without control characters");
                continue;
            };
            if !seen.insert(id.clone()) {
                self.flaw(Some(&id), "id", "is used by two nodes");
            }
            nodes.push(self.node(id, map));
        }
        nodes
    }

    fn node(&mut self, id: NodeId, map: &Map<String, Value>) -> Node {
        self.known_members(Some(&id), "", map, &NODE_MEMBERS);
        let type_id = self.text(Some(&id), "", map, "typeId");
        let name = self.text(Some(&id), "", map, "name");
        let disabled = self.flag(Some(&id), "", map, "disabled");
        let config = map.get("config").and_then(Value::as_object).cloned().unwrap_or_else(|| {
            self.flaw(Some(&id), "config", "must be an object");
            Map::new()
        });
        let inputs = match map.get("inputs").and_then(Value::as_object) {
            Some(ports) => ports
                .iter()
                .filter_map(|(port, value)| Some((port.clone(), self.port(&id, port, value)?)))
                .collect(),
            None => {
                self.flaw(Some(&id), "inputs", "must be an object of ports");
                BTreeMap::new()
            }
        };
        let artifact_type = map.get("artifactType").and_then(Value::as_str).map(str::to_owned);
        let (max_retries, needs_grant) = (self.retries(&id, map), self.needs_grant(&id, map));
        Node { id, type_id, name, config, inputs, disabled, artifact_type, max_retries, needs_grant }
    }

    fn port(&mut self, node: &NodeId, port: &str, value: &Value) -> Option<PortValue> {
        let at = format!("inputs.{port}.");
        let empty = Map::new();
        let map = value.as_object().unwrap_or(&empty);
        let (parsed, members): (_, &[&str]) = match map.get("type").and_then(Value::as_str) {
            Some("static") => match map.get("value") {
                Some(value) => (Some(PortValue::Static(value.clone())), &["type", "value"]),
                None => {
                    self.flaw(Some(node), format!("{at}value"), "is missing");
                    (None, &["type", "value"])
                }
            },
            Some("variable") => {
                let name = self.text(Some(node), &at, map, "variableName");
                let optional = self.flag(Some(node), &at, map, "optional");
                (Some(PortValue::Variable { name, optional }), &["type", "variableName", "optional"])
            }
            Some("connection") => {
                let source = self.text(Some(node), &at, map, "nodeId");
                let output = self.text(Some(node), &at, map, "outputKey");
                let optional = self.flag(Some(node), &at, map, "optional");
                let connection = NodeId::parse(&source).map(|node| PortValue::Connection {
                    node,
                    output,
                    optional,
                    back: false,
                });
                if connection.is_err() && !source.is_empty() {
                    self.flaw(Some(node), format!("{at}nodeId"), format!("there is no node {source:?}"));
                }
                (connection.ok(), &["type", "nodeId", "outputKey", "optional"])
            }
            Some("expression") => {
                let text = self.text(Some(node), &at, map, "expression");
                let parsed = Expression::parse(&text)
                    .map_err(|error| self.flaw(Some(node), format!("{at}expression"), error.to_string()));
                (parsed.ok().map(PortValue::Expression), &["type", "expression"])
            }
            _ => {
                let message = "must be static, variable, connection or expression";
                self.flaw(Some(node), format!("{at}type"), message);
                return None;
            }
        };
        self.known_members(Some(node), &at, map, members);
        parsed
    }

    fn edges(&mut self, top: &Map<String, Value>, index: &HashMap<NodeId, usize>) -> Vec<Edge> {
        let mut list = self.list(top, "edges", limits::EDGES_MAX);
        // The patterns are counted before any is compiled, because a short pattern can need much memory.
        let is_pattern = |edge: &&Value| edge.pointer("/condition/type").is_some_and(|kind| kind == "regex");
        let patterns = list.iter().filter(is_pattern).count();
        if patterns > limits::PATTERNS_MAX {
            let message =
                format!("{patterns} regex conditions; at most {} are accepted", limits::PATTERNS_MAX);
            self.flaw(None, "edges", message);
            list = &[];
        }
        let mut seen = HashSet::new();
        let mut edges = Vec::with_capacity(list.len());
        for (position, value) in list.iter().enumerate() {
            let at = format!("edges[{position}].");
            let Some(map) = value.as_object() else {
                self.flaw(None, format!("edges[{position}]"), "must be an object");
                continue;
            };
            self.known_members(None, &at, map, &EDGE_MEMBERS);
            let id = self.text(None, &at, map, "id");
            if !id.is_empty() && !seen.insert(id.clone()) {
                self.flaw(None, format!("{at}id"), format!("{id:?} is used by two edges"));
            }
            let source = self.end(&at, map, "sourceNodeId", index);
            let target = self.end(&at, map, "targetNodeId", index);
            let rule = self.one_of(&at, map, "triggerRule", &TriggerRule::ALL, Some(TriggerRule::AllSuccess));
            let condition = map.get("condition").and_then(|value| match EdgeCondition::parse(value) {
                Ok(condition) => Some(condition),
                Err(flaw) => {
                    self.flaw(None, format!("{at}condition.{}", flaw.field), flaw.message);
                    None
                }
            });
            let source_output = map.get("sourceOutput").and_then(Value::as_str);
            let source_output = source_output.filter(|name| *name != "output").map(str::to_owned);
            if let (Some(source), Some(target), Some(rule)) = (source, target, rule) {
                edges.push(Edge { id, source, target, condition, rule, source_output });
            }
        }
        edges
    }

    fn end(
        &mut self,
        at: &str,
        map: &Map<String, Value>,
        name: &str,
        index: &HashMap<NodeId, usize>,
    ) -> Option<usize> {
        let text = self.text(None, at, map, name);
        let found = NodeId::parse(&text).ok().and_then(|id| index.get(&id).copied());
        if found.is_none() && !text.is_empty() {
            self.flaw(None, format!("{at}{name}"), format!("there is no node {text:?}"));
        }
        found
    }

    fn variables(&mut self, top: &Map<String, Value>) -> Vec<Variable> {
        let list = self.list(top, "variables", limits::VARIABLES_MAX);
        let mut variables: Vec<Variable> = Vec::with_capacity(list.len());
        for (position, value) in list.iter().enumerate() {
            let at = format!("variables[{position}].");
            let Some(map) = value.as_object() else {
                self.flaw(None, format!("variables[{position}]"), "must be an object");
                continue;
            };
            self.known_members(None, &at, map, &VARIABLE_MEMBERS);
            let name = self.text(None, &at, map, "name");
            if !name.is_empty() && variables.iter().any(|other| other.name == name) {
                self.flaw(None, format!("{at}name"), format!("{name:?} is declared twice"));
            }
            let required = self.flag(None, &at, map, "required");
            let sensitive = self.flag(None, &at, map, "sensitive");
            let Some(kind) = self.one_of(&at, map, "type", &VariableKind::ALL, None) else { continue };
            let default = map.get("defaultValue").cloned();
            if default.as_ref().is_some_and(|value| !value.is_null() && !kind.admits(value)) {
                self.flaw(None, format!("{at}defaultValue"), format!("must be of type {}", kind.as_str()));
            }
            variables.push(Variable { name, kind, required, default, sensitive });
        }
        variables
    }

    /// Reads a member with a fixed set of values.
    fn one_of<T: Copy>(
        &mut self,
        at: &str,
        map: &Map<String, Value>,
        name: &str,
        words: &[(&'static str, T)],
        absent: Option<T>,
    ) -> Option<T> {
        if !map.contains_key(name) && absent.is_some() {
            return absent;
        }
        let given = map.get(name).and_then(Value::as_str);
        let found = words.iter().find(|(word, _)| Some(*word) == given).map(|(_, value)| *value);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.flaw(None, format!("{at}{name}"), format!("must be one of {}", all.join(", ")));
        }
        found
    }
}
