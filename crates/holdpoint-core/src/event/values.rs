//! Values of several events: results of child runs, errors.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The result that a child run passes to its parent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildResult {
    /// The variables of the child run that `outputMapping` of the node names. For a tool call: the result of the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The error of a child run that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// The status that holds, lists and the command line show for a run that failed because a deadline passed without an
/// answer.
pub const TIMED_OUT: &str = "timed_out";

/// The `reason` in the details of an error that was caused by a deadline.
const TIMEOUT: &str = "timeout";

/// The error of a node or a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// The error code.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// True if a retry may succeed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    /// Further members, such as the `reason` of a timeout.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl RunError {
    /// Creates an error without details that is not retryable.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: false, details: Map::new() }
    }

    /// Creates the error of a deadline that passed without an answer.
    pub fn timed_out(code: &str, message: impl Into<String>) -> Self {
        let details = Map::from_iter([("reason".to_owned(), Value::from(TIMEOUT))]);
        Self { details, ..Self::new(code, message) }
    }

    /// Returns true if a deadline that passed caused the error.
    pub fn is_timeout(&self) -> bool {
        self.details.get("reason").and_then(Value::as_str) == Some(TIMEOUT)
    }
}
