//! The `webhooks`, `webhook_revision` and `webhook_log` tables: the subscriptions and the log of their states.
//! Secrets are stored in their sealed form.

use std::fmt;

use holdpoint_core::webhook::{Breaker, ChangeReason, Filter, Mode, RetryPolicy, SubscriptionState};
use holdpoint_core::{TenantId, Timestamp};
use serde::de::DeserializeOwned;

use super::keys::ApiKey;
use super::{Database, Error, Row, Statement, params, unreadable};

/// Selects the revision of the list of subscriptions.
pub(crate) const REVISION: &str = "SELECT v.revision FROM webhook_revision v WHERE v.place = $1";
/// Selects the filters of all subscriptions.
pub(crate) const LIST: &str =
    "SELECT tenant_id, webhook_id, events, tags, mode, ordered, state FROM webhooks ORDER BY webhook_id";
/// Inserts a subscription, unless the tenant has $19 of them.
const INSERT: &str =
    "INSERT INTO webhooks (tenant_id, webhook_id, url, events, tags, mode, ordered, retry, secret, \
    fingerprint, state, breaker, mark, created_ms, updated_ms, owner_principal, owner_key, owner_lineage)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18 FROM webhook_revision
    WHERE place = 1 AND (SELECT COUNT(*) FROM webhooks WHERE tenant_id = $1) < $19";
const REMOVE: &str = "DELETE FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2";
/// Updates a subscription if the row is as it was read.
const CHANGE: &str = "UPDATE webhooks SET state = $1, breaker = $2, mark = $3, updated_ms = $4, reason = $5,
        owner_principal = $6, owner_key = $7, owner_lineage = $8
    WHERE tenant_id = $9 AND webhook_id = $10 AND mark = $11";
/// Replaces the secret if the row is as it was read.
const ROTATE: &str =
    "UPDATE webhooks SET secret = $1, fingerprint = $2, old_secret = $3, old_fingerprint = $4,
        old_until_ms = $5, mark = $6, updated_ms = $7
    WHERE tenant_id = $8 AND webhook_id = $9 AND mark = $10";
/// Erases secrets whose overlap has ended.
pub(crate) const ERASE_OLD_SECRETS: &str = "UPDATE webhooks SET old_secret = NULL, old_fingerprint = NULL, old_until_ms = NULL WHERE old_until_ms <= $1";
/// Adds an entry to the log if the update before it was made: then the row has the new mark $7. [`BUMP_IF`] raises
/// the revision on the same condition.
const LOG: &str = "INSERT INTO webhook_log (tenant_id, webhook_id, at_ms, from_state, to_state, reason)
    SELECT tenant_id, webhook_id, $1, $2, $3, $4 FROM webhooks
    WHERE tenant_id = $5 AND webhook_id = $6 AND mark = $7";
const BUMP_IF: &str = "UPDATE webhook_revision SET revision = revision + 1 WHERE place = 1 AND EXISTS
    (SELECT 1 FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2 AND mark = $3)";
const BUMP: &str = "UPDATE webhook_revision SET revision = revision + 1 WHERE place = $1";
/// Selects subscriptions. `owner_state` is the state of the lineage of the owner at $1: if no key is active, the
/// reason why the newest ended.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, webhook_id, url, events, tags, mode, ordered, retry, secret, fingerprint, state,
            breaker, mark, created_ms, updated_ms, reason, owner_principal, owner_key, owner_lineage,
            old_secret, old_fingerprint, old_until_ms,
            CASE WHEN owner_lineage IS NULL THEN 'active' ELSE COALESCE(
                (SELECT CASE WHEN k.revoked_ms IS NOT NULL THEN 'key-revoked'
                    WHEN k.expires_ms <= $1 THEN 'key-expired' ELSE 'active' END
                FROM keys k WHERE k.tenant_id = webhooks.tenant_id
                    AND (k.lineage = webhooks.owner_lineage OR k.key_id = webhooks.owner_lineage)
                ORDER BY CASE WHEN k.revoked_ms IS NULL AND (k.expires_ms IS NULL OR k.expires_ms > $1)
                    THEN 0 ELSE 1 END, k.created_ms DESC, k.key_id LIMIT 1), 'key-revoked') END AS owner_state
            FROM webhooks WHERE tenant_id = $2 AND webhook_id ",
            $rest
        )
    };
}
const ONE: &str = select!("= $3");
const PAGE: &str = select!("> $3 ORDER BY webhook_id LIMIT $4");
const CHANGES: &str = "SELECT seq, at_ms, from_state, to_state, reason FROM webhook_log
    WHERE tenant_id = $1 AND webhook_id = $2 AND seq > $3 ORDER BY seq LIMIT $4";
