//! The `triggers` table: stored subscriptions whose deliveries start runs. Changes of their states are rows of the log of
//! webhooks.

use holdpoint_core::trigger::{TriggerSource, TriggerSpec};
use holdpoint_core::webhook::{ChangeReason, SubscriptionState};
use holdpoint_core::{TenantId, Timestamp};

use super::webhooks::{WebhookOwner, parsed, read_owner, word};
use super::{Database, Error, Row, Statement, params, unreadable};

/// Inserts a trigger, unless the tenant has $13 of them.
const INSERT: &str =
    "INSERT INTO triggers (tenant_id, trigger_id, event_type, spec, state, owner_principal, \
    owner_key, owner_lineage, next_ms, mark, created_ms, updated_ms)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM webhook_revision
    WHERE place = 1 AND (SELECT COUNT(*) FROM triggers WHERE tenant_id = $1) < $13";
const REMOVE: &str = "DELETE FROM triggers WHERE tenant_id = $1 AND trigger_id = $2";
/// Updates a trigger if the row is as it was read. [`TIMER`] and [`LOG`] depend on the new mark.
const CHANGE: &str = "UPDATE triggers SET state = $1, reason = $2, owner_principal = $3, owner_key = $4,
        owner_lineage = $5, next_ms = $6, mark = $7, updated_ms = $8
    WHERE tenant_id = $9 AND trigger_id = $10 AND mark = $11";
/// Adds the timer of the next instant.
const TIMER: &str = "INSERT INTO timers (due_ms, tenant_id, run_id, timer)
    SELECT next_ms, tenant_id, trigger_id, 'trigger' FROM triggers
    WHERE tenant_id = $1 AND trigger_id = $2 AND mark = $3 AND next_ms IS NOT NULL ON CONFLICT DO NOTHING";
const LOG: &str = "INSERT INTO webhook_log (tenant_id, webhook_id, at_ms, from_state, to_state, reason)
    SELECT tenant_id, trigger_id, $1, $2, $3, $4 FROM triggers
    WHERE tenant_id = $5 AND trigger_id = $6 AND mark = $7";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.tenant_id, t.trigger_id, t.spec, t.state, t.reason, t.owner_principal, t.owner_key,
            t.owner_lineage, t.next_ms, t.mark, t.created_ms, t.updated_ms,
            (SELECT d.run_id FROM trigger_deliveries d WHERE d.tenant_id = t.tenant_id
                AND d.trigger_id = t.trigger_id AND d.state = 'delivered'
                ORDER BY d.delivery_id DESC LIMIT 1) AS last_run
            FROM triggers t WHERE t.tenant_id = $1 ",
            $rest
        )
    };
}
const ONE: &str = select!("AND t.trigger_id = $2");
const PAGE: &str = select!("AND t.trigger_id > $2 ORDER BY t.trigger_id LIMIT $3");
const OF_EVENT: &str = select!("AND t.event_type = $2 AND t.state = 'active' ORDER BY t.trigger_id");

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The tenant.
    pub tenant: TenantId,
    /// The id.
    pub id: String,
    /// The content.
    pub spec: TriggerSpec,
    /// The state: active, paused or failed.
    pub state: SubscriptionState,
    /// The reason for the state, unless it is active.
    pub reason: Option<ChangeReason>,
    /// The principal and the key that created or last resumed it. A trigger without an owner depends on no key.
    pub owner: Option<WebhookOwner>,
    /// The first instant of an active schedule that has no delivery yet.
    pub next: Option<Timestamp>,
    /// The id of the last run that it started.
    pub last_run: Option<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// A random text that every update replaces. An update requires the mark that was read.
    pub(crate) mark: String,
}

