//! `core.hold`: opens the interrupt in the input of the run. The node completes with any answer: a rejection and a
//! timeout are results for the creator of the hold, not failures.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{BadRequest, InterruptRequest, RunError};
use serde_json::{Value, json};

use super::{Outputs, PureNode, unknown_config};
use crate::context::{Context, Stop};

/// The input with the interrupt, in the format of the config of `core.interrupt`.
pub(crate) const REQUEST_INPUT: &str = "interrupt";

pub(super) struct HoldGate;

impl PureNode for HoldGate {
    fn is_gate(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        unknown_config(node, &[])
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let interrupt =
            context.inputs.get(REQUEST_INPUT).and_then(Value::as_object).cloned().unwrap_or_default();
        let request = InterruptRequest::from_json(&interrupt).map_err(invalid)?;
        let mut outputs = Outputs::new();
        match context.interrupt(request) {
            Ok(answer) => outputs.insert("answer".to_owned(), answer),
            Err(Stop::TimedOut) => outputs.insert("timedOut".to_owned(), json!(true)),
            Err(other) => return Err(other),
        };
        Ok(outputs)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn invalid(bad: BadRequest) -> Stop {
    Stop::Failed(RunError::new("invalid_interrupt", bad.to_string()))
}
