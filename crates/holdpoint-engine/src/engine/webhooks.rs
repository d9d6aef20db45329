//! Subscriptions, as operators deal with them and as couriers change them.

use holdpoint_core::TenantId;
use holdpoint_core::limits;
use holdpoint_core::webhook::{
    BadPolicy, Breaker, ChangeReason, DeadReason, DeliveryState, Filter, Mode, RetryPolicy, SubscriptionState,
};
use uuid::Uuid;

use super::{ATTEMPTS_MAX, Engine, Once};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::outgoing;
use crate::store::deliveries;
use crate::store::webhooks::{self, Webhook, WebhookOwner};
use crate::store::{self, Statement, params};
use crate::webhooks::{Hooks, fingerprint};

const NOT_FOUND: Error = Error::NotFound("webhook");
/// Rows that are ended or deleted in one go.
const BATCH: u64 = 1000;

/// A subscription that somebody wants.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    pub tenant: TenantId,
    pub url: String,
    pub filter: Filter,
    pub mode: Mode,
    pub ordered: bool,
    pub retry: RetryPolicy,
    /// Without one it depends on no key.
    pub owner: Option<WebhookOwner>,
    /// The request whose receipt is written with the subscription.
    pub once: Option<Once<Webhook>>,
}

impl NewWebhook {
    /// Best effort, for these events of all runs, without an owner.
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

impl Engine {
    /// Registers a subscription. The secret comes back this once and is kept sealed. A URL that must not be called is
    /// refused with [`Error::Target`]; a name that has no address at the moment may get one.
    pub async fn add_webhook(&self, new: NewWebhook) -> Result<(Webhook, String), Error> {
        new.retry.check()?;
        self.check_target(&new.url).await?;
        let id = format!("wh_{}", Uuid::now_v7().simple());
        let (secret, sealed) = self.make_webhook_secret(&id)?;
        let now = self.now();
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
            mark: fresh_mark(),
        };
        let rows = webhooks::insert(&webhook, limits::WEBHOOKS_PER_TENANT_MAX)?;
        match self.submit(Work::Plain(rows), once.as_ref(), &webhook).await? {
            Reply::Touched(1) => Ok((webhook, secret)),
            _ => Err(Error::TooMany("webhooks")),
        }
    }

    async fn check_target(&self, url: &str) -> Result<(), Error> {
        match self.hooks().outgoing.check(url).await {
            Ok(_) => Ok(()),
            Err(error @ outgoing::Error::Refused(_)) => Err(Error::Target(error)),
            // Plain HTTP is for this machine, which has an address.
            Err(error) if !url.trim_start().to_ascii_lowercase().starts_with("https:") => {
                Err(Error::Target(error))
            }
            Err(_) => Ok(()),
        }
    }

