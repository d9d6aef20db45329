//! The jobs of one batch: each is checked against the locked rows, and the writes of all accepted jobs are sent
//! together. A rejected job stages none of its writes, so that no rollback is needed.

use std::collections::HashMap;
use std::sync::Arc;

use holdpoint_core::mailbox::{ClaimAction, ClaimRejection, MailboxError, ReclaimedDispatch, RunDispatch};
use holdpoint_core::{TenantId, Timestamp};
use uuid::Uuid;

use super::dispatch_rows::{DispatchUpdate, performed_dispatch};
use super::lock_set::LockSet;
use super::locks::{BatchState, ClaimRequest, DedupeKey, DispatchThread, Locks, head, latest_times};
use super::work::{Change, CommitReply, Job, MailboxAction, MailboxOp, Precondition, Work};
use crate::store::dispatches::{self, Reconciliation, StoredDispatch};
use crate::store::receipts::NewReceipt;
use crate::store::{
    Error, LockScope, Param, Query, Statement, Tx, arrivals, deliveries, params, receipts, tokens, usage,
    webhooks,
};
use crate::webhooks::{SubscriptionList, WebhookHub, callback_deliveries};

/// The state of a writer that its batches use.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchContext<'a> {
    pub hooks: &'a WebhookHub,
    /// The usage of a tenant is split into shards. The writer adds to this shard.
    pub shard: i64,
}

/// Writes the jobs, and those that `more` adds meanwhile, in one transaction. Returns one reply for each job, in
/// the order of the jobs. `before_commit` is called before the commit and can make it fail.
pub(super) async fn write<T: Tx>(
    tx: &T,
    context: BatchContext<'_>,
    jobs: &mut Vec<Job>,
    mut more: impl FnMut(&mut Vec<Job>),
    before_commit: impl FnOnce() -> Result<(), Error>,
) -> Result<Vec<CommitReply>, Error> {
    let mut batch = BatchWrite::default();
    let mut replies = Vec::with_capacity(jobs.len());
    while replies.len() < jobs.len() {
        let staged = replies.len();
        let locks = Locks::of(&jobs[staged..]);
        let queries = locks.queries(T::LOCK_SCOPE).into_queries();
        let answers = if staged == 0 { tx.begin(&queries).await? } else { tx.all(&queries).await? };
        batch.state.add(&LockSet::from_results(answers)?)?;
        batch.refresh_subscriptions(tx, context.hooks).await?;
        locks.new_threads.into_iter().for_each(|thread| batch.add_thread(thread));
        for job in &jobs[staged..] {
            replies.push(batch.stage_once(job)?);
        }
        batch.claim(tx, &jobs[staged..], &mut replies[staged..]).await?;
        batch.write_dispatch_updates()?;
        if T::LOCK_SCOPE == LockScope::Database {
            // Written before more jobs are taken: that gives them time to arrive, and they are then checked against
            // the new rows.
            tx.all(&std::mem::take(&mut batch.writes)).await?;
            more(jobs);
        }
    }
    for addition in usage::additions(std::mem::take(&mut batch.usage), context.shard) {
        batch.add(usage::ADD, addition.into());
    }
    for Statement { sql, params } in std::mem::take(&mut batch.tokens).into_statements(context.shard) {
        batch.add(sql, params);
    }
    before_commit()?;
    tx.commit(&batch.writes).await?;
    Ok(replies)
}

#[derive(Default)]
struct BatchWrite {
    state: BatchState,
    /// Dispatches that change.
    updated: HashMap<String, DispatchUpdate>,
    writes: Vec<Query>,
    /// The webhook subscriptions, and whether runs may have callback addresses.
    list: Arc<SubscriptionList>,
    callbacks: bool,
    /// Changes of the usage of tenants.
    usage: usage::UsageDeltas,
    /// The tokens that models used.
    tokens: tokens::TokenDeltas,
}

impl BatchWrite {
    /// Reads the subscriptions again if another process has changed them.
    async fn refresh_subscriptions<T: Tx>(&mut self, tx: &T, hooks: &WebhookHub) -> Result<(), Error> {
        self.callbacks = hooks.settings.callbacks;
        if let Some(revision) =
            self.state.webhooks.filter(|revision| *revision > hooks.subscriptions().revision)
        {
            let answers = tx.all(&[Query::one(webhooks::LIST, Vec::new())]).await?;
            let rows: Vec<_> = answers.into_iter().flat_map(|answer| answer.rows).collect();
            hooks.replace_subscriptions(SubscriptionList::read(revision, &rows)?);
        }
        self.list = hooks.subscriptions();
        Ok(())
    }

