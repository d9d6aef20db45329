//! Whether a run's options make sense: the reserved ones, and what the workflow's own schema says.

use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::workflow::Workflow;

pub(super) fn check_configurable(workflow: &Workflow, options: &Map<String, Value>) -> Result<(), Refusal> {
    let positive = |value: &Value| value.as_u64().is_some_and(|number| number > 0);
    let rules: [(&str, fn(&Value) -> bool, &str); 4] = [
        ("recursionLimit", positive, "must be a whole number, 1 or more"),
        ("runTimeoutMs", Value::is_u64, "must be a whole number of milliseconds, 0 or more"),
        (
            "temperature",
            |value| value.as_f64().is_some_and(|number| (0.0..=2.0).contains(&number)),
            "must be a number from 0 to 2",
        ),
        ("maxTokens", positive, "must be a whole number, 1 or more"),
    ];
    for (name, is_right, message) in rules {
        if options.get(name).is_some_and(|value| !is_right(value)) {
            return Err(Refusal::invalid(format!("configurable.{name}"), message));
        }
    }
    workflow
        .check_configurable(options)
        .map_err(|(path, message)| Refusal::invalid(format!("configurable{path}"), message))
}
