//! The rows that the jobs of a batch depend on: locked in a fixed order and read in one round trip.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{RunId, RunRef, TenantId, Timestamp, WorkflowId};

use super::lock_set::LockSet;
use super::receipts::Receipts;
use super::work::{Change, ClaimOrder, Job, MailboxAction, MailboxOp, Work};
use crate::store::dispatches::{self, StoredDispatch};
use crate::store::receipts::ReceiptKey;
use crate::store::scopes::ScopeKey;
use crate::store::{
    Error, LockScope, Param, Query, QueryResult, Row, arrivals, params, receipts, runs, scopes, unreadable,
    webhooks, workflows,
};

/// The key of a dispatch thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DispatchThread {
    pub tenant: TenantId,
    pub id: String,
}

impl DispatchThread {
    /// Returns the dispatch thread of a run that a change starts or changes.
    fn of(change: &Change) -> Self {
        Self { tenant: change.of.tenant.clone(), id: change.after.thread().to_owned() }
    }

    pub(super) fn of_row(row: &RunDispatch) -> Self {
        Self { tenant: row.tenant.clone(), id: row.thread_id.clone() }
    }

    pub(super) fn contains(&self, row: &RunDispatch) -> bool {
        row.tenant == self.tenant && row.thread_id == self.id
    }

    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self { tenant: tenant(row)?, id: row.text("thread_id")?.to_owned() })
    }

    pub(super) fn values(&self) -> Vec<Param> {
        params![&self.tenant, self.id.as_str()]
    }
}

/// The key by which a thread recognizes a repeated dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DedupeKey {
    pub thread: DispatchThread,
    pub key: String,
}

impl DedupeKey {
    pub(super) fn of_row(row: &RunDispatch) -> Option<Self> {
        Some(Self { key: row.dedupe_key.clone()?, thread: DispatchThread::of_row(row) })
    }

    /// Returns the key that the caller chose for the dispatch of a change.
    pub(super) fn of_change(change: &Change) -> Option<Self> {
        Some(Self { key: change.dispatch.dedupe_key.clone()?, thread: DispatchThread::of(change) })
    }

    fn values(&self) -> Vec<Param> {
        let mut values = self.thread.values();
        values.push(Param::from(self.key.as_str()));
        values
    }
}

/// A query of the threads with work at a time.
#[derive(Clone, Copy, Debug)]
struct ReadyThreads {
    now: Timestamp,
    limit: usize,
}

/// The keys of the rows to lock and read, sorted and without duplicates.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub new_threads: BTreeSet<DispatchThread>,
    threads: BTreeSet<DispatchThread>,
    /// Threads for which a job depends on whether they have a live dispatch.
    taken: BTreeSet<DispatchThread>,
    dispatches: BTreeSet<String>,
    keys: BTreeSet<DedupeKey>,
    revisions: BTreeSet<(TenantId, WorkflowId)>,
    runs: BTreeSet<RunRef>,
    /// Scopes that runs start in exclusively, with the time of the start.
    scopes: BTreeMap<ScopeKey, Timestamp>,
    receipts: BTreeMap<ReceiptKey, Vec<Param>>,
    arrivals: BTreeSet<arrivals::ArrivalKey>,
    ready: Option<ReadyThreads>,
}

/// The state of the locked rows, updated with the jobs that are staged.
#[derive(Debug, Default)]
pub(super) struct BatchState {
    pub epochs: HashMap<DispatchThread, u64>,
    /// Threads with a live dispatch.
    pub busy: HashSet<DispatchThread>,
    pub dispatches: HashMap<String, StoredDispatch>,
    /// The live dispatch of each deduplication key that has one.
    pub live_keys: HashMap<DedupeKey, String>,
    pub revisions: HashMap<(TenantId, WorkflowId), u64>,
    /// The sequence number of each run. A run that is missing here does not exist.
    pub runs: HashMap<RunRef, u64>,
    /// The unfinished run of each scope that has one.
    pub scopes: HashMap<ScopeKey, RunId>,
    /// The newest run of each scope.
    pub newest: HashMap<ScopeKey, String>,
    pub receipts: Receipts,
    pub arrivals: HashMap<arrivals::ArrivalKey, arrivals::ArrivalState>,
    /// The revision of the list of subscriptions.
    pub webhooks: Option<u64>,
    pub ready: Vec<DispatchThread>,
}