/// Inserts a trigger with its first timer. The row count of the last statement is 0 if the tenant has `most` of them.
pub(crate) fn insert(trigger: &Trigger, most: u64) -> Result<Vec<Statement>, Error> {
    let owner = trigger.owner.as_ref();
    let event_type = match &trigger.spec.source {
        TriggerSource::Event { event_type, .. } => Some(event_type.as_str()),
        TriggerSource::Schedule { .. } => None,
    };
    let values = params![
        trigger.tenant.as_str(),
        trigger.id.as_str(),
        event_type,
        serde_json::to_string(&trigger.spec).map_err(|error| unreadable("trigger", error))?,
        trigger.state.as_str(),
        owner.map(|owner| owner.principal.as_str()),
        owner.map(|owner| owner.key_id.as_str()),
        owner.map(|owner| owner.lineage.as_str()),
        trigger.next,
        trigger.mark.as_str(),
        trigger.created_at,
        trigger.updated_at,
        most
    ];
    let insert = Statement::new(INSERT, values);
    Ok(std::iter::once(insert).chain(trigger.next.map(|_| trigger.timer())).collect())
}

pub(crate) fn remove(tenant: &TenantId, id: &str) -> Statement {
    Statement::new(REMOVE, params![tenant.as_str(), id])
}

/// Updates the row `from` to `to`, with its timer if it has a new one. The statements have no effect if the trigger was
/// changed concurrently. Without a reason the state stays the same.
pub(crate) fn change(from: &Trigger, to: &Trigger, why: Option<ChangeReason>) -> Vec<Statement> {
    let (tenant, id, mark) = (to.tenant.as_str(), to.id.as_str(), to.mark.as_str());
    let owner = to.owner.as_ref();
    let values = params![
        to.state.as_str(),
        to.reason.map(ChangeReason::as_str),
        owner.map(|owner| owner.principal.as_str()),
        owner.map(|owner| owner.key_id.as_str()),
        owner.map(|owner| owner.lineage.as_str()),
        to.next,
        mark,
        to.updated_at,
        tenant,
        id,
        from.mark.as_str()
    ];
    let timer = (to.next != from.next && to.next.is_some()).then(|| to.timer());
    let log = why.map(|why| {
        let (before, after) = (from.state.as_str(), to.state.as_str());
        Statement::new(LOG, params![to.updated_at, before, after, why.as_str(), tenant, id, mark])
    });
    std::iter::once(Statement::new(CHANGE, values)).chain(timer).chain(log).collect()
}

impl Trigger {
    fn timer(&self) -> Statement {
        Statement::new(TIMER, params![self.tenant.as_str(), self.id.as_str(), self.mark.as_str()])
    }
}

pub(crate) async fn find(db: &Database, tenant: &TenantId, id: &str) -> Result<Option<Trigger>, Error> {
    let row = db.query_one(ONE, params![tenant.as_str(), id]).await?;
    row.as_ref().map(read).transpose()
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    after: &str,
    limit: u64,
) -> Result<Vec<Trigger>, Error> {
    db.query(PAGE, params![tenant.as_str(), after, limit]).await?.iter().map(read).collect()
}

/// Returns the active triggers for a type of event.
pub(crate) async fn of_event(
    db: &Database,
    tenant: &TenantId,
    event_type: &str,
) -> Result<Vec<Trigger>, Error> {
    db.query(OF_EVENT, params![tenant.as_str(), event_type]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Trigger, Error> {
    Ok(Trigger {
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("trigger", error))?,
        id: row.text("trigger_id")?.to_owned(),
        spec: parsed(row.text("spec")?)?,
        state: word(row.text("state")?, SubscriptionState::parse)?,
        reason: row.optional_text("reason")?.map(|text| word(text, ChangeReason::parse)).transpose()?,
        owner: read_owner(row)?,
        next: row.optional_int("next_ms")?.map(Timestamp),
        last_run: row.optional_text("last_run")?.map(str::to_owned),
        created_at: Timestamp(row.int("created_ms")?),
        updated_at: Timestamp(row.int("updated_ms")?),
        mark: row.text("mark")?.to_owned(),
    })
}
