//! `core.hold`: asks what the run was started with, and completes whatever comes of it. A rejection and silence are
//! answers to whoever made the hold, and no failures.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{BadRequest, Request, RunError};
use serde_json::{Value, json};

use super::{Outputs, PureNode, unknown_config};
use crate::context::{Context, Stop};

/// The input in which stands what is asked, as `core.interrupt` has it in its config.
pub(crate) const ASKED: &str = "interrupt";

pub(super) struct Hold;

impl PureNode for Hold {
    fn asks(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        unknown_config(node, &[])
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let asked = context.inputs.get(ASKED).and_then(Value::as_object).cloned().unwrap_or_default();
        let request = Request::from_json(&asked).map_err(invalid)?;
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
