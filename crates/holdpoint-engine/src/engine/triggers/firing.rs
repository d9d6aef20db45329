//! The timers of triggers: an instant of a schedule becomes a delivery, and a delivery becomes a run. A delivery is
//! stored with the id of its run in the commit that moves the schedule to its next instant. The run is started in the
//! commit that ends the delivery. A crash between both leaves a delivery that is due.

use holdpoint_core::trigger::TriggerOccurrence;
use holdpoint_core::webhook::{
    AttemptOutcome, ChangeReason, DeliveryOutcome, DeliveryResponse, DeliveryState, SubscriptionState,
};
use holdpoint_core::{
    MissedPolicy, OverlapPolicy, Owner, Refusal, StartRequest, TenantId, Timestamp, TriggerCause, limits,
};
use uuid::Uuid;

use super::SCOPE_PREFIX;
use crate::engine::webhooks::new_mark;
use crate::engine::{Engine, StartOptions, new_run_id};
use crate::error::Error;
use crate::store::deliveries::attempts::{self, NewAttempt};
use crate::store::timers::{DueTimer, TriggerTimer};
use crate::store::trigger_deliveries::{self, TriggerDelivery, TriggerDeliveryFilter};
use crate::store::triggers::{self, Trigger};
use crate::store::{self, Statement};

/// The delay before a delivery that waits for the end of an earlier run is attempted again.
const OVERLAP_DELAY_MS: u64 = 15_000;
/// The delay before a delivery of a stopped trigger is attempted again.
const STOPPED_DELAY_MS: u64 = 3_600_000;
/// The number of dead letters in a row after which a trigger fails.
const DEAD_LETTERS_MAX: u64 = 5;

impl Engine {
    /// Fires a timer of a trigger or of one of its deliveries.
    pub(crate) async fn fire_trigger_timer(&self, kind: TriggerTimer, due: &DueTimer) -> Result<(), Error> {
        match kind {
            TriggerTimer::Schedule => self.fire_schedule(due).await,
            TriggerTimer::Delivery => self.attempt_delivery(due).await,
        }
    }

    /// Stores the deliveries of the due instants of a schedule and moves it to its next instant, in one commit. If the
    /// trigger was changed concurrently, the commit has no effect. The timer then belongs to no instant of the trigger.
    async fn fire_schedule(&self, due: &DueTimer) -> Result<(), Error> {
        let (tenant, id) = (&due.of.tenant, due.of.run.as_str());
        let found = triggers::find(self.db(), tenant, id).await?;
        let Some(trigger) = found.filter(|found| found.next == Some(due.due)) else {
            return self.write(vec![due.clear_of_schedule()]).await.map(|_| ());
        };
        if let Some(why) = self.missing_rights(&trigger).await? {
            let clear = vec![due.clear_of_schedule()];
            return self.stop_trigger(&trigger, SubscriptionState::Paused, why, clear).await;
        }
        let Some(Ok(schedule)) = trigger.spec.schedule() else {
            // A later version of the time zones does not know the zone, or only a newer version the expression.
            let why = ChangeReason::ProvenanceUnevaluable;
            let clear = vec![due.clear_of_schedule()];
            return self.stop_trigger(&trigger, SubscriptionState::Failed, why, clear).await;
        };
        let missed = missed_policy(&trigger);
        let instants = schedule.due(due.due, self.now(), missed);
        let (mark, now) = (new_mark(), self.now());
        let moved = Trigger { next: instants.next, mark, updated_at: now, ..trigger.clone() };
        let open = trigger_deliveries::count_open(self.db(), tenant, id).await?;
        let room = limits::TRIGGER_DELIVERIES_OPEN_MAX.saturating_sub(open);
        let mut rows = triggers::change(&trigger, &moved, None);
        rows.push(due.clear_of_schedule());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if instants.fire.len() > room {
            tracing::warn!(trigger = id, "too many deliveries wait; instants of the schedule start no run");
        }
        for at in instants.fire.iter().take(room) {
            let delivery = new_delivery(&trigger, &TriggerOccurrence::ScheduledAt(*at), None, now)?;
            rows.extend(delivery.insert_instant(&moved));
        }
        self.write(rows).await.map(|_| ())
    }