pub(crate) const PURGE_LOG: &str = "DELETE FROM webhook_log WHERE seq IN
    (SELECT seq FROM webhook_log WHERE at_ms <= $1 ORDER BY at_ms LIMIT $2)";

/// A subscription, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The tenant of the subscription.
    pub tenant: TenantId,
    /// The id of the subscription.
    pub id: String,
    /// The address that deliveries are sent to.
    pub url: String,
    /// The events of the subscription.
    pub filter: Filter,
    /// The mode of delivery.
    pub mode: Mode,
    /// True if the events of a run are delivered in their order.
    pub ordered: bool,
    /// The retry policy of deliveries.
    pub retry: RetryPolicy,
    /// The first eight digits of the secret's SHA-256.
    pub fingerprint: String,
    /// The state. A webhook whose owner has no active key is paused, even before that is stored.
    pub state: SubscriptionState,
    /// The reason for the state, unless it is active or an earlier version stored it.
    pub reason: Option<ChangeReason>,
    /// The owner. A webhook without an owner depends on no key.
    pub owner: Option<WebhookOwner>,
    /// The secret before the last rotation, until its overlap ends.
    pub old_secret: Option<OldSecret>,
    /// The circuit breaker.
    pub breaker: Breaker,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    pub(crate) stored_state: SubscriptionState,
    pub(crate) sealed: SealedSecret,
    /// A random text that every update replaces. An update requires the mark that was read.
    pub(crate) mark: String,
}

impl Webhook {
    /// Returns true if it is paused because its owner has no active key, and this is not stored yet.
    pub(crate) fn has_unstored_pause(&self) -> bool {
        self.state != self.stored_state
    }
}

/// The principal and the key that a webhook belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOwner {
    /// The principal.
    pub principal: String,
    /// The id of the key.
    pub key_id: String,
    /// The lineage of the key. Deliveries stop when no key of it is active.
    pub lineage: String,
}

impl From<&ApiKey> for WebhookOwner {
    fn from(key: &ApiKey) -> Self {
        let (principal, key_id, lineage) = (key.principal.clone(), key.key_id.clone(), key.lineage.clone());
        Self { principal, key_id, lineage }
    }
}

/// A replaced secret that still signs deliveries together with its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSecret {
    /// The first eight digits of its SHA-256.
    pub fingerprint: String,
    /// The time until which it signs deliveries.
    pub until: Timestamp,
    pub(crate) sealed: SealedSecret,
}

/// A sealed secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealedSecret(pub String);

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed")
    }
}

/// An entry of the log of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookChange {
    /// The position in the log.
    pub seq: u64,
    /// The time of the change.
    pub at: Timestamp,
    /// The state before the change.
    pub from: SubscriptionState,
    /// The state after the change; equal to `from` if only the circuit breaker or the secret changed.
    pub to: SubscriptionState,
    /// The reason of the change.
    pub reason: ChangeReason,
}

