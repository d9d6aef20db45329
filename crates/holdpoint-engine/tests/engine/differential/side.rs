//! One of the two engines. Executes a step and returns the result as text, for comparison with the other engine.

use std::collections::BTreeMap;
use std::fmt::Debug;

use holdpoint_engine::core::mailbox::{ClaimAction, MailboxError, RunDispatch, RunDispatchStatus};
use holdpoint_engine::core::{
    Answer, Command, InterruptId, Owner, Principal, Run, RunId, RunRef, StartRequest, TenantId, Timestamp,
    WorkflowId,
};
use holdpoint_engine::{ApiKey, ClaimToken, Clock, Dependence, Engine, Error, Mailbox, Options, RunFilter};
use serde_json::{Map, Value};

use crate::differential::flows::{FlakyNode, IDS, definition};
use crate::differential::random::TENANTS;
use crate::differential::random_ids::RandomIds;
use crate::differential::step::{NewDispatch, Step};
use crate::test_database::TestDatabase;

mod lists;

pub(crate) struct Side {
    pub clock: Clock,
    engine: Engine,
    flaky: FlakyNode,
    random_ids: RandomIds,
    /// Ids of dispatches in the order in which results contained them. The order is the same on both sides.
    pub known: Vec<String>,
    pub claims: Vec<KnownClaim>,
    // The last field, so that the engine is dropped before its data.
    database: TestDatabase,
}

/// A claim that a result contained.
pub(crate) struct KnownClaim {
    pub tenant: usize,
    pub run: String,
    dispatch: String,
    token: String,
}

impl Side {
    pub(crate) async fn open(database: TestDatabase, now: i64) -> Self {
        let (clock, flaky) = (Clock::manual(now), FlakyNode::default());
        let engine = open(&database, &clock, &flaky).await;
        Self {
            clock,
            engine,
            flaky,
            random_ids: RandomIds::default(),
            known: Vec::new(),
            claims: Vec::new(),
            database,
        }
    }

    /// Executes a step. The result is a value or a refusal; a failure of the store fails the test.
    pub(crate) async fn perform(&mut self, step: &Step) -> String {
        let result = match step {
            Step::Register { .. } | Step::Start { .. } | Step::Resolve { .. } | Step::Cancel { .. } => {
                self.perform_run(step).await
            }
            Step::Advance { ms } => {
                self.clock.advance(*ms);
                String::new()
            }
            Step::Drain => self.drain().await,
            Step::Restart { expire_leases } => self.restart(*expire_leases).await,
            Step::AddKey { .. } | Step::RevokeKey { .. } | Step::Runs { .. } | Step::Pending { .. } => {
                self.perform_list(step).await
            }
            _ => self.perform_mail(step).await,
        };
        self.normalize(&result)
    }

    pub(crate) fn normalize(&mut self, text: &str) -> String {
        self.random_ids.normalize(text)
    }

    async fn perform_run(&mut self, step: &Step) -> String {
        match step {
            Step::Register { tenant, shape, title } => {
                let registered = self
                    .engine
                    .workflows()
                    .register(&name(*tenant), definition(*tenant, *shape, title))
                    .await;
                describe(registered.map(|made| (made.workflow.revision, made.stored)))
            }
            Step::Start { tenant, run, shape } => {
                let id = WorkflowId::parse(IDS[*shape]).unwrap();
                let of = reference(*tenant, run);
                let started = self.engine.runs().create_as(&of.run, &id, start(*tenant)).await;
                self.describe_run(*tenant, run, started).await
            }
            Step::Resolve { tenant, run, interrupts, value } => {
                let answer = || Answer::new(value.clone(), alice());
                let answers: BTreeMap<InterruptId, Answer> =
                    interrupts.iter().map(|id| (*id, answer())).collect();
                let of = reference(*tenant, run);
                let resolved = self.engine.runs().execute(&of, &Command::Resolve { answers }).await;
                self.describe_run(*tenant, run, resolved).await
            }
            Step::Cancel { tenant, run, reason } => {
                let cancelled =
                    self.engine.runs().cancel(&reference(*tenant, run), Some(reason.clone()), alice()).await;
                self.describe_run(*tenant, run, cancelled).await
            }
            other => unreachable!("{other:?} is not a step of a run"),
        }
    }

    /// Returns the state of a run, its log and its thread as text.
    async fn describe_run(
        &mut self,
        tenant: usize,
        run: &str,
        result: Result<std::sync::Arc<Run>, Error>,
    ) -> String {
        let result = describe(result.map(|run| (run.status(), run.seq, run.variables.clone())));
        format!("{result} {} {}", self.log(tenant, run).await, self.thread(tenant, run, 100).await)
    }

    async fn drain(&mut self) -> String {
        let drained = describe(self.engine.worker().drain().await);
        // The delay before the next attempt has a random part. The two engines need the same delay.
        let wait = "UPDATE dispatches SET available_ms = updated_ms + 1000
            WHERE status = 'queued' AND last_error LIKE 'the worker panicked%'";
        self.database.execute(wait).await.unwrap();
        format!("{drained} {}", self.flaky.counts())
    }

