//! Subscriptions, as operators deal with them and as couriers change them.

use holdpoint_core::TenantId;
use holdpoint_core::limits;
use holdpoint_core::webhook::{
    BadPolicy, Breaker, ChangeReason, DeadReason, DeliveryState, Filter, Mode, RetryPolicy, SubscriptionState,
};
use uuid::Uuid;

use super::{ATTEMPTS_MAX, Done, Engine};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::outgoing;
use crate::store::deliveries;
use crate::store::webhooks::{self, Sealed, Webhook};
use crate::store::{self, Statement, params};
use crate::webhooks::{Hooks, fingerprint, fresh_secret};

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
}

impl NewWebhook {
    /// Best effort, for these events of all runs.
    pub fn new(tenant: TenantId, url: impl Into<String>, events: impl IntoIterator<Item = String>) -> Self {
        let filter = Filter { events: events.into_iter().collect(), tags: Vec::new() };
        let (mode, ordered, retry) = (Mode::BestEffort, true, RetryPolicy::default());
        Self { tenant, url: url.into(), filter, mode, ordered, retry }
    }
}

impl From<BadPolicy> for Error {
    fn from(bad: BadPolicy) -> Self {
        holdpoint_core::Refusal::invalid(bad.field, bad.rule).into()
    }
}

/// The name under which secrets of callbacks are sealed. It has no run id, because copies of a run share its secret.
const CALLBACK_PLACE: &str = "callback";

impl Engine {
    /// Registers a subscription. The secret comes back this once and is kept sealed. A URL that must not be called is
    /// refused with [`Error::Target`]; a name that has no address at the moment may get one.
    pub async fn add_webhook(&self, new: NewWebhook) -> Result<(Webhook, String), Error> {
        new.retry.check()?;
        self.check_target(&new.url).await?;
        let secret = fresh_secret().ok_or_else(|| failed("there is no randomness"))?;
        let id = format!("wh_{}", Uuid::now_v7().simple());
        let sealed = self.seal()?.seal(&place(&id), secret.as_bytes()).map_err(failed)?;
        let now = self.now();
        let NewWebhook { tenant, url, filter, mode, ordered, retry } = new;
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
            breaker: Breaker::default(),
            created_at: now,
            updated_at: now,
            sealed: Sealed(sealed),
            mark: fresh_mark(),
        };
        let rows = webhooks::insert(&webhook, limits::WEBHOOKS_PER_TENANT_MAX)?;
        let done = Done::WebhookAdded { webhook: &webhook, secret: &secret };
        match self.submit(Work::Plain(rows), done).await? {
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
        Ok(webhooks::page(self.db(), tenant, after.unwrap_or_default(), limit).await?)
    }

    pub async fn webhook(&self, tenant: &TenantId, id: &str) -> Result<Webhook, Error> {
        self.find_webhook(tenant, id).await?.ok_or(NOT_FOUND)
    }

    /// False when the tenant has none of that id. When this returns, nothing more is sent by this node; what others have
    /// under way ends within the time of an attempt.
    pub async fn remove_webhook(&self, tenant: &TenantId, id: &str) -> Result<bool, Error> {
        let Some(hook) = self.find_webhook(tenant, id).await? else { return Ok(false) };
        let removal = Work::Plain(webhooks::remove(tenant, id));
        let removed = self.submit(removal, Done::WebhookRemoved(id)).await?;
        self.hooks().shut(id).await;
        // What is left of it is dropped by the upkeep, if not here.
        if let Err(error) = self.end_deliveries(&hook, DeliveryState::Dropped, None).await {
            tracing::warn!(%error, webhook = id, "pending deliveries are dropped later");
        }
        Ok(matches!(removed, Reply::Touched(rows) if rows > 0))
    }

    /// Stops deliveries. Those of a durable subscription wait.
    pub async fn pause_webhook(&self, tenant: &TenantId, id: &str) -> Result<Webhook, Error> {
        let pauses = |state| state == SubscriptionState::Active;
        self.turn_webhook(tenant, id, pauses, SubscriptionState::Paused, ChangeReason::OperatorPaused).await
    }

