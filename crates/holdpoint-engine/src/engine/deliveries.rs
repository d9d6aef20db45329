//! Deliveries as operators see them: lists, replays, and what is not kept any longer.

use std::sync::Arc;

use holdpoint_core::webhook::{DeadReason, DeliveryState};
use holdpoint_core::{TenantId, Timestamp};

use super::{Engine, Once};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::deliveries::attempts::{self, Attempt, AttemptFilter};
use crate::store::deliveries::{self, Delivery, DeliveryFilter};
use crate::store::webhooks::{self, WebhookChange};
use crate::store::{Param, Statement, params};
use crate::webhooks::{Courier, Render, WebhookSettings, millis};

impl Engine {
    pub async fn deliveries(
        &self,
        tenant: &TenantId,
        webhook: &str,
        filter: &DeliveryFilter,
    ) -> Result<Vec<Delivery>, Error> {
        Ok(deliveries::page(self.db(), tenant, webhook, filter).await?)
    }

    pub async fn delivery(&self, tenant: &TenantId, webhook: &str, id: &str) -> Result<Delivery, Error> {
        let found = deliveries::find(self.db(), tenant, webhook, id).await?;
        found.ok_or(Error::NotFound("delivery"))
    }

    pub async fn attempts(
        &self,
        tenant: &TenantId,
        webhook: &str,
        filter: &AttemptFilter,
    ) -> Result<Vec<Attempt>, Error> {
        Ok(attempts::page(self.db(), tenant, webhook, filter).await?)
    }

    pub fn webhook_settings(&self) -> &WebhookSettings {
        &self.hooks().settings
    }

    /// Until when a dead letter is kept.
    pub fn dead_letter_kept_until(&self, delivery: &Delivery) -> Option<Timestamp> {
        let kept_ms = millis(self.hooks().settings.keep_dead_letters);
        delivery.ended_at.map(|at| at.plus_ms(kept_ms))
    }

    /// What became of a subscription, oldest first; `after` is the number of the last one seen.
    pub async fn webhook_changes(
        &self,
        tenant: &TenantId,
        webhook: &str,
        after: u64,
        limit: u64,
    ) -> Result<Vec<WebhookChange>, Error> {
        Ok(webhooks::changes(self.db(), tenant, webhook, after, limit).await?)
    }

    /// Queues a delivery that has ended once more, under the same names and with all its attempts. One that has not ended
    /// is queued already.
    pub async fn replay_delivery(
        &self,
        tenant: &TenantId,
        webhook: &str,
        id: &str,
        once: Option<&Once<Delivery>>,
    ) -> Result<Delivery, Error> {
        let now = self.now();
        let was = self.delivery(tenant, webhook, id).await?;
        let queued = Delivery {
            state: DeliveryState::Queued,
            attempt: 0,
            due: now,
            ended_at: None,
            reason: None,
            ..was
        };
        let replay = Work::Plain(vec![deliveries::replay(tenant, webhook, id, now)]);
        if !matches!(self.submit(replay, once, &queued).await?, Reply::Touched(1)) {
            let found = self.delivery(tenant, webhook, id).await?;
            self.keep_unchanged(once, &found).await?;
            return Ok(found);
        }
        self.hooks().wake_for_durable();
        Ok(queued)
    }

    /// Queues every delivery once more that has ended and whose event happened from `from` to before `to`; of these
    /// events, or of all. How many there were when it was asked for.
    pub async fn replay_window(
        &self,
        tenant: &TenantId,
        webhook: &str,
        (from, to): (Timestamp, Timestamp),
        events: &[String],
        once: Option<&Once<u64>>,
    ) -> Result<u64, Error> {
        self.webhook(tenant, webhook).await?;
        let any = [String::new()];
        let events = if events.is_empty() { &any[..] } else { events };
        let window = |event: &String| params![tenant.as_str(), webhook, from, to, event.as_str()];
        let found = deliveries::count_window(self.db(), events.iter().map(window).collect()).await?;
        let now = Param::from(self.now());
        let queued = |event| std::iter::once(now.clone()).chain(window(event)).collect();
        let sets: Vec<Vec<Param>> = events.iter().map(queued).collect();
        self.submit(Work::Each(deliveries::REPLAY_WINDOW, sets), once, &found).await?;
        self.hooks().wake_for_durable();
        Ok(found)
    }

    /// Carries deliveries out, with bodies that `render` makes. One for a node.
    pub fn courier(&self, render: Arc<dyn Render>) -> Courier {
        Courier::new(self.clone(), render)
    }

    /// Ends what is queued for nobody, and deletes what is not kept any longer. How much there was of the largest part.
    pub(crate) async fn purge_deliveries(&self, limit: usize) -> Result<usize, Error> {
        let given_up: Vec<(TenantId, String)> = self
            .hooks()
            .list()
            .given_up()
            .map(|(tenant, known)| (tenant.clone(), known.id.clone()))
            .collect();
        for (tenant, id) in given_up {
            let why = Some(DeadReason::SubscriptionEnded);
            self.end_of(&tenant, &id, DeliveryState::DeadLettered, why).await?;
        }
        let (now, limit, settings) = (self.now(), limit as u64, &self.hooks().settings);
        let before = |kept| Timestamp(now.0.saturating_sub_unsigned(millis(kept)));
        let (old, dead) = (before(settings.keep_deliveries), before(settings.keep_dead_letters));
        let writes = [
            Statement::new(deliveries::END_ORPHANS, params![now, limit]),
            Statement::new(deliveries::PURGE, params![old.max(dead), dead, old, limit]),
            Statement::new(attempts::PURGE, params![old, limit]),
            Statement::new(webhooks::PURGE_LOG, params![dead.min(old), limit]),
            Statement::new(webhooks::ERASE_OLD_SECRETS, params![now]),
        ];
        let mut most = 0;
        for write in writes {
            if let Reply::Touched(rows) = self.write(vec![write]).await? {
                most = most.max(usize::try_from(rows).unwrap_or(usize::MAX));
            }
        }
        Ok(most)
    }
}