    /// Closes the engine and opens it again as a second handle. The first handle on a SQLite file releases all claims,
    /// which does not happen on PostgreSQL.
    async fn restart(&mut self, expire: bool) -> String {
        self.engine.close().await;
        if expire {
            let expire = "UPDATE dispatches SET lease_until_ms = 0 WHERE status = 'claimed'";
            self.database.execute(expire).await.unwrap();
        }
        self.engine = open(&self.database, &self.clock, &self.flaky).await;
        String::new()
    }

    async fn perform_list(&mut self, step: &Step) -> String {
        match step {
            Step::AddKey { tenant, number, text } => {
                let key = ApiKey {
                    key_id: format!("key {number}"),
                    lineage: format!("key {number}"),
                    key_hash: format!("hash {}", number / 2),
                    tenant: name(*tenant),
                    principal: text.clone(),
                    roles: vec!["ä".to_owned(), "B".to_owned()],
                    groups: vec!["auditors".to_owned(), "board".to_owned()],
                    scopes: Vec::new(),
                    created_at: self.clock.now(),
                    revoked_at: None,
                    expires_at: (number % 3 == 0).then(|| self.clock.now().plus_ms(*number as u64)),
                    test: number % 5 == 0,
                    depends_on: Dependence::default(),
                };
                describe(self.engine.keys().add(&key, None).await)
            }
            Step::RevokeKey { tenant, number } => {
                describe(self.engine.keys().revoke(&name(*tenant), &format!("key {number}"), None).await)
            }
            Step::Runs { tenant, before, status, limit } => {
                let (before, status) = (before.clone(), status.clone());
                let filter = RunFilter { status, before, limit: *limit, ..RunFilter::default() };
                describe(self.engine.runs().list(&name(*tenant), filter).await)
            }
            Step::Pending { tenant, limit } => self.pending(*tenant, *limit).await,
            other => unreachable!("{other:?} is not a list"),
        }
    }

    async fn perform_mail(&mut self, step: &Step) -> String {
        match step {
            Step::Enqueue { tenant, rows } => {
                let new = rows.iter().map(|row| row.of(*tenant, self.clock.now())).collect::<Vec<_>>();
                let each = self.mail(*tenant).enqueue_many(&new).await.unwrap();
                each.iter().flatten().for_each(|row| self.remember(std::slice::from_ref(row)));
                format!("{each:?}")
            }
            Step::Claim { tenant, thread, lease_ms, now, limit } => {
                let claimed = self
                    .mail(*tenant)
                    .claims()
                    .claim(thread, "raw", *lease_ms, Timestamp(*now), *limit)
                    .await;
                self.rows(claimed)
            }
            Step::ClaimReady { lease_ms, now, all } => self.claim_ready(*lease_ms, *now, *all).await,
            Step::ClaimDispatch { tenant, dispatch, lease_ms, now } => {
                let id = self.id(*dispatch);
                let claimed =
                    self.mail(*tenant).claims().claim_dispatch(&id, "raw", *lease_ms, Timestamp(*now)).await;
                self.rows(claimed.map(Vec::from_iter))
            }
            Step::ActOnClaim { tenant, claim, wrong, action, now } => {
                let ClaimToken { dispatch_id, token } = self.claim(*claim, *wrong);
                let changed = self.act_on_claim(*tenant, &dispatch_id, &token, action, Timestamp(*now)).await;
                self.rows(changed)
            }
            Step::Extend { tenant, claims, extension_ms, now } => {
                let claims: Vec<_> = claims.iter().map(|(claim, wrong)| self.claim(*claim, *wrong)).collect();
                describe(
                    self.mail(*tenant).claims().extend_leases(&claims, *extension_ms, Timestamp(*now)).await,
                )
            }
            Step::CancelQueued { tenant, dispatch, now } => {
                let cancelled = self.mail(*tenant).cancel(&self.id(*dispatch), Timestamp(*now)).await;
                self.rows(cancelled.map(Vec::from_iter))
            }
            Step::Interrupt { tenant, thread, now } => {
                describe(self.mail(*tenant).interrupt(thread, Timestamp(*now)).await)
            }
            Step::Requeue { tenant, dispatch } => {
                let requeued =
                    self.engine.dispatches().requeue(&name(*tenant), &self.id(*dispatch), None).await;
                requeued.iter().for_each(|row| self.remember(std::slice::from_ref(row)));
                describe(requeued)
            }
            Step::CancelDispatch { tenant, dispatch } => describe(
                self.engine.dispatches().cancel(&name(*tenant), &self.id(*dispatch), alice(), None).await,
            ),
            other => self.perform_upkeep(other).await,
        }
    }

    async fn perform_upkeep(&mut self, step: &Step) -> String {
        match step {
            Step::Reclaim { now, batch } => self.reclaim(Timestamp(*now), *batch).await,
            Step::Purge { before, batch } => self.purge(Timestamp(*before), *batch).await,
            Step::Dispatches { tenant, thread, filter, limit, offset } => {
                let mail = self.mail(*tenant);
                let listed = mail.list_dispatches(thread, filter.as_deref(), *limit, *offset).await;
                self.rows(listed)
            }
            Step::NextWakeup { now } => describe(self.mail(0).next_wakeup(Timestamp(*now)).await),
            other => unreachable!("{other:?} is executed by another function"),
        }
    }

