//! Fills a node's input ports from constants, variables, other nodes and expressions.

use serde_json::{Map, Value};

use super::expression::Scope;
use super::{Node, PortValue};
use crate::run::Run;

/// The inputs of a node, or the port that has no value and why.
pub(crate) fn resolve_inputs(run: &Run, node: &Node) -> Result<Map<String, Value>, (String, String)> {
    let mut inputs = Map::new();
    for (port, source) in &node.inputs {
        let value = match source {
            PortValue::Static(value) => Some(value.clone()),
            PortValue::Variable { name, optional } => {
                let value = run.variables.get(name).cloned();
                require(value, *optional)
                    .ok_or_else(|| (port.clone(), format!("variable {name:?} is not set")))?
            }
            PortValue::Connection { node: source, output, optional } => {
                let value = run.node_state(source).and_then(|state| state.outputs.get(output)).cloned();
                let missing = || (port.clone(), format!("node {source} has no output {output:?}"));
                require(value, *optional).ok_or_else(missing)?
            }
            PortValue::Expression(expression) => {
                let scope = Scope::new().root("variables", &run.variables).fallback(&run.variables);
                Some(expression.evaluate(&scope).map_err(|error| (port.clone(), error.to_string()))?)
            }
        };
        if let Some(value) = value {
            inputs.insert(port.clone(), value);
        }
    }
    Ok(inputs)
}

/// Outer `None`: a value is required and missing. Inner `None`: it is optional and missing.
fn require(value: Option<Value>, optional: bool) -> Option<Option<Value>> {
    if value.is_none() && !optional { None } else { Some(value) }
}
