//! `core.conditional`: chooses a way by a condition, or the first of several cases that holds.

use holdpoint_core::workflow::{self, Condition, Expression, Flaw};
use serde_json::{Value, json};

use super::{Outputs, PureNode, config_flaw, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct Conditional;

impl PureNode for Conditional {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &["condition", "expression", "cases", "default"]);
        let given =
            ["condition", "expression", "cases"].iter().filter(|name| node.config.contains_key(**name));
        if given.count() != 1 {
            let message = "say one of condition, expression and cases";
            flaws.push(config_flaw(node, "condition", message));
            return flaws;
        }
        flaws.extend(ways(node).err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let broken = |why: String| Stop::failed("condition_failed", why);
        let (ways, otherwise) = ways(context.node()).map_err(|flaw| broken(flaw.to_string()))?;
        let chosen = context.in_scope(|scope| {
            for (name, condition) in ways {
                if condition.holds(scope).map_err(|error| broken(error.to_string()))? {
                    return Ok(name);
                }
            }
            Ok(otherwise)
        })?;
        let mut outputs = Outputs::new();
        outputs.insert("branch".to_owned(), json!(chosen));
        context.choose(chosen);
        Ok(outputs)
    }
}

/// The ways and when they are taken, in order, and the one that is taken otherwise.
fn ways(node: &workflow::Node) -> Result<(Vec<(String, Condition)>, String), Flaw> {
    let Some(cases) = node.config.get("cases") else {
        let condition = condition(node, "", &Value::Object(node.config.clone()))?;
        return Ok((vec![("true".to_owned(), condition)], "false".to_owned()));
    };
    let cases = cases.as_array().filter(|cases| !cases.is_empty());
    let cases = cases.ok_or_else(|| config_flaw(node, "cases", "must be a non-empty array"))?;
    let mut ways = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let at = format!("cases[{place}].");
        let name = case.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name =
            name.ok_or_else(|| config_flaw(node, &format!("{at}name"), "must be a non-empty string"))?;
        ways.push((name.to_owned(), condition(node, &at, case)?));
    }
    let otherwise = super::config_text(node, "default")?.unwrap_or("default");
    Ok((ways, otherwise.to_owned()))
}

/// A `condition` as edges have it, or an `expression`.
fn condition(node: &workflow::Node, at: &str, members: &Value) -> Result<Condition, Flaw> {
    if let Some(text) = members.get("expression") {
        let field = format!("{at}expression");
        let text = text.as_str().ok_or_else(|| config_flaw(node, &field, "must be a string"))?;
        let expression = Expression::parse(text);
        return expression.map(Condition::Expression).map_err(|e| config_flaw(node, &field, e.to_string()));
    }
    Condition::parse(members.get("condition").unwrap_or(&Value::Null))
        .map_err(|flaw| config_flaw(node, &format!("{at}condition.{}", flaw.field), flaw.message))
}
