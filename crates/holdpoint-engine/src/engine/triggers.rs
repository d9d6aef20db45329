//! Triggers: operations of callers. `firing` turns occurrences into deliveries and deliveries into runs.

mod firing;
mod matching;

use holdpoint_core::trigger::{TriggerSource, TriggerSpec};
use holdpoint_core::webhook::{ChangeReason, SubscriptionState};
use holdpoint_core::{Refusal, TenantId, Timestamp, limits};
use uuid::Uuid;

use super::webhooks::new_mark;
use super::{ATTEMPTS_MAX, Engine, Once, Triggers};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::trigger_deliveries::{self, TriggerDelivery, TriggerDeliveryFilter};
use crate::store::triggers::{self, Trigger};
use crate::store::webhooks::WebhookOwner;
use crate::store::{Statement, keys};

pub use matching::TriggeredRun;

const NOT_FOUND: Error = Error::NotFound("trigger");
/// The prefix of the exclusive scope of the runs of a trigger whose runs do not overlap.
const SCOPE_PREFIX: &str = "trigger:";

/// A request to create a trigger.
#[derive(Clone, Debug)]
pub struct NewTrigger {
    /// The tenant.
    pub tenant: TenantId,
    /// The content.
    pub spec: TriggerSpec,
    /// The owner, whose key must be active and have the required scopes whenever a run starts. A trigger without an
    /// owner depends on no key.
    pub owner: Option<WebhookOwner>,
    /// The request whose receipt is written with the trigger.
    pub once: Option<Once<Trigger>>,
}

impl Triggers<'_> {
    /// The prefix of the exclusive scopes of the runs of triggers. Callers must not use it.
    pub const SCOPE_PREFIX: &'static str = SCOPE_PREFIX;

    /// Creates a trigger. The workflow must exist.
    pub async fn add(self, new: NewTrigger) -> Result<Trigger, Error> {
        let now = self.engine.now();
        let NewTrigger { tenant, spec, owner, once } = new;
        spec.check(now)?;
        if self.engine.workflows().latest(&tenant, &spec.workflow).await?.is_none()
            && !Box::pin(self.engine.workflows().register_offered(&tenant, &spec.workflow)).await?
        {
            return Err(Error::NotFound("workflow"));
        }
        if let TriggerSource::Event { event_type, .. } = &spec.source
            && triggers::of_event(self.engine.db(), &tenant, event_type).await?.len()
                >= limits::TRIGGERS_PER_EVENT_MAX
        {
            return Err(Error::TooMany("triggers"));
        }
        let trigger = Trigger {
            next: next_instant(&spec, now)?,
            tenant,
            id: format!("trg_{}", Uuid::now_v7().simple()),
            spec,
            state: SubscriptionState::Active,
            reason: None,
            owner,
            last_run: None,
            created_at: now,
            updated_at: now,
            mark: new_mark(),
        };
        let rows = triggers::insert(&trigger, limits::TRIGGERS_PER_TENANT_MAX)?;
        match self.engine.submit(Work::Plain(rows), once.as_ref(), &trigger).await? {
            CommitReply::Touched(1) => {
                self.engine.bus().work.raise();
                Ok(trigger)
            }
            _ => Err(Error::TooMany("triggers")),
        }
    }

    /// Returns the triggers of a tenant in the order of their creation. `after` is the id of the last trigger of the
    /// previous page.
    pub async fn list(
        self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<Trigger>, Error> {
        Ok(triggers::page(self.engine.db(), tenant, after.unwrap_or_default(), limit).await?)
    }

    /// Returns a trigger.
    pub async fn get(self, tenant: &TenantId, id: &str) -> Result<Trigger, Error> {
        triggers::find(self.engine.db(), tenant, id).await?.ok_or(NOT_FOUND)
    }

    /// Deletes a trigger and drops its queued deliveries. Returns false if the tenant has no such trigger. A run whose
    /// start is being committed at the same time may still start.
    pub async fn remove(self, tenant: &TenantId, id: &str, once: Option<&Once<()>>) -> Result<bool, Error> {
        let drop_all = trigger_deliveries::drop_all(tenant, id, self.engine.now());
        let removal = Work::Plain(vec![drop_all, triggers::remove(tenant, id)]);
        let removed = self.engine.submit(removal, once, &()).await?;
        Ok(matches!(removed, CommitReply::Touched(rows) if rows > 0))
    }

    /// Pauses an active trigger. Queued deliveries stay queued; instants and events of the pause start no runs.
    pub async fn pause(
        self,
        tenant: &TenantId,
        id: &str,
        once: Option<&Once<Trigger>>,
    ) -> Result<Trigger, Error> {
        let (state, reason) = (SubscriptionState::Paused, Some(ChangeReason::OperatorPaused));
        let pause = |from: &Trigger| {
            let paused = Trigger { state, reason, next: None, ..from.clone() };
            Ok((from.state == SubscriptionState::Active).then_some(paused))
        };
        self.engine.change_trigger(tenant, id, pause, ChangeReason::OperatorPaused, once).await
    }

    /// Resumes a paused or failed trigger from its next instant on, and makes the caller its owner.
    pub async fn resume(
        self,
        tenant: &TenantId,
        id: &str,
        owner: Option<WebhookOwner>,
        once: Option<&Once<Trigger>>,
    ) -> Result<Trigger, Error> {
        let now = self.engine.now();
        let resume = |from: &Trigger| {
            if from.state == SubscriptionState::Active {
                return Ok(None);
            }
            let (state, next) = (SubscriptionState::Active, next_instant(&from.spec, now)?);
            Ok(Some(Trigger { state, reason: None, owner: owner.clone(), next, ..from.clone() }))
        };
        let resumed =
            self.engine.change_trigger(tenant, id, resume, ChangeReason::OperatorResumed, once).await?;
        self.engine.bus().work.raise();
        Ok(resumed)
    }

    /// Returns the deliveries of a trigger, the newest first.
    pub async fn deliveries(
        self,
        tenant: &TenantId,
        id: &str,
        filter: &TriggerDeliveryFilter,
    ) -> Result<Vec<TriggerDelivery>, Error> {
        Ok(trigger_deliveries::page(self.engine.db(), tenant, id, filter).await?)
    }

    /// Returns a delivery of a trigger.
    pub async fn delivery(
        self,
        tenant: &TenantId,
        id: &str,
        delivery: &str,
    ) -> Result<TriggerDelivery, Error> {
        let found = trigger_deliveries::find(self.engine.db(), tenant, delivery).await?;
        found.filter(|found| found.trigger == id).ok_or(Error::NotFound("delivery"))
    }

    /// Queues a dead letter again. Has no effect on a delivery in another state.
    pub async fn requeue(
        self,
        tenant: &TenantId,
        id: &str,
        delivery: &str,
        once: Option<&Once<TriggerDelivery>>,
    ) -> Result<TriggerDelivery, Error> {
        let from = self.delivery(tenant, id, delivery).await?;
        if from.state != holdpoint_core::webhook::DeliveryState::DeadLettered {
            self.engine.keep_unchanged(once, &from).await?;
            return Ok(from);
        }
        let state = holdpoint_core::webhook::DeliveryState::Queued;
        let to = TriggerDelivery { state, attempt: 0, due: self.engine.now(), ended_at: None, ..from };
        self.engine.submit(Work::Plain(to.requeue(to.due).into()), once, &to).await?;
        self.engine.bus().work.raise();
        Ok(to)
    }
}

