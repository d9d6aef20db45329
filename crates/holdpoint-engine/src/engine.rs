//! The shell around the core: loads a run, lets the core decide, commits. One write path for everybody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdpoint_core::{Command, Event, Principal, Refusal, Run, RunRef, TenantId, Timestamp};
use tokio::sync::watch;

use crate::advance::Draft;
use crate::agent::{Agents, edits};
use crate::answering::AnyAnswerer;
use crate::asking::{Asking, Sequence};
use crate::bus::Bus;
use crate::clock::Clock;
use crate::committer::{Change, Committer, Counters, Guard, Mail, Reply, Work};
use crate::error::Error;
use crate::feed::{Feed, Listener};
use crate::hands::Hands;
use crate::measures::Measures;
use crate::nodes::NodeTypes;
use crate::providers::Providers;
use crate::registry::Registry;
use crate::run_cache::RunCache;
use crate::seal::Seal;
use crate::store::events::Stored;
use crate::store::{Database, Statement};
use crate::webhooks::Hooks;
use crate::worker::Worker;

mod activating;
mod agents;
mod arrivals;
mod asks;
mod audit;
mod checking;
mod definitions;
mod deliveries;
mod dispatches;
mod families;
mod fork;
mod grants;
mod graphs;
mod holds;
mod keys;
mod once;
mod opening;
mod options;
mod pending;
mod people;
mod quotas;
mod reading;
mod sealing;
mod secrets;
mod sessions;
#[cfg(test)]
mod staleness;
mod starting;
mod threads;
mod webhook_secrets;
mod webhooks;

pub use agents::{Interrupted, Talk};
pub(crate) use arrivals::Looks;
pub use arrivals::{Received, RefusedBy, Taker};
use audit::Entries;
pub use checking::Checked;
pub use definitions::Registration;
pub(crate) use families::Before;
pub use fork::{ForkRequest, Overlay};
pub use grants::GrantRecord;
pub use graphs::{GraphError, GraphStart, Handle, Resume, Standing};
pub use holdpoint_core::{EventReception, InputMode};
pub use once::{Once, RequestKey, Respond};
pub use options::Options;
pub use pending::{Assignee, PendingCounts, PendingFilter, PendingOrder, PendingPage};
pub use quotas::{QuotaExceeded, Quotas, Usage};
pub use sessions::CredentialLimits;
pub use starting::StartOptions;
pub(crate) use webhook_secrets::SigningSecrets;
pub use webhooks::NewWebhook;

/// The backstop behind the wake-ups: alone, and where other nodes may leave work behind.
const BACKSTOP: Duration = Duration::from_secs(30);
const BACKSTOP_SHARED: Duration = Duration::from_secs(1);
/// How often a command is decided again because others changed the run first.
const ATTEMPTS_MAX: usize = 64;

/// A handle to an open engine; clones share it.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    db: Database,
    committer: Committer,
    cache: Arc<RunCache>,
    bus: Arc<Bus>,
    hands: Arc<Hands>,
    clock: Clock,
    nodes: NodeTypes,
    /// Who answers what approvers ask, if anybody does.
    answerer: Option<AnyAnswerer>,
    registry: Registry,
    /// None where nobody chose a key.
    seal: Option<Seal>,
    sequences: Arc<Asking<Sequence>>,
    logs: Arc<Asking<Arc<Stored>>>,
    counters: Arc<Counters>,
    measures: Arc<Measures>,
    feed: Arc<Feed>,
    hooks: Arc<Hooks>,
    agents: Agents,
    providers: Providers,
    name: String,
    lease_ms: u64,
    backstop: Option<Duration>,
    retention_ms: u64,
    /// How long an event from outside is kept for who comes later.
    events_kept_ms: u64,
    /// How many of them a tenant may have, and for how many more there is room as far as this node knows.
    events_kept_max: u64,
    rooms: Mutex<HashMap<TenantId, u64>>,
    quotas: Quotas,
    admissions: quotas::Admissions,
    /// Runs that end with another in one commit.
    cascade_max: usize,
    /// Ends what listens to other nodes.
    stop: watch::Sender<bool>,
}

