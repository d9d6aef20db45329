//! Dispatches as clients see them. The fencing token is not among what they see: who has it could write for its holder.

use std::collections::BTreeMap;

use holdpoint_core::Timestamp;
use holdpoint_core::mailbox::TerminationReason;
use serde::{Deserialize, Serialize};

use crate::instants::{iso, optional_iso};

#[derive(Debug, Deserialize)]
pub(crate) struct ListDispatches {
    /// Statuses, separated by commas.
    pub status: Option<String>,
}

/// A body with nothing to say. It is read all the same: one left unread would cost the caller its connection.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dispatches {
    pub dispatches: Vec<Dispatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Both tracks: `status` is the queue's, `run` is where the run stands now, `projection` what it reported when this
/// dispatch was carried out.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dispatch {
    pub dispatch_id: String,
    pub thread_id: String,
    pub run_id: String,
    pub status: &'static str,
    pub priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    pub dispatch_epoch: u64,
    #[serde(serialize_with = "iso")]
    pub available_at: Timestamp,
    pub attempt_count: u32,
    pub max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    pub lease_until: Option<Timestamp>,
    #[serde(serialize_with = "iso")]
    pub created_at: Timestamp,
    #[serde(serialize_with = "iso")]
    pub updated_at: Timestamp,
    /// Null when there is no such run.
    pub run: Option<RunNow>,
    pub projection: Projection,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunNow {
    pub run_id: String,
    pub workflow_id: String,
    pub status: &'static str,
    pub status_url: String,
}

/// All members are always there, so that "nothing yet" can be seen.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Projection {
    pub run_status: Option<&'static str>,
    pub termination: Option<TerminationReason>,
    pub response: Option<String>,
    pub error: Option<String>,
    pub instance_id: Option<String>,
    #[serde(serialize_with = "optional_iso")]
    pub completed_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stats {
    /// By status, every status.
    pub counts: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    pub next_wakeup_at: Option<Timestamp>,
}
