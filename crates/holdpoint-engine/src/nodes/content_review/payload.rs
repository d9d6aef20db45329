//! What the graph shows a reviewer, and what a reviewer may say. These shapes are the graph's own: to everything around it
//! they are JSON under the kind `content_review`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::{REMARK_CHARS_MAX, invalid};
use crate::context::Stop;

/// The kind of the interrupt, as its `customKind`.
pub(super) const KIND: &str = "content_review";

/// What a reviewer is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRequest {
    pub draft: String,
    /// How often it was revised.
    pub revision: u64,
    /// How often it may be; a wish for one more is a rejection.
    pub max_revisions: u64,
    pub checks: Vec<CheckResult>,
    /// What was said of earlier revisions, the oldest first.
    pub feedback: Vec<Feedback>,
    /// Where an approved text goes, without what is behind the path. Nowhere, when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_to: Option<String>,
}

/// What a rule says of a draft. It advises: who approves may overrule it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    pub passed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A remark on a revision that was not good enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    pub revision: u64,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Approve,
    Revise,
    Reject,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Revise => "revise",
            Self::Reject => "reject",
        }
    }
}

/// What a reviewer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewDecision {
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The text as the reviewer wants it, instead of the one that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// Which revision it is about. It may be left out; said, it is refused where another one is shown by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// What a decision must look like. Whatever does not is refused, and the question stays open.
pub(super) fn decision_schema(revision: u64) -> Value {
    let is = |action: &str| json!({"properties": {"action": {"const": action}}});
    json!({
        "type": "object",
        "required": ["action"],
        "additionalProperties": false,
        "properties": {
            "action": {"enum": ["approve", "revise", "reject"]},
            "feedback": {"type": "string", "minLength": 1, "maxLength": REMARK_CHARS_MAX},
            "draft": {"type": "string", "pattern": "\\S"},
            "revision": {"const": revision}
        },
        "allOf": [
            {"if": is("revise"), "then": {"anyOf": [{"required": ["feedback"]}, {"required": ["draft"]}]}},
            {"if": is("reject"), "then": {"not": {"required": ["draft"]}}}
        ]
    })
}

/// A place to publish at as it may be shown: what is behind the path may be a secret.
pub(super) fn shown_place(url: &str) -> Result<String, Stop> {
    let url = Url::parse(url).map_err(|error| invalid(format!("the input publishUrl: {error}")))?;
    if !url.has_host() {
        return Err(invalid("the input publishUrl names no host"));
    }
    Ok(format!("{}{}", url.origin().ascii_serialization(), url.path()))
}