    /// Starts the run of a delivery.
    async fn attempt_delivery(&self, due: &DueTimer) -> Result<(), Error> {
        let (tenant, id) = (&due.of.tenant, due.of.run.as_str());
        let delivery = trigger_deliveries::find(self.db(), tenant, id).await?;
        let Some(delivery) = delivery.filter(|found| found.state == DeliveryState::Queued) else {
            return self.write(vec![due.clear()]).await.map(|_| ());
        };
        let now = self.now();
        let Some(trigger) = triggers::find(self.db(), tenant, &delivery.trigger).await? else {
            let dropped = delivery.dropped("the trigger was deleted", now);
            return self.write(vec![due.clear(), dropped]).await.map(|_| ());
        };
        if trigger.state != SubscriptionState::Active {
            // Resuming the trigger makes its deliveries due.
            let later = now.plus_ms(STOPPED_DELAY_MS);
            let mut rows = vec![due.clear()];
            rows.extend(delivery.retry(delivery.attempt, later, "the trigger is not active"));
            return self.write(rows).await.map(|_| ());
        }
        let attempt = DeliveryAttempt { engine: self, due, trigger, delivery, begun: now };
        if let Some(why) = self.missing_rights(&attempt.trigger).await? {
            return attempt.refuse_owner(why).await;
        }
        attempt.start_run().await
    }

    /// Returns whether the last deliveries of a trigger that ended are dead letters.
    async fn fails_always(&self, tenant: &TenantId, trigger: &str) -> Result<bool, Error> {
        let filter = TriggerDeliveryFilter { limit: DEAD_LETTERS_MAX, ..TriggerDeliveryFilter::default() };
        let last = trigger_deliveries::page(self.db(), tenant, trigger, &filter).await?;
        let is_dead = |one: &TriggerDelivery| one.state == DeliveryState::DeadLettered;
        Ok(last.len() as u64 == DEAD_LETTERS_MAX && last.iter().all(is_dead))
    }
}

/// Creates the delivery of an occurrence. The id of its run is chosen here.
pub(super) fn new_delivery(
    trigger: &Trigger,
    occurrence: &TriggerOccurrence<'_>,
    sent_by: Option<&str>,
    now: Timestamp,
) -> Result<TriggerDelivery, Error> {
    Ok(TriggerDelivery {
        tenant: trigger.tenant.clone(),
        id: format!("td_{}", Uuid::now_v7().simple()),
        trigger: trigger.id.clone(),
        dedup_key: occurrence.dedup_key(&trigger.tenant, &trigger.id),
        run: new_run_id()?,
        state: DeliveryState::Queued,
        attempt: 0,
        due: now,
        occurrence: occurrence.document(),
        sent_by: sent_by.map(str::to_owned),
        error: None,
        created_at: now,
        ended_at: None,
    })
}

fn missed_policy(trigger: &Trigger) -> MissedPolicy {
    match trigger.spec.source {
        holdpoint_core::trigger::TriggerSource::Schedule { missed, .. } => missed,
        holdpoint_core::trigger::TriggerSource::Event { .. } => MissedPolicy::Skip,
    }
}

/// One attempt to start the run of a delivery.
struct DeliveryAttempt<'a> {
    engine: &'a Engine,
    due: &'a DueTimer,
    trigger: Trigger,
    delivery: TriggerDelivery,
    begun: Timestamp,
}

