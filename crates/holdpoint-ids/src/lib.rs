//! Identifiers, limits, strict and canonical JSON and the enums that the core and the API share.
//!
//! # Layout
//! - `ids`, `via`: identifiers, [`Timestamp`], the credential of a decision
//! - `kind`, `words`, `agents`, `webhooks`, `triggers`, `mailbox`, `request_source`: enums on the wire and in the log
//! - `error_code`: every error code with its HTTP statuses and its meaning
//! - `limits`: every limit
//! - `strict`, `canonical`, `segment`, `schema`: JSON that rejects repeated keys, RFC 8785 and digests, ids in paths, JSON Schemas

mod agents;
mod canonical;
mod error_code;
mod ids;
mod kind;
pub mod limits;
pub mod mailbox;
mod request_source;
#[cfg(feature = "schema")]
mod schema;
mod segment;
mod strict;
mod triggers;
mod via;
mod webhooks;
mod words;

pub use agents::{Behaviour, CallStatus, InputMode, ResumeDecisionAction, Role, ToolCallResumeMode};
pub use canonical::{canonical, digest, hex};
pub use error_code::ErrorCode;
pub use ids::{BadId, InterruptId, IsoText, NodeId, Owner, RunId, RunRef, TenantId, Timestamp, WorkflowId};
pub use kind::Kind;
pub use request_source::{EventTransport, RequestSource, RunRequestOrigin, Transport};
pub use segment::encode_segment;
pub use strict::{StrictValue, parse_strict};
pub use triggers::{MissedPolicy, OverlapPolicy, TriggerSourceName};
pub use via::{Via, ViaType};
pub use webhooks::{
    AttemptOutcome, Backoff, ChangeReason, DeadReason, DeliveryState, EVENT_NAMES, Mode, SubscriptionState,
    WebhookEventType,
};
pub use words::{
    Cap, Drain, EventReception, ForkMode, HoldStatus, NodeStatusName, Reducer, RunDispatchStatus, Status,
};
