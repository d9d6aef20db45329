//! The shell around the core: loads a run, lets the core decide, commits. One write path for everybody.

use std::sync::Arc;

use holdpoint_core::{
    Command, Obligation, Principal, Refusal, Run, RunId, RunRef, Start, TenantId, Timestamp, Workflow,
    WorkflowId,
};
use serde_json::Value;
use uuid::Uuid;

use crate::advance::Draft;
use crate::bus::{Bus, Subscription};
use crate::clock::Clock;
use crate::committer::{Change, ClaimOrder, Committer, Counters, Reply, StopAt, Work};
use crate::error::Error;
use crate::nodes::{Node, NodeTypes, PureNode};
use crate::registry::Registry;
use crate::run_cache::RunCache;
use crate::store::dispatches::{self, Claim, Mail};
use crate::store::events::{self, Recorded};
use crate::store::keys::{self, ApiKey};
use crate::store::pending::{self, Pending, PendingCursor};
use crate::store::runs::{self, RunFilter, RunSummary};
use crate::store::sqlite::{Readers, Writer};
use crate::store::timers::{self, Due};
use crate::store::workflows::{self, Registered};
use crate::store::{Database, Guard, Location, Statement};
use crate::worker::Worker;

/// How often a command is decided again because others changed the run first.
const ATTEMPTS_MAX: usize = 64;

/// How to open an engine.
#[derive(Debug)]
pub struct Options {
    location: Location,
    clock: Clock,
    nodes: NodeTypes,
    stop_at: Option<StopAt>,
}

impl Options {
    pub fn new(location: Location) -> Self {
        Self { location, clock: Clock::System, nodes: NodeTypes::built_in(), stop_at: None }
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a node type with outside effects.
    #[must_use]
    pub fn node(mut self, type_id: &str, node: impl Node) -> Self {
        self.nodes.effect(type_id, node);
        self
    }

    /// Adds a node type without outside effects.
    #[must_use]
    pub fn pure_node(mut self, type_id: &str, node: impl PureNode + 'static) -> Self {
        self.nodes.pure(type_id, node);
        self
    }

    /// Stops writing at a chosen commit, as a crash would. For tests of recovery.
    #[must_use]
    pub fn stop_at(mut self, stop: StopAt) -> Self {
        self.stop_at = Some(stop);
        self
    }
}

/// A handle to an open engine; clones share it.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    db: Database,
    committer: Committer,
    cache: Arc<RunCache>,
    bus: Arc<Bus>,
    clock: Clock,
    nodes: NodeTypes,
    registry: Registry,
}

impl Engine {
    pub async fn open(options: Options) -> Result<Self, Error> {
        let Options { location, clock, nodes, stop_at } = options;
        let Location::Sqlite(path) = location;
        let (cache, bus) = (Arc::new(RunCache::default()), Arc::new(Bus::default()));
        let writer = Writer::open(&path)?;
        // Nobody else can have this file open, so every claim in it was left behind by a process that is gone.
        writer.execute(&Statement::new(dispatches::RECLAIM_ALL, Vec::new()))?;
        let committer = Committer::start(writer, cache.clone(), bus.clone(), stop_at);
        let db = Database::Sqlite(Readers::new(&path));
        let registry = Registry::default();
        Ok(Self(Arc::new(Shared { db, committer, cache, bus, clock, nodes, registry })))
    }

