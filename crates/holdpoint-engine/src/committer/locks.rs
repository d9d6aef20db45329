//! The rows that the jobs of a batch depend on: locked in a fixed order and read in one round trip.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{RunId, RunRef, TenantId, Timestamp, WorkflowId};

use super::lock_set::LockSet;
use super::receipts::Receipts;
use super::work::{Change, ClaimOrder, Job, MailboxAction, MailboxOp, Work};
use crate::store::dispatches::{self, StoredDispatch};
use crate::store::receipts::ReceiptKey;
use crate::store::{
    Error, LockScope, Param, Query, QueryResult, Row, arrivals, params, receipts, runs, scopes, unreadable,
    webhooks, workflows,
};

/// The tenant and the id of a dispatch thread.
pub(super) type DispatchThread = (TenantId, String);

/// The keys of the rows to lock and read, sorted and without duplicates.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub new_threads: BTreeSet<DispatchThread>,
    threads: BTreeSet<DispatchThread>,
    /// Threads of which a job must know whether they have a live dispatch.
    taken: BTreeSet<DispatchThread>,
    dispatches: BTreeSet<String>,
    keys: BTreeSet<(TenantId, String, String)>,
    revisions: BTreeSet<(TenantId, WorkflowId)>,
    runs: BTreeSet<RunRef>,
    /// Scopes that runs start in exclusively, with the time of the start.
    scopes: BTreeMap<(TenantId, String), Timestamp>,
    receipts: BTreeMap<ReceiptKey, Vec<Param>>,
    arrivals: BTreeSet<arrivals::ArrivalKey>,
    /// The time and the limit for a query of ready threads.
    ready: Option<(Timestamp, usize)>,
}

/// The state of the locked rows, updated with the jobs that are staged.
#[derive(Debug, Default)]
pub(super) struct BatchState {
    pub epochs: HashMap<DispatchThread, u64>,
    /// Threads with a live dispatch.
    pub busy: HashSet<DispatchThread>,
    pub dispatches: HashMap<String, StoredDispatch>,
    pub live_keys: HashMap<(TenantId, String, String), String>,
    pub revisions: HashMap<(TenantId, WorkflowId), u64>,
    /// The sequence number of each run. A run that is missing here does not exist.
    pub runs: HashMap<RunRef, u64>,
    /// The unfinished run of each scope that has one.
    pub scopes: HashMap<(TenantId, String), RunId>,
    /// The newest run of each scope.
    pub newest: HashMap<(TenantId, String), String>,
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
            if let Some((key, receipt)) = job.receipt.as_deref() {
                locks.receipts.entry(key.clone()).or_insert_with(|| receipt.values(key));
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
        self.arrivals.extend(change.cause.iter().map(|cause| cause.key.clone()));
        self.add_mail(change);
        let thread = |run: &RunId| (change.of.tenant.clone(), run.as_str().to_owned());
        self.new_threads.extend(change.runs_to_activate.iter().map(thread));
    }

    fn add_mail(&mut self, change: &Change) {
        match &change.mail {
            MailboxAction::None | MailboxAction::Performed(_) => {}
            MailboxAction::Enqueue(_) => {
                self.new_threads.insert((change.of.tenant.clone(), change.after.thread().to_owned()));
            }
            MailboxAction::HandOff(_) => {
                let thread = (change.of.tenant.clone(), change.after.thread().to_owned());
                self.new_threads.insert(thread.clone());
                self.taken.insert(thread);
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
                self.threads.insert((tenant.clone(), thread.clone()));
            }
            MailboxOp::ClaimReady(order) => {
                let (now, limit) = self.ready.unwrap_or((order.now, 0));
                self.ready = Some((now.max(order.now), limit.saturating_add(order.limit)));
            }
            MailboxOp::ClaimAction { dispatch_id, .. } => {
                self.dispatches.insert(dispatch_id.clone());
            }
            _ => {}
        }
    }

    fn add_new(&mut self, row: &RunDispatch) {
        self.new_threads.insert((row.tenant.clone(), row.thread_id.clone()));
        self.dispatches.insert(row.dispatch_id.clone());
        if let Some(key) = &row.dedupe_key {
            self.keys.insert((row.tenant.clone(), row.thread_id.clone(), key.clone()));
        }
    }

