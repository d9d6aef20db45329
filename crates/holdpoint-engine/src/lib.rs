//! The Holdpoint engine as a library: workflows with points where a person must decide.
//!
//! Runs are durable. Every change is committed before a call returns, and a run continues after a crash without
//! repeating recorded effects.
//!
//! 1. Open an [`Engine`] with [`Options`].
//! 2. Register a workflow with [`Engine::register`] and start a run with [`Engine::start`].
//! 3. Run a [`Worker`], which executes nodes with outside effects.
//! 4. Answer interrupts with [`Engine::execute`]. All protocols of the server use the same commands.
//!
//! `examples/embed.rs` is a complete program.
//!
//! # Layout
//! - `engine`: the operations of [`Engine`], one file per subject (starting, families, forks, pending, keys, webhooks …)
//! - `draft`: a run with changes that are not committed; executes nodes without effects
//! - `committer`: the group commit: job queue, locks, preconditions, writes, unknown outcomes
//! - `store`: SQL, one file per table; the drivers of SQLite and PostgreSQL; migrations
//! - `worker`: timers, claims, leases and the execution of dispatches; `local_handoff` passes new dispatches to it
//! - `context`, `nodes`: the interface of node code, and the built-in node types
//! - [`agent`]: the agent node: models, tools, MCP servers, connections
//! - `providers`: LangGraph Server and the Claude Agent SDK; `engine/graphs` addresses their graphs by state key
//! - [`outgoing`]: the guarded HTTP client
//! - `webhooks`: deliveries and their attempts
//! - `mailbox`: the operations on the queue of dispatches
//! - `run_cache`, `recent_commits`, `batched_reads`, `workflow_registry`: caches and shared reads
//! - `bus`, `work_signal`, `peers`, `feed`: notifications in this process, to its worker, to other nodes, to exporters
//! - `metrics`, `process_stats`, `trace`: measurements of the engine and of the process; ids of traces and spans
//! - `approval_check`, `permitted_effects`: effects compared with their approvals
//! - `seal`, `location`, `operator`, `answerer`, `clock`, `error`: encryption of secrets, the address of the database,
//!   settings of the operator, automatic answers to side questions, time, errors

mod answerer;
mod approval_check;
mod batched_reads;
mod bus;
mod clock;
mod committer;
mod context;
mod draft;
mod engine;
mod error;
pub mod extension;
mod feed;
mod local_handoff;
mod location;
mod mailbox;
mod metrics;
mod nodes;
mod operator;
pub mod outgoing;
mod peers;
mod permitted_effects;
mod process_stats;
mod recent_commits;
mod run_cache;
mod run_end;
mod seal;
mod store;
mod trace;
mod truncate;
mod webhooks;
mod work_signal;
mod worker;
mod workflow_registry;

// The engine, its options and its errors
pub use clock::Clock;
pub use engine::{Engine, Options, QuotaExceeded, Quotas, Usage};
pub use error::Error;
pub use holdpoint_core::{self as core, Workflow};
pub use location::Location;
pub use process_stats::ProcessStats;
pub use seal::{BadSealKey, SealKey, UnsealError};
pub use store::{Error as StoreError, ceiling};
pub use worker::Worker;

// Workflow definitions and node types
pub use context::{ChannelOptions, Context, EffectContext, Stop};
pub use engine::{CheckedWorkflow, Registration};
pub use nodes::{Node, Outputs, PureNode};
pub use store::workflows::{WorkflowRevision, WorkflowSummary};

// Runs, threads and external events
pub use bus::Subscription;
pub use engine::{
    EventOutcome, EventReception, EventRefusal, ForkRequest, InputMode, Overlay, StartOptions,
    ThreadInterruption, WaitingInterrupt, new_run_id,
};
pub use engine::{FinishedRun, InterruptAnswer, InterruptHandle, RunHandle, RunStart};
pub use store::events::RecordedEvent;
pub use store::messages::ThreadMessage;
pub use store::runs::{RunFilter, RunSummary};

// Interrupts, side questions and grants
pub use answerer::{Answerer, AnswererError, ApproverQuestion};
pub use engine::{Assignee, GrantRecord, PendingCounts, PendingFilter, PendingOrder, PendingPage};
pub use permitted_effects::{GrantNote, PayloadBinding, PermittedEffect};
pub use store::grants::Consumption;
pub use store::pending::{PendingCursor, PendingRow, Votes};

// The facets of the engine
pub use engine::{
    Approvers, Deliveries, Dispatches, Events, Grants, Handles, Holds, Interrupts, Keys, Limits, LinkSecrets,
    Receipts, Runs, Sessions, Threads, Webhooks, Workflows,
};

// Settings of the operator
pub use operator::{BadApproval, BadTenants, OperatorApproval, Tenants};

// Requests that are executed at most once
pub use engine::{Once, RequestKey, Respond};
pub use store::receipts::Receipt;

// API keys, sessions and link secrets
pub use engine::CredentialLimits;
pub use store::dependence::Dependence;
pub use store::keys::ApiKey;
pub use store::secrets::LinkSecret;
pub use store::sessions::BrowserSession;

// The mailbox
pub use mailbox::{DispatchCursor, Mailbox, MailboxClaims};

// Webhooks
pub use engine::NewWebhook;
pub use store::deliveries::attempts::{Attempt, AttemptFilter};
pub use store::deliveries::{Delivery, DeliveryFilter, DeliveryKind};
pub use store::webhooks::{OldSecret, Webhook, WebhookChange, WebhookOwner};
pub use webhooks::{
    DeliveryContent, DeliveryWorker, Render, RenderFuture, WebhookSettings, fingerprint, sign,
};

// Metrics, traces and the feed of commits
pub use committer::{CommitFault, Counters};
pub use feed::{CommitReceiver, RunCommit};
pub use metrics::{Distribution, EngineMetrics};
pub use trace::{SpanContext, causing_span, read_trace_state, trace_headers};