    async fn act_on_claim(
        &self,
        tenant: usize,
        id: &str,
        token: &str,
        action: &ClaimAction,
        now: Timestamp,
    ) -> Result<Vec<RunDispatch>, MailboxError> {
        let mail = self.mail(tenant);
        Ok(vec![match action {
            ClaimAction::Touch | ClaimAction::Ack => mail.claims().ack(id, token, now).await?,
            ClaimAction::Nack { retry_at, error } => {
                mail.claims().nack(id, token, *retry_at, error, now).await?
            }
            ClaimAction::Postpone { retry_at, error } => {
                mail.claims().postpone(id, token, *retry_at, error, now).await?
            }
            ClaimAction::DeadLetter { error } => mail.claims().dead_letter(id, token, error, now).await?,
            ClaimAction::RecordStart { instance_id } => {
                mail.claims().record_dispatch_start(id, token, instance_id, now).await?
            }
            ClaimAction::RecordResult(result) => {
                mail.claims().record_run_result(id, token, result, now).await?
            }
            ClaimAction::Complete(result) => mail.claims().complete(id, token, result, now).await?,
            ClaimAction::Supersede { reason } => {
                return Ok(mail
                    .claims()
                    .supersede_claimed(id, token, now, reason)
                    .await?
                    .into_iter()
                    .collect());
            }
            ClaimAction::ExtendLease { until } => {
                let extension_ms = u64::try_from(until.0.saturating_sub(now.0)).unwrap_or(0);
                mail.claims().extend_lease(id, token, extension_ms, now).await?;
                return Ok(mail.load_dispatch(id).await?.into_iter().collect());
            }
        }])
    }
}

impl Side {
    fn rows(&mut self, rows: Result<Vec<RunDispatch>, MailboxError>) -> String {
        rows.iter().for_each(|rows| self.remember(rows));
        describe(rows)
    }

    fn remember(&mut self, rows: &[RunDispatch]) {
        for row in rows {
            if !self.known.contains(&row.dispatch_id) {
                self.known.push(row.dispatch_id.clone());
            }
            let Some(token) = &row.claim_token else { continue };
            if self.claims.iter().all(|held| held.token != *token) {
                let tenant = TENANTS.iter().position(|name| *name == row.tenant.as_str()).unwrap();
                let (run, dispatch, token) = (row.run_id.clone(), row.dispatch_id.clone(), token.clone());
                self.claims.push(KnownClaim { tenant, run, dispatch, token });
            }
        }
    }

    fn mail(&self, tenant: usize) -> Mailbox {
        self.engine.mailbox(&name(tenant))
    }

    fn id(&self, number: usize) -> String {
        self.known.get(number).cloned().unwrap_or_else(|| "unknown".to_owned())
    }

    fn claim(&self, number: usize, wrong: bool) -> ClaimToken {
        let (dispatch_id, token) = match self.claims.get(number) {
            Some(held) if wrong => (held.dispatch.clone(), "wrong".to_owned()),
            Some(held) => (held.dispatch.clone(), held.token.clone()),
            None => ("unknown".to_owned(), String::new()),
        };
        ClaimToken { dispatch_id, token }
    }
}

async fn open(database: &TestDatabase, clock: &Clock, flaky: &FlakyNode) -> Engine {
    let options = Options::new(database.location()).manual_worker().clock(clock.clone()).second_handle();
    Engine::open(options.node("test.flaky", flaky.clone())).await.unwrap()
}

fn describe<T: Debug, E: Debug>(result: Result<T, E>) -> String {
    let text = format!("{result:?}");
    // Failures of the store have texts that depend on the database.
    let is_failure =
        result.is_err() && ["Store(", "Io(", "Serialization("].iter().any(|kind| text.contains(kind));
    assert!(!is_failure, "{text}");
    text
}

fn name(tenant: usize) -> TenantId {
    TenantId::parse(TENANTS[tenant]).unwrap()
}

fn reference(tenant: usize, run: &str) -> RunRef {
    RunRef { tenant: name(tenant), run: RunId::parse(run).unwrap() }
}

fn alice() -> Principal {
    Principal::named("alice")
}

fn start(tenant: usize) -> StartRequest {
    let owner = Owner { tenant: name(tenant), principal: "tester".to_owned() };
    let inputs = Map::from_iter([("text".to_owned(), Value::from("NUL \0"))]);
    StartRequest { inputs, ..StartRequest::new(owner) }
}

impl NewDispatch {
    fn of(&self, tenant: usize, now: Timestamp) -> RunDispatch {
        RunDispatch {
            priority: self.priority,
            dedupe_key: self.key.clone(),
            available_at: Timestamp(self.available),
            attempt_count: self.attempts,
            max_attempts: self.max_attempts,
            last_error: self.last_error.clone(),
            status: RunDispatchStatus::Queued,
            ..RunDispatch::queued(&name(tenant), &self.id, &self.thread, &self.run, now)
        }
    }
}