/// Inserts a subscription. The row count of the last statement is 0 if the tenant has `most` of them.
pub(crate) fn insert(webhook: &Webhook, most: u64) -> Result<Vec<Statement>, Error> {
    let Webhook { tenant, id, mark, .. } = webhook;
    let values = params![
        tenant.as_str(),
        id.as_str(),
        webhook.url.as_str(),
        json(&webhook.filter.events)?,
        json(&webhook.filter.tags)?,
        webhook.mode.as_str(),
        i64::from(webhook.ordered),
        json(&webhook.retry)?,
        webhook.sealed.0.as_str(),
        webhook.fingerprint.as_str(),
        webhook.state.as_str(),
        json(&webhook.breaker)?,
        mark.as_str(),
        webhook.created_at,
        webhook.updated_at,
        webhook.owner.as_ref().map(|owner| owner.principal.as_str()),
        webhook.owner.as_ref().map(|owner| owner.key_id.as_str()),
        webhook.owner.as_ref().map(|owner| owner.lineage.as_str()),
        most
    ];
    let bump = Statement::new(BUMP_IF, params![tenant.as_str(), id.as_str(), mark.as_str()]);
    Ok(vec![Statement::new(INSERT, values), bump])
}

pub(crate) fn remove(tenant: &TenantId, id: &str) -> Vec<Statement> {
    let remove = Statement::new(REMOVE, params![tenant.as_str(), id]);
    vec![Statement::new(BUMP, params![1_i64]), remove]
}

/// Updates the row `from` to `to`. The row count of the last statement is 0 if the webhook was changed meanwhile.
pub(crate) fn change(
    from: &Webhook,
    to: &Webhook,
    why: Option<ChangeReason>,
) -> Result<Vec<Statement>, Error> {
    let (tenant, id, mark) = (to.tenant.as_str(), to.id.as_str(), to.mark.as_str());
    let values = params![
        to.state.as_str(),
        json(&to.breaker)?,
        mark,
        to.updated_at,
        to.reason.map(ChangeReason::as_str),
        to.owner.as_ref().map(|owner| owner.principal.as_str()),
        to.owner.as_ref().map(|owner| owner.key_id.as_str()),
        to.owner.as_ref().map(|owner| owner.lineage.as_str()),
        tenant,
        id,
        from.mark.as_str()
    ];
    let change = Statement::new(CHANGE, values);
    let log = why.map(|why| {
        let (before, after) = (from.stored_state.as_str(), to.state.as_str());
        Statement::new(LOG, params![to.updated_at, before, after, why.as_str(), tenant, id, mark])
    });
    let bump = || Statement::new(BUMP_IF, params![tenant, id, mark]);
    let bump = (from.stored_state != to.state).then(bump);
    Ok(std::iter::once(change).chain(log).chain(bump).collect())
}

/// Stores a new secret, and the old one if it stays valid. The row count of the last statement is 0 if the webhook was
/// changed meanwhile.
pub(crate) fn rotate(from: &Webhook, to: &Webhook) -> Vec<Statement> {
    let (tenant, id, mark) = (to.tenant.as_str(), to.id.as_str(), to.mark.as_str());
    let old = to.old_secret.as_ref();
    let values = params![
        to.sealed.0.as_str(),
        to.fingerprint.as_str(),
        old.map(|old| old.sealed.0.as_str()),
        old.map(|old| old.fingerprint.as_str()),
        old.map(|old| old.until),
        mark,
        to.updated_at,
        tenant,
        id,
        from.mark.as_str()
    ];
    let (state, why) = (from.stored_state.as_str(), ChangeReason::SecretRotated.as_str());
    let log = params![to.updated_at, state, state, why, tenant, id, mark];
    vec![Statement::new(ROTATE, values), Statement::new(LOG, log)]
}

