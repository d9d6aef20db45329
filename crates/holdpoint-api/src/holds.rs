//! Holds: interrupts without a workflow.

use std::borrow::Cow;

use holdpoint_ids::{HoldStatus, RunId, StrictValue, Via, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::Instant;

/// The longest time that `GET /v1/holds/{holdId}` waits for an answer, in seconds.
pub const WAIT_SECONDS_MAX: u64 = 60;
/// The largest number of approvers that one hold may have.
pub const APPROVERS_MAX: usize = 100;
/// The largest number of choices that one hold may have.
pub const CHOICES_MAX: usize = 100;
/// The largest number of characters in a title.
pub const TITLE_CHARS_MAX: usize = 500;

/// The body of `POST /v1/holds`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateHold {
    /// The title that approvers see.
    #[schemars(length(min = 1, max = TITLE_CHARS_MAX), regex(pattern = r"\S"))]
    pub title: String,
    /// A longer text that approvers see.
    pub description: Option<String>,
    /// The possible answers. Not together with schema.
    #[schemars(length(min = 1, max = CHOICES_MAX), inner(regex(pattern = r"\S")), extend("uniqueItems" = true))]
    pub choices: Option<Vec<String>>,
    /// The JSON Schema of the answer. Not together with choices.
    pub schema: Option<StrictValue>,
    /// The payload that the approver is shown.
    pub data: Option<StrictValue>,
    /// The media type of data that is a string: text/markdown by default; text/plain keeps line breaks; text/x-diff is a
    /// patch.
    #[schemars(extend("enum" = ["text/markdown", "text/plain", "text/x-diff", null]))]
    pub data_type: Option<String>,
    /// The principals that may answer: names, role:x or group:y. By default every principal with approvals:respond.
    #[schemars(length(min = 1, max = APPROVERS_MAX), inner(regex(pattern = r"\S")))]
    pub approvers: Option<Vec<String>>,
    /// If true, the principal that creates the hold may not answer it.
    #[schemars(extend("default" = true))]
    pub requester_may_not_approve: Option<bool>,
    /// The number of principals that must approve. More than 1 is accepted only without choices and schema.
    #[schemars(range(min = 1, max = limits::REQUIRED_APPROVALS_MAX), extend("default" = 1))]
    pub required_approvals: Option<u64>,
    /// If set, answers require a key; links are not accepted.
    #[schemars(extend("enum" = ["openwop-interrupt-auth-required", null]))]
    pub profile: Option<String>,
    /// Milliseconds until the hold times out. Without it, the hold does not time out.
    pub timeout_ms: Option<u64>,
    /// Tags of the run of the hold.
    #[schemars(length(max = limits::TAGS_MAX))]
    pub tags: Option<Vec<String>>,
}

/// The data of the interrupt of a hold without choices and schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldApproval<'a> {
    /// The title of the hold.
    pub title: Cow<'a, str>,
    /// The id of the artifact; always `hold`.
    pub artifact_id: Cow<'a, str>,
    /// The media type of artifactData, or `hold` if there is none.
    pub artifact_type: Cow<'a, str>,
    /// The actions that an answer may have.
    pub actions: Vec<Cow<'a, str>>,
    /// Members of every hold.
    #[serde(flatten)]
    pub terms: HoldTerms<'a>,
}

/// The data of the interrupt of a hold with choices or a schema.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldQuestions<'a> {
    /// The one question of the hold.
    pub questions: [HoldQuestion<'a>; 1],
    /// Members of every hold.
    #[serde(flatten)]
    pub terms: HoldTerms<'a>,
    /// The media type of artifactData.
    pub artifact_type: Option<Cow<'a, str>>,
}

/// The question of a hold with choices or a schema.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HoldQuestion<'a> {
    /// The id of the question; always `answer`.
    pub id: Cow<'a, str>,
    /// The title of the hold.
    pub question: Cow<'a, str>,
    /// The JSON Schema of the answer.
    pub schema: Cow<'a, Value>,
    /// The choices.
    pub options: Option<Cow<'a, [String]>>,
}

/// The members that the data of every hold may have.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldTerms<'a> {
    /// The principals that may answer: names, role:x or group:y.
    pub approvers_list: Option<Cow<'a, [String]>>,
    /// If true, the principal that created the hold may not answer it.
    pub requester_may_not_approve: bool,
    /// The number of principals that must approve.
    pub required_approvals: Option<u64>,
    /// Set if answers require a key.
    pub profile: Option<Cow<'a, str>>,
    /// A longer text that approvers see.
    pub description: Option<Cow<'a, str>>,
    /// The payload that the approver is shown.
    pub artifact_data: Option<Cow<'a, Value>>,
}

/// The query of `GET /v1/holds/{holdId}`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShowHold {
    /// Seconds to wait for an answer before the hold is returned.
    #[schemars(range(min = 0, max = WAIT_SECONDS_MAX), extend("default" = 0))]
    pub wait: Option<u64>,
}

/// A hold, with its answer if it has one.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The id of the hold, which is also the id of its run.
    pub hold_id: RunId,
    /// The title of the hold.
    pub title: String,
    /// The status of the hold.
    pub status: HoldStatus,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant at which the hold times out.
    pub expires_at: Option<Instant>,
    /// The instant of the answer.
    pub answered_at: Option<Instant>,
    /// The choice, or the value that matches the schema. The answer to an approval is an object with action, feedback,
    /// decidedBy and decidedAt.
    pub answer: Option<Value>,
    /// The principal that answered.
    pub answered_by: Option<String>,
    /// The grant of an approval: see GET /v1/grants/{grantId}.
    pub grant_id: Option<String>,
    /// The credential of the answer.
    pub via: Option<Via>,
    /// If true, the principal that created the hold may not answer it.
    pub requester_may_not_approve: bool,
    /// The number of required approvals.
    #[schemars(range(min = 1))]
    pub required_approvals: Option<u64>,
    /// The interrupt profile.
    pub profile: Option<String>,
    /// The path of the run of the hold.
    pub run_url: String,
    /// The page on which a person answers: a path, or a URL if the server has a public one.
    pub page_url: String,
    /// Only in the response that creates the hold: approvers that no key of this tenant matches.
    pub warnings: Option<Vec<String>>,
}
