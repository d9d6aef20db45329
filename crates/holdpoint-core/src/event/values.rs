//! Values that several events carry: how a run pauses, which limit it met, why it failed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What becomes of a node that is at work when its run is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    Immediate,
    #[default]
    DrainCurrentNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    NodeExecutions,
    RunDuration,
    LoopIterations,
}

/// How writes to a channel come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reducer {
    Replace,
    Append,
    Merge,
    Counter,
    Votes,
    Feedback,
    Message,
}

/// What a run leaves to the one that started it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildResult {
    /// Those of its variables that the parent asked for.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// What holds, lists and the command line call a run that failed because nobody answered in time.
pub const TIMED_OUT: &str = "timed_out";

/// The reason of errors that come from deadlines.
const TIMEOUT: &str = "timeout";

/// Why a node or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    pub code: String,
    pub message: String,
    /// Trying again may help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl RunError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: false, details: Map::new() }
    }

    /// A failure because nobody answered before the deadline.
    pub fn timed_out(code: &str, message: impl Into<String>) -> Self {
        let details = Map::from_iter([("reason".to_owned(), Value::from(TIMEOUT))]);
        Self { details, ..Self::new(code, message) }
    }

    pub fn is_timeout(&self) -> bool {
        self.details.get("reason").and_then(Value::as_str) == Some(TIMEOUT)
    }
}
