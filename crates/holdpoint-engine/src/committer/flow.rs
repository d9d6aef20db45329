//! Jobs that are written together: judged one after the other on what was locked, then written all at once. A job
//! that may not happen leaves nothing behind, so there is never anything to undo.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdpoint_core::mailbox::{Denied, Fenced, MailboxError, Reclaimed, RunDispatch, RunDispatchStatus};
use holdpoint_core::{RunId, TenantId, Timestamp};
use uuid::Uuid;

use super::locks::{Found, Locks, Thread, head};
use super::mail::performed;
use super::work::{Change, ClaimOrder, Guard, Job, Mail, MailOp, Reply, Work};
use crate::store::dispatches::{self, Stored};
use crate::store::{Error, Param, Query, Tx, arrivals, deliveries, params, receipts, usage, webhooks};
use crate::webhooks::{Hooks, List};

/// Writes jobs in one transaction, and those with them that `more` adds while it is being made up. One reply for
/// each, in their order.
pub(super) async fn write<T: Tx>(
    tx: &T,
    (hooks, shard): (&Hooks, i64),
    jobs: &mut Vec<Job>,
    mut more: impl FnMut(&mut Vec<Job>),
    pause: impl FnOnce() -> Result<(), Error>,
) -> Result<Vec<Reply>, Error> {
    let mut flow = Flow::default();
    let mut replies = Vec::with_capacity(jobs.len());
    while replies.len() < jobs.len() {
        let judged = replies.len();
        let locks = Locks::of(&jobs[judged..]);
        let queries = locks.queries(!T::MAY_GROW);
        let answers = if judged == 0 { tx.begin(&queries).await? } else { tx.all(&queries).await? };
        flow.found.add(&answers)?;
        flow.know(tx, hooks).await?;
        locks.new_threads.into_iter().for_each(|thread| flow.add_thread(thread));
        for job in &jobs[judged..] {
            replies.push(flow.judge_once(job)?);
        }
        flow.claim(tx, &jobs[judged..], &mut replies[judged..]).await?;
        flow.write_moves()?;
        if T::MAY_GROW {
            // Written first: that gives others the time to come, and what they are judged on is then the truth.
            tx.all(&std::mem::take(&mut flow.writes)).await?;
            more(jobs);
        }
    }
    for addition in usage::additions(std::mem::take(&mut flow.usage), shard) {
        flow.add(usage::ADD, addition.into());
    }
    pause()?;
    tx.commit(&flow.writes).await?;
    Ok(replies)
}

#[derive(Default)]
struct Flow {
    found: Found,
    /// Rows that move, as they were stored, and whether somebody must still see to the run.
    moved: HashMap<String, (RunDispatch, bool)>,
    writes: Vec<Query>,
    /// Who is to be told of what happens, and whether runs have addresses of their own for that.
    list: Arc<List>,
    callbacks: bool,
    /// Changes of the usage of tenants.
    usage: usage::Deltas,
}

impl Flow {
    /// Everybody who is to be told. Another node may know of somebody whom we do not know yet.
    async fn know<T: Tx>(&mut self, tx: &T, hooks: &Hooks) -> Result<(), Error> {
        self.callbacks = hooks.settings.callbacks;
        if let Some(revision) = self.found.webhooks.filter(|revision| *revision > hooks.list().revision) {
            let answers = tx.all(&[Query::one(webhooks::LIST, Vec::new())]).await?;
            let rows: Vec<_> = answers.into_iter().flat_map(|answer| answer.rows).collect();
            hooks.put(List::read(revision, &rows)?);
        }
        self.list = hooks.list();
        Ok(())
    }

    /// What is asked for under a key is done unless it was done before.
    fn judge_once(&mut self, job: &Job) -> Result<Reply, Error> {
        let Some((key, _)) = job.receipt.as_deref() else { return self.judge(job) };
        if let Some(reply) = self.found.receipts.stands_against(key) {
            return Ok(reply);
        }
        let reply = self.judge(job)?;
        if !reply.counts() {
            self.add(receipts::DROP, key.values().into());
        }
        Ok(reply)
    }