impl Locks {
    pub(super) fn of(jobs: &[Job]) -> Self {
        let mut locks = Self::default();
        for job in jobs {
            if let Some(receipt) = job.receipt.as_deref() {
                locks.receipts.entry(receipt.key.clone()).or_insert_with(|| receipt.values());
            }
            match &job.work {
                Work::Changes(changes) => changes.iter().for_each(|change| locks.add_change(change)),
                Work::Mail(op) => locks.add_operation(op),
                Work::Plain(_) | Work::Rows(_) | Work::Each(..) => {}
            }
        }
        locks
    }

    fn add_change(&mut self, change: &Change) {
        if change.has_events() {
            self.runs.insert(change.of.clone());
        }
        if change.requires_newest_revision() {
            self.revisions.insert((change.of.tenant.clone(), change.after.workflow.id.clone()));
        }
        if change.exclusive
            && let Some(scope) = change.scope()
        {
            self.scopes.insert(scope, change.at);
        }
        if let Some(key) = DedupeKey::of_change(change) {
            // The lock of the thread makes concurrent changes with one key wait for each other.
            self.new_threads.insert(key.thread.clone());
            self.keys.insert(key);
        }
        self.arrivals.extend(change.cause.iter().map(|cause| cause.key.clone()));
        self.add_mail(change);
        let thread =
            |run: &RunId| DispatchThread { tenant: change.of.tenant.clone(), id: run.as_str().to_owned() };
        self.new_threads.extend(change.runs_to_activate.iter().map(thread));
    }

    fn add_mail(&mut self, change: &Change) {
        match &change.mail {
            MailboxAction::None | MailboxAction::Activated | MailboxAction::Performed(_) => {}
            MailboxAction::Enqueue(_) => {
                self.new_threads.insert(DispatchThread::of(change));
            }
            MailboxAction::HandOff(_) => {
                self.new_threads.insert(DispatchThread::of(change));
                self.taken.insert(DispatchThread::of(change));
            }
            MailboxAction::ClaimAction { claim, .. } => {
                self.dispatches.insert(claim.dispatch_id.clone());
            }
            MailboxAction::Reclaim(id) | MailboxAction::Cancel(id) | MailboxAction::Reconcile(id) => {
                self.dispatches.insert(id.clone());
            }
        }
    }

    fn add_operation(&mut self, op: &MailboxOp) {
        match op {
            // An invalid dispatch is rejected, and must not create its thread.
            MailboxOp::Enqueue(rows) => {
                rows.iter().filter(|row| row.validate_new().is_ok()).for_each(|row| self.add_new(row));
            }
            MailboxOp::Claim { tenant, thread, .. } => {
                self.threads.insert(DispatchThread { tenant: tenant.clone(), id: thread.clone() });
            }
            MailboxOp::ClaimReady(order) => {
                let ReadyThreads { now, limit } =
                    self.ready.unwrap_or(ReadyThreads { now: order.now, limit: 0 });
                let (now, limit) = (now.max(order.now), limit.saturating_add(order.limit));
                self.ready = Some(ReadyThreads { now, limit });
            }
            MailboxOp::ClaimAction { dispatch_id, .. } => {
                self.dispatches.insert(dispatch_id.clone());
            }
            _ => {}
        }
    }

    fn add_new(&mut self, row: &RunDispatch) {
        self.new_threads.insert(DispatchThread::of_row(row));
        self.dispatches.insert(row.dispatch_id.clone());
        self.keys.extend(DedupeKey::of_row(row));
    }

