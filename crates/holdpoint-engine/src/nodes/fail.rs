//! `core.fail`: fails, with a code and a message of the author's choice.

use holdpoint_core::RunError;
use holdpoint_core::workflow::{self, Flaw};
use serde_json::Value;

use super::{Outputs, PureNode, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct Fail;

impl PureNode for Fail {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let wrong = |field: &&str| node.config.get(*field).is_some_and(|value| !value.is_string());
        let fields = ["code", "message"].into_iter().filter(wrong);
        let mut flaws = unknown_config(node, &["code", "message", "retryable"]);
        if node.config.get("retryable").is_some_and(|value| !value.is_boolean()) {
            flaws.push(Flaw::of_node(&node.id, "config.retryable", "must be true or false"));
        }
        flaws.extend(
            fields.map(|field| Flaw::of_node(&node.id, format!("config.{field}"), "must be a string")),
        );
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let text = |field: &str| context.config().get(field).and_then(Value::as_str);
        let code = text("code").unwrap_or("node_failed");
        let message = text("message").unwrap_or("the workflow says that this node fails");
        let retryable = context.config().get("retryable") == Some(&Value::Bool(true));
        Err(Stop::Failed(RunError { retryable, ..RunError::new(code, message) }))
    }
}