    fn judge(&mut self, job: &Job) -> Result<Reply, Error> {
        match &job.work {
            Work::Changes(changes) => self.judge_changes(changes, job),
            Work::Mail(MailOp::Enqueue(rows)) => {
                let each = rows.iter().map(|row| self.enqueue(row)).collect::<Result<_, Error>>()?;
                Ok(Reply::Each(each))
            }
            Work::Mail(MailOp::Fenced { tenant, dispatch_id, token, what, now }) => {
                Ok(Reply::Each(vec![self.fenced(tenant, dispatch_id, token, what, *now)]))
            }
            // Claims come last, when everything else is known.
            Work::Mail(_) | Work::Plain(_) | Work::Each(..) => Ok(Reply::Rows(Vec::new())),
            Work::Rows(rows) => {
                rows.iter().for_each(|row| self.add(row.sql, row.params.clone()));
                Ok(Reply::Done)
            }
        }
    }

    /// All of them may happen, or none does.
    fn judge_changes(&mut self, changes: &[Change], job: &Job) -> Result<Reply, Error> {
        let mut moves = Vec::new();
        for change in changes {
            match self.mail_moves(change) {
                Ok(moved) => moves.extend(moved),
                Err(guard) => return Ok(Reply::Conflict(guard)),
            }
        }
        if let Some(reply) = changes.iter().find_map(|change| self.found.stands_against(change)) {
            return Ok(reply);
        }
        moves.into_iter().for_each(|to| self.move_to(to, false));
        for (change, size) in changes.iter().zip(&job.sizes) {
            self.let_happen(change)?;
            self.count_usage(change, *size);
        }
        for statement in &job.writes {
            self.add(statement.sql, statement.params.clone());
        }
        Ok(Reply::Done)
    }

    fn let_happen(&mut self, change: &Change) -> Result<(), Error> {
        let of = &change.of;
        if !change.is_silent() {
            // Only one change of a run in a batch: the next one would not see its rows.
            self.found.runs.insert(of.clone(), u64::MAX);
            for delivery in self.list.deliveries(change, self.callbacks) {
                self.add(deliveries::INSERT, delivery.values().into());
            }
        }
        if let Some(cause) = &change.cause {
            self.found.arrivals.insert(cause.key.clone(), arrivals::State::Over);
        }
        if let Some(scope) = change.scope() {
            self.found.scopes.insert(scope, of.run.clone());
        }
        let (tenant, at) = (&of.tenant, change.at);
        let queued =
            |id: &str, thread: &str, run: &RunId| RunDispatch::queued(tenant, id, thread, run.as_str(), at);
        // Runs that others have started are in threads of their own.
        for run in &change.nudges {
            let row = queued(&Uuid::now_v7().to_string(), run.as_str(), run);
            self.insert(&row)?;
        }
        match &change.mail {
            Mail::Enqueue(id) => {
                let row = queued(id, change.after.thread(), &of.run);
                self.insert(&row)?;
                self.found.busy.insert((of.tenant.clone(), row.thread_id));
            }
            Mail::Take(taking) => {
                let row = queued(&taking.dispatch_id, change.after.thread(), &of.run);
                let free = self.found.busy.insert((of.tenant.clone(), row.thread_id.clone()));
                self.insert(&taking.row(row, free, at))?;
            }
            Mail::Performed(id) => self.insert(&performed(change, id))?,
            Mail::Reconcile(id) => self.add(dispatches::RECONCILED, params![id.as_str()].into()),
            Mail::None | Mail::Held { .. } | Mail::Reclaim(_) | Mail::Cancel(_) => {}
        }
        Ok(())
    }

    fn count_usage(&mut self, change: &Change, size: usize) {
        if change.is_silent() {
            return;
        }
        let was_open = change.before > 0 && change.from.as_ref().is_none_or(|from| !from.finished());
        let delta = self.usage.entry(change.of.tenant.clone()).or_default();
        delta.open_runs += i64::from(!change.after.finished()) - i64::from(was_open);
        delta.event_bytes = delta.event_bytes.saturating_add_unsigned(size as u64);
    }

