//! Holdpoint as a library: runs that pause for people, survive crashes and go on exactly once.
//!
//! Open an [`Engine`], register a workflow, start a run; whoever answers calls [`Engine::execute`] with the same
//! command that every protocol of the server ends in. `examples/embed.rs` is a whole program.

mod advance;
pub mod agent;
mod answering;
mod approved;
mod asking;
mod bus;
mod clock;
mod committer;
mod context;
mod engine;
mod error;
mod feed;
mod hands;
mod location;
mod mailbox;
mod measures;
mod nodes;
mod operator;
pub mod outgoing;
mod peers;
mod permits;
mod process;
mod providers;
mod recent;
mod registry;
mod run_cache;
mod seal;
mod store;
mod trace;
mod webhooks;
mod work_signal;
mod worker;

pub use answering::{Answerer, Question, Unanswerable};
pub use bus::Subscription;
pub use clock::Clock;
pub use committer::{Counters, Fault};
pub use context::{ChannelOptions, Context, EffectContext, Stop};
pub use engine::{
    Assignee, Checked, CredentialLimits, Engine, EventReception, ForkRequest, GrantRecord, GraphError,
    GraphStart, Handle, InputMode, Interrupted, NewWebhook, Once, Options, Overlay, PendingCounts,
    PendingFilter, PendingOrder, PendingPage, QuotaExceeded, Quotas, Received, RefusedBy, Registration,
    RequestKey, Respond, Resume, Standing, StartOptions, Taker, Talk, Usage,
};
pub use error::Error;
pub use feed::{Committed, Listener};
pub use holdpoint_core as core;
pub use location::Location;
pub use mailbox::{DispatchCursor, Mailbox};
pub use measures::{Distribution, Measures};
pub use nodes::{Node, Outputs, PureNode, content_review};
pub use operator::{BadApproval, BadTenants, OperatorApproval, Tenants};
pub use permits::{GrantNote, Payload, Permit};
pub use process::Process;
pub use providers::{BadProviders, ProviderSettings};
pub use seal::{BadSealKey, SealKey, Unopenable};
pub use store::deliveries::attempts::{Attempt, AttemptFilter};
pub use store::deliveries::{Delivery, DeliveryFilter, DeliveryKind};
pub use store::dependence::Dependence;
pub use store::events::Recorded;
pub use store::grants::Consumption;
pub use store::keys::ApiKey;
pub use store::messages::Said;
pub use store::pending::{Pending, PendingCursor, Votes};
pub use store::receipts::Receipt;
pub use store::runs::{RunFilter, RunSummary};
pub use store::secrets::LinkSecret;
pub use store::sessions::Session;
pub use store::webhooks::{OldSecret, Webhook, WebhookChange, WebhookOwner};
pub use store::workflows::{Registered, WorkflowSummary};
pub use store::{Error as StoreError, ceiling};
pub use trace::{SpanName, cause, read_trace_state, trace_headers};
pub use webhooks::{Courier, Render, Rendered, Rendering, WebhookSettings, fingerprint, sign};
pub use worker::Worker;