    /// Returns the queries that lock and read the rows, each in the order of its keys. [`LockSet`] has the order of the
    /// queries, so that two batches cannot deadlock.
    ///
    /// If the writer locks the whole database, the row of a thread need not exist to be locked, and no row changes
    /// between two reads.
    pub(super) fn queries(&self, scope: LockScope) -> LockSet<Query> {
        let dispatch = |id: &String| params![id.as_str()];
        let (new_threads, threads, epochs): (_, Vec<_>, _) = match scope {
            LockScope::Rows => (
                self.new_threads.iter().map(DispatchThread::values).collect(),
                self.new_threads.union(&self.threads).collect(),
                self.dispatches.iter().map(dispatch).collect(),
            ),
            LockScope::Database => (Vec::new(), self.new_threads.iter().collect(), Vec::new()),
        };
        let scopes = self.scopes.iter().map(|(scope, at)| {
            let mut values = scope.values();
            values.push(Param::from(*at));
            values
        });
        let ready = self.ready.iter().map(|ready| params![ready.now, ready.limit as u64]);
        let arrivals = self.arrivals.iter().map(arrivals::ArrivalKey::values);
        let revisions = self.revisions.iter().map(|(tenant, id)| params![tenant, id.as_str()]);
        let runs = self.runs.iter().map(|of| params![&of.tenant, &of.run]);
        let webhooks = self.runs.iter().take(1).map(|_| params![1_i64]);
        LockSet {
            reserved_receipts: Query::each(receipts::TAKE, self.receipts.values().cloned().collect()),
            stored_receipts: Query::each(
                receipts::BY_KEY,
                self.receipts.keys().map(ReceiptKey::values).collect(),
            ),
            locked_scopes: Query::each(scopes::LOCK, scopes.collect()),
            scopes: Query::each(scopes::ACTIVE, self.scopes.keys().map(ScopeKey::values).collect()),
            arrivals: Query::each(arrivals::STATE, arrivals.collect())
                .locking("a", "a.tenant_id, a.event_id"),
            new_threads: Query::each(dispatches::ADD_THREAD, new_threads),
            threads: Query::each(
                dispatches::THREAD,
                threads.into_iter().map(DispatchThread::values).collect(),
            )
            .locking("t", "t.tenant_id, t.thread_id"),
            busy_threads: Query::each(
                dispatches::BUSY_THREAD,
                self.taken.iter().map(DispatchThread::values).collect(),
            ),
            ready_threads: Query::each(dispatches::READY_THREADS, ready.collect()).locking_free("t"),
            dispatches: Query::each(dispatches::BY_ID, self.dispatches.iter().map(dispatch).collect())
                .locking("d", "d.dispatch_id"),
            epochs: Query::each(dispatches::EPOCH_BY_ID, epochs),
            live_keys: Query::each(
                dispatches::BY_LIVE_KEY,
                self.keys.iter().map(DedupeKey::values).collect(),
            ),
            revisions: Query::each(workflows::LATEST_REVISION, revisions.collect()),
            runs: Query::each(runs::SEQUENCE, runs.collect()).locking("r", "r.tenant_id, r.run_id"),
            webhooks: Query::each(webhooks::REVISION, webhooks.collect()),
        }
    }
}

