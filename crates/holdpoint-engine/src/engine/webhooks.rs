//! Webhooks: operations of operators, and changes by the delivery worker.

use holdpoint_core::TenantId;
use holdpoint_core::limits;
use holdpoint_core::webhook::{
    BadPolicy, Breaker, ChangeReason, DeadReason, DeliveryState, Filter, Mode, RetryPolicy, SubscriptionState,
};
use uuid::Uuid;

use super::{ATTEMPTS_MAX, Engine, Once, Webhooks, fingerprint};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::outgoing;
use crate::store::deliveries;
use crate::store::webhooks::{self, Webhook, WebhookOwner};
use crate::store::{self, Statement, params};
use crate::webhooks::WebhookHub;

const NOT_FOUND: Error = Error::NotFound("webhook");
/// The maximum number of deliveries that one statement ends.
const BATCH: u64 = 1000;

/// A request to create a webhook.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// The tenant.
    pub tenant: TenantId,
    /// The address of the deliveries.
    pub url: String,
    /// The events to deliver.
    pub filter: Filter,
    /// Best effort or durable.
    pub mode: Mode,
    /// True if durable deliveries of a run keep their order.
    pub ordered: bool,
    /// The retries of failed deliveries.
    pub retry: RetryPolicy,
    /// The owner, whose key must be active. A webhook without an owner depends on no key.
    pub owner: Option<WebhookOwner>,
    /// The request whose receipt is written with the webhook.
    pub once: Option<Once<Webhook>>,
}

impl NewWebhook {
    /// Returns a request for a best-effort webhook for these events of all runs, without an owner.
    pub fn new(tenant: TenantId, url: impl Into<String>, events: impl IntoIterator<Item = String>) -> Self {
        let filter = Filter { events: events.into_iter().collect(), tags: Vec::new() };
        let (mode, ordered, retry) = (Mode::BestEffort, true, RetryPolicy::default());
        Self { tenant, url: url.into(), filter, mode, ordered, retry, owner: None, once: None }
    }
}

impl From<BadPolicy> for Error {
    fn from(bad: BadPolicy) -> Self {
        holdpoint_core::Refusal::invalid(bad.field, bad.rule).into()
    }
}