    /// Stages a job. A job with a receipt is staged only if its key is free.
    fn stage_once(&mut self, job: &Job) -> Result<CommitReply, Error> {
        let Some(NewReceipt { key, .. }) = job.receipt.as_deref() else { return self.stage(job) };
        if let Some(reply) = self.state.receipts.find_conflict(key) {
            return Ok(reply);
        }
        let reply = self.stage(job)?;
        if !reply.succeeded() {
            self.add(receipts::DROP, key.values().into());
        }
        Ok(reply)
    }

    fn stage(&mut self, job: &Job) -> Result<CommitReply, Error> {
        match &job.work {
            Work::Changes(changes) => self.stage_changes(changes, job),
            Work::Mail(MailboxOp::Enqueue(rows)) => {
                let mut each = Vec::with_capacity(rows.len());
                for row in rows {
                    each.push(match self.state.find_enqueue_conflict(row) {
                        Some(error) => Err(error),
                        None => Ok(self.enqueue(row)?),
                    });
                }
                Ok(CommitReply::Each(each))
            }
            Work::Mail(MailboxOp::ClaimAction { tenant, dispatch_id, token, what, now }) => {
                Ok(CommitReply::Each(vec![self.claim_action(tenant, dispatch_id, token, what, *now)]))
            }
            // Claims are staged after all other jobs of the batch. `Plain` and `Each` are never in a batch.
            Work::Mail(_) | Work::Plain(_) | Work::Each(..) => Ok(CommitReply::Rows(Vec::new())),
            Work::Rows(rows) => {
                rows.iter().for_each(|row| self.add(row.sql, row.params.clone()));
                Ok(CommitReply::Done)
            }
        }
    }

    /// Stages all changes, or none of them if one is rejected.
    fn stage_changes(&mut self, changes: &[Change], job: &Job) -> Result<CommitReply, Error> {
        let mut updates = Vec::new();
        for change in changes {
            match self.updated_dispatch(change) {
                Ok(updated) => updates.extend(updated),
                Err(failed) => return Ok(CommitReply::Conflict(failed)),
            }
        }
        if let Some(reply) = changes.iter().find_map(|change| self.state.find_conflict(change)) {
            return Ok(reply);
        }
        updates.into_iter().for_each(|to| self.update_dispatch(to, Reconciliation::NotNeeded));
        for (change, size) in changes.iter().zip(&job.sizes) {
            self.apply_change(change)?;
            self.count_usage(change, *size);
        }
        for statement in &job.writes {
            self.add(statement.sql, statement.params.clone());
        }
        Ok(CommitReply::Done)
    }

    fn apply_change(&mut self, change: &Change) -> Result<(), Error> {
        let of = &change.of;
        if change.has_events() {
            // A batch has at most one change of a run: the next one would not see the rows of the first.
            self.state.runs.insert(of.clone(), u64::MAX);
            let callbacks = if self.callbacks { callback_deliveries(change) } else { Vec::new() };
            for delivery in self.list.deliveries(change).into_iter().chain(callbacks) {
                self.add(deliveries::INSERT, delivery.values().into());
            }
        }
        if let Some(cause) = &change.cause {
            self.state.arrivals.insert(cause.key.clone(), arrivals::ArrivalState::Over);
        }
        if let Some(scope) = change.scope() {
            self.state.scopes.insert(scope, of.run.clone());
        }
        // A child run is in a dispatch thread of its own.
        for run in &change.runs_to_activate {
            let (id, run) = (Uuid::now_v7().to_string(), run.as_str());
            let row = RunDispatch::queued(&of.tenant, &id, run, run, change.at);
            self.insert(&row)?;
        }
        match &change.mail {
            MailboxAction::Enqueue(id) => {
                let row = change.queued_dispatch(id);
                self.insert_live(&row)?;
                self.state.busy.insert(DispatchThread::of_row(&row));
            }
            MailboxAction::HandOff(pending_claim) => {
                let mut row = change.queued_dispatch(&pending_claim.dispatch_id);
                if self.state.busy.insert(DispatchThread::of_row(&row)) {
                    row = pending_claim.claim_row(row, change.at);
                } else {
                    pending_claim.leave_queued();
                }
                self.insert_live(&row)?;
            }
            MailboxAction::Performed(id) => self.insert(&performed_dispatch(change, id))?,
            MailboxAction::Reconcile(id) => self.add(dispatches::RECONCILED, params![id.as_str()].into()),
            MailboxAction::None
            | MailboxAction::Activated
            | MailboxAction::ClaimAction { .. }
            | MailboxAction::Reclaim(_)
            | MailboxAction::Cancel(_) => {}
        }
        Ok(())
    }

