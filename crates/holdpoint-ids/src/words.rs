//! Enums that are words on the wire and in the log.

use serde::{Deserialize, Serialize};

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldStatus {
    Waiting,
    Approved,
    Rejected,
    Answered,
    TimedOut,
    Cancelled,
}