    /// In the order of their ids, which is that of their making; `after` is the last of the page before.
    pub async fn webhooks(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<Webhook>, Error> {
        Ok(webhooks::page(self.db(), tenant, after.unwrap_or_default(), self.now(), limit).await?)
    }

    pub async fn webhook(&self, tenant: &TenantId, id: &str) -> Result<Webhook, Error> {
        self.find_webhook(tenant, id).await?.ok_or(NOT_FOUND)
    }

    /// Returns false if the tenant has no such webhook. When this returns, nothing more is sent by this node; what others have
    /// under way ends within the time of an attempt.
    pub async fn remove_webhook(
        &self,
        tenant: &TenantId,
        id: &str,
        once: Option<&Once<()>>,
    ) -> Result<bool, Error> {
        let Some(hook) = self.find_webhook(tenant, id).await? else { return Ok(false) };
        let removal = Work::Plain(webhooks::remove(tenant, id));
        let removed = self.submit(removal, once, &()).await?;
        self.hooks().shut(id).await;
        // What is left of it is dropped by the upkeep, if not here.
        if let Err(error) = self.end_deliveries(&hook, DeliveryState::Dropped, None).await {
            tracing::warn!(%error, webhook = id, "pending deliveries are dropped later");
        }
        Ok(matches!(removed, Reply::Touched(rows) if rows > 0))
    }

    /// Stops deliveries. Those of a durable subscription wait.
    pub async fn pause_webhook(
        &self,
        tenant: &TenantId,
        id: &str,
        once: Option<&Once<Webhook>>,
    ) -> Result<Webhook, Error> {
        let pause = |from: &Webhook| {
            (from.state == SubscriptionState::Active)
                .then(|| Webhook { state: SubscriptionState::Paused, ..from.clone() })
        };
        self.turn_webhook(tenant, id, pause, ChangeReason::OperatorPaused, once).await
    }

    /// Resumes a paused or failed subscription with a closed circuit, and makes the caller its owner. One that is gone for
    /// good stays so.
    pub async fn resume_webhook(
        &self,
        tenant: &TenantId,
        id: &str,
        owner: Option<WebhookOwner>,
        once: Option<&Once<Webhook>>,
    ) -> Result<Webhook, Error> {
        let resume = |from: &Webhook| {
            let stands_still = from.state.may_resume() && from.state != SubscriptionState::Active;
            let (state, breaker, owner) = (SubscriptionState::Active, Breaker::default(), owner.clone());
            stands_still.then(|| Webhook { state, breaker, owner, ..from.clone() })
        };
        let resumed = self.turn_webhook(tenant, id, resume, ChangeReason::OperatorResumed, once).await?;
        self.hooks().wake_for_durable();
        Ok(resumed)
    }

    /// Stores that subscriptions of a tenant are paused because their owners have no active key. What is missed here is
    /// stored with the next delivery, which is not sent.
    pub async fn pause_lapsed_webhooks(&self, tenant: &TenantId) -> Result<(), Error> {
        let all = self.webhooks(tenant, None, limits::WEBHOOKS_PER_TENANT_MAX).await?;
        for hook in all.iter().filter(|hook| hook.has_lapsed()) {
            self.pause_lapsed(hook).await?;
        }
        Ok(())
    }

    /// Stores that a subscription is paused, if its owner has no active key and the store does not say so yet.
    pub(crate) async fn pause_lapsed(&self, hook: &Webhook) -> Result<(), Error> {
        if !hook.has_lapsed() {
            return Ok(());
        }
        let pause = |hook: &mut Webhook| {
            hook.stored_state = hook.state;
            hook.reason
        };
        self.change_webhook(&hook.tenant, &hook.id, pause).await
    }

    /// Changes a subscription as `turn` says. If it returns None the subscription stays as it is, which is no error.
    async fn turn_webhook(
        &self,
        tenant: &TenantId,
        id: &str,
        turn: impl Fn(&Webhook) -> Option<Webhook>,
        why: ChangeReason,
        once: Option<&Once<Webhook>>,
    ) -> Result<Webhook, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let from = self.webhook(tenant, id).await?;
            let Some(to) = turn(&from) else {
                self.keep_unchanged(once, &from).await?;
                return Ok(from);
            };
            if let Some(to) = self.swap_webhook(&from, to, Some(why), once).await? {
                self.hooks().reset(id);
                return Ok(to);
            }
        }
        Err(Error::Busy)
    }

    /// Nothing when somebody else has changed it since it was read.
    async fn swap_webhook(
        &self,
        from: &Webhook,
        to: Webhook,
        why: Option<ChangeReason>,
        once: Option<&Once<Webhook>>,
    ) -> Result<Option<Webhook>, Error> {
        // A lapse that is stored along with another change keeps its own reason.
        let why = if from.has_lapsed() && to.state == from.state { to.reason } else { why };
        let reason = match to.state {
            SubscriptionState::Active => None,
            _ if to.state == from.stored_state => to.reason,
            _ => why,
        };
        let (mark, updated_at) = (fresh_mark(), self.now());
        let to = Webhook { mark, updated_at, reason, stored_state: to.state, ..to };
        let rows = webhooks::change(from, &to, why)?;
        let swapped = self.submit(Work::Plain(rows), once, &to).await?;
        Ok(matches!(swapped, Reply::Touched(1)).then_some(to))
    }

    pub(crate) async fn try_change_webhook(
        &self,
        from: &Webhook,
        to: Webhook,
        why: Option<ChangeReason>,
    ) -> Result<bool, Error> {
        Ok(self.swap_webhook(from, to, why, None).await?.is_some())
    }

    /// Changes a subscription that may be gone by now. What is queued for one that is then given up is given up too.
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
            if let Some(to) = self.swap_webhook(&from, to, why, None).await? {
                if let Some(why) = why {
                    let (fingerprint, state) = (&to.fingerprint, to.state.as_str());
                    tracing::warn!(
                        webhook = id,
                        fingerprint,
                        state,
                        reason = why.as_str(),
                        "a webhook changed"
                    );
                }
                return self.give_up_queue(&to).await;
            }
        }
        Err(Error::Busy)
    }

    async fn give_up_queue(&self, hook: &Webhook) -> Result<(), Error> {
        if hook.state.begins() != DeliveryState::DeadLettered {
            return Ok(());
        }
        self.end_deliveries(hook, DeliveryState::DeadLettered, Some(DeadReason::SubscriptionEnded)).await
    }

    /// Ends what is queued; what is dropped is dropped even if somebody is at it.
    async fn end_deliveries(
        &self,
        hook: &Webhook,
        state: DeliveryState,
        why: Option<DeadReason>,
    ) -> Result<(), Error> {
        self.end_of(&hook.tenant, &hook.id, state, why).await
    }

    pub(super) async fn end_of(
        &self,
        tenant: &TenantId,
        id: &str,
        state: DeliveryState,
        why: Option<DeadReason>,
    ) -> Result<(), Error> {
        let held_too = i64::from(state == DeliveryState::Dropped);
        loop {
            let why = why.map(DeadReason::as_str);
            let values = params![state.as_str(), self.now(), why, id, tenant.as_str(), held_too, BATCH];
            match self.write(vec![Statement::new(deliveries::END, values)]).await? {
                Reply::Touched(rows) if rows >= BATCH => {}
                _ => return Ok(()),
            }
        }
    }

    // For couriers

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    pub(crate) async fn find_webhook(&self, tenant: &TenantId, id: &str) -> Result<Option<Webhook>, Error> {
        Ok(webhooks::find(self.db(), tenant, id, self.now()).await?)
    }

    /// Writes rows that rely on nothing, together with whatever else is being written.
    pub(crate) async fn write_rows(&self, rows: Vec<Statement>) -> Result<(), Error> {
        self.0.committer.submit(Work::Rows(rows), None).await.map(|_| ())
    }

    pub(crate) async fn submit_work(&self, work: Work) -> Result<Reply, Error> {
        self.0.committer.submit(work, None).await
    }
}

pub(super) fn fresh_mark() -> String {
    Uuid::now_v7().simple().to_string()
}

pub(super) fn failed(why: impl ToString) -> Error {
    store::Error::Failed(why.to_string()).into()
}
