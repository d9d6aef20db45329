//! One of the two engines: does a step and says what came of it, as a text that the other must say too.

use std::collections::BTreeMap;
use std::fmt::Debug;

use holdpoint_engine::core::mailbox::{Fenced, MailboxError, RunDispatch, RunDispatchStatus};
use holdpoint_engine::core::{
    Answer, Command, InterruptId, Owner, Principal, Run, RunId, RunRef, Start, TenantId, Timestamp,
    WorkflowId,
};
use holdpoint_engine::{ApiKey, Clock, Dependence, Engine, Error, Mailbox, Options, RunFilter};
use serde_json::{Map, Value};

use crate::dice::TENANTS;
use crate::flows::{IDS, Shaky, definition};
use crate::names::Names;
use crate::place::Place;
use crate::step::{New, Step};

mod lists;

pub(crate) struct Side {
    pub clock: Clock,
    engine: Engine,
    shaky: Shaky,
    names: Names,
    /// Dispatches that an answer has shown, in the order in which they were seen: the same on both sides.
    pub known: Vec<String>,
    pub claims: Vec<Held>,
    // Last, so that the engine is gone before its data is.
    place: Place,
}

/// A claim that an answer has shown.
pub(crate) struct Held {
    pub tenant: usize,
    pub run: String,
    dispatch: String,
    token: String,
}

impl Side {
    pub(crate) async fn open(place: Place, now: i64) -> Self {
        let (clock, shaky) = (Clock::manual(now), Shaky::default());
        let engine = open(&place, &clock, &shaky).await;
        Self { clock, engine, shaky, names: Names::default(), known: Vec::new(), claims: Vec::new(), place }
    }

    /// Does a step. What is said is an answer or a refusal: trouble of the machinery is a failure of the test.
    pub(crate) async fn perform(&mut self, step: &Step) -> String {
        let said = match step {
            Step::Register { .. } | Step::Start { .. } | Step::Resolve { .. } | Step::Cancel { .. } => {
                self.perform_run(step).await
            }
            Step::Advance { ms } => {
                self.clock.advance(*ms);
                String::new()
            }
            Step::Drain => self.drain().await,
            Step::Restart { lapse } => self.restart(*lapse).await,
            Step::AddKey { .. } | Step::RevokeKey { .. } | Step::Runs { .. } | Step::Pending { .. } => {
                self.perform_list(step).await
            }
            _ => self.perform_mail(step).await,
        };
        self.normal(&said)
    }

    pub(crate) fn normal(&mut self, said: &str) -> String {
        self.names.normal(said)
    }

    async fn perform_run(&mut self, step: &Step) -> String {
        match step {
            Step::Register { tenant, shape, title } => {
                let registered =
                    self.engine.register(&name(*tenant), definition(*tenant, *shape, title)).await;
                said(registered.map(|made| (made.workflow.revision, made.stored)))
            }
            Step::Start { tenant, run, shape } => {
                let id = WorkflowId::parse(IDS[*shape]).unwrap();
                let of = reference(*tenant, run);
                let started = self.engine.start_as(&of.run, &id, start(*tenant)).await;
                self.told(*tenant, run, started).await
            }
            Step::Resolve { tenant, run, interrupts, value } => {
                let answer = || Answer::new(value.clone(), alice());
                let answers: BTreeMap<InterruptId, Answer> =
                    interrupts.iter().map(|id| (*id, answer())).collect();
                let of = reference(*tenant, run);
                let resolved = self.engine.execute(&of, &Command::Resolve { answers }).await;
                self.told(*tenant, run, resolved).await
            }
            Step::Cancel { tenant, run, reason } => {
                let cancelled =
                    self.engine.cancel(&reference(*tenant, run), Some(reason.clone()), alice()).await;
                self.told(*tenant, run, cancelled).await
            }
            other => unreachable!("{other:?} is about no run"),
        }
    }

    /// What became of a run, with its log and its thread.
    async fn told(&mut self, tenant: usize, run: &str, result: Result<std::sync::Arc<Run>, Error>) -> String {
        let result = said(result.map(|run| (run.status(), run.seq, run.variables.clone())));
        format!("{result} {} {}", self.log(tenant, run).await, self.thread(tenant, run, 100).await)
    }

    async fn drain(&mut self) -> String {
        let drained = said(self.engine.worker().drain().await);
        // A failed attempt is tried again after a wait that is a little random; here it must not be.
        let wait = "UPDATE dispatches SET available_ms = updated_ms + 1000
            WHERE status = 'queued' AND last_error LIKE 'the worker panicked%'";
        self.place.execute(wait).await.unwrap();
        format!("{drained} {}", self.shaky.deeds())
    }

