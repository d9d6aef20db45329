//! Resolves the values of input ports from constants, variables, outputs of other nodes and expressions.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::expression::ExpressionScope;
use super::{Node, PortValue};
use crate::run::Run;

/// The error of an input port that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The name of the port.
    pub port: String,
    /// The error code with which the node fails.
    pub code: &'static str,
    /// The reason.
    pub why: String,
}

pub(crate) fn resolve_inputs(run: &Run, node: &Node) -> Result<Map<String, Value>, InputError> {
    let mut inputs = Map::new();
    for (port, source) in &node.inputs {
        let input_error = |why: String| InputError { port: port.clone(), code: "invalid_input", why };
        let value = match source {
            PortValue::Static(value) => Some(value.clone()),
            PortValue::Variable { name, optional } => {
                check_readable(run, node, name).map_err(|why| InputError {
                    port: port.clone(),
                    code: "channel_access_denied",
                    why,
                })?;
                let value = run.visible_variables(&node.id).get(name).cloned();
                if value.is_none() && !optional {
                    return Err(input_error(format!("variable {name:?} is not set")));
                }
                value
            }
            PortValue::Connection { node: source, output, optional, back } => {
                let position = run.workflow.position(source);
                let state = position.map(|position| &run.nodes[position]);
                let visible = position.is_some_and(|position| run.sees_outputs_of(&node.id, position));
                let value = state.filter(|_| visible).and_then(|state| state.outputs.get(output));
                let before = state.filter(|_| *back).and_then(|state| state.outputs_before.get(output));
                let value = value.or(before).cloned();
                if value.is_none() && !optional {
                    return Err(input_error(format!("node {source} has no output {output:?}")));
                }
                value
            }
            PortValue::Expression(expression) => {
                let variables = readable_variables(run, node);
                let scope = ExpressionScope::new().root("variables", &variables).fallback(&variables);
                Some(expression.evaluate(&scope).map_err(|error| input_error(error.to_string()))?)
            }
        };
        if let Some(value) = value {
            inputs.insert(port.clone(), value);
        }
    }
    Ok(inputs)
}

/// Returns the variables of the run without the channels that the node may not read.
pub(crate) fn readable_variables(run: &Run, node: &Node) -> Arc<Value> {
    let denied = run.workflow.channels.iter().filter(|(_, channel)| !channel.may_read(node));
    let denied: Vec<&String> = denied.map(|(name, _)| name).collect();
    let mut variables = run.visible_variables(&node.id).clone();
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