    fn count_usage(&mut self, change: &Change, size: usize) {
        if !change.has_events() {
            return;
        }
        let was_open = change.before > 0 && change.from.as_ref().is_none_or(|from| !from.finished());
        let delta = self.usage.entry(change.of.tenant.clone()).or_default();
        delta.open_runs += i64::from(!change.after.finished()) - i64::from(was_open);
        delta.event_bytes = delta.event_bytes.saturating_add_unsigned(size as u64);
        self.tokens.count(change);
    }

    /// Returns the dispatch of a change after the change, or None if the change does not update it.
    fn updated_dispatch(&mut self, change: &Change) -> Result<Option<RunDispatch>, Precondition> {
        let stored = |id: &String| self.state.dispatches.get(id).ok_or(Precondition::Claim);
        match &change.mail {
            MailboxAction::None
            | MailboxAction::Activated
            | MailboxAction::Enqueue(_)
            | MailboxAction::HandOff(_)
            | MailboxAction::Performed(_)
            | MailboxAction::Reconcile(_) => Ok(None),
            MailboxAction::ClaimAction { claim, what } => {
                let StoredDispatch { row, epoch, .. } = stored(&claim.dispatch_id)?;
                match row.apply_claim_action(&claim.token, what, *epoch, change.at) {
                    Ok(_) if *what == ClaimAction::Touch => Ok(None),
                    Ok(to) => Ok(Some(to)),
                    Err(denied) => {
                        self.close_denied(denied);
                        Err(Precondition::Claim)
                    }
                }
            }
            MailboxAction::Reclaim(id) => {
                let StoredDispatch { row, epoch, .. } = stored(id)?;
                match row.reclaimed(*epoch, change.at) {
                    Some(ReclaimedDispatch::Returned(to) | ReclaimedDispatch::Superseded(to)) => Ok(Some(to)),
                    None => Err(Precondition::Claim),
                }
            }
            MailboxAction::Cancel(id) => {
                stored(id)?.row.cancelled(change.at).map(Some).ok_or(Precondition::Claim)
            }
        }
    }

    fn claim_action(
        &mut self,
        tenant: &TenantId,
        id: &str,
        token: &str,
        what: &ClaimAction,
        now: Timestamp,
    ) -> Result<RunDispatch, MailboxError> {
        let stored = self.state.dispatches.get(id).filter(|stored| stored.row.tenant == *tenant);
        let Some(StoredDispatch { row, epoch, .. }) = stored else {
            return Err(MailboxError::NotFound { kind: "dispatch", id: id.to_owned() });
        };
        match row.apply_claim_action(token, what, *epoch, now) {
            Ok(to) => {
                self.update_dispatch(to.clone(), Reconciliation::after(&to));
                Ok(to)
            }
            Err(denied) => {
                let error = denied.error.clone();
                self.close_denied(denied);
                Err(error)
            }
        }
    }

    fn close_denied(&mut self, denied: ClaimRejection) {
        if let Some(superseded) = denied.superseded {
            self.update_dispatch(*superseded, Reconciliation::Pending);
        }
    }

    /// Stages a new dispatch that has no conflict.
    fn enqueue(&mut self, row: &RunDispatch) -> Result<RunDispatch, Error> {
        let (id, thread) = (row.dispatch_id.clone(), DispatchThread::of_row(row));
        let epoch = self.state.epochs.get(&thread).copied().unwrap_or(0);
        let row = RunDispatch { dispatch_epoch: epoch, ..row.clone() };
        self.insert_live(&row)?;
        self.state.dispatches.insert(id, StoredDispatch { seq: 0, epoch, row: row.clone() });
        self.state.busy.insert(thread);
        Ok(row)
    }