    /// Returns the queries that lock and read the rows, each in the order of its keys. If the writer locks the whole
    /// database, no thread must exist to be locked, and no row changes between two reads.
    pub(super) fn queries(&self, scope: LockScope) -> LockSet<Query> {
        let thread = |(tenant, thread): &DispatchThread| params![tenant.as_str(), thread.as_str()];
        let dispatch = |id: &String| params![id.as_str()];
        let scope_key = |(tenant, scope): &(TenantId, String)| params![tenant.as_str(), scope.as_str()];
        let (new_threads, threads, epochs): (_, Vec<_>, _) = match scope {
            LockScope::Rows => (
                self.new_threads.iter().map(thread).collect(),
                self.new_threads.union(&self.threads).collect(),
                self.dispatches.iter().map(dispatch).collect(),
            ),
            LockScope::Database => (Vec::new(), self.new_threads.iter().collect(), Vec::new()),
        };
        let scopes =
            self.scopes.iter().map(|((tenant, scope), at)| params![tenant.as_str(), scope.as_str(), *at]);
        let live_keys = self
            .keys
            .iter()
            .map(|(tenant, thread, key)| params![tenant.as_str(), thread.as_str(), key.as_str()]);
        let ready = self.ready.iter().map(|(now, limit)| params![*now, *limit as u64]);
        let arrivals = self.arrivals.iter().map(arrivals::ArrivalKey::values);
        let revisions = self.revisions.iter().map(|(tenant, id)| params![tenant.as_str(), id.as_str()]);
        let runs = self.runs.iter().map(|of| params![of.tenant.as_str(), of.run.as_str()]);
        let webhooks = self.runs.iter().take(1).map(|_| params![1_i64]);
        LockSet {
            reserved_receipts: Query::each(receipts::TAKE, self.receipts.values().cloned().collect()),
            stored_receipts: Query::each(
                receipts::BY_KEY,
                self.receipts.keys().map(ReceiptKey::values).collect(),
            ),
            locked_scopes: Query::each(scopes::LOCK, scopes.collect()),
            scopes: Query::each(scopes::ACTIVE, self.scopes.keys().map(scope_key).collect()),
            arrivals: Query::each(arrivals::STATE, arrivals.collect())
                .locking("a", "a.tenant_id, a.event_id"),
            new_threads: Query::each(dispatches::ADD_THREAD, new_threads),
            threads: Query::each(dispatches::THREAD, threads.into_iter().map(thread).collect())
                .locking("t", "t.tenant_id, t.thread_id"),
            busy_threads: Query::each(dispatches::BUSY_THREAD, self.taken.iter().map(thread).collect()),
            ready_threads: Query::each(dispatches::READY_THREADS, ready.collect()).locking_free("t"),
            dispatches: Query::each(dispatches::BY_ID, self.dispatches.iter().map(dispatch).collect())
                .locking("d", "d.dispatch_id"),
            epochs: Query::each(dispatches::EPOCH_BY_ID, epochs),
            live_keys: Query::each(dispatches::BY_LIVE_KEY, live_keys.collect()),
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
            let scope = (tenant(row)?, row.text("scope_id")?.to_owned());
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
            self.epochs.insert(thread(row)?, row.count("epoch")?);
        }
        for row in &results.busy_threads.rows {
            self.busy.insert(thread(row)?);
        }
        self.ready.clear();
        for row in &results.ready_threads.rows {
            self.ready.push(thread(row)?);
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
            let (tenant, thread) = thread(row)?;
            let key = (tenant, thread, row.text("dedupe_key")?.to_owned());
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

fn thread(row: &Row) -> Result<DispatchThread, Error> {
    Ok((tenant(row)?, row.text("thread_id")?.to_owned()))
}

/// Returns the values of the query for the next dispatch of a thread.
pub(super) fn head(thread: &DispatchThread, now: Timestamp) -> Vec<Param> {
    params![thread.0.as_str(), thread.1.as_str(), now]
}

/// A request to claim dispatches: its position in the batch, its thread (None for any) and its order.
pub(super) type ClaimRequest<'a> = (usize, Option<DispatchThread>, &'a ClaimOrder);

/// Returns the threads to read, each with the latest time of the requests that may claim from it. Every request has a
/// time of its own, and a request with a later time must see the rows that are available then.
pub(super) fn latest_times<'a>(
    orders: &'a [ClaimRequest<'_>],
    ready: &'a [DispatchThread],
) -> BTreeMap<&'a DispatchThread, Timestamp> {
    let mut threads = BTreeMap::new();
    let mut look = |thread: &'a DispatchThread, now: Timestamp| {
        let at = threads.entry(thread).or_insert(now);
        *at = now.max(*at);
    };
    for (_, wanted, order) in orders {
        match wanted {
            Some(thread) => look(thread, order.now),
            None => ready.iter().for_each(|thread| look(thread, order.now)),
        }
    }
    threads
}
