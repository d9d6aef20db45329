//! `core.delay`: sleeps for its `delayMs` input or its `ms` config. A sleeping run is a row, not a timer in memory.

use holdpoint_core::RunError;
use holdpoint_core::workflow::{self, Flaw};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct Delay;

impl PureNode for Delay {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &["ms"]);
        match config_ms(node, "ms") {
            Err(flaw) => flaws.push(flaw),
            Ok(None) if !node.inputs.contains_key("delayMs") => {
                flaws.push(Flaw::of_node(&node.id, "config.ms", "is missing, and so is the input delayMs"));
            }
            Ok(_) => {}
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let ms = match context.inputs.get("delayMs").or_else(|| context.config().get("ms")) {
            Some(value) => value.as_u64().ok_or_else(|| {
                Stop::Failed(RunError::new(
                    "invalid_input",
                    format!("delayMs is {value}, not a whole number"),
                ))
            })?,
            None => {
                return Err(Stop::Failed(RunError::new(
                    "invalid_input",
                    "neither delayMs nor config.ms is set",
                )));
            }
        };
        context.sleep(ms)?;
        Ok(Outputs::new())
    }
}