impl Engine {
    /// Changes a trigger with `change`. If `change` returns `None`, the trigger is returned unchanged.
    async fn change_trigger(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl Fn(&Trigger) -> Result<Option<Trigger>, Error>,
        why: ChangeReason,
        once: Option<&Once<Trigger>>,
    ) -> Result<Trigger, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let from = self.triggers().get(tenant, id).await?;
            let Some(to) = change(&from)? else {
                self.keep_unchanged(once, &from).await?;
                return Ok(from);
            };
            let to = Trigger { mark: new_mark(), updated_at: self.now(), ..to };
            let mut rows = Vec::new();
            if to.state == SubscriptionState::Active {
                rows.extend(trigger_deliveries::make_due(tenant, id, to.updated_at));
            }
            rows.extend(triggers::change(&from, &to, Some(why)));
            if let CommitReply::Touched(1) = self.submit(Work::Plain(rows), once, &to).await? {
                return Ok(to);
            }
        }
        Err(Error::Busy)
    }

    /// Stops an active trigger, with further statements after that in the same commit.
    async fn stop_trigger(
        &self,
        from: &Trigger,
        state: SubscriptionState,
        why: ChangeReason,
        rows: Vec<Statement>,
    ) -> Result<(), Error> {
        let mut all = Vec::new();
        if from.state == SubscriptionState::Active {
            let (mark, updated_at) = (new_mark(), self.now());
            let to = Trigger { state, reason: Some(why), next: None, mark, updated_at, ..from.clone() };
            all.extend(triggers::change(from, &to, Some(why)));
            let (trigger, state, reason) = (&from.id, state.as_str(), why.as_str());
            tracing::warn!(trigger, state, reason, "a trigger was stopped");
        }
        all.extend(rows);
        self.write(all).await.map(|_| ())
    }

    /// Returns the reason why the owner of a trigger may not start its runs; None if the owner may.
    async fn missing_rights(&self, trigger: &Trigger) -> Result<Option<ChangeReason>, Error> {
        let Some(owner) = &trigger.owner else { return Ok(None) };
        let now = self.now();
        let all = keys::of_lineage(self.db(), &trigger.tenant, &owner.lineage).await?;
        let mut active =
            all.iter().filter(|key| key.is_active(now) && key.principal == owner.principal).peekable();
        if active.peek().is_none() {
            let expired = all.iter().any(|key| key.revoked_at.is_none());
            return Ok(Some(if expired { ChangeReason::KeyExpired } else { ChangeReason::KeyRevoked }));
        }
        let permits =
            active.any(|key| trigger.spec.required_scopes.iter().all(|scope| key.scopes.contains(scope)));
        Ok((!permits).then_some(ChangeReason::ProvenanceUnevaluable))
    }

    /// Deletes up to `limit` deliveries of triggers whose retention has ended.
    pub(crate) async fn purge_trigger_deliveries(&self, limit: usize) -> Result<usize, Error> {
        let kept_ms = i64::try_from(self.hooks().settings.keep_dead_letters.as_millis()).unwrap_or(i64::MAX);
        let old = Timestamp(self.now().0.saturating_sub(kept_ms));
        let purge = Statement::new(trigger_deliveries::PURGE, crate::store::params![old, limit as u64]);
        match self.write(vec![purge]).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}

/// Returns the first instant of a schedule after `now`; None for other sources.
fn next_instant(spec: &TriggerSpec, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let Some(schedule) = spec.schedule() else { return Ok(None) };
    let schedule = schedule.map_err(|bad| Refusal::invalid(bad.field, bad.message))?;
    Ok(schedule.next_after(now))
}
