//! `core.delay`: sleeps for a time or until an instant. A sleeping run has a timer row in the database, not a timer in
//! memory.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{RunError, Timestamp};
use serde_json::{Map, Value};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

/// The names of the input and of the config member with a time. Later OpenWOP fixtures use the second name.
const MS_INPUTS: [&str; 2] = ["delayMs", "durationMs"];
const MS_CONFIG: [&str; 2] = ["ms", "durationMs"];
/// The name of the input and of the config member with an instant.
const UNTIL: &str = "until";
const CONFIG: [&str; 3] = ["ms", "durationMs", UNTIL];

pub(super) struct DelayNode;

impl PureNode for DelayNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &CONFIG);
        let flaw = |field: &str, why: &str| DefinitionFlaw::of_node(&node.id, field, why);
        flaws.extend(MS_CONFIG.iter().filter_map(|field| config_ms(node, field).err()));
        flaws.extend(
            node.config
                .get(UNTIL)
                .and_then(|value| parse_instant(value).err())
                .map(|why| flaw("config.until", why)),
        );
        let has_input = |port: &&str| node.inputs.contains_key(*port);
        if has_input(&UNTIL) && MS_INPUTS.iter().any(has_input) {
            flaws.push(flaw("inputs.until", "cannot be combined with delayMs; use one of them"));
        }
        let given: Vec<&str> = CONFIG.into_iter().filter(|name| node.config.contains_key(*name)).collect();
        match given[..] {
            [] if !MS_INPUTS.iter().chain([&UNTIL]).any(has_input) => {
                flaws.push(flaw(
                    "config.ms",
                    "is missing, and so are config.until and the inputs delayMs and until",
                ));
            }
            [] | [_] => {}
            ["ms", "durationMs"] => {
                flaws.push(flaw("config.durationMs", "is another name for ms; set only one of them"));
            }
            _ => flaws.push(flaw("config.until", "cannot be combined with ms; set only one of them")),
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let given = End::find(&context.inputs, MS_INPUTS).or_else(|| End::find(context.config(), MS_CONFIG));
        match given {
            Some(End::At(value)) => {
                let until = parse_instant(&value).map_err(|why| invalid(format!("until {why}")))?;
                context.sleep_until(until)?;
            }
            Some(End::After(value)) => {
                let ms = value.as_u64();
                context
                    .sleep(ms.ok_or_else(|| invalid(format!("delayMs is {value}, not a whole number")))?)?;
            }
            None => return Err(invalid("delayMs or until is required")),
        }
        Ok(Outputs::new())
    }
}

/// The end of a sleep, as it was given.
enum End {
    /// After a time in milliseconds.
    After(Value),
    /// At an instant.
    At(Value),
}

impl End {
    fn find(values: &Map<String, Value>, ms_names: [&str; 2]) -> Option<Self> {
        let ms = ms_names.iter().find_map(|name| values.get(*name)).cloned();
        ms.map(Self::After).or_else(|| values.get(UNTIL).cloned().map(Self::At))
    }
}

/// Parses an instant in RFC 3339, or returns the rule that it breaks.
fn parse_instant(value: &Value) -> Result<Timestamp, &'static str> {
    let parsed = value.as_str().and_then(Timestamp::parse_rfc3339);
    parsed.ok_or("must be an instant such as 2026-05-01T10:00:00Z")
}

fn invalid(message: impl Into<String>) -> Stop {
    Stop::Failed(RunError::new("invalid_input", message))
}
