//! `core.interrupt`: opens the interrupt that its config defines, of any kind.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{BadRequest, InterruptRequest, RunError};
use serde_json::Value;

use super::{Outputs, PureNode, config_flaw, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct InterruptNode;

impl PureNode for InterruptNode {
    fn is_gate(&self) -> bool {
        true
    }

    fn grants_effects(&self, node: &workflow::Node) -> bool {
        let kind = ["kind", "reason"].iter().find_map(|name| node.config.get(*name));
        kind.and_then(Value::as_str) == Some("approval")
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &InterruptRequest::MEMBERS);
        // Unknown members are already reported.
        if flaws.is_empty() {
            let bad = InterruptRequest::from_json(&node.config).and_then(|request| request.check());
            flaws.extend(bad.err().map(|bad| config_flaw(node, &bad.field, bad.message)));
            if node.config.get("data").is_some_and(|data| data.get("toolCall").is_some()) {
                let message = "is reserved for the tool calls of agents; use another name";
                flaws.push(config_flaw(node, "data.toolCall", message));
            }
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = InterruptRequest::from_json(context.config()).map_err(invalid)?;
        let answer = context.interrupt(request)?;
        let mut outputs = Outputs::new();
        outputs.insert("value".to_owned(), answer);
        Ok(outputs)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn invalid(bad: BadRequest) -> Stop {
    Stop::Failed(RunError::new("invalid_interrupt", bad.to_string()))
}
