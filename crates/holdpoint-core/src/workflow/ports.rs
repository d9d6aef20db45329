//! Fills a node's input ports from constants, variables, other nodes and expressions.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::expression::Scope;
use super::{Node, PortValue};
use crate::run::Run;

/// A port without a value, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoInput {
    pub port: String,
    pub code: &'static str,
    pub why: String,
}

pub(crate) fn resolve_inputs(run: &Run, node: &Node) -> Result<Map<String, Value>, NoInput> {
    let mut inputs = Map::new();
    for (port, source) in &node.inputs {
        let nothing = |why: String| NoInput { port: port.clone(), code: "invalid_input", why };
        let value = match source {
            PortValue::Static(value) => Some(value.clone()),
            PortValue::Variable { name, optional } => {
                check_readable(run, node, name).map_err(|why| NoInput {
                    port: port.clone(),
                    code: "channel_access_denied",
                    why,
                })?;
                let value = run.variables.get(name).cloned();
                require(value, *optional).ok_or_else(|| nothing(format!("variable {name:?} is not set")))?
            }
            PortValue::Connection { node: source, output, optional, back } => {
                let state = run.node_state(source);
                let value = state.and_then(|state| state.outputs.get(output));
                let before = state.filter(|_| *back).and_then(|state| state.outputs_before.get(output));
                let missing = || nothing(format!("node {source} has no output {output:?}"));
                require(value.or(before).cloned(), *optional).ok_or_else(missing)?
            }
            PortValue::Expression(expression) => {
                let variables = readable_variables(run, node);
                let scope = Scope::new().root("variables", &variables).fallback(&variables);
                Some(expression.evaluate(&scope).map_err(|error| nothing(error.to_string()))?)
            }
        };
        if let Some(value) = value {
            inputs.insert(port.clone(), value);
        }
    }
    Ok(inputs)
}

/// The run's variables without the channels that the node may not read.
pub(crate) fn readable_variables(run: &Run, node: &Node) -> Arc<Value> {
    let denied = run.workflow.channels.iter().filter(|(_, channel)| !channel.may_read(node));
    let denied: Vec<&String> = denied.map(|(name, _)| name).collect();
    let mut variables = run.variables.clone();
    if !denied.is_empty()
        && let Value::Object(members) = Arc::make_mut(&mut variables)
    {
        members.retain(|name, _| !denied.contains(&name));
    }
    variables
}

fn check_readable(run: &Run, node: &Node, name: &str) -> Result<(), String> {
    match run.workflow.channels.get(name) {
        Some(channel) if !channel.may_read(node) => {
            Err(format!("node {} may not read the channel {name:?}", node.id))
        }
        Some(_) | None => Ok(()),
    }
}

/// Outer `None`: a value is required and missing. Inner `None`: it is optional and missing.
fn require(value: Option<Value>, optional: bool) -> Option<Option<Value>> {
    if value.is_none() && !optional { None } else { Some(value) }
}
