//! Checks the options of a run: the reserved options, and the `configurableSchema` of the workflow.

use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::workflow::Workflow;

/// Rejects options that violate the rule of a reserved option or the schema of the workflow.
pub(super) fn check_configurable(workflow: &Workflow, options: &Map<String, Value>) -> Result<(), Refusal> {
    for (name, is_valid, message) in OPTION_RULES {
        if options.get(name).is_some_and(|value| !is_valid(value)) {
            return Err(Refusal::invalid(format!("configurable.{name}"), message));
        }
    }
    workflow
        .check_configurable(options)
        .map_err(|(path, message)| Refusal::invalid(format!("configurable{path}"), message))
}

/// The name of a reserved option, the check of its value and the message of a violation.
type OptionRule = (&'static str, fn(&Value) -> bool, &'static str);

const OPTION_RULES: [OptionRule; 5] = [
    ("recursionLimit", is_positive, "must be a whole number, 1 or more"),
    ("runTimeoutMs", Value::is_u64, "must be a whole number of milliseconds, 0 or more"),
    ("temperature", is_temperature, "must be a number from 0 to 2"),
    ("escalationThreshold", is_fraction, "must be a number from 0 to 1"),
    ("maxTokens", is_positive, "must be a whole number, 1 or more"),
];

fn is_positive(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| number > 0)
}

fn is_temperature(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| (0.0..=2.0).contains(&number))
}

fn is_fraction(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number))
}