    /// Writes what was submitted and closes the store. Later calls fail.
    pub async fn close(&self) {
        let engine = self.clone();
        let closed = tokio::task::spawn_blocking(move || engine.0.committer.close()).await;
        if let Err(error) = closed {
            tracing::error!(%error, "closing the store failed");
        }
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

    pub fn counters(&self) -> &Counters {
        &self.0.committer.counters
    }

    pub(crate) fn nodes(&self) -> &NodeTypes {
        &self.0.nodes
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    // Runs

    /// Starts a run of the latest revision under a new id.
    pub async fn start(&self, workflow: &WorkflowId, start: Start) -> Result<Arc<Run>, Error> {
        let id = Uuid::now_v7().to_string();
        let run = RunId::parse(&id).map_err(|error| crate::store::unreadable("run", error))?;
        self.start_as(&run, workflow, start).await
    }

    /// Starts a run under an id of the caller's choice; refused when there is such a run.
    pub async fn start_as(&self, id: &RunId, workflow: &WorkflowId, start: Start) -> Result<Arc<Run>, Error> {
        let tenant = start.owner.tenant.clone();
        let latest = self.0.registry.latest(&self.0.db, &tenant, workflow).await?;
        let workflow = latest.ok_or(Error::NotFound("workflow"))?;
        let of = RunRef { tenant, run: id.clone() };
        let unborn = Arc::new(Run::unborn(id.clone(), workflow));
        match self.try_execute(&of, unborn, &Command::Start(start)).await? {
            Some(run) => Ok(run),
            None => Err(Refusal::AlreadyStarted.into()),
        }
    }

    /// Does what a command asks, or says why not. When this returns, it is on disk.
    pub async fn execute(&self, of: &RunRef, command: &Command) -> Result<Arc<Run>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let run = self.run(of).await?;
            if let Some(run) = self.try_execute(of, run, command).await? {
                return Ok(run);
            }
            // Somebody else was first. Decide again on what is true now.
            self.0.cache.forget(of);
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
        match self.execute(of, &Command::Cancel { reason, by }).await {
            Err(Error::Refused(Refusal::RunFinished(_))) => self.run(of).await,
            other => other,
        }
    }

    async fn try_execute(
        &self,
        of: &RunRef,
        run: Arc<Run>,
        command: &Command,
    ) -> Result<Option<Arc<Run>>, Error> {
        // A run with work left has a live dispatch whose holder will see this change before it can finish.
        let idle = run.next_work().is_none();
        let before = run.seq;
        let mut draft = Draft::new(run, self.now());
        draft.decide(command)?;
        let wakes = idle && draft.obligations.contains(&Obligation::Activate);
        let mail = if wakes { self.activate(&mut draft)? } else { Mail::None };
        match self.settle(of, before, &draft, mail).await? {
            None => Ok(Some(draft.run)),
            Some(Guard::Sequence | Guard::Claim) => Ok(None),
        }
    }

    /// Carries the woken run on in the same change as far as it goes without outside effects; what is left is for a
    /// worker. Either way the activation is a dispatch.
    fn activate(&self, draft: &mut Draft) -> Result<Mail, Error> {
        draft.advance(&self.0.nodes)?;
        let id = Uuid::now_v7().to_string();
        Ok(if draft.run.next_work().is_some() { Mail::Enqueue(id) } else { Mail::Performed(id) })
    }

    /// Commits a draft that began at sequence `before`. Names the guard that did not hold, if one did not.
    pub(crate) async fn settle(
        &self,
        of: &RunRef,
        before: u64,
        draft: &Draft,
        mail: Mail,
    ) -> Result<Option<Guard>, Error> {
        let change = Change {
            of: of.clone(),
            before,
            after: draft.run.clone(),
            events: draft.events.clone(),
            obligations: draft.obligations.clone(),
            mail,
            at: draft.now,
        };
        match self.0.committer.submit(Work::Change(Box::new(change))).await? {
            Reply::Conflict(guard) => Ok(Some(guard)),
            Reply::Done(_) | Reply::Claimed(_) => Ok(None),
        }
    }

    /// The run as it is now. A run of another tenant is not found.
    pub async fn run(&self, of: &RunRef) -> Result<Arc<Run>, Error> {
        if let Some(run) = self.0.cache.get(of) {
            return Ok(run);
        }
        let (log, size) = events::all(&self.0.db, of).await?;
        let Some(holdpoint_core::Event::RunStarted(started)) = log.first().map(|first| &first.event) else {
            return Err(Error::NotFound("run"));
        };
        let workflow = self.workflow_revision(&of.tenant, &started.workflow, started.revision).await?;
        let run = Run::replay(of.run.clone(), workflow, log.iter().map(|entry| (entry.at, &entry.event)));
        let run = Arc::new(run);
        self.0.cache.put(of, run.clone(), size);
        Ok(run)
    }

    pub(crate) fn forget(&self, of: &RunRef) {
        self.0.cache.forget(of);
    }

    /// The log from sequence number `from` on.
    pub async fn events(&self, of: &RunRef, from: u64) -> Result<Vec<Recorded>, Error> {
        Ok(events::from(&self.0.db, of, from).await?)
    }

    /// Wakes a reader whenever the run's log grows.
    pub fn subscribe(&self, of: &RunRef) -> Subscription {
        self.0.bus.subscribe(of)
    }

    pub async fn runs(&self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunSummary>, Error> {
        Ok(runs::page(&self.0.db, tenant, filter).await?)
    }

    pub async fn pending(
        &self,
        tenant: &TenantId,
        after: PendingCursor,
        limit: u64,
    ) -> Result<Vec<Pending>, Error> {
        Ok(pending::page(&self.0.db, tenant, after, limit).await?)
    }

    // The mailbox and the clock, for the worker

    pub(crate) async fn claim(&self, order: ClaimOrder) -> Result<Vec<Claim>, Error> {
        match self.0.committer.submit(Work::Claim(order)).await? {
            Reply::Claimed(claims) => Ok(claims),
            Reply::Done(_) | Reply::Conflict(_) => Ok(Vec::new()),
        }
    }

    pub(crate) async fn due_timers(&self, limit: u64) -> Result<Vec<Due>, Error> {
        Ok(timers::due(&self.0.db, self.now(), limit).await?)
    }

    pub(crate) async fn next_dispatch(&self) -> Result<Option<Timestamp>, Error> {
        Ok(dispatches::next_available(&self.0.db).await?)
    }

    /// When there will be something to do that nobody announces.
    pub(crate) async fn next_wakeup(&self) -> Result<Option<Timestamp>, Error> {
        let timer = timers::next_due(&self.0.db).await?;
        let dispatch = dispatches::next_available(&self.0.db).await?;
        Ok([timer, dispatch].into_iter().flatten().min())
    }

    pub(crate) async fn write(&self, statements: Vec<Statement>) -> Result<Reply, Error> {
        self.0.committer.submit(Work::Plain(statements)).await
    }
}

/// Definitions.
impl Engine {
    /// Registers a definition. The same one again changes nothing; another under the same id is a new revision, and
    /// runs keep the revision they were started with. True when something was stored.
    pub async fn register(
        &self,
        tenant: &TenantId,
        definition: Value,
    ) -> Result<(Arc<Workflow>, bool), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let workflow = self.check(&definition, 1)?;
            let latest = workflows::latest(&self.0.db, tenant, &workflow.id).await?;
            let revision = match latest {
                Some(known) if known.definition == definition => {
                    return Ok((Arc::new(self.check(&definition, known.revision)?), false));
                }
                Some(known) => known.revision + 1,
                None => 1,
            };
            let workflow = Arc::new(self.check(&definition, revision)?);
            let registered = Registered { revision, definition: definition.clone(), created_at: self.now() };
            let tenant_row = keys::insert_tenant(tenant, self.now());
            let row = workflows::insert(tenant, &workflow.id, &registered);
            match self.write(vec![tenant_row, row]).await? {
                Reply::Conflict(_) => {}
                Reply::Done(_) | Reply::Claimed(_) => {
                    self.0.registry.put(tenant, workflow.clone());
                    return Ok((workflow, true));
                }
            }
        }
        Err(Error::Busy)
    }