/// What came of trying a command once.
enum Tried {
    Done(Arc<Run>),
    /// It was refused, and the refusal is on disk.
    Denied(Refusal),
    /// The run has changed meanwhile.
    Outrun,
}

impl Engine {
    /// The version of the stored form, which every run records at its start. It grows with each migration.
    pub const VERSION: u64 = crate::store::ENGINE_VERSION;

    /// Writes what was submitted and closes the store. Later calls fail.
    pub async fn close(&self) {
        self.0.stop.send_replace(true);
        self.0.committer.close().await;
        self.0.feed.close();
    }

    pub fn worker(&self) -> Worker {
        Worker::new(self.clone())
    }

    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Whether changes can be written.
    pub fn is_alive(&self) -> bool {
        self.0.committer.is_alive()
    }

    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// What happened here since the engine was opened, in numbers.
    pub fn measures(&self) -> &Measures {
        &self.0.measures
    }

    /// Hears of every change that is committed here from now on, until the engine is closed. What does not
    /// fit into a listener's queue is dropped.
    pub fn listen(&self, capacity: usize) -> Listener {
        self.0.feed.open(capacity)
    }

    /// How much listeners have missed.
    pub fn unheard(&self) -> u64 {
        self.0.feed.dropped()
    }

    /// Whether nodes may hold conversations here.
    pub fn has_conversations(&self) -> bool {
        self.0.nodes.has_conversations()
    }

    pub(crate) fn nodes(&self) -> &NodeTypes {
        &self.0.nodes
    }

