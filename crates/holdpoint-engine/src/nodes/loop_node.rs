//! `core.loop`: enters its body once for each item, a number of times, or while an expression holds. An edge leads
//! from the body back to the loop, which counts its iterations.

use holdpoint_core::workflow::{self, DefinitionFlaw, Expression};
use serde_json::{Value, json};

use super::{Outputs, PureNode, config_count, config_flaw, config_ms, config_text, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct LoopNode;

/// The default limit of iterations for `while` loops.
const WHILE_ITERATIONS_MAX: u64 = 100;

impl PureNode for LoopNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &["count", "while", "maxIterations"]);
        flaws.extend(
            config_ms(node, "count")
                .err()
                .map(|_| config_flaw(node, "count", "must be a whole number, 0 or more")),
        );
        flaws.extend(config_count(node, "maxIterations").err());
        flaws.extend(condition(node).err());
        let given = [
            node.inputs.contains_key("items"),
            node.config.contains_key("count"),
            node.config.contains_key("while"),
        ];
        if given.into_iter().filter(|given| *given).count() != 1 {
            let message = "give exactly one of the input items, config.count and config.while";
            flaws.push(config_flaw(node, "count", message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let index = u64::from(context.iteration());
        let item = next(context, index)?;
        let max = context.config().get("maxIterations").and_then(Value::as_u64);
        let default = context.config().contains_key("while").then_some(WHILE_ITERATIONS_MAX);
        if let Some(max) = max.or(default).filter(|max| item.is_some() && index >= *max) {
            let message = format!("the loop is not done after {max} iterations, which is its limit");
            return Err(Stop::failed("loop_limit_exceeded", message));
        }
        context.choose(if item.is_some() { "body" } else { "done" });
        let mut outputs = Outputs::new();
        outputs.insert("index".to_owned(), json!(index));
        outputs.insert("iteration".to_owned(), json!(index + 1));
        outputs.insert("done".to_owned(), json!(item.is_none()));
        if let Some(item) = item.filter(|_| context.inputs.contains_key("items")) {
            outputs.insert("item".to_owned(), item);
        }
        Ok(outputs)
    }
}

/// Returns the item of the next iteration, or null for loops without items. None if the loop is done.
fn next(context: &Context, index: u64) -> Result<Option<Value>, Stop> {
    if let Some(items) = context.inputs.get("items") {
        let items = items.as_array().ok_or_else(|| Stop::failed("invalid_input", "items is not an array"))?;
        return Ok(usize::try_from(index).ok().and_then(|index| items.get(index)).cloned());
    }
    if let Some(count) = context.config().get("count").and_then(Value::as_u64) {
        return Ok((index < count).then_some(Value::Null));
    }
    let broken = |why: String| Stop::failed("condition_failed", why);
    let condition = condition(context.node()).map_err(|flaw| broken(flaw.to_string()))?;
    let holds = condition.map_or(Ok(false), |condition| context.with_scope(|scope| condition.holds(scope)));
    holds.map(|holds| holds.then_some(Value::Null)).map_err(|error| broken(error.to_string()))
}

fn condition(node: &workflow::Node) -> Result<Option<Expression>, DefinitionFlaw> {
    let Some(text) = config_text(node, "while")? else { return Ok(None) };
    Expression::parse(text).map(Some).map_err(|error| config_flaw(node, "while", error.to_string()))
}
