//! Holds on the wire.

use serde::Deserialize;

use holdpoint_core::StrictValue;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateHold {
    pub title: String,
    pub description: Option<String>,
    /// One of these is the answer.
    pub choices: Option<Vec<String>>,
    /// The answer is anything that fits it.
    pub schema: Option<StrictValue>,
    /// Shown with the question.
    pub data: Option<StrictValue>,
    /// How a text in `data` is shown. Default: `text/markdown`.
    pub data_type: Option<String>,
    pub approvers: Option<Vec<String>>,
    /// Default: true.
    pub requester_may_not_approve: Option<bool>,
    /// The number of principals that must approve; more than 1 only without choices and schema.
    pub required_approvals: Option<u64>,
    /// `openwop-interrupt-auth-required`: answers require a key.
    pub profile: Option<String>,
    pub timeout_ms: Option<u64>,
    pub tags: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ShowHold {
    /// Seconds.
    pub wait: Option<u64>,
}
