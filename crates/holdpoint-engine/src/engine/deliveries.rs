//! Webhook deliveries for operators: lists, replays and retention.

use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt;
use holdpoint_core::webhook::{DeadReason, DeliveryState};
use holdpoint_core::{TenantId, Timestamp};

use super::{Deliveries, Engine, Once, Webhooks};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::deliveries::attempts::{self, Attempt, AttemptFilter};
use crate::store::deliveries::{self, Delivery, DeliveryFilter};
use crate::store::webhooks::{self, WebhookChange};
use crate::store::{Param, Statement, params};
use crate::webhooks::{AttemptClient, AttemptResult, DeliveryJob, DeliveryWorker, WebhookSettings, millis};

impl Deliveries<'_> {
    /// Returns a page of the deliveries of a webhook.
    pub async fn list(
        self,
        tenant: &TenantId,
        webhook: &str,
        filter: &DeliveryFilter,
    ) -> Result<Vec<Delivery>, Error> {
        Ok(deliveries::page(self.engine.db(), tenant, webhook, filter).await?)
    }

    /// Returns a delivery.
    pub async fn get(self, tenant: &TenantId, webhook: &str, id: &str) -> Result<Delivery, Error> {
        let found = deliveries::find(self.engine.db(), tenant, webhook, id).await?;
        found.ok_or(Error::NotFound("delivery"))
    }

    /// Returns a page of the attempts of a webhook.
    pub async fn attempts(
        self,
        tenant: &TenantId,
        webhook: &str,
        filter: &AttemptFilter,
    ) -> Result<Vec<Attempt>, Error> {
        Ok(attempts::page(self.engine.db(), tenant, webhook, filter).await?)
    }

    /// Returns the end of the retention of a dead letter.
    pub fn dead_letter_kept_until(self, delivery: &Delivery) -> Option<Timestamp> {
        let kept_ms = millis(self.engine.hooks().settings.keep_dead_letters);
        delivery.ended_at.map(|at| at.plus_ms(kept_ms))
    }

    /// Queues a delivery again that has ended. It keeps its ids and gets all attempts again. Has no effect on a
    /// delivery that has not ended.
    pub async fn replay(
        self,
        tenant: &TenantId,
        webhook: &str,
        id: &str,
        once: Option<&Once<Delivery>>,
    ) -> Result<Delivery, Error> {
        let now = self.engine.now();
        let was = self.get(tenant, webhook, id).await?;
        let queued = Delivery {
            state: DeliveryState::Queued,
            attempt: 0,
            due: now,
            ended_at: None,
            reason: None,
            ..was
        };
        let replay = Work::Plain(vec![deliveries::replay(tenant, webhook, id, now)]);
        if !matches!(self.engine.submit(replay, once, &queued).await?, CommitReply::Touched(1)) {
            let found = self.get(tenant, webhook, id).await?;
            self.engine.keep_unchanged(once, &found).await?;
            return Ok(found);
        }
        self.engine.hooks().wake_for_durable();
        Ok(queued)
    }

    /// Queues all deliveries again that have ended and whose event happened in `window`. An empty `events` selects all
    /// events. Returns the number of deliveries that were found.
    pub async fn replay_window(
        self,
        tenant: &TenantId,
        webhook: &str,
        window: Range<Timestamp>,
        events: &[String],
        once: Option<&Once<u64>>,
    ) -> Result<u64, Error> {
        self.engine.webhooks().get(tenant, webhook).await?;
        let any = [String::new()];
        let events = if events.is_empty() { &any[..] } else { events };
        let values =
            |event: &String| params![tenant.as_str(), webhook, window.start, window.end, event.as_str()];
        let found = deliveries::count_window(self.engine.db(), events.iter().map(values).collect()).await?;
        let now = Param::from(self.engine.now());
        let queued = |event| std::iter::once(now.clone()).chain(values(event)).collect();
        let sets: Vec<Vec<Param>> = events.iter().map(queued).collect();
        self.engine.submit(Work::Each(deliveries::REPLAY_WINDOW, sets), once, &found).await?;
        self.engine.hooks().wake_for_durable();
        Ok(found)
    }
}

impl<'e> Webhooks<'e> {
    /// Creates the delivery worker of this process. For each attempt it calls `courier`, which renders and signs the
    /// body and sends it with the client of the attempt. `courier` returns None if the event no longer exists; the
    /// delivery is then dropped.
    pub fn delivery_worker<F, R>(self, courier: F) -> DeliveryWorker
    where
        F: Fn(DeliveryJob, AttemptClient) -> R + Send + Sync + 'static,
        R: Future<Output = Option<AttemptResult>> + Send + 'static,
    {
        let courier = move |job, client| courier(job, client).boxed();
        DeliveryWorker::new(self.engine.clone(), Arc::new(courier))
    }

    /// Returns the settings of webhooks.
    pub fn settings(self) -> &'e WebhookSettings {
        &self.engine.hooks().settings
    }

    /// Returns the changes of the state of a webhook, oldest first. `after` is the number of the last change of the
    /// previous page.
    pub async fn changes(
        self,
        tenant: &TenantId,
        webhook: &str,
        after: u64,
        limit: u64,
    ) -> Result<Vec<WebhookChange>, Error> {
        Ok(webhooks::changes(self.engine.db(), tenant, webhook, after, limit).await?)
    }
}

impl Engine {
    /// Ends queued deliveries without an active webhook, and deletes rows whose retention has ended. Returns the
    /// largest number of rows that one statement changed.
    pub(crate) async fn purge_deliveries(&self, limit: usize) -> Result<usize, Error> {
        let given_up: Vec<(TenantId, String)> = self
            .hooks()
            .subscriptions()
            .ended_subscriptions()
            .map(|(tenant, known)| (tenant.clone(), known.id.clone()))
            .collect();
        for (tenant, id) in given_up {
            let why = Some(DeadReason::SubscriptionEnded);
            self.end_deliveries_of(&tenant, &id, DeliveryState::DeadLettered, why).await?;
        }
        let (now, limit, settings) = (self.now(), limit as u64, &self.hooks().settings);
        let before = |kept| Timestamp(now.0.saturating_sub_unsigned(millis(kept)));
        let (old, dead) = (before(settings.keep_deliveries), before(settings.keep_dead_letters));
        let writes = [
            Statement::new(deliveries::END_ORPHANS, params![now, limit]),
            Statement::new(deliveries::PURGE, params![old.max(dead), dead, old, limit]),
            attempts::purge(old, limit),
            Statement::new(webhooks::PURGE_LOG, params![dead.min(old), limit]),
            Statement::new(webhooks::ERASE_OLD_SECRETS, params![now]),
        ];
        let mut most = 0;
        for write in writes {
            if let CommitReply::Touched(rows) = self.write(vec![write]).await? {
                most = most.max(usize::try_from(rows).unwrap_or(usize::MAX));
            }
        }
        Ok(most)
    }
}
