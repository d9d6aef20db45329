//! `core.conditional`: chooses a branch by a condition, or by the first of several cases that holds.

use holdpoint_core::workflow::{self, DefinitionFlaw, EdgeCondition, Expression};
use serde_json::{Value, json};

use super::{Outputs, PureNode, config_flaw, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct ConditionalNode;

impl PureNode for ConditionalNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &["condition", "expression", "cases", "default"]);
        let given =
            ["condition", "expression", "cases"].iter().filter(|name| node.config.contains_key(**name));
        if given.count() != 1 {
            let message = "give exactly one of condition, expression and cases";
            flaws.push(config_flaw(node, "condition", message));
            return flaws;
        }
        flaws.extend(branches(node).err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let broken = |why: String| Stop::failed("condition_failed", why);
        let (branches, default) = branches(context.node()).map_err(|flaw| broken(flaw.to_string()))?;
        let chosen = context.with_scope(|scope| {
            for (name, condition) in branches {
                if condition.holds(scope).map_err(|error| broken(error.to_string()))? {
                    return Ok(name);
                }
            }
            Ok(default)
        })?;
        let mut outputs = Outputs::new();
        outputs.insert("branch".to_owned(), json!(chosen));
        context.choose(chosen);
        Ok(outputs)
    }
}

/// Returns the branches with their conditions, in order, and the name of the default branch.
fn branches(node: &workflow::Node) -> Result<(Vec<(String, EdgeCondition)>, String), DefinitionFlaw> {
    let Some(cases) = node.config.get("cases") else {
        let condition = condition(node, "", &Value::Object(node.config.clone()))?;
        return Ok((vec![("true".to_owned(), condition)], "false".to_owned()));
    };
    let cases = cases.as_array().filter(|cases| !cases.is_empty());
    let cases = cases.ok_or_else(|| config_flaw(node, "cases", "must be a non-empty array"))?;
    let mut branches = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let at = format!("cases[{place}].");
        let name = case.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name =
            name.ok_or_else(|| config_flaw(node, &format!("{at}name"), "must be a non-empty string"))?;
        branches.push((name.to_owned(), condition(node, &at, case)?));
    }
    let default = super::config_text(node, "default")?.unwrap_or("default");
    Ok((branches, default.to_owned()))
}

/// Parses a `condition` in the format of edges, or an `expression`.
fn condition(node: &workflow::Node, at: &str, members: &Value) -> Result<EdgeCondition, DefinitionFlaw> {
    if let Some(text) = members.get("expression") {
        let field = format!("{at}expression");
        let text = text.as_str().ok_or_else(|| config_flaw(node, &field, "must be a string"))?;
        let expression = Expression::parse(text);
        return expression
            .map(EdgeCondition::Expression)
            .map_err(|e| config_flaw(node, &field, e.to_string()));
    }
    EdgeCondition::parse(members.get("condition").unwrap_or(&Value::Null))
        .map_err(|flaw| config_flaw(node, &format!("{at}condition.{}", flaw.field), flaw.message))
}
