//! `core.setVariable` and `core.getVariable`: write and read a variable of the run.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use serde_json::Value;

use super::{Outputs, PureNode, config_flaw, config_text, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct SetVariable;

impl PureNode for SetVariable {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &["name", "variableName", "value"]);
        flaws.extend(name(node).err());
        if !node.config.contains_key("value") && !node.inputs.contains_key("value") {
            flaws.push(config_flaw(node, "value", "is missing, and so is the input value"));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let name = name(context.node()).map_err(invalid)?.to_owned();
        // If an optional input has no value, the config applies.
        let value = context.inputs.get("value").or_else(|| context.config().get("value")).cloned();
        let value = value.ok_or_else(|| Stop::failed("invalid_input", "the input value is not set"))?;
        context.set_variable(name, value);
        Ok(Outputs::new())
    }
}

pub(super) struct GetVariable;

impl PureNode for GetVariable {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &["name", "variableName", "as", "default"]);
        flaws.extend(name(node).err());
        flaws.extend(config_text(node, "as").err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let name = name(context.node()).map_err(invalid)?;
        let value = context.variables().get(name).or_else(|| context.config().get("default")).cloned();
        let missing = || Stop::failed("variable_not_set", format!("variable {name:?} is not set"));
        let output = context.config().get("as").and_then(Value::as_str).unwrap_or("value");
        let mut outputs = Outputs::new();
        outputs.insert(output.to_owned(), value.ok_or_else(missing)?);
        Ok(outputs)
    }
}

/// Returns the name of the variable, from `name` or its alias `variableName`.
fn name(node: &workflow::Node) -> Result<&str, DefinitionFlaw> {
    let given = config_text(node, "name")?.or(config_text(node, "variableName")?);
    given.ok_or_else(|| config_flaw(node, "name", "is missing"))
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn invalid(flaw: DefinitionFlaw) -> Stop {
    Stop::failed("invalid_input", flaw.to_string())
}
