//! Requests about webhooks. A registration is OpenWOP's and may have unknown members; all other bodies are ours and may
//! not.

use holdpoint_core::StrictValue;
use serde::Deserialize;

use crate::body::or_default;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateWebhook {
    pub url: Option<String>,
    pub events: Option<Vec<String>>,
    pub tenant_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    pub durable: Option<bool>,
    pub ordered: Option<bool>,
    pub retry_policy: Option<RetryPolicy>,
    pub supported_signature_algorithms: Option<Vec<String>>,
    /// Not for callers to choose.
    pub secret: Option<StrictValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RetryPolicy {
    pub max_attempts: Option<u32>,
    pub backoff: Option<String>,
    pub base_ms: Option<u64>,
    pub max_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTenant {
    pub tenant_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RotateWebhook {
    pub overlap_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListEvents {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListDeliveries {
    pub state: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayWindow {
    pub from: Option<String>,
    pub to: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub events: Vec<String>,
}