    /// Parses and checks a definition without storing it.
    pub fn check(&self, definition: &Value, revision: u64) -> Result<Workflow, Error> {
        let workflow = Workflow::parse(definition, revision).map_err(Error::InvalidWorkflow)?;
        let flaws = self.0.nodes.flaws(&workflow);
        if flaws.is_empty() { Ok(workflow) } else { Err(Error::InvalidWorkflow(flaws)) }
    }

    pub async fn workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<Registered, Error> {
        workflows::latest(&self.0.db, tenant, id).await?.ok_or(Error::NotFound("workflow"))
    }

    pub async fn workflows(&self, tenant: &TenantId, limit: u64) -> Result<Vec<Registered>, Error> {
        Ok(workflows::all(&self.0.db, tenant, limit).await?)
    }

    async fn workflow_revision(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        revision: u64,
    ) -> Result<Arc<Workflow>, Error> {
        self.0.registry.revision(&self.0.db, tenant, id, revision).await
    }
}

/// Tenants and keys.
impl Engine {
    /// Stores a key, and its tenant if it is new. A key that is already stored stays as it is.
    pub async fn add_key(&self, key: &ApiKey) -> Result<(), Error> {
        self.write(vec![keys::insert_tenant(&key.tenant, key.created_at), keys::insert(key)]).await?;
        Ok(())
    }

    pub async fn tenant_exists(&self, tenant: &TenantId) -> Result<bool, Error> {
        Ok(keys::tenant_exists(&self.0.db, tenant).await?)
    }

    pub async fn key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>, Error> {
        Ok(keys::by_hash(&self.0.db, hash).await?)
    }

    pub async fn keys(&self, tenant: &TenantId, limit: u64) -> Result<Vec<ApiKey>, Error> {
        Ok(keys::of_tenant(&self.0.db, tenant, limit).await?)
    }

    pub async fn key_count(&self) -> Result<u64, Error> {
        Ok(keys::count(&self.0.db).await?)
    }

    /// False when the tenant has no such key.
    pub async fn revoke_key(&self, tenant: &TenantId, key_id: &str) -> Result<bool, Error> {
        match self.write(vec![keys::revoke(tenant, key_id, self.now())]).await? {
            Reply::Done(rows) => Ok(rows > 0),
            Reply::Claimed(_) | Reply::Conflict(_) => Ok(false),
        }
    }
}
