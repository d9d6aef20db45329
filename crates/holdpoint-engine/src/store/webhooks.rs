//! The `webhooks`, `webhook_revision` and `webhook_log` tables: who is told of what happens, and what became of them.
//! Secrets are sealed before they come here.

use std::fmt;

use holdpoint_core::webhook::{Breaker, ChangeReason, Filter, Mode, RetryPolicy, SubscriptionState};
use holdpoint_core::{TenantId, Timestamp};
use serde::de::DeserializeOwned;

use super::{Database, Error, Row, Statement, params, unreadable};

/// How often the list of subscriptions has changed.
pub(crate) const REVISION: &str = "SELECT v.revision FROM webhook_revision v WHERE v.place = $1";
/// What is needed to tell which events whom concern.
pub(crate) const LIST: &str =
    "SELECT tenant_id, webhook_id, events, tags, mode, ordered, state FROM webhooks ORDER BY webhook_id";
/// Not when the tenant has $16 of them already.
const INSERT: &str =
    "INSERT INTO webhooks (tenant_id, webhook_id, url, events, tags, mode, ordered, retry, secret, \
    fingerprint, state, breaker, mark, created_ms, updated_ms)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15 FROM webhook_revision
    WHERE place = 1 AND (SELECT COUNT(*) FROM webhooks WHERE tenant_id = $1) < $16";
const REMOVE: &str = "DELETE FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2";
/// Only while the row is as it was when it was read.
const CHANGE: &str = "UPDATE webhooks SET state = $1, breaker = $2, mark = $3, updated_ms = $4
    WHERE tenant_id = $5 AND webhook_id = $6 AND mark = $7";
/// These two only when the change above was made.
const LOG: &str = "INSERT INTO webhook_log (tenant_id, webhook_id, at_ms, from_state, to_state, reason)
    SELECT tenant_id, webhook_id, $1, $2, $3, $4 FROM webhooks
    WHERE tenant_id = $5 AND webhook_id = $6 AND mark = $7";
const BUMP_IF: &str = "UPDATE webhook_revision SET revision = revision + 1 WHERE place = 1 AND EXISTS
    (SELECT 1 FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2 AND mark = $3)";
const BUMP: &str = "UPDATE webhook_revision SET revision = revision + 1 WHERE place = $1";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, webhook_id, url, events, tags, mode, ordered, retry, secret, fingerprint, state,
            breaker, mark, created_ms, updated_ms FROM webhooks WHERE tenant_id = $1 AND webhook_id ",
            $rest
        )
    };
}
const ONE: &str = select!("= $2");
const PAGE: &str = select!("> $2 ORDER BY webhook_id LIMIT $3");
const CHANGES: &str = "SELECT seq, at_ms, from_state, to_state, reason FROM webhook_log
    WHERE tenant_id = $1 AND webhook_id = $2 AND seq > $3 ORDER BY seq LIMIT $4";
pub(crate) const PURGE_LOG: &str = "DELETE FROM webhook_log WHERE seq IN
    (SELECT seq FROM webhook_log WHERE at_ms <= $1 ORDER BY at_ms LIMIT $2)";

/// A subscription, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub tenant: TenantId,
    pub id: String,
    pub url: String,
    pub filter: Filter,
    pub mode: Mode,
    /// Whether the events of a run come one after the other.
    pub ordered: bool,
    pub retry: RetryPolicy,
    /// The first eight digits of the secret's SHA-256.
    pub fingerprint: String,
    pub state: SubscriptionState,
    pub breaker: Breaker,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub(crate) sealed: Sealed,
    pub(crate) mark: String,
}

/// A secret that does not open without its key, and still need not be in a log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sealed(pub String);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed")
    }
}

/// Something that became of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookChange {
    pub seq: u64,
    pub at: Timestamp,
    pub from: SubscriptionState,
    /// The same where only its circuit opened or closed.
    pub to: SubscriptionState,
    pub reason: ChangeReason,
}

/// Touches a row, last, unless there are `most` already.
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
        most
    ];
    let bump = Statement::new(BUMP_IF, params![tenant.as_str(), id.as_str(), mark.as_str()]);
    Ok(vec![Statement::new(INSERT, values), bump])
}

pub(crate) fn remove(tenant: &TenantId, id: &str) -> Vec<Statement> {
    let remove = Statement::new(REMOVE, params![tenant.as_str(), id]);
    vec![Statement::new(BUMP, params![1_i64]), remove]
}

/// From one look of the row to another. Touches a row, last, if nobody was faster.
pub(crate) fn change(
    from: &Webhook,
    to: &Webhook,
    why: Option<ChangeReason>,
) -> Result<Vec<Statement>, Error> {
    let (tenant, id, mark) = (to.tenant.as_str(), to.id.as_str(), to.mark.as_str());
    let values =
        params![to.state.as_str(), json(&to.breaker)?, mark, to.updated_at, tenant, id, from.mark.as_str()];
    let change = Statement::new(CHANGE, values);
    let log = why.map(|why| {
        let (before, after) = (from.state.as_str(), to.state.as_str());
        Statement::new(LOG, params![to.updated_at, before, after, why.as_str(), tenant, id, mark])
    });
    let bump = || Statement::new(BUMP_IF, params![tenant, id, mark]);
    let bump = (from.state != to.state).then(bump);
    Ok(std::iter::once(change).chain(log).chain(bump).collect())
}

pub(crate) async fn find(db: &Database, tenant: &TenantId, id: &str) -> Result<Option<Webhook>, Error> {
    db.query_one(ONE, params![tenant.as_str(), id]).await?.as_ref().map(read).transpose()
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    after: &str,
    limit: u64,
) -> Result<Vec<Webhook>, Error> {
    db.query(PAGE, params![tenant.as_str(), after, limit]).await?.iter().map(read).collect()
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
            seq: row.count(0)?,
            at: Timestamp(row.int(1)?),
            from: word(row.text(2)?, SubscriptionState::parse)?,
            to: word(row.text(3)?, SubscriptionState::parse)?,
            reason: word(row.text(4)?, ChangeReason::parse)?,
        })
    };
    rows.iter().map(change).collect()
}

fn read(row: &Row) -> Result<Webhook, Error> {
    Ok(Webhook {
        tenant: TenantId::parse(row.text(0)?).map_err(|error| unreadable("webhook", error))?,
        id: row.text(1)?.to_owned(),
        url: row.text(2)?.to_owned(),
        filter: Filter { events: parsed(row.text(3)?)?, tags: parsed(row.text(4)?)? },
        mode: word(row.text(5)?, Mode::parse)?,
        ordered: row.int(6)? == 1,
        retry: parsed(row.text(7)?)?,
        sealed: Sealed(row.text(8)?.to_owned()),
        fingerprint: row.text(9)?.to_owned(),
        state: word(row.text(10)?, SubscriptionState::parse)?,
        breaker: parsed(row.text(11)?)?,
        mark: row.text(12)?.to_owned(),
        created_at: Timestamp(row.int(13)?),
        updated_at: Timestamp(row.int(14)?),
    })
}

fn json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| unreadable("webhook", error))
}

pub(crate) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable("webhook", error))
}

pub(crate) fn word<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
    parse(text).ok_or_else(|| unreadable("webhook", format!("{text:?} is no state of it")))
}
