//! The Holdpoint engine as a library: workflows with points where a person must decide.
//!
//! Runs are durable. Every change is committed before a call returns, and a run continues after a crash without
//! repeating recorded effects.
//!
//! ```
//! use holdpoint_engine::core::workflow::{Approval, Input};
//! use holdpoint_engine::{EffectContext, Engine, Node, Options, Outputs, Stop, Workflow};
//! use serde_json::json;
//!
//! /// Charges a card. A recorded step is not executed again.
//! struct Charge;
//!
//! impl Node for Charge {
//!     async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
//!         let receipt = context.step("charge", || async { Ok(json!("receipt-1")) }).await?;
//!         Ok(Outputs::from_iter([("receipt".to_owned(), receipt)]))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("holdpoint.db");
//! let engine = Engine::open(Options::from(path).node("acme.charge", Charge)).await?;
//! let review = Approval::new("Charge the card?").show(Input::variable("amount")).approvers(["alice"]);
//! let checkout = Workflow::builder("checkout").node("review", review).then("charge", "acme.charge").build()?;
//! engine.workflows().put(checkout).await?;
//!
//! let run = engine.runs().start("checkout").input("amount", 120).by("shop").await?;
//! run.wait_for_interrupt().await?.accept().by("alice").await?;
//! let done = run.wait().await?;
//! assert_eq!(done.variable::<String>("receipt")?, "receipt-1");
//! # engine.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Engine`] has a facet for each subject: [`Engine::runs`], [`Engine::interrupts`], [`Engine::workflows`] and others.
//! - [`RunHandle`] waits for interrupts and for the end of a run without polling.
//! - [`extension`] is the extension point. The crates `holdpoint-agents` and `holdpoint-providers` use it.
//! - All protocols of the server use the same commands: [`Runs::execute`].
//!
//! # Features
//! - `postgres` (default): PostgreSQL as the database. Without it, only SQLite is available.
//! - `tls` (default): TLS for outgoing calls and for PostgreSQL.
//!
//! # Layout
//! - `engine`: the facets and the operations below them, one file per subject (starting, families, forks, keys …)
//! - `draft`: a run with changes that are not committed; executes nodes without effects
//! - `committer`: the group commit: job queue, locks, preconditions, writes, unknown outcomes
//! - `store`: SQL, one file per table; the drivers of SQLite and PostgreSQL; migrations
//! - `worker`: timers, claims, leases and the execution of dispatches; `local_handoff` passes new dispatches to it
//! - `context`, `nodes`: the interface of node code, and the built-in node types
//! - [`extension`]: the extension point; `run_end`, `truncate`, `operator`: helpers for extensions
//! - [`outgoing`]: the guarded HTTP client
//! - `webhooks`: deliveries and their attempts; the server has the courier, which makes and sends the requests
//! - `mailbox`: the operations on the queue of dispatches
//! - `run_cache`, `recent_commits`, `batched_reads`, `workflow_registry`: caches and shared reads
//! - `bus`, `work_signal`, `peers`, `feed`: notifications in this process, to its worker, to other nodes, to exporters
//! - `metrics`, `process_stats`, `trace`: measurements of the engine and of the process; ids of traces and spans
//! - `approval_check`, `permitted_effects`: effects compared with their approvals
//! - `seal`, `location`, `answerer`, `clock`, `error`: encryption of secrets, the address of the database, automatic
//!   answers to side questions, time, errors

#![warn(missing_docs)]

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
pub use context::{ChannelOptions, Context, EffectContext, Stop, SuspendRequest};
pub use engine::{CheckedWorkflow, Registration};
pub use nodes::{Node, Outputs, PureNode};
pub use store::workflows::{WorkflowRevision, WorkflowSummary};

// Runs, threads and external events
pub use bus::Subscription;
pub use engine::{
    EventOutcome, EventReception, EventRefusal, ExecuteOptions, ForkRequest, InputMode, Overlay, RunCommands,
    StartOptions, ThreadInterruption, WaitingInterrupt, WaitingRun, new_run_id,
};
pub use engine::{FinishedRun, InterruptAnswer, InterruptHandle, RunHandle, RunStart};
pub use store::events::RecordedEvent;
pub use store::messages::ThreadMessage;
pub use store::runs::{RunFilter, RunSummary};

// Interrupts, side questions and grants
pub use answerer::{Answerer, AnswererError, ApproverQuestion};
pub use engine::{
    AnswerAddress, Assignee, GrantRecord, OpenInterrupt, PendingCounts, PendingFilter, PendingOrder,
    PendingPage, SiblingsWait,
};
pub use permitted_effects::{GrantNote, PayloadBinding, PermittedEffect};
pub use store::grants::Consumption;
pub use store::pending::{PendingCursor, PendingRow, Votes};

// The facets of the engine
pub use engine::{
    Approvers, Deliveries, Dispatches, Events, Grants, Handles, Holds, Interrupts, Keys, Limits, LinkSecrets,
    Receipts, Runs, Sessions, Threads, Triggers, Webhooks, Workflows,
};

// Triggers
pub use engine::{NewTrigger, TriggeredRun};
pub use store::trigger_deliveries::{TriggerDelivery, TriggerDeliveryFilter};
pub use store::triggers::Trigger;

// Settings of the operator
pub use operator::{BadApproval, BadTenants, OperatorApproval, Tenants};

// Requests that are executed at most once
pub use engine::{Once, RequestKey, Respond};
pub use store::receipts::Receipt;

// API keys, sessions and link secrets
pub use engine::{CredentialLimits, OldLinks};
pub use store::dependence::Dependence;
pub use store::keys::ApiKey;
pub use store::secrets::LinkSecret;
pub use store::sessions::BrowserSession;

// The mailbox
pub use committer::ClaimToken;
pub use mailbox::{DispatchCursor, Mailbox, MailboxClaims};

// Webhooks
pub use engine::{NewWebhook, SigningSecrets, fingerprint};
pub use store::deliveries::attempts::{Attempt, AttemptFilter};
pub use store::deliveries::{Delivery, DeliveryFilter, DeliveryKind};
pub use store::webhooks::{OldSecret, Webhook, WebhookChange, WebhookOwner};
pub use webhooks::{AttemptClient, AttemptResult, DeliveryJob, DeliveryWorker, WebhookSettings};

// Metrics, traces and the feed of commits
pub use committer::{CommitFault, Counters};
pub use feed::{CommitReceiver, RunCommit};
pub use metrics::{Distribution, EngineMetrics, Histogram};
pub use trace::{SpanContext, causing_span, read_trace_state, trace_headers};
