//! `core.interrupt`: any interrupt, written out in its config.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{BadRequest, Request, RunError};

use super::{Outputs, PureNode, config_flaw, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct Interrupt;

impl PureNode for Interrupt {
    fn asks(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &Request::MEMBERS);
        // A member that is not known has been told of.
        if flaws.is_empty() {
            let bad = Request::from_json(&node.config).and_then(|request| request.check());
            flaws.extend(bad.err().map(|bad| config_flaw(node, &bad.field, bad.message)));
            if node.config.get("data").is_some_and(|data| data.get("toolCall").is_some()) {
                let message = "is reserved for the tool calls of agents; use another name";
                flaws.push(config_flaw(node, "data.toolCall", message));
            }
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = Request::from_json(context.config()).map_err(invalid)?;
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
