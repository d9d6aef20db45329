//! Activities that nodes and tool calls report while they are at work.

use serde_json::{Map, Value};

/// A report of an activity.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityReport {
    /// The id of the activity, unique in its node. A later report with the same id replaces the content.
    pub id: String,
    /// The type of the activity, which front ends choose a view by.
    pub kind: String,
    /// The content.
    pub content: Map<String, Value>,
    /// The tool call that the activity belongs to.
    pub call: Option<String>,
}