    /// Inserts a live dispatch, whose key is then in use.
    fn insert_live(&mut self, row: &RunDispatch) -> Result<(), Error> {
        if let Some(key) = DedupeKey::of_row(row) {
            self.state.live_keys.insert(key, row.dispatch_id.clone());
        }
        self.insert(row)
    }

    fn insert(&mut self, row: &RunDispatch) -> Result<(), Error> {
        dispatches::insert_values(row).map(|values| self.add(dispatches::INSERT, values.into()))
    }

    /// Inserts the row of a thread that has none. With row locks, `Locks::queries` has inserted it.
    fn add_thread(&mut self, thread: DispatchThread) {
        if !self.state.epochs.contains_key(&thread) {
            self.add(dispatches::ADD_THREAD, thread.values().into());
            self.state.epochs.insert(thread, 0);
        }
    }

    /// Claims the first dispatches of ready threads for the claim requests, in the order of the requests.
    async fn claim<T: Tx>(&mut self, tx: &T, jobs: &[Job], replies: &mut [CommitReply]) -> Result<(), Error> {
        let requests: Vec<ClaimRequest<'_>> =
            jobs.iter().enumerate().filter_map(|(at, job)| ClaimRequest::of(at, &job.work)).collect();
        let threads = latest_times(&requests, &self.state.ready);
        if threads.is_empty() {
            return Ok(());
        }
        let heads = threads.into_iter().map(|(thread, now)| head(thread, now));
        let heads = match T::LOCK_SCOPE {
            LockScope::Database => {
                // Queried thread by thread with a limit of 1, so that only the first row of each is read.
                let one = |mut values: Vec<Param>| {
                    values.push(Param::from(1_i64));
                    values
                };
                Query::each(dispatches::HEADS, heads.map(one).collect())
            }
            LockScope::Rows => Query::each(dispatches::HEAD, heads.collect()).locking_free("d"),
        };
        let [answer] = &tx.all(&[heads]).await?[..] else { return Ok(()) };
        let mut heads = answer.rows.iter().map(dispatches::read).collect::<Result<Vec<_>, _>>()?;
        // These rows are read without the changes of this batch. A dispatch that the batch changes is not claimed.
        heads.retain(|head| !self.updated.contains_key(&head.row.dispatch_id));
        heads.sort_by_key(|head| (head.row.priority, head.row.created_at, head.seq));
        // Requests that name a thread come first: the others can take a dispatch of any thread.
        for named in [true, false] {
            for request in requests.iter().filter(|request| request.thread.is_some() == named) {
                replies[request.at] = CommitReply::Rows(self.take(&mut heads, request));
            }
        }
        Ok(())
    }

    fn take(&mut self, heads: &mut Vec<StoredDispatch>, request: &ClaimRequest<'_>) -> Vec<RunDispatch> {
        let ClaimRequest { thread, order, .. } = request;
        let fits = |head: &StoredDispatch| {
            head.row.available_at <= order.now
                && thread.as_ref().is_none_or(|thread| thread.contains(&head.row))
        };
        let mut taken = Vec::new();
        while taken.len() < order.limit
            && let Some(at) = heads.iter().position(fits)
        {
            let head = heads.remove(at);
            let token = Uuid::now_v7().to_string();
            let claimed = head.row.claimed(token, &order.consumer, order.lease_until, order.now);
            self.state.dispatches.insert(head.row.dispatch_id.clone(), head);
            self.update_dispatch(claimed.clone(), Reconciliation::NotNeeded);
            taken.push(claimed);
        }
        taken
    }

    fn update_dispatch(&mut self, to: RunDispatch, reconciliation: Reconciliation) {
        let Some(stored) = self.state.dispatches.get_mut(&to.dispatch_id) else { return };
        let from = std::mem::replace(&mut stored.row, to);
        let updated = self.updated.entry(from.dispatch_id.clone());
        updated.or_insert(DispatchUpdate { from, reconciliation }).reconciliation = reconciliation;
    }

    fn write_dispatch_updates(&mut self) -> Result<(), Error> {
        for (id, DispatchUpdate { from, reconciliation }) in std::mem::take(&mut self.updated) {
            if let Some(stored) = self.state.dispatches.get(&id) {
                let Statement { sql, params } = dispatches::update(&from, stored, reconciliation)?;
                self.add(sql, params);
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