impl DeliveryAttempt<'_> {
    async fn start_run(self) -> Result<(), Error> {
        let inputs = match self.trigger.spec.inputs.inputs(&self.delivery.occurrence) {
            Ok(inputs) => inputs,
            // Another attempt would also fail. The sender of an event must not be able to stop the trigger with it.
            Err(error) if self.trigger.spec.schedule().is_none() => {
                return self.write(self.rows_of_dead_letter(&error.to_string())).await;
            }
            Err(error) => return self.dead_letter(&error.to_string()).await,
        };
        let overlap = self.trigger.spec.overlap();
        let exclusive = overlap != OverlapPolicy::Allow;
        let start = StartRequest {
            inputs,
            scope: exclusive.then(|| format!("{SCOPE_PREFIX}{}", self.trigger.id)),
            ..self.start_request()
        };
        let options = StartOptions { id: Some(self.delivery.run.clone()), exclusive, once: None };
        let rows = self.rows_of_success();
        let started =
            self.engine.runs().create_with_rows(&self.trigger.spec.workflow, start, options, rows).await;
        match started {
            Ok(_) => Ok(()),
            // The commit of an earlier attempt was not confirmed.
            Err(Error::Refused(Refusal::AlreadyStarted)) => self.write(self.rows_of_success()).await,
            Err(Error::ScopeBusy { .. }) if overlap == OverlapPolicy::Skip => {
                let why = "an earlier run of the trigger has not ended";
                self.write(vec![self.delivery.dropped(why, self.begun)]).await
            }
            Err(Error::ScopeBusy { .. }) => {
                let (again, why) = (
                    self.begun.plus_ms(OVERLAP_DELAY_MS),
                    "waits for the end of an earlier run of the trigger",
                );
                self.write(self.delivery.retry(self.delivery.attempt, again, why).into()).await
            }
            // The cause is the database, not the delivery. The timer fires again.
            Err(error @ (Error::Busy | Error::Store(_))) if !is_unreadable(&error) => Err(error),
            Err(error) => self.fail(&error.to_string()).await,
        }
    }

    fn start_request(&self) -> StartRequest {
        let (trigger, spec) = (&self.trigger, &self.trigger.spec);
        let principal = trigger.owner.as_ref().map_or(&spec.created_by, |owner| &owner.principal);
        let others = [Some(&spec.created_by), self.delivery.sent_by.as_ref()].into_iter().flatten();
        let mut requested_by: Vec<String> = others.filter(|name| *name != principal).cloned().collect();
        requested_by.dedup();
        let cause = TriggerCause { subscription: trigger.id.clone(), delivery: self.delivery.id.clone() };
        StartRequest {
            tags: spec.tags.clone(),
            dispatch: spec.dispatch.clone(),
            requested_by,
            credentials: trigger.owner.iter().map(|owner| owner.lineage.clone()).collect(),
            trigger: Some(Box::new(cause)),
            ..StartRequest::new(Owner { tenant: trigger.tenant.clone(), principal: principal.clone() })
        }
    }

    /// Returns the rows that are written with the run.
    fn rows_of_success(&self) -> Vec<Statement> {
        let number = self.delivery.attempt.saturating_add(1);
        vec![
            self.delivery.delivered(number, self.begun),
            self.record(number, AttemptOutcome::Delivered, None),
            self.due.clear(),
        ]
    }

    fn record(&self, number: u32, outcome: AttemptOutcome, error: Option<&str>) -> Statement {
        let delivery = TriggerDelivery { attempt: number, ..self.delivery.clone() };
        let latency_ms = u64::try_from(self.engine.now().0 - self.begun.0).unwrap_or(0);
        let attempt = NewAttempt { at: self.begun, latency_ms, status: None, error, outcome };
        attempts::insert_of_trigger(&delivery, &attempt)
    }

    /// Writes rows and deletes the timer. New timers are among the rows, so that the old one is deleted first.
    async fn write(&self, rows: Vec<Statement>) -> Result<(), Error> {
        let all = std::iter::once(self.due.clear()).chain(rows).collect();
        self.engine.write(all).await.map(|_| ())
    }

    async fn fail(self, why: &str) -> Result<(), Error> {
        let number = self.delivery.attempt.saturating_add(1);
        let (response, chance) =
            (DeliveryResponse::Failed { retry_after_ms: None }, Uuid::now_v7().as_u128() as u64);
        match self.trigger.spec.retry.outcome_of_attempt(number, response, chance, self.begun) {
            DeliveryOutcome::RetryAt(at) => {
                let mut rows = self.delivery.retry(number, at, why).to_vec();
                rows.push(self.record(number, AttemptOutcome::Retrying, Some(why)));
                self.write(rows).await
            }
            DeliveryOutcome::DeadLetter(_) | DeliveryOutcome::Delivered => self.dead_letter(why).await,
        }
    }

    async fn dead_letter(&self, why: &str) -> Result<(), Error> {
        self.write(self.rows_of_dead_letter(why)).await?;
        let (tenant, id) = (&self.trigger.tenant, &self.trigger.id);
        if !self.engine.fails_always(tenant, id).await? {
            return Ok(());
        }
        let Some(trigger) = triggers::find(self.engine.db(), tenant, id).await? else { return Ok(()) };
        let why = ChangeReason::RetryExhausted;
        self.engine.stop_trigger(&trigger, SubscriptionState::Failed, why, Vec::new()).await
    }

    fn rows_of_dead_letter(&self, why: &str) -> Vec<Statement> {
        let number = self.delivery.attempt.saturating_add(1);
        vec![
            self.delivery.dead(number, why, self.begun),
            self.record(number, AttemptOutcome::DeadLettered, Some(why)),
        ]
    }

    /// Ends a delivery whose owner may not start runs any more, and pauses the trigger.
    async fn refuse_owner(self, why: ChangeReason) -> Result<(), Error> {
        let error = format!("the owner of the trigger may not start runs any more: {}", why.as_str());
        let mut rows = vec![self.due.clear()];
        rows.extend(self.rows_of_dead_letter(&error));
        self.engine.stop_trigger(&self.trigger, SubscriptionState::Paused, why, rows).await
    }
}

/// Returns whether a stored value is invalid. Another attempt reads the same value.
fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Store(store::Error::Unreadable { .. }))
}