    /// Both are opened as one of several: the only one on a file takes back all claims in it as soon as it is
    /// opened, which nobody can do on a server.
    async fn restart(&mut self, lapse: bool) -> String {
        self.engine.close().await;
        if lapse {
            let lapse = "UPDATE dispatches SET lease_until_ms = 0 WHERE status = 'claimed'";
            self.place.execute(lapse).await.unwrap();
        }
        self.engine = open(&self.place, &self.clock, &self.shaky).await;
        String::new()
    }

    async fn perform_list(&mut self, step: &Step) -> String {
        match step {
            Step::AddKey { tenant, number, words } => {
                let key = ApiKey {
                    key_id: format!("key {number}"),
                    lineage: format!("key {number}"),
                    key_hash: format!("hash {}", number / 2),
                    tenant: name(*tenant),
                    principal: words.clone(),
                    roles: vec!["ä".to_owned(), "B".to_owned()],
                    groups: vec!["auditors".to_owned(), "board".to_owned()],
                    scopes: Vec::new(),
                    created_at: self.clock.now(),
                    revoked_at: None,
                    expires_at: (number % 3 == 0).then(|| self.clock.now().plus_ms(*number as u64)),
                    test: number % 5 == 0,
                    depends_on: Dependence::default(),
                };
                said(self.engine.add_key(&key, None).await)
            }
            Step::RevokeKey { tenant, number } => {
                said(self.engine.revoke_key(&name(*tenant), &format!("key {number}"), None).await)
            }
            Step::Runs { tenant, before, status, limit } => {
                let (before, status) = (before.clone(), status.clone());
                let filter = RunFilter { status, before, limit: *limit, ..RunFilter::default() };
                said(self.engine.runs(&name(*tenant), filter).await)
            }
            Step::Pending { tenant, limit } => self.pending(*tenant, *limit).await,
            other => unreachable!("{other:?} is no list"),
        }
    }

    async fn perform_mail(&mut self, step: &Step) -> String {
        match step {
            Step::Enqueue { tenant, rows } => {
                let new = rows.iter().map(|row| row.of(*tenant, self.clock.now())).collect::<Vec<_>>();
                let each = self.mail(*tenant).enqueue_many(&new).await.unwrap();
                each.iter().flatten().for_each(|row| self.learn(std::slice::from_ref(row)));
                format!("{each:?}")
            }
            Step::Claim { tenant, thread, lease_ms, now, limit } => {
                let claimed =
                    self.mail(*tenant).claim(thread, "raw", *lease_ms, Timestamp(*now), *limit).await;
                self.rows(claimed)
            }
            Step::ClaimReady { lease_ms, now, all } => self.claim_ready(*lease_ms, *now, *all).await,
            Step::ClaimDispatch { tenant, dispatch, lease_ms, now } => {
                let id = self.id(*dispatch);
                let claimed = self.mail(*tenant).claim_dispatch(&id, "raw", *lease_ms, Timestamp(*now)).await;
                self.rows(claimed.map(Vec::from_iter))
            }
            Step::Held { tenant, claim, wrong, what, now } => {
                let (id, token) = self.claim(*claim, *wrong);
                let moved = self.fenced(*tenant, &id, &token, what, Timestamp(*now)).await;
                self.rows(moved)
            }
            Step::Extend { tenant, claims, extension_ms, now } => {
                let claims: Vec<_> = claims.iter().map(|(claim, wrong)| self.claim(*claim, *wrong)).collect();
                said(self.mail(*tenant).extend_leases(&claims, *extension_ms, Timestamp(*now)).await)
            }
            Step::CancelQueued { tenant, dispatch, now } => {
                let cancelled = self.mail(*tenant).cancel(&self.id(*dispatch), Timestamp(*now)).await;
                self.rows(cancelled.map(Vec::from_iter))
            }
            Step::Interrupt { tenant, thread, now } => {
                said(self.mail(*tenant).interrupt(thread, Timestamp(*now)).await)
            }
            Step::Requeue { tenant, dispatch } => {
                let requeued = self.engine.requeue_dispatch(&name(*tenant), &self.id(*dispatch), None).await;
                requeued.iter().for_each(|row| self.learn(std::slice::from_ref(row)));
                said(requeued)
            }
            Step::CancelDispatch { tenant, dispatch } => {
                said(self.engine.cancel_dispatch(&name(*tenant), &self.id(*dispatch), alice(), None).await)
            }
            other => self.perform_upkeep(other).await,
        }
    }

