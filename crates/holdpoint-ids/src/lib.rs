//! Identifiers, limits, strict JSON and the enums that the core and the API share.

mod agents;
mod ids;
mod kind;
pub mod limits;
pub mod mailbox;
#[cfg(feature = "schema")]
mod schema;
mod strict;
mod via;
mod webhooks;
mod words;

pub use agents::{InputMode, ResumeDecisionAction, Role, ToolCallResumeMode};
pub use ids::{BadId, InterruptId, NodeId, Owner, RunId, RunRef, TenantId, Timestamp, WorkflowId};
pub use kind::Kind;
pub use strict::{StrictValue, parse_strict};
pub use via::{Via, ViaType};
pub use webhooks::{
    AttemptOutcome, Backoff, ChangeReason, DeadReason, DeliveryState, EVENT_NAMES, Mode, SubscriptionState,
    WebhookEventType,
};
pub use words::{
    Cap, Drain, EventReception, ForkMode, HoldStatus, NodeStatusName, Reducer, RunDispatchStatus, Status,
};
