//! The tables `thread_tokens` and `tenant_tokens`: the tokens that models used, written with the replies.

use std::collections::BTreeMap;

use holdpoint_core::{Event, TenantId, Timestamp};

use super::{Database, Error, Param, Statement, params};
use crate::committer::Change;

/// Adds to the row of a writer.
const ADD: &str = "INSERT INTO tenant_tokens (tenant_id, day, shard, tokens) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, day, shard) DO UPDATE SET tokens = tenant_tokens.tokens + excluded.tokens";
const ADD_TO_THREAD: &str = "INSERT INTO thread_tokens (tenant_id, thread_id, tokens) VALUES ($1, $2, $3)
    ON CONFLICT (tenant_id, thread_id) DO UPDATE SET tokens = thread_tokens.tokens + excluded.tokens";
const PURGE: &str = "DELETE FROM tenant_tokens WHERE (tenant_id, day, shard) IN (
    SELECT tenant_id, day, shard FROM tenant_tokens WHERE day < $1 LIMIT $2)";
const OF_DAY: &str = "SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS total FROM tenant_tokens
    WHERE tenant_id = $1 AND day = $2";
const OF_THREAD: &str =
    "SELECT t.tokens AS total FROM thread_tokens t WHERE t.tenant_id = $1 AND t.thread_id = $2";

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The limit of the tokens that one reply adds, so that a wrong count of a server cannot overflow a sum.
const REPLY_TOKENS_MAX: u64 = 1 << 32;

/// A tenant and a UTC day, as the number of days since 1970. Rows are locked in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenDay {
    pub tenant: TenantId,
    pub day: i64,
}

/// A thread of a tenant. Rows are locked in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TokenThread {
    tenant: TenantId,
    thread: String,
}

/// The tokens that the changes of a batch add. Each row is written once, because PostgreSQL rejects a statement that
/// changes a row twice.
#[derive(Debug, Default)]
pub(crate) struct TokenDeltas {
    days: BTreeMap<TokenDay, u64>,
    threads: BTreeMap<TokenThread, u64>,
}

impl TokenDay {
    pub(crate) fn of(tenant: &TenantId, at: Timestamp) -> Self {
        Self { tenant: tenant.clone(), day: at.0.div_euclid(DAY_MS) }
    }
}

impl TokenDeltas {
    /// Adds the tokens of a change to its day and its thread.
    pub(crate) fn count(&mut self, change: &Change) {
        let tokens = used(change);
        if tokens == 0 {
            return;
        }
        let tenant = &change.of.tenant;
        *self.days.entry(TokenDay::of(tenant, change.at)).or_default() += tokens;
        if let Some(thread) = change.after.started.as_ref().and_then(|started| started.thread.clone()) {
            *self.threads.entry(TokenThread { tenant: tenant.clone(), thread }).or_default() += tokens;
        }
    }

    /// Returns the statements that add the tokens, those of days to the rows of this shard.
    pub(crate) fn into_statements(self, shard: i64) -> impl Iterator<Item = Statement> {
        let days = self.days.into_iter().map(move |(TokenDay { tenant, day }, tokens)| {
            Statement::new(ADD, params![&tenant, day, shard, tokens])
        });
        let threads = self.threads.into_iter().map(|(TokenThread { tenant, thread }, tokens)| {
            Statement::new(ADD_TO_THREAD, params![&tenant, thread, tokens])
        });
        days.chain(threads)
    }
}

/// Returns the tokens of the replies in a change. Replies that a fork copies have used none.
fn used(change: &Change) -> u64 {
    let tokens = change.events.iter().map(|event| match event {
        Event::ModelReplied { usage, .. } => usage.total().min(REPLY_TOKENS_MAX),
        _ => 0,
    });
    tokens.sum()
}

/// Returns the statement that deletes up to `limit` rows of the days before yesterday.
pub(crate) fn purge(now: Timestamp, limit: u64) -> Statement {
    Statement::new(PURGE, params![now.0.div_euclid(DAY_MS) - 1, limit])
}

/// Returns the tokens of a tenant on one day.
pub(crate) async fn of_day(db: &Database, day: &TokenDay) -> Result<u64, Error> {
    count(db, OF_DAY, params![&day.tenant, day.day]).await
}

/// Returns the tokens of a thread.
pub(crate) async fn of_thread(db: &Database, tenant: &TenantId, thread: &str) -> Result<u64, Error> {
    count(db, OF_THREAD, params![tenant, thread]).await
}

async fn count(db: &Database, sql: &'static str, values: Vec<Param>) -> Result<u64, Error> {
    db.query_one(sql, values).await?.map_or(Ok(0), |row| row.count("total"))
}
