//! The engine: loads runs, lets the core decide commands, and commits the events. All protocols use this write path.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdpoint_core::{TenantId, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::answerer::AnyAnswerer;
use crate::batched_reads::{BatchedReads, EventCount};
use crate::bus::Bus;
use crate::clock::Clock;
use crate::committer::{CommitReply, Committer, Counters, Work};
use crate::error::Error;
use crate::extension::Extensions;
use crate::feed::{CommitFeed, CommitReceiver};
use crate::local_handoff::LocalHandoff;
use crate::metrics::EngineMetrics;
use crate::nodes::NodeTypes;
use crate::outgoing::Outgoing;
use crate::run_cache::RunCache;
use crate::seal::Seal;
use crate::store::events::StoredLog;
use crate::store::{Database, Statement};
use crate::webhooks::WebhookHub;
use crate::worker::Worker;
use crate::workflow_registry::WorkflowRegistry;

mod advance;
mod approver_warnings;
mod arrivals;
mod audit;
mod child_interrupts;
mod commands;
mod commit;
mod definition_check;
mod definitions;
mod deliveries;
mod dispatches;
mod earlier_interrupts;
mod facets;
mod families;
mod fork;
mod grants;
mod handles;
mod holds;
mod keys;
mod once;
mod opening;
mod options;
mod pending;
mod quotas;
mod reading;
mod run_handle;
mod sealing;
mod secrets;
mod sessions;
mod side_questions;
#[cfg(test)]
mod stale_cache;
mod starting;
mod threads;
mod triggers;
mod webhook_secrets;
mod webhooks;

pub(crate) use arrivals::SearchPositions;
pub use arrivals::{EventOutcome, EventRefusal, WaitingInterrupt};
pub use child_interrupts::{AnswerAddress, OpenInterrupt, SiblingsWait};
pub use commands::{ExecuteOptions, RunCommands};
pub(crate) use commit::CommitOutcome;
pub use definition_check::CheckedWorkflow;
pub use definitions::Registration;
pub use facets::{
    Approvers, Deliveries, Dispatches, Events, Grants, Handles, Holds, Interrupts, Keys, Limits, LinkSecrets,
    Receipts, Runs, Sessions, Threads, Triggers, Webhooks, Workflows,
};
pub(crate) use families::{ParentLookup, PriorState};
pub use fork::{ForkRequest, Overlay};
pub use grants::GrantRecord;
pub use handles::HandleLock;
pub use holdpoint_core::{EventReception, InputMode};
pub use once::{Once, RequestKey, Respond};
pub use options::Options;
pub use pending::{Assignee, PendingCounts, PendingFilter, PendingOrder, PendingPage};
pub use quotas::{QuotaExceeded, Quotas, Usage};
pub use run_handle::{FinishedRun, InterruptAnswer, InterruptHandle, RunHandle, RunStart};
pub use secrets::OldLinks;
pub use sessions::CredentialLimits;
pub use starting::{StartOptions, new_run_id};
pub use threads::{ThreadInterruption, WaitingRun};
pub use triggers::{NewTrigger, TriggeredRun};
pub use webhook_secrets::{SigningSecrets, fingerprint};
pub use webhooks::NewWebhook;

/// The interval at which the worker and the delivery worker read the store without a wake-up: on a database of one
/// process, and on a shared one.
const BACKSTOP: Duration = Duration::from_secs(30);
const BACKSTOP_SHARED: Duration = Duration::from_secs(1);
/// The number of attempts to decide and commit a command while concurrent changes of the run win.
const ATTEMPTS_MAX: usize = 64;

/// A handle to an open engine. Clones share the engine.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<EngineState>);

/// Shows the name only: the caches contain the data of all tenants.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.0.name).finish_non_exhaustive()
    }
}