/// Returns the subscription as it is at the time `now`.
pub(crate) async fn find(
    db: &Database,
    tenant: &TenantId,
    id: &str,
    now: Timestamp,
) -> Result<Option<Webhook>, Error> {
    let row = db.query_one(ONE, params![now, tenant.as_str(), id]).await?;
    row.as_ref().map(|row| read(row, now)).transpose()
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    after: &str,
    now: Timestamp,
    limit: u64,
) -> Result<Vec<Webhook>, Error> {
    let rows = db.query(PAGE, params![now, tenant.as_str(), after, limit]).await?;
    rows.iter().map(|row| read(row, now)).collect()
}

pub(crate) async fn changes(
    db: &Database,
    tenant: &TenantId,
    id: &str,
    after: u64,
    limit: u64,
) -> Result<Vec<WebhookChange>, Error> {
    let rows = db.query(CHANGES, params![tenant.as_str(), id, after, limit]).await?;
    let change = |row: &Row| {
        Ok(WebhookChange {
            seq: row.count("seq")?,
            at: Timestamp(row.int("at_ms")?),
            from: word(row.text("from_state")?, SubscriptionState::parse)?,
            to: word(row.text("to_state")?, SubscriptionState::parse)?,
            reason: word(row.text("reason")?, ChangeReason::parse)?,
        })
    };
    rows.iter().map(change).collect()
}

fn read(row: &Row, now: Timestamp) -> Result<Webhook, Error> {
    let stored_state = word(row.text("state")?, SubscriptionState::parse)?;
    let stored_reason =
        row.optional_text("reason")?.map(|text| word(text, ChangeReason::parse)).transpose()?;
    let (state, reason) = match row.text("owner_state")? {
        "active" => (stored_state, stored_reason),
        ended if stored_state == SubscriptionState::Active => {
            (SubscriptionState::Paused, Some(word(ended, ChangeReason::parse)?))
        }
        _ => (stored_state, stored_reason),
    };
    Ok(Webhook {
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("webhook", error))?,
        id: row.text("webhook_id")?.to_owned(),
        url: row.text("url")?.to_owned(),
        filter: Filter { events: parsed(row.text("events")?)?, tags: parsed(row.text("tags")?)? },
        mode: word(row.text("mode")?, Mode::parse)?,
        ordered: row.int("ordered")? == 1,
        retry: parsed(row.text("retry")?)?,
        sealed: SealedSecret(row.text("secret")?.to_owned()),
        fingerprint: row.text("fingerprint")?.to_owned(),
        state,
        reason,
        stored_state,
        owner: read_owner(row)?,
        old_secret: read_old_secret(row)?.filter(|old| old.until > now),
        breaker: parsed(row.text("breaker")?)?,
        mark: row.text("mark")?.to_owned(),
        created_at: Timestamp(row.int("created_ms")?),
        updated_at: Timestamp(row.int("updated_ms")?),
    })
}

pub(super) fn read_owner(row: &Row) -> Result<Option<WebhookOwner>, Error> {
    let texts = (
        row.optional_text("owner_principal")?,
        row.optional_text("owner_key")?,
        row.optional_text("owner_lineage")?,
    );
    let (Some(principal), Some(key_id), Some(lineage)) = texts else { return Ok(None) };
    let (principal, key_id, lineage) = (principal.to_owned(), key_id.to_owned(), lineage.to_owned());
    Ok(Some(WebhookOwner { principal, key_id, lineage }))
}

fn read_old_secret(row: &Row) -> Result<Option<OldSecret>, Error> {
    let values = (
        row.optional_text("old_secret")?,
        row.optional_text("old_fingerprint")?,
        row.optional_int("old_until_ms")?,
    );
    let (Some(sealed), Some(fingerprint), Some(until)) = values else { return Ok(None) };
    let (sealed, fingerprint) = (SealedSecret(sealed.to_owned()), fingerprint.to_owned());
    Ok(Some(OldSecret { fingerprint, until: Timestamp(until), sealed }))
}

fn json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| unreadable("webhook", error))
}

pub(crate) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable("webhook", error))
}

pub(crate) fn word<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
    parse(text).ok_or_else(|| unreadable("webhook", format!("unknown word {text:?}")))
}