    /// Sets a paused or failed subscription going again, with a closed circuit. One that is gone for good stays so.
    pub async fn resume_webhook(&self, tenant: &TenantId, id: &str) -> Result<Webhook, Error> {
        let resumes = |state: SubscriptionState| state.may_resume() && state != SubscriptionState::Active;
        let (to, why) = (SubscriptionState::Active, ChangeReason::OperatorResumed);
        let resumed = self.turn_webhook(tenant, id, resumes, to, why).await?;
        self.hooks().wake_for_durable();
        Ok(resumed)
    }

    /// One that is not in a state to be turned stays as it is, and that is no error.
    async fn turn_webhook(
        &self,
        tenant: &TenantId,
        id: &str,
        turns: impl Fn(SubscriptionState) -> bool,
        state: SubscriptionState,
        why: ChangeReason,
    ) -> Result<Webhook, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let from = self.webhook(tenant, id).await?;
            if !turns(from.state) {
                self.keep_done(Done::Webhook(&from)).await?;
                return Ok(from);
            }
            let resets = state == SubscriptionState::Active;
            let breaker = if resets { Breaker::default() } else { from.breaker.clone() };
            let to = Webhook { state, breaker, ..from.clone() };
            if let Some(to) = self.swap_webhook(&from, to, Some(why)).await? {
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
    ) -> Result<Option<Webhook>, Error> {
        let to = Webhook { mark: fresh_mark(), updated_at: self.now(), ..to };
        let rows = webhooks::change(from, &to, why)?;
        let swapped = self.submit(Work::Plain(rows), Done::Webhook(&to)).await?;
        Ok(matches!(swapped, Reply::Touched(1)).then_some(to))
    }

    pub(crate) async fn try_change_webhook(
        &self,
        from: &Webhook,
        to: Webhook,
        why: Option<ChangeReason>,
    ) -> Result<bool, Error> {
        Ok(self.swap_webhook(from, to, why).await?.is_some())
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
            if let Some(to) = self.swap_webhook(&from, to, why).await? {
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
        Ok(webhooks::find(self.db(), tenant, id).await?)
    }

    /// Seals the secret that the callbacks of a run are signed with: the given one, or a new one. Returns the sealed text
    /// for [`Start::callback_secret`](holdpoint_core::Start::callback_secret), and the secret.
    pub fn seal_callback_secret(&self, given: Option<String>) -> Result<(String, String), Error> {
        let secret = given.or_else(fresh_secret).ok_or_else(|| failed("there is no randomness"))?;
        let sealed = self.seal()?.seal(CALLBACK_PLACE, secret.as_bytes()).map_err(failed)?;
        Ok((sealed, secret))
    }

    pub(crate) fn callback_secret(&self, sealed: &str) -> Result<String, Error> {
        let secret = self.seal()?.open(CALLBACK_PLACE, sealed).map_err(failed)?;
        String::from_utf8(secret).map_err(failed)
    }

    pub(crate) fn webhook_secret(&self, hook: &Webhook) -> Result<String, Error> {
        let secret = self.seal()?.open(&place(&hook.id), &hook.sealed.0).map_err(failed)?;
        String::from_utf8(secret).map_err(failed)
    }

    /// Writes rows that rely on nothing, together with whatever else is being written.
    pub(crate) async fn write_rows(&self, rows: Vec<Statement>) -> Result<(), Error> {
        self.0.committer.submit(Work::Rows(rows), None).await.map(|_| ())
    }

    pub(crate) async fn submit_work(&self, work: Work) -> Result<Reply, Error> {
        self.0.committer.submit(work, None).await
    }
}

/// What a secret is bound to: it opens for no other subscription.
fn place(id: &str) -> String {
    format!("webhook/{id}")
}

fn fresh_mark() -> String {
    Uuid::now_v7().simple().to_string()
}

fn failed(why: impl ToString) -> Error {
    store::Error::Failed(why.to_string()).into()
}
