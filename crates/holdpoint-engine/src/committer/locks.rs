//! The first half of a batch: everything its jobs rely on, locked in one order and read in one go.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{RunId, RunRef, TenantId, Timestamp, WorkflowId};

use super::receipts::Receipts;
use super::work::{Change, Job, Mail, MailOp, Work};
use crate::store::dispatches::{self, Stored};
use crate::store::receipts::Key;
use crate::store::{
    Answer, Error, Param, Query, arrivals, params, receipts, runs, scopes, webhooks, workflows,
};

pub(super) type Thread = (TenantId, String);

/// What to lock and read, sorted and without doubles.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub new_threads: BTreeSet<Thread>,
    threads: BTreeSet<Thread>,
    /// Those of which somebody wants to know whether they have something to do.
    taken: BTreeSet<Thread>,
    dispatches: BTreeSet<String>,
    keys: BTreeSet<(TenantId, String, String)>,
    revisions: BTreeSet<(TenantId, WorkflowId)>,
    runs: BTreeSet<RunRef>,
    /// Those that somebody wants for itself, and when.
    scopes: BTreeMap<(TenantId, String), Timestamp>,
    receipts: BTreeMap<Key, Vec<Param>>,
    arrivals: BTreeSet<arrivals::Key>,
    /// When to look for threads that are ready, and for how many.
    ready: Option<(Timestamp, usize)>,
}

