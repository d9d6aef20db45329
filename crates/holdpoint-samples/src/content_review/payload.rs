//! The payload of a review interrupt and of its answer. Only the graph knows these types; other code sees JSON of the
//! custom kind `content_review`.

use holdpoint_engine::Stop;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::{REMARK_CHARS_MAX, invalid};

/// The kind of the interrupt, as its `customKind`.
pub(super) const KIND: &str = "content_review";

/// The payload that a reviewer sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRequest {
    /// The text to review.
    pub draft: String,
    /// The number of revisions so far.
    pub revision: u64,
    /// The maximum number of revisions. A request for one more is a rejection.
    pub max_revisions: u64,
    /// The results of the rules.
    pub checks: Vec<CheckResult>,
    /// The remarks on earlier revisions, oldest first.
    pub feedback: Vec<Feedback>,
    /// The address of the publication, without query and fragment. None if the text is not sent anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_to: Option<String>,
}

/// The result of a rule for a draft. It is advice: the reviewer may approve a draft that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The name of the rule.
    pub name: String,
    /// True if the draft satisfies the rule.
    pub passed: bool,
    /// The reason if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A remark with which a reviewer requested a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The revision that the remark is about.
    pub revision: u64,
    /// The remark.
    pub text: String,
}

/// The action of a reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewAction {
    /// Publish the text.
    Approve,
    /// Write another revision.
    Revise,
    /// End the review without a publication.
    Reject,
}

impl ReviewAction {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Revise => "revise",
            Self::Reject => "reject",
        }
    }
}

/// The answer of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewDecision {
    /// The action.
    pub action: ReviewAction,
    /// A remark. The action `revise` requires a remark or an edited text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The edited text, which replaces the one that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// The revision that the answer is about. Optional; an answer about a revision that is not shown is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// Returns the JSON Schema of an answer. An answer that does not match is rejected, and the interrupt stays open.
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

/// Returns the address of the publication without query and fragment, which may contain a secret.
pub(super) fn displayed_url(url: &str) -> Result<String, Stop> {
    let url = Url::parse(url).map_err(|error| invalid(format!("the input publishUrl: {error}")))?;
    if !url.has_host() {
        return Err(invalid("the input publishUrl names no host"));
    }
    Ok(format!("{}{}", url.origin().ascii_serialization(), url.path()))
}
