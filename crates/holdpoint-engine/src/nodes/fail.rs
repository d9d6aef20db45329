//! `core.fail`: fails with the code and the message in its config.

use holdpoint_core::RunError;
use holdpoint_core::workflow::{self, DefinitionFlaw};
use serde_json::Value;

use super::{Outputs, PureNode, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct FailNode;

impl PureNode for FailNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let wrong = |field: &&str| node.config.get(*field).is_some_and(|value| !value.is_string());
        let fields = ["code", "message"].into_iter().filter(wrong);
        let mut flaws = unknown_config(node, &["code", "message", "retryable"]);
        if node.config.get("retryable").is_some_and(|value| !value.is_boolean()) {
            flaws.push(DefinitionFlaw::of_node(&node.id, "config.retryable", "must be true or false"));
        }
        flaws.extend(
            fields.map(|field| {
                DefinitionFlaw::of_node(&node.id, format!("config.{field}"), "must be a string")
            }),
        );
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let text = |field: &str| context.config().get(field).and_then(Value::as_str);
        let code = text("code").unwrap_or("node_failed");
        let message = text("message").unwrap_or("this node is defined to fail");
        let retryable = context.config().get("retryable") == Some(&Value::Bool(true));
        Err(Stop::Failed(RunError { retryable, ..RunError::new(code, message) }))
    }
}