impl Webhooks<'_> {
    /// Creates a webhook and returns it with its secret, which cannot be read again. Fails with [`Error::Target`] if
    /// the outgoing policy forbids the URL; accepts a host name that cannot be resolved now.
    pub async fn add(self, new: NewWebhook) -> Result<(Webhook, String), Error> {
        new.retry.check()?;
        self.engine.check_target(&new.url).await?;
        let id = format!("wh_{}", Uuid::now_v7().simple());
        let (secret, sealed) = self.engine.make_webhook_secret(&id)?;
        let now = self.engine.now();
        let NewWebhook { tenant, url, filter, mode, ordered, retry, owner, once } = new;
        let webhook = Webhook {
            tenant,
            id,
            url,
            filter,
            mode,
            ordered,
            retry,
            fingerprint: fingerprint(&secret),
            state: SubscriptionState::Active,
            stored_state: SubscriptionState::Active,
            reason: None,
            owner,
            old_secret: None,
            breaker: Breaker::default(),
            created_at: now,
            updated_at: now,
            sealed,
            mark: new_mark(),
        };
        let rows = webhooks::insert(&webhook, limits::WEBHOOKS_PER_TENANT_MAX)?;
        match self.engine.submit(Work::Plain(rows), once.as_ref(), &webhook).await? {
            CommitReply::Touched(1) => Ok((webhook, secret)),
            _ => Err(Error::TooMany("webhooks")),
        }
    }

    /// Returns the webhooks of a tenant in the order of their creation. `after` is the id of the last webhook of the
    /// previous page.
    pub async fn list(
        self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<Webhook>, Error> {
        Ok(webhooks::page(self.engine.db(), tenant, after.unwrap_or_default(), self.engine.now(), limit)
            .await?)
    }

    /// Returns a webhook.
    pub async fn get(self, tenant: &TenantId, id: &str) -> Result<Webhook, Error> {
        self.engine.find_webhook(tenant, id).await?.ok_or(NOT_FOUND)
    }

    /// Deletes a webhook. Returns false if the tenant has no such webhook. After it returns, this node sends no
    /// deliveries to the webhook; attempts of other nodes end within the timeout of an attempt.
    pub async fn remove(self, tenant: &TenantId, id: &str, once: Option<&Once<()>>) -> Result<bool, Error> {
        let Some(hook) = self.engine.find_webhook(tenant, id).await? else { return Ok(false) };
        let removal = Work::Plain(webhooks::remove(tenant, id));
        let removed = self.engine.submit(removal, once, &()).await?;
        self.engine.hooks().close_lane(id).await;
        // The upkeep drops the remaining deliveries if this fails.
        if let Err(error) = self.engine.end_deliveries(&hook, DeliveryState::Dropped, None).await {
            tracing::warn!(%error, webhook = id, "pending deliveries of a deleted webhook could not be dropped; it will be retried");
        }
        Ok(matches!(removed, CommitReply::Touched(rows) if rows > 0))
    }

    /// Pauses a webhook. Deliveries of a durable webhook stay queued.
    pub async fn pause(
        self,
        tenant: &TenantId,
        id: &str,
        once: Option<&Once<Webhook>>,
    ) -> Result<Webhook, Error> {
        let pause = |from: &Webhook| {
            (from.state == SubscriptionState::Active)
                .then(|| Webhook { state: SubscriptionState::Paused, ..from.clone() })
        };
        self.engine.change_webhook_state(tenant, id, pause, ChangeReason::OperatorPaused, once).await
    }

    /// Resumes a paused or failed webhook with a closed circuit breaker, and makes the caller its owner. Has no effect
    /// on a webhook whose address is permanently gone.
    pub async fn resume(
        self,
        tenant: &TenantId,
        id: &str,
        owner: Option<WebhookOwner>,
        once: Option<&Once<Webhook>>,
    ) -> Result<Webhook, Error> {
        let resume = |from: &Webhook| {
            let is_stopped = from.state.may_resume() && from.state != SubscriptionState::Active;
            let (state, breaker, owner) = (SubscriptionState::Active, Breaker::default(), owner.clone());
            is_stopped.then(|| Webhook { state, breaker, owner, ..from.clone() })
        };
        let resumed =
            self.engine.change_webhook_state(tenant, id, resume, ChangeReason::OperatorResumed, once).await?;
        self.engine.hooks().wake_for_durable();
        Ok(resumed)
    }

    /// Stores that webhooks of a tenant are paused because their owners have no active key. If this fails, the next
    /// delivery stores it and is not sent.
    pub async fn pause_lapsed(self, tenant: &TenantId) -> Result<(), Error> {
        let all = self.list(tenant, None, limits::WEBHOOKS_PER_TENANT_MAX).await?;
        for hook in all.iter().filter(|hook| hook.has_unstored_pause()) {
            self.engine.pause_lapsed(hook).await?;
        }
        Ok(())
    }
}

impl Engine {
    async fn check_target(&self, url: &str) -> Result<(), Error> {
        match self.hooks().outgoing.check(url).await {
            Ok(_) => Ok(()),
            Err(error @ outgoing::Error::Refused(_)) => Err(Error::Target(error)),
            // A plain HTTP target must be resolved now, because only its address decides whether it may be called.
            Err(error) if !url.trim_start().to_ascii_lowercase().starts_with("https:") => {
                Err(Error::Target(error))
            }
            Err(_) => Ok(()),
        }
    }

    /// Stores that a webhook is paused, if its owner has no active key and the stored state is still active.
    pub(crate) async fn pause_lapsed(&self, hook: &Webhook) -> Result<(), Error> {
        if !hook.has_unstored_pause() {
            return Ok(());
        }
        let pause = |hook: &mut Webhook| {
            hook.stored_state = hook.state;
            hook.reason
        };
        self.change_webhook(&hook.tenant, &hook.id, pause).await
    }