    async fn perform_upkeep(&mut self, step: &Step) -> String {
        match step {
            Step::Reclaim { now, bite } => self.reclaim(Timestamp(*now), *bite).await,
            Step::Purge { before, bite } => self.purge(Timestamp(*before), *bite).await,
            Step::Dispatches { tenant, thread, filter, limit, offset } => {
                let mail = self.mail(*tenant);
                let listed = mail.list_dispatches(thread, filter.as_deref(), *limit, *offset).await;
                self.rows(listed)
            }
            Step::NextWakeup { now } => said(self.mail(0).next_wakeup(Timestamp(*now)).await),
            other => unreachable!("{other:?} is done elsewhere"),
        }
    }

    async fn fenced(
        &self,
        tenant: usize,
        id: &str,
        token: &str,
        what: &Fenced,
        now: Timestamp,
    ) -> Result<Vec<RunDispatch>, MailboxError> {
        let mail = self.mail(tenant);
        Ok(vec![match what {
            Fenced::Touch | Fenced::Ack => mail.ack(id, token, now).await?,
            Fenced::Nack { retry_at, error } => mail.nack(id, token, *retry_at, error, now).await?,
            Fenced::Postpone { retry_at, error } => mail.postpone(id, token, *retry_at, error, now).await?,
            Fenced::DeadLetter { error } => mail.dead_letter(id, token, error, now).await?,
            Fenced::RecordStart { instance_id } => {
                mail.record_dispatch_start(id, token, instance_id, now).await?
            }
            Fenced::RecordResult(result) => mail.record_run_result(id, token, result, now).await?,
            Fenced::Complete(result) => mail.complete(id, token, result, now).await?,
            Fenced::Supersede { reason } => {
                return Ok(mail.supersede_claimed(id, token, now, reason).await?.into_iter().collect());
            }
            Fenced::ExtendLease { until } => {
                let extension_ms = u64::try_from(until.0.saturating_sub(now.0)).unwrap_or(0);
                mail.extend_lease(id, token, extension_ms, now).await?;
                return Ok(mail.load_dispatch(id).await?.into_iter().collect());
            }
        }])
    }
}

impl Side {
    fn rows(&mut self, rows: Result<Vec<RunDispatch>, MailboxError>) -> String {
        rows.iter().for_each(|rows| self.learn(rows));
        said(rows)
    }

    fn learn(&mut self, rows: &[RunDispatch]) {
        for row in rows {
            if !self.known.contains(&row.dispatch_id) {
                self.known.push(row.dispatch_id.clone());
            }
            let Some(token) = &row.claim_token else { continue };
            if self.claims.iter().all(|held| held.token != *token) {
                let tenant = TENANTS.iter().position(|name| *name == row.tenant.as_str()).unwrap();
                let (run, dispatch, token) = (row.run_id.clone(), row.dispatch_id.clone(), token.clone());
                self.claims.push(Held { tenant, run, dispatch, token });
            }
        }
    }

    fn mail(&self, tenant: usize) -> Mailbox {
        self.engine.mailbox(&name(tenant))
    }

    fn id(&self, number: usize) -> String {
        self.known.get(number).cloned().unwrap_or_else(|| "unknown".to_owned())
    }

    fn claim(&self, number: usize, wrong: bool) -> (String, String) {
        match self.claims.get(number) {
            Some(held) if wrong => (held.dispatch.clone(), "wrong".to_owned()),
            Some(held) => (held.dispatch.clone(), held.token.clone()),
            None => ("unknown".to_owned(), String::new()),
        }
    }
}

async fn open(place: &Place, clock: &Clock, shaky: &Shaky) -> Engine {
    let options = Options::new(place.location()).clock(clock.clone()).second_handle();
    Engine::open(options.node("test.shaky", shaky.clone())).await.unwrap()
}

fn said<T: Debug, E: Debug>(result: Result<T, E>) -> String {
    let text = format!("{result:?}");
    // A database that will not do what it is asked has words of its own for it.
    let broken =
        result.is_err() && ["Store(", "Io(", "Serialization("].iter().any(|word| text.contains(word));
    assert!(!broken, "{text}");
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

fn start(tenant: usize) -> Start {
    let owner = Owner { tenant: name(tenant), principal: "tester".to_owned() };
    let inputs = Map::from_iter([("text".to_owned(), Value::from("NUL \0"))]);
    Start { inputs, ..Start::new(owner) }
}

impl New {
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