    /// What a change makes of the dispatch it relies on; nothing where it stays as it is.
    fn mail_moves(&mut self, change: &Change) -> Result<Option<RunDispatch>, Guard> {
        let stored = |id: &String| self.found.dispatches.get(id).ok_or(Guard::Claim);
        match &change.mail {
            Mail::None | Mail::Enqueue(_) | Mail::Take(_) | Mail::Performed(_) | Mail::Reconcile(_) => {
                Ok(None)
            }
            Mail::Held { claim, what } => {
                let Stored { row, epoch, .. } = stored(&claim.dispatch_id)?;
                match row.fenced(&claim.token, what, *epoch, change.at) {
                    Ok(_) if *what == Fenced::Touch => Ok(None),
                    Ok(to) => Ok(Some(to)),
                    Err(denied) => {
                        self.close_denied(denied);
                        Err(Guard::Claim)
                    }
                }
            }
            Mail::Reclaim(id) => {
                let Stored { row, epoch, .. } = stored(id)?;
                match row.reclaimed(*epoch, change.at) {
                    Some(Reclaimed::Returned(to) | Reclaimed::Superseded(to)) => Ok(Some(to)),
                    None => Err(Guard::Claim),
                }
            }
            Mail::Cancel(id) => stored(id)?.row.cancelled(change.at).map(Some).ok_or(Guard::Claim),
        }
    }

    fn fenced(
        &mut self,
        tenant: &TenantId,
        id: &str,
        token: &str,
        what: &Fenced,
        now: Timestamp,
    ) -> Result<RunDispatch, MailboxError> {
        let stored = self.found.dispatches.get(id).filter(|stored| stored.row.tenant == *tenant);
        let Some(Stored { row, epoch, .. }) = stored else {
            return Err(MailboxError::NotFound { kind: "dispatch", id: id.to_owned() });
        };
        match row.fenced(token, what, *epoch, now) {
            Ok(to) => {
                self.move_to(to.clone(), to.status != RunDispatchStatus::Acked && to.status.is_terminal());
                Ok(to)
            }
            Err(denied) => {
                let error = denied.error.clone();
                self.close_denied(denied);
                Err(error)
            }
        }
    }

    fn close_denied(&mut self, denied: Denied) {
        if let Some(superseded) = denied.superseded {
            self.move_to(*superseded, true);
        }
    }

    fn enqueue(&mut self, row: &RunDispatch) -> Result<Result<RunDispatch, MailboxError>, Error> {
        if let Err(error) = row.validate_new() {
            return Ok(Err(error));
        }
        let id = row.dispatch_id.clone();
        if self.found.dispatches.contains_key(&id) {
            return Ok(Err(MailboxError::DuplicateDispatch { dispatch_id: id }));
        }
        let key = row.dedupe_key.clone().map(|key| (row.tenant.clone(), row.thread_id.clone(), key));
        if let Some(key) = key {
            if let Some(existing) = self.found.live_keys.get(&key) {
                let existing_dispatch_id = existing.clone();
                return Ok(Err(MailboxError::DuplicateKey { dedupe_key: key.2, existing_dispatch_id }));
            }
            self.found.live_keys.insert(key, id.clone());
        }
        let epoch = self.found.epochs.get(&(row.tenant.clone(), row.thread_id.clone())).copied().unwrap_or(0);
        let row = RunDispatch { dispatch_epoch: epoch, ..row.clone() };
        self.insert(&row)?;
        self.found.dispatches.insert(id, Stored { seq: 0, epoch, row: row.clone() });
        self.found.busy.insert((row.tenant.clone(), row.thread_id.clone()));
        Ok(Ok(row))
    }

    fn insert(&mut self, row: &RunDispatch) -> Result<(), Error> {
        dispatches::inserted(row).map(|values| self.add(dispatches::INSERT, values.into()))
    }

    /// A thread that has no row yet gets one. Where rows are locked it has one by now.
    fn add_thread(&mut self, thread: Thread) {
        if !self.found.epochs.contains_key(&thread) {
            self.add(dispatches::ADD_THREAD, params![thread.0.as_str(), thread.1.as_str()].into());
            self.found.epochs.insert(thread, 0);
        }
    }