    /// Changes a webhook with `change`. If `change` returns `None`, the webhook is returned unchanged.
    async fn change_webhook_state(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl Fn(&Webhook) -> Option<Webhook>,
        why: ChangeReason,
        once: Option<&Once<Webhook>>,
    ) -> Result<Webhook, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let from = self.webhooks().get(tenant, id).await?;
            let Some(to) = change(&from) else {
                self.keep_unchanged(once, &from).await?;
                return Ok(from);
            };
            if let Some(to) = self.replace_webhook(&from, to, Some(why), once).await? {
                self.hooks().reset_lane(id);
                return Ok(to);
            }
        }
        Err(Error::Busy)
    }

    /// Replaces a webhook. Returns `None` if it has changed since it was read.
    async fn replace_webhook(
        &self,
        from: &Webhook,
        to: Webhook,
        why: Option<ChangeReason>,
        once: Option<&Once<Webhook>>,
    ) -> Result<Option<Webhook>, Error> {
        // A pause for a missing key that is stored with another change keeps its own reason.
        let why = if from.has_unstored_pause() && to.state == from.state { to.reason } else { why };
        let reason = match to.state {
            SubscriptionState::Active => None,
            _ if to.state == from.stored_state => to.reason,
            _ => why,
        };
        let (mark, updated_at) = (new_mark(), self.now());
        let to = Webhook { mark, updated_at, reason, stored_state: to.state, ..to };
        let rows = webhooks::change(from, &to, why)?;
        let swapped = self.submit(Work::Plain(rows), once, &to).await?;
        Ok(matches!(swapped, CommitReply::Touched(1)).then_some(to))
    }

    pub(crate) async fn try_change_webhook(
        &self,
        from: &Webhook,
        to: Webhook,
        why: Option<ChangeReason>,
    ) -> Result<bool, Error> {
        Ok(self.replace_webhook(from, to, why, None).await?.is_some())
    }

    /// Changes a webhook if it still exists. If the webhook ends, its queued deliveries become dead letters.
    pub(crate) async fn change_webhook(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl Fn(&mut Webhook) -> Option<ChangeReason>,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(from) = self.find_webhook(tenant, id).await? else { return Ok(()) };
            let mut to = from.clone();
            let why = change(&mut to);
            if to == from {
                return Ok(());
            }
            if let Some(to) = self.replace_webhook(&from, to, why, None).await? {
                if let Some(why) = why {
                    let (fingerprint, state) = (&to.fingerprint, to.state.as_str());
                    tracing::warn!(
                        webhook = id,
                        fingerprint,
                        state,
                        reason = why.as_str(),
                        "the state of a webhook changed"
                    );
                }
                return self.give_up_queue(&to).await;
            }
        }
        Err(Error::Busy)
    }

    async fn give_up_queue(&self, hook: &Webhook) -> Result<(), Error> {
        if hook.state.first_delivery_state() != DeliveryState::DeadLettered {
            return Ok(());
        }
        self.end_deliveries(hook, DeliveryState::DeadLettered, Some(DeadReason::SubscriptionEnded)).await
    }

    /// Ends queued deliveries. Dropped deliveries end even if a delivery worker has claimed them.
    async fn end_deliveries(
        &self,
        hook: &Webhook,
        state: DeliveryState,
        why: Option<DeadReason>,
    ) -> Result<(), Error> {
        self.end_deliveries_of(&hook.tenant, &hook.id, state, why).await
    }

    pub(super) async fn end_deliveries_of(
        &self,
        tenant: &TenantId,
        id: &str,
        state: DeliveryState,
        why: Option<DeadReason>,
    ) -> Result<(), Error> {
        let includes_claimed = i64::from(state == DeliveryState::Dropped);
        loop {
            let why = why.map(DeadReason::as_str);
            let values =
                params![state.as_str(), self.now(), why, id, tenant.as_str(), includes_claimed, BATCH];
            match self.write(vec![Statement::new(deliveries::END, values)]).await? {
                CommitReply::Touched(rows) if rows >= BATCH => {}
                _ => return Ok(()),
            }
        }
    }

    // For the delivery worker

    pub(crate) fn hooks(&self) -> &WebhookHub {
        &self.0.hooks
    }

    pub(crate) async fn find_webhook(&self, tenant: &TenantId, id: &str) -> Result<Option<Webhook>, Error> {
        Ok(webhooks::find(self.db(), tenant, id, self.now()).await?)
    }

    /// Writes rows without preconditions, grouped with other changes.
    pub(crate) async fn write_rows(&self, rows: Vec<Statement>) -> Result<(), Error> {
        self.0.committer.submit(Work::Rows(rows), None).await.map(|_| ())
    }

    pub(crate) async fn submit_work(&self, work: Work) -> Result<CommitReply, Error> {
        self.0.committer.submit(work, None).await
    }
}

pub(super) fn new_mark() -> String {
    Uuid::now_v7().simple().to_string()
}

pub(super) fn failed(why: impl ToString) -> Error {
    store::Error::Failed(why.to_string()).into()
}