impl BatchState {
    /// Adds the results of [`Locks::queries`]. Entries that exist stay as they are: a job may have changed them since.
    pub(super) fn add(&mut self, results: &LockSet<QueryResult>) -> Result<(), Error> {
        self.receipts.add(&results.reserved_receipts, &results.stored_receipts)?;
        for row in &results.scopes.rows {
            let scope = ScopeKey { tenant: tenant(row)?, scope: row.text("scope_id")?.to_owned() };
            self.newest.entry(scope.clone()).or_insert(row.text("newest_run_id")?.to_owned());
            if let Some(active) = row.optional_text("active_run_id")? {
                let run = RunId::parse(active).map_err(|error| unreadable("run", error))?;
                self.scopes.entry(scope).or_insert(run);
            }
        }
        for row in &results.arrivals.rows {
            let state = arrivals::ArrivalState::read(row.text("state")?)?;
            self.arrivals.entry(arrivals::ArrivalKey::read(row)?).or_insert(state);
        }
        for row in &results.threads.rows {
            self.epochs.insert(DispatchThread::read(row)?, row.count("epoch")?);
        }
        for row in &results.busy_threads.rows {
            self.busy.insert(DispatchThread::read(row)?);
        }
        self.ready.clear();
        for row in &results.ready_threads.rows {
            self.ready.push(DispatchThread::read(row)?);
        }
        for row in &results.dispatches.rows {
            let stored = dispatches::read(row)?;
            self.dispatches.entry(stored.row.dispatch_id.clone()).or_insert(stored);
        }
        for row in &results.epochs.rows {
            if let Some(stored) = self.dispatches.get_mut(row.text("dispatch_id")?) {
                stored.epoch = row.count("epoch")?;
            }
        }
        for row in &results.live_keys.rows {
            let key = row.text("dedupe_key")?.to_owned();
            let key = DedupeKey { thread: DispatchThread::read(row)?, key };
            self.live_keys.entry(key).or_insert(row.text("dispatch_id")?.to_owned());
        }
        for row in &results.revisions.rows {
            let id = WorkflowId::parse(row.text("workflow_id")?);
            let id = id.map_err(|error| unreadable("workflow", error))?;
            self.revisions.insert((tenant(row)?, id), row.count("revision")?);
        }
        for row in &results.runs.rows {
            self.runs.entry(runs::reference(row)?).or_insert(row.count("seq")?);
        }
        if let Some(row) = results.webhooks.rows.first() {
            self.webhooks = Some(row.count("revision")?);
        }
        Ok(())
    }
}

fn tenant(row: &Row) -> Result<TenantId, Error> {
    TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("tenant", error))
}

/// Returns the values of the query for the next dispatch of a thread.
pub(super) fn head(thread: &DispatchThread, now: Timestamp) -> Vec<Param> {
    params![&thread.tenant, thread.id.as_str(), now]
}

/// A request to claim dispatches.
#[derive(Debug)]
pub(super) struct ClaimRequest<'a> {
    /// The position of its job in the batch.
    pub at: usize,
    /// None for a dispatch of any thread.
    pub thread: Option<DispatchThread>,
    pub order: &'a ClaimOrder,
}

impl<'a> ClaimRequest<'a> {
    /// Returns the request of a job; None if it claims no dispatch.
    pub(super) fn of(at: usize, work: &'a Work) -> Option<Self> {
        let (thread, order) = match work {
            Work::Mail(MailboxOp::Claim { tenant, thread, order }) => {
                (Some(DispatchThread { tenant: tenant.clone(), id: thread.clone() }), order)
            }
            Work::Mail(MailboxOp::ClaimReady(order)) => (None, order),
            _ => return None,
        };
        (order.limit > 0).then_some(Self { at, thread, order })
    }
}

/// Returns the threads to read, each with the latest time of the requests that may claim from it. Every request has a
/// time of its own, and a request with a later time must see the rows that are available then.
pub(super) fn latest_times<'a>(
    requests: &'a [ClaimRequest<'_>],
    ready: &'a [DispatchThread],
) -> BTreeMap<&'a DispatchThread, Timestamp> {
    let mut threads = BTreeMap::new();
    let mut look = |thread: &'a DispatchThread, now: Timestamp| {
        let at = threads.entry(thread).or_insert(now);
        *at = now.max(*at);
    };
    for ClaimRequest { thread, order, .. } in requests {
        match thread {
            Some(thread) => look(thread, order.now),
            None => ready.iter().for_each(|thread| look(thread, order.now)),
        }
    }
    threads
}