    /// Gives the threads that are ready to those who asked, in their order.
    async fn claim<T: Tx>(&mut self, tx: &T, jobs: &[Job], replies: &mut [Reply]) -> Result<(), Error> {
        let orders: Vec<Wish<'_>> = jobs
            .iter()
            .enumerate()
            .filter_map(|(at, job)| match &job.work {
                Work::Mail(MailOp::Claim { tenant, thread, order }) if order.limit > 0 => {
                    Some((at, Some((tenant.clone(), thread.clone())), order))
                }
                Work::Mail(MailOp::ClaimReady(order)) if order.limit > 0 => Some((at, None, order)),
                _ => None,
            })
            .collect();
        let threads = latest(&orders, &self.found.ready);
        if threads.is_empty() {
            return Ok(());
        }
        let heads = threads.into_iter().map(|(thread, now)| head(thread, now));
        let heads = if T::MAY_GROW {
            // One thread after the other: the first row of each is the last one that is looked at.
            let one = |mut values: Vec<Param>| {
                values.push(Param::from(1_i64));
                values
            };
            Query::each(dispatches::HEADS, heads.map(one).collect())
        } else {
            Query::each(dispatches::HEAD, heads.collect()).locking_free("d")
        };
        let [answer] = &tx.all(&[heads]).await?[..] else { return Ok(()) };
        let mut heads = answer.rows.iter().map(dispatches::read).collect::<Result<Vec<_>, _>>()?;
        // What somebody else of this batch moves is not as it was read.
        heads.retain(|head| !self.moved.contains_key(&head.row.dispatch_id));
        heads.sort_by_key(|head| (head.row.priority, head.row.created_at, head.seq));
        // Those who want one thread first: the others can take any.
        for wanting in [true, false] {
            for (at, thread, order) in orders.iter().filter(|(_, thread, _)| thread.is_some() == wanting) {
                replies[*at] = Reply::Rows(self.take(&mut heads, thread.as_ref(), order));
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        heads: &mut Vec<Stored>,
        thread: Option<&Thread>,
        order: &ClaimOrder,
    ) -> Vec<RunDispatch> {
        let fits = |head: &Stored| {
            head.row.available_at <= order.now
                && thread.is_none_or(|(tenant, id)| head.row.tenant == *tenant && head.row.thread_id == *id)
        };
        let mut taken = Vec::new();
        while taken.len() < order.limit
            && let Some(at) = heads.iter().position(fits)
        {
            let head = heads.remove(at);
            let token = Uuid::now_v7().to_string();
            let claimed = head.row.claimed(token, &order.consumer, order.lease_until, order.now);
            self.found.dispatches.insert(head.row.dispatch_id.clone(), head);
            self.move_to(claimed.clone(), false);
            taken.push(claimed);
        }
        taken
    }

    fn move_to(&mut self, to: RunDispatch, unreconciled: bool) {
        let Some(stored) = self.found.dispatches.get_mut(&to.dispatch_id) else { return };
        let from = std::mem::replace(&mut stored.row, to);
        let moved = self.moved.entry(from.dispatch_id.clone()).or_insert((from, false));
        moved.1 = unreconciled;
    }

    fn write_moves(&mut self) -> Result<(), Error> {
        for (id, (from, unreconciled)) in std::mem::take(&mut self.moved) {
            if let Some(stored) = self.found.dispatches.get(&id) {
                let (sql, values) = dispatches::moved(&from, stored, unreconciled)?;
                self.add(sql, values.into());
            }
        }
        Ok(())
    }

    fn add(&mut self, sql: &'static str, set: Arc<[Param]>) {
        match self.writes.iter_mut().find(|query| query.sql == sql) {
            Some(query) => query.sets.push(set),
            None => self.writes.push(Query { sql, sets: vec![set], lock: None }),
        }
    }
}

/// Whose order it is, by its place in the batch; the thread it is for, if not any; the order.
type Wish<'a> = (usize, Option<Thread>, &'a ClaimOrder);

/// The threads to look at, each at the latest time of those who may get something of it. Orders come with clocks of
/// their own; whoever asks with a later one must not be told what was true for somebody else earlier.
fn latest<'a>(orders: &'a [Wish<'_>], ready: &'a [Thread]) -> BTreeMap<&'a Thread, Timestamp> {
    let mut threads = BTreeMap::new();
    let mut look = |thread: &'a Thread, now: Timestamp| {
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