    pub(crate) fn hands(&self) -> &Hands {
        &self.0.hands
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    // Runs

    /// Does what a command asks, or says why not. When this returns, it is on disk; and so is a refusal that is part of
    /// the run's story.
    pub async fn execute(&self, of: &RunRef, command: &Command) -> Result<Arc<Run>, Error> {
        self.execute_once(of, std::slice::from_ref(command), None).await
    }

    /// Executes commands in one change, all or none, and writes a receipt. A refusal that the run records ends it.
    pub async fn execute_once(
        &self,
        of: &RunRef,
        commands: &[Command],
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        // What was decided on something older than what is stored is not written.
        let mut run = self.known(of).await?;
        let mut stored = false;
        for _ in 0..ATTEMPTS_MAX {
            match self.try_execute(of, run, commands, stored, once).await {
                Ok(Tried::Done(run)) => return Ok(run),
                // Written down, and therefore decided on what is stored.
                Ok(Tried::Denied(refusal)) => return Err(refusal.into()),
                // Somebody else was first. Decide again on what is true now.
                Ok(Tried::Outrun) => {}
                // The cache may lag behind the store by a commit; only what is stored can make a refusal final.
                Err(Error::Refused(_)) if !stored => {}
                Err(error) => return Err(error),
            }
            run = self.load(of).await?;
            stored = true;
        }
        Err(Error::Busy)
    }

    /// Ends a run. One that has already ended stays as it is, and that is no error.
    pub async fn cancel(
        &self,
        of: &RunRef,
        reason: Option<String>,
        by: Principal,
    ) -> Result<Arc<Run>, Error> {
        self.cancel_once(of, reason, by, None).await
    }

    /// Ends a run and writes a receipt.
    pub async fn cancel_once(
        &self,
        of: &RunRef,
        reason: Option<String>,
        by: Principal,
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, Error> {
        match self.execute_once(of, &[Command::Cancel { reason, by }], once).await {
            Err(Error::Refused(Refusal::RunFinished(_))) => {
                let run = self.run(of).await?;
                self.keep_unchanged(once, &run).await?;
                Ok(run)
            }
            other => other,
        }
    }

    /// `stored` says whether the run is as it was read from the store.
    async fn try_execute(
        &self,
        of: &RunRef,
        run: Arc<Run>,
        commands: &[Command],
        stored: bool,
        once: Option<&Once<Run>>,
    ) -> Result<Tried, Error> {
        let before = Before::of(&run);
        let mut draft = Draft::new(run, self.now());
        for command in commands {
            draft.decide(command)?;
            if draft.events.iter().any(|event| event.denial().is_some()) {
                break;
            }
        }
        edits::check(self, of, &draft.run, &draft.events).await?;
        // Where nothing is to be written nobody looks whether others have written.
        if draft.events.is_empty() && !stored && self.is_shared() {
            return Ok(Tried::Outrun);
        }
        if let Some(refusal) = draft.events.iter().find_map(Event::denial) {
            // Without a receipt: the command was not executed.
            let entries = Entries::of(&draft.events);
            if self.settle(of, before, draft, Mail::None, None).await?.is_some() {
                return Ok(Tried::Outrun);
            }
            entries.write(of);
            return Ok(Tried::Denied(refusal));
        }
        let wakes = before.wakes(&draft);
        let mail = if wakes { self.activate(of, &mut draft).await? } else { Mail::None };
        let (after, entries) = (draft.run.clone(), Entries::of(&draft.events));
        Ok(match self.settle(of, before, draft, mail, once).await? {
            None => {
                entries.write(of);
                Tried::Done(after)
            }
            Some(_) => Tried::Outrun,
        })
    }

    /// Commits a draft, its effects on other runs, and the receipt. Returns the guard that did not hold, if one did not.
    pub(crate) async fn settle(
        &self,
        of: &RunRef,
        before: Before,
        draft: Draft,
        mail: Mail,
        once: Option<&Once<Run>>,
    ) -> Result<Option<Guard>, Error> {
        match self.family(of, before, draft, mail).await? {
            Ok(changes) => self.commit(changes, once).await,
            Err(guard) => Ok(Some(guard)),
        }
    }

    /// Writes changes, all or none of them, and a receipt of the first run.
    async fn commit(&self, changes: Vec<Change>, once: Option<&Once<Run>>) -> Result<Option<Guard>, Error> {
        let Some(after) = changes.first().map(|change| change.after.clone()) else { return Ok(None) };
        self.commit_as(changes, once, &*after).await
    }

    async fn commit_as<T>(
        &self,
        mut changes: Vec<Change>,
        once: Option<&Once<T>>,
        after: &T,
    ) -> Result<Option<Guard>, Error> {
        changes.iter_mut().for_each(|change| self.hand_over(change));
        let born = changes.iter().filter(|change| change.before == 0);
        let born: Vec<_> =
            born.map(|birth| (birth.of.tenant.clone(), birth.after.workflow.id.clone())).collect();
        match self.submit(Work::Changes(changes), once, after).await? {
            Reply::Conflict(guard) => {
                if guard == Guard::Revision {
                    // Another node has registered a newer one.
                    born.iter()
                        .for_each(|(tenant, workflow)| self.0.registry.forget_latest(tenant, workflow));
                }
                Ok(Some(guard))
            }
            _ => Ok(None),
        }
    }

    /// What a worker must pick up goes to ours, if it has a hand free.
    fn hand_over(&self, change: &mut Change) {
        if let Mail::Enqueue(id) = &change.mail
            && let Some(taking) = self.0.hands.take(&change.of, id, change.at.plus_ms(self.0.lease_ms))
        {
            change.mail = Mail::Take(Arc::new(taking));
        }
    }

    pub(crate) async fn write(&self, statements: Vec<Statement>) -> Result<Reply, Error> {
        self.0.committer.submit(Work::Plain(statements), None).await
    }

    pub(crate) fn db(&self) -> &Database {
        &self.0.db
    }

    /// Returns how long the worker and the courier wait at most before they look at the store without being woken.
    pub(crate) fn backstop(&self) -> Duration {
        let usual = if self.is_shared() { BACKSTOP_SHARED } else { BACKSTOP };
        self.0.backstop.unwrap_or(usual)
    }

    /// Returns whether the worker of this process sleeps and nothing has woken it. For tests of the wake-ups.
    #[doc(hidden)]
    pub fn worker_is_idle(&self) -> bool {
        self.0.bus.work.is_idle()
    }

    /// Returns whether the courier of this process sleeps and nothing has woken it. For tests of the wake-ups.
    #[doc(hidden)]
    pub fn courier_is_idle(&self) -> bool {
        self.hooks().is_idle()
    }

    /// Returns whether another node on this database was heard of lately. For tests with several nodes.
    #[doc(hidden)]
    pub fn hears_other_nodes(&self) -> bool {
        self.0.bus.outbox.somebody_listens()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.0.db.is_shared()
    }
}