pub(crate) struct EngineState {
    db: Database,
    committer: Committer,
    cache: Arc<RunCache>,
    bus: Arc<Bus>,
    local_handoff: Arc<LocalHandoff>,
    clock: Clock,
    nodes: NodeTypes,
    answerer: Option<AnyAnswerer>,
    registry: WorkflowRegistry,
    seal: Option<Seal>,
    sequences: Arc<BatchedReads<EventCount>>,
    logs: Arc<BatchedReads<Arc<StoredLog>>>,
    counters: Arc<Counters>,
    measures: Arc<EngineMetrics>,
    feed: Arc<CommitFeed>,
    hooks: Arc<WebhookHub>,
    outgoing: Outgoing,
    pub(crate) extensions: Extensions,
    name: String,
    lease_ms: u64,
    backstop: Option<Duration>,
    retention_ms: u64,
    /// The time for which an external event is kept for interrupts that open later.
    events_kept_ms: u64,
    events_kept_max: u64,
    /// The number of events that each tenant may still keep before this node counts again.
    kept_event_room: Mutex<HashMap<TenantId, u64>>,
    quotas: Quotas,
    admissions: quotas::Admissions,
    cascade_max: usize,
    /// Stops the background worker, and ends the waits of run handles.
    closing: watch::Sender<bool>,
    /// The worker that [`Engine::open`] started.
    background: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    /// Stops the task that receives notifications of other nodes.
    stop: watch::Sender<bool>,
}

impl Engine {
    /// The version of the database schema. Every run records it at its start. It grows with each migration.
    pub const VERSION: u64 = crate::store::ENGINE_VERSION;

    /// Waits without a time limit for the nodes that the background worker executes, commits submitted changes and
    /// closes the store. Later calls fail.
    pub async fn close(&self) {
        self.0.closing.send_replace(true);
        // A second caller waits here until the first one has seen the end of the worker.
        let mut background = self.0.background.lock().await;
        if let Some(worker) = background.as_mut()
            && worker.await.is_err()
        {
            tracing::error!("the background worker panicked");
        }
        *background = None;
        self.0.stop.send_replace(true);
        self.0.committer.close().await;
        self.0.feed.close();
    }

    /// Creates the worker of this process. An engine that was opened with [`Options::manual_worker`] needs it.
    pub fn worker(&self) -> Worker {
        Worker::new(self.clone())
    }

    /// Returns the current time of the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns whether the committer can write changes.
    pub fn is_alive(&self) -> bool {
        self.0.committer.is_alive()
    }

    /// Returns the counters of the committer and the store.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Returns the metrics of this engine since it was opened.
    pub fn measures(&self) -> &EngineMetrics {
        &self.0.measures
    }

    /// Subscribes to the commits of this process. Commits that do not fit into the queue of the subscriber are dropped.
    pub fn subscribe_commits(&self, capacity: usize) -> CommitReceiver {
        self.0.feed.subscribe(capacity)
    }

    /// Returns the number of commits that were dropped for subscribers.
    pub fn dropped_commits(&self) -> u64 {
        self.0.feed.dropped()
    }

    /// Returns the HTTP client of nodes, with the policy for the addresses that they may call.
    pub fn outgoing(&self) -> &Outgoing {
        &self.0.outgoing
    }

    pub(crate) fn nodes(&self) -> &NodeTypes {
        &self.0.nodes
    }

    pub(crate) fn local_handoff(&self) -> &LocalHandoff {
        &self.0.local_handoff
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    pub(crate) async fn write(&self, statements: Vec<Statement>) -> Result<CommitReply, Error> {
        self.0.committer.submit(Work::Plain(statements), None).await
    }

    pub(crate) fn db(&self) -> &Database {
        &self.0.db
    }

    /// Returns the maximum time for which the worker and the delivery worker wait for a wake-up before they read the store.
    pub(crate) fn backstop(&self) -> Duration {
        let usual = if self.is_shared() { BACKSTOP_SHARED } else { BACKSTOP };
        self.0.backstop.unwrap_or(usual)
    }

    /// Returns whether the worker of this process sleeps and has no pending wake-up. For tests of the wake-ups.
    #[doc(hidden)]
    pub fn worker_is_idle(&self) -> bool {
        self.0.bus.work.is_idle()
    }

    /// Returns whether the delivery worker of this process sleeps and has no pending wake-up. For tests of the wake-ups.
    #[doc(hidden)]
    pub fn delivery_worker_is_idle(&self) -> bool {
        self.hooks().is_idle()
    }

    /// Returns whether this node has recently received a hint from another node on this database. For tests.
    #[doc(hidden)]
    pub fn sees_other_nodes(&self) -> bool {
        self.0.bus.outbox.has_listeners()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.0.db.is_shared()
    }
}