/// What was there.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub epochs: HashMap<Thread, u64>,
    /// Threads that were asked for, and that have something to do.
    pub busy: HashSet<Thread>,
    pub dispatches: HashMap<String, Stored>,
    pub live_keys: HashMap<(TenantId, String, String), String>,
    pub revisions: HashMap<(TenantId, WorkflowId), u64>,
    /// A run that is not here does not exist.
    pub runs: HashMap<RunRef, u64>,
    /// Runs at work in scopes that somebody asked for.
    pub scopes: HashMap<(TenantId, String), RunId>,
    /// The last of all runs of these scopes.
    pub newest: HashMap<(TenantId, String), String>,
    pub receipts: Receipts,
    pub arrivals: HashMap<arrivals::Key, arrivals::State>,
    /// How often the list of subscriptions has changed.
    pub webhooks: Option<u64>,
    pub ready: Vec<Thread>,
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
        if !change.is_silent() {
            self.runs.insert(change.of.clone());
        }
        if change.wants_newest_revision() {
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
        self.new_threads.extend(change.nudges.iter().map(thread));
    }

    fn add_mail(&mut self, change: &Change) {
        match &change.mail {
            Mail::None | Mail::Performed(_) => {}
            Mail::Enqueue(_) => {
                self.new_threads.insert((change.of.tenant.clone(), change.after.thread().to_owned()));
            }
            Mail::Take(_) => {
                let thread = (change.of.tenant.clone(), change.after.thread().to_owned());
                self.new_threads.insert(thread.clone());
                self.taken.insert(thread);
            }
            Mail::Held { claim, .. } => {
                self.dispatches.insert(claim.dispatch_id.clone());
            }
            Mail::Reclaim(id) | Mail::Cancel(id) | Mail::Reconcile(id) => {
                self.dispatches.insert(id.clone());
            }
        }
    }

    fn add_operation(&mut self, op: &MailOp) {
        match op {
            // One that will be refused must not leave a thread behind.
            MailOp::Enqueue(rows) => {
                rows.iter().filter(|row| row.validate_new().is_ok()).for_each(|row| self.add_new(row));
            }
            MailOp::Claim { tenant, thread, .. } => {
                self.threads.insert((tenant.clone(), thread.clone()));
            }
            MailOp::ClaimReady(order) => {
                let (now, limit) = self.ready.unwrap_or((order.now, 0));
                self.ready = Some((now.max(order.now), limit.saturating_add(order.limit)));
            }
            MailOp::Fenced { dispatch_id, .. } => {
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

    /// Receipts before scopes before arrivals before threads before dispatches before runs, each in the order of its keys: so two batches never wait for each
    /// other in a circle.
    ///
    /// Where whoever writes has the whole database, nothing needs to be there to be locked, and nothing changes
    /// between two looks at it.
    pub(super) fn queries(&self, row_by_row: bool) -> Vec<Query> {
        let thread = |(tenant, thread): &Thread| params![tenant.as_str(), thread.as_str()];
        let nothing = BTreeSet::new();
        let (to_be_there, to_lock) =
            if row_by_row { (&self.new_threads, &self.threads) } else { (&nothing, &nothing) };
        let new_threads = to_be_there.iter().map(thread).collect();
        let threads = self.new_threads.union(to_lock).map(thread).collect();
        let ready = self.ready.iter().map(|(now, limit)| params![*now, *limit as u64]).collect();
        let ids = self.dispatches.iter().map(|id| params![id.as_str()]).collect();
        let keys = self
            .keys
            .iter()
            .map(|(tenant, thread, key)| params![tenant.as_str(), thread.as_str(), key.as_str()]);
        let again = self.dispatches.iter().filter(|_| row_by_row).map(|id| params![id.as_str()]).collect();
        let revisions = self.revisions.iter().map(|(tenant, id)| params![tenant.as_str(), id.as_str()]);
        let runs = self.runs.iter().map(|of| params![of.tenant.as_str(), of.run.as_str()]).collect();
        let receipts = self.receipts.values().cloned().collect();
        let keyed = self.receipts.keys().map(Key::values).collect();
        let scope = |(tenant, scope): &(TenantId, String)| params![tenant.as_str(), scope.as_str()];
        let locked =
            self.scopes.iter().map(|((tenant, scope), at)| params![tenant.as_str(), scope.as_str(), *at]);
        vec![
            Query::each(receipts::TAKE, receipts),
            Query::each(receipts::BY_KEY, keyed),
            Query::each(scopes::LOCK, locked.collect()),
            Query::each(scopes::ACTIVE, self.scopes.keys().map(scope).collect()),
            Query::each(arrivals::STATE, self.arrivals.iter().map(arrivals::Key::values).collect())
                .locking("a", "a.tenant_id, a.event_id"),
            Query::each(dispatches::ADD_THREAD, new_threads),
            Query::each(dispatches::THREAD, threads).locking("t", "t.tenant_id, t.thread_id"),
            Query::each(dispatches::BUSY_THREAD, self.taken.iter().map(thread).collect()),
            Query::each(dispatches::READY_THREADS, ready).locking_free("t"),
            Query::each(dispatches::BY_ID, ids).locking("d", "d.dispatch_id"),
            // Again, now that nobody can move the rows: an interrupt may have come first.
            Query::each(dispatches::EPOCH_BY_ID, again),
            Query::each(dispatches::BY_LIVE_KEY, keys.collect()),
            Query::each(workflows::LATEST_REVISION, revisions.collect()),
            Query::each(runs::SEQUENCE, runs).locking("r", "r.tenant_id, r.run_id"),
            // Who is to be told: the last thing that is looked at, so that it is as new as can be.
            Query::each(webhooks::REVISION, self.runs.iter().take(1).map(|_| params![1_i64]).collect()),
        ]
    }
}

impl Found {
    /// Adds the answers to the queries above. What is known already stays: it may have been judged since.
    pub(super) fn add(&mut self, answers: &[Answer]) -> Result<(), Error> {
        let [
            taken,
            receipts,
            _,
            scopes,
            arrivals,
            _,
            threads,
            busy,
            ready,
            dispatches,
            epochs,
            keys,
            revisions,
            runs,
            webhooks,
        ] = answers
        else {
            return Err(Error::Failed("the database answered in part".to_owned()));
        };
        self.receipts.add(taken, receipts)?;
        for row in &scopes.rows {
            let scope = (tenant(row.text(0)?)?, row.text(1)?.to_owned());
            self.newest.entry(scope.clone()).or_insert(row.text(3)?.to_owned());
            if let Some(active) = row.optional_text(2)? {
                let run = RunId::parse(active).map_err(|error| crate::store::unreadable("run", error))?;
                self.scopes.entry(scope).or_insert(run);
            }
        }
        for row in &arrivals.rows {
            let state = arrivals::State::read(row.text(2)?)?;
            self.arrivals.entry(arrivals::Key::read(row)?).or_insert(state);
        }
        for row in &threads.rows {
            self.epochs.insert((tenant(row.text(0)?)?, row.text(1)?.to_owned()), row.count(2)?);
        }
        for row in &busy.rows {
            self.busy.insert((tenant(row.text(0)?)?, row.text(1)?.to_owned()));
        }
        self.ready.clear();
        for row in &ready.rows {
            self.ready.push((tenant(row.text(0)?)?, row.text(1)?.to_owned()));
        }
        for row in &dispatches.rows {
            let stored = dispatches::read(row)?;
            self.dispatches.entry(stored.row.dispatch_id.clone()).or_insert(stored);
        }
        for row in &epochs.rows {
            if let Some(stored) = self.dispatches.get_mut(row.text(0)?) {
                stored.epoch = row.count(1)?;
            }
        }
        for row in &keys.rows {
            let key = (tenant(row.text(0)?)?, row.text(1)?.to_owned(), row.text(2)?.to_owned());
            self.live_keys.entry(key).or_insert(row.text(3)?.to_owned());
        }
        for row in &revisions.rows {
            let id = WorkflowId::parse(row.text(1)?)
                .map_err(|error| crate::store::unreadable("workflow", error))?;
            self.revisions.insert((tenant(row.text(0)?)?, id), row.count(2)?);
        }
        for row in &runs.rows {
            self.runs.entry(runs::reference(row)?).or_insert(row.count(2)?);
        }
        if let Some(row) = webhooks.rows.first() {
            self.webhooks = Some(row.count(0)?);
        }
        Ok(())
    }
}

fn tenant(text: &str) -> Result<TenantId, Error> {
    TenantId::parse(text).map_err(|error| crate::store::unreadable("tenant", error))
}

/// The values by which the next dispatch of a thread is looked for.
pub(super) fn head(thread: &Thread, now: Timestamp) -> Vec<Param> {
    params![thread.0.as_str(), thread.1.as_str(), now]
}
