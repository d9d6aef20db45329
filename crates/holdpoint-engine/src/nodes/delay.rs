//! `core.delay`: sleeps for the time in its input `delayMs` or its config `ms`. `durationMs` is an alias of both. A
//! sleeping run has a timer row in the database, not a timer in memory.

use holdpoint_core::RunError;
use holdpoint_core::workflow::{self, DefinitionFlaw};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

/// The names of the input and of the config member with the time. Later OpenWOP fixtures use the second name.
const INPUTS: [&str; 2] = ["delayMs", "durationMs"];
const CONFIG: [&str; 2] = ["ms", "durationMs"];

pub(super) struct DelayNode;

impl PureNode for DelayNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &CONFIG);
        flaws.extend(CONFIG.iter().filter_map(|field| config_ms(node, field).err()));
        let is_given = |name: &&&str| node.config.contains_key(**name);
        match CONFIG.iter().filter(is_given).count() {
            0 if !INPUTS.iter().any(|port| node.inputs.contains_key(*port)) => {
                flaws.push(DefinitionFlaw::of_node(
                    &node.id,
                    "config.ms",
                    "is missing, and so is the input delayMs",
                ));
            }
            0 | 1 => {}
            _ => flaws.push(DefinitionFlaw::of_node(
                &node.id,
                "config.durationMs",
                "is another name for ms; set only one of them",
            )),
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let input = INPUTS.iter().find_map(|port| context.inputs.get(*port));
        let configured = || CONFIG.iter().find_map(|field| context.config().get(*field));
        let ms = match input.or_else(configured) {
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
