//! Identifiers, limits, strict and canonical JSON and the enums that the core and the API share.

mod agents;
mod canonical;
mod error_code;
mod ids;
mod kind;
pub mod limits;
pub mod mailbox;
#[cfg(feature = "schema")]
mod schema;
mod segment;
mod strict;
mod via;
mod webhooks;
mod words;

pub use agents::{Behaviour, CallStatus, InputMode, ResumeDecisionAction, Role, ToolCallResumeMode};
pub use canonical::{canonical, digest, hex};
pub use error_code::ErrorCode;
pub use ids::{BadId, InterruptId, NodeId, Owner, RunId, RunRef, TenantId, Timestamp, WorkflowId};
pub use kind::Kind;
pub use segment::encode_segment;
pub use strict::{StrictValue, parse_strict};
pub use via::{Via, ViaType};
pub use webhooks::{
    AttemptOutcome, Backoff, ChangeReason, DeadReason, DeliveryState, EVENT_NAMES, Mode, SubscriptionState,
    WebhookEventType,
};
pub use words::{
    Cap, Drain, EventReception, ForkMode, HoldStatus, NodeStatusName, Reducer, RunDispatchStatus, Status,
};
