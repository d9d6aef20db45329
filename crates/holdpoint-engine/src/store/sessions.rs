//! The `sessions` and `session_links` tables: browser sessions and the links that sign in once. Only hashes of tokens
//! are stored.

use holdpoint_core::{TenantId, Timestamp};

use super::dependence::Dependence;
use super::keys::{self, ApiKey};
use super::{Database, Error, Row, Statement, params, unreadable};

const INSERT: &str =
    "INSERT INTO sessions (session_id, token_hash, key_id, tenant_id, created_ms, used_ms, expires_ms, ends_ms, depends_on)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
/// Selects a session with its key. The columns of the key have the names that `keys::read` needs.
const BY_HASH: &str =
    "SELECT k.key_id, k.key_hash, k.tenant_id, k.principal, k.roles, k.scopes, k.created_ms, k.revoked_ms,
    k.expires_ms, k.test, k.group_names, COALESCE(k.lineage, k.key_id) AS lineage, k.depends_on, s.session_id,
    s.created_ms AS session_created_ms, s.used_ms AS session_used_ms, s.expires_ms AS session_expires_ms,
    s.revoked_ms AS session_revoked_ms, s.ends_ms AS session_ends_ms, s.depends_on AS session_depends_on
    FROM sessions s JOIN keys k ON k.key_id = s.key_id WHERE s.token_hash = $1";
const OF_KEY: &str =
    "SELECT session_id, created_ms, used_ms, expires_ms, revoked_ms, key_id, tenant_id, ends_ms, depends_on FROM sessions
    WHERE key_id = $1 AND tenant_id = $2 AND revoked_ms IS NULL AND expires_ms > $3
    ORDER BY created_ms DESC, session_id LIMIT $4";
const USE: &str =
    "UPDATE sessions SET used_ms = $1, expires_ms = $2 WHERE session_id = $3 AND revoked_ms IS NULL";
const REVOKE: &str = "UPDATE sessions SET revoked_ms = COALESCE(revoked_ms, $1)
    WHERE session_id = $2 AND key_id = $3 AND tenant_id = $4";
const OWNED: &str =
    "SELECT session_id FROM sessions WHERE session_id = $1 AND key_id = $2 AND tenant_id = $3";
/// Revokes the sessions that depend on a session. $2 is a pattern for its id.
const REVOKE_DEPENDENTS: &str =
    "UPDATE sessions SET revoked_ms = $1 WHERE depends_on LIKE $2 AND revoked_ms IS NULL";
const DELETE_DEPENDENT_LINKS: &str = "DELETE FROM session_links WHERE depends_on LIKE $1";
const PURGE: &str = "DELETE FROM sessions WHERE session_id IN (
    SELECT session_id FROM sessions WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)";

const INSERT_LINK: &str =
    "INSERT INTO session_links (token_hash, key_id, expires_ms, session_ends_ms, depends_on)
    SELECT $1, key_id, $2, $3, $4 FROM keys WHERE key_id = $5
        AND NOT EXISTS (SELECT 1 FROM sessions WHERE revoked_ms IS NOT NULL AND $6 LIKE '% ' || session_id || ' %')";
const LINK: &str =
    "SELECT key_id FROM session_links WHERE token_hash = $1 AND session_id IS NULL AND expires_ms > $2";
const CLAIM_LINK: &str = "UPDATE session_links SET session_id = $1
    WHERE token_hash = $2 AND session_id IS NULL AND expires_ms > $3";
/// Inserts the session of a claimed link, if its key is active.
const INSERT_BY_LINK: &str =
    "INSERT INTO sessions (session_id, token_hash, key_id, tenant_id, created_ms, used_ms, expires_ms, ends_ms, depends_on)
    SELECT l.session_id, $1, k.key_id, k.tenant_id, $2, $3,
      CASE WHEN l.session_ends_ms < $4 THEN l.session_ends_ms ELSE $4 END,
      CASE WHEN l.session_ends_ms < $5 THEN l.session_ends_ms ELSE $5 END, NULLIF(COALESCE(k.depends_on, '') || COALESCE(l.depends_on, ''), '')
    FROM session_links l JOIN keys k ON k.key_id = l.key_id
    WHERE l.token_hash = $6 AND l.session_id = $7 AND k.revoked_ms IS NULL
      AND (k.expires_ms IS NULL OR k.expires_ms > $8)";
const PURGE_LINKS: &str = "DELETE FROM session_links WHERE token_hash IN (
    SELECT token_hash FROM session_links WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)";

/// The maximum lifetime of a session, however often it is used.
pub(crate) const LIFE_MS: u64 = 7 * 24 * 3_600_000;

/// A browser session: a sign-in with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// The id of the session.
    pub session_id: String,
    /// The key of the sign-in.
    pub key_id: String,
    /// The tenant of the key.
    pub tenant: TenantId,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of the last stored use. Not every use is stored.
    pub used_at: Timestamp,
    /// The time at which the session ends if it is not used before.
    pub expires_at: Timestamp,
    /// The latest end of the session, however often it is used.
    pub ends_at: Timestamp,
    /// The time of its revocation.
    pub revoked_at: Option<Timestamp>,
    /// The sessions with which this one, or its key, was created. It ends when one of them is revoked.
    pub depends_on: Dependence,
}

impl BrowserSession {
    /// Returns the dependence of keys, links and sessions that are created with this session.
    pub fn dependents(&self) -> Dependence {
        self.depends_on.clone().over(&self.session_id)
    }
}

pub(crate) fn insert(session: &BrowserSession, token_hash: &str) -> Statement {
    let values = params![
        session.session_id.as_str(),
        token_hash,
        session.key_id.as_str(),
        session.tenant.as_str(),
        session.created_at,
        session.used_at,
        session.expires_at,
        session.ends_at,
        session.depends_on.stored().as_deref()
    ];
    Statement::new(INSERT, values)
}

pub(crate) fn used(session_id: &str, now: Timestamp, expires_at: Timestamp) -> Statement {
    Statement::new(USE, params![now, expires_at, session_id])
}

/// Revokes a session and its dependents. The session is revoked first: a dependent that is being created is then
/// either committed and revoked below, or it finds the session revoked. Links come before sessions, because a link
/// that is being used becomes a session.
pub(crate) fn revoke(tenant: &TenantId, key_id: &str, session_id: &str, now: Timestamp) -> Vec<Statement> {
    let pattern = Dependence::pattern(session_id);
    vec![
        Statement::new(REVOKE, params![now, session_id, key_id, tenant.as_str()]),
        Statement::new(DELETE_DEPENDENT_LINKS, params![pattern.as_str()]),
        Statement::new(REVOKE_DEPENDENTS, params![now, pattern.as_str()]),
        keys::revoke_dependents(session_id, now),
    ]
}

/// Returns true if the session belongs to the key.
pub(crate) async fn is_owned(
    db: &Database,
    tenant: &TenantId,
    key_id: &str,
    session_id: &str,
) -> Result<bool, Error> {
    Ok(db.query_one(OWNED, params![session_id, key_id, tenant.as_str()]).await?.is_some())
}

/// A sign-in link. It can be used once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignInLink<'a> {
    pub token_hash: &'a str,
    pub key_id: &'a str,
    pub expires_at: Timestamp,
    /// The latest end of the session that the link creates, if the link sets one.
    pub session_ends_at: Option<Timestamp>,
    /// The sessions with which the link is created.
    pub depends_on: &'a Dependence,
}

/// Inserts a link. The row count of the last statement is 0 if the link depends on a revoked session.
pub(crate) fn insert_link(link: SignInLink<'_>) -> Vec<Statement> {
    let (ends_ms, depends_on) = (link.session_ends_at.map(|at| at.0), link.depends_on);
    let stored = depends_on.stored();
    let stored = stored.as_deref();
    let values = params![link.token_hash, link.expires_at, ends_ms, stored, link.key_id, stored];
    let mut statements: Vec<Statement> = depends_on.lock().collect();
    statements.push(Statement::new(INSERT_LINK, values));
    statements
}

/// Returns true if the link exists and can still be used.
pub(crate) async fn link_is_open(db: &Database, token_hash: &str, now: Timestamp) -> Result<bool, Error> {
    Ok(db.query_one(LINK, params![token_hash, now]).await?.is_some())
}

/// The use of a sign-in link, and the session that it creates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkUse<'a> {
    pub link_hash: &'a str,
    pub session_id: &'a str,
    pub token_hash: &'a str,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Marks a link as used and inserts its session. The row count of the last statement is 0 if neither happened.
pub(crate) fn by_link(link: LinkUse<'_>) -> Vec<Statement> {
    let LinkUse { link_hash, session_id, token_hash, now, expires_at } = link;
    let claim = Statement::new(CLAIM_LINK, params![session_id, link_hash, now]);
    let ends_at = now.plus_ms(LIFE_MS);
    let values = params![token_hash, now, now, expires_at, ends_at, link_hash, session_id, now];
    vec![claim, Statement::new(INSERT_BY_LINK, values)]
}

pub(crate) fn purge(now: Timestamp, limit: u64) -> [Statement; 2] {
    [PURGE_LINKS, PURGE].map(|text| Statement::new(text, params![now, limit]))
}

/// Returns the session of a token, with its key.
pub(crate) async fn by_hash(db: &Database, hash: &str) -> Result<Option<(BrowserSession, ApiKey)>, Error> {
    let Some(row) = db.query_one(BY_HASH, params![hash]).await? else { return Ok(None) };
    let key = keys::read(&row)?;
    let session = BrowserSession {
        session_id: row.text("session_id")?.to_owned(),
        key_id: key.key_id.clone(),
        tenant: key.tenant.clone(),
        created_at: Timestamp(row.int("session_created_ms")?),
        used_at: Timestamp(row.int("session_used_ms")?),
        expires_at: Timestamp(row.int("session_expires_ms")?),
        revoked_at: row.optional_int("session_revoked_ms")?.map(Timestamp),
        ends_at: read_end(row.int("session_created_ms")?, row.optional_int("session_ends_ms")?),
        depends_on: Dependence::read(row.optional_text("session_depends_on")?),
    };
    Ok(Some((session, key)))
}

/// Returns the active sessions of a key, the newest first.
pub(crate) async fn of_key(
    db: &Database,
    tenant: &TenantId,
    key_id: &str,
    now: Timestamp,
    limit: u64,
) -> Result<Vec<BrowserSession>, Error> {
    db.query(OF_KEY, params![key_id, tenant.as_str(), now, limit]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<BrowserSession, Error> {
    Ok(BrowserSession {
        session_id: row.text("session_id")?.to_owned(),
        created_at: Timestamp(row.int("created_ms")?),
        used_at: Timestamp(row.int("used_ms")?),
        expires_at: Timestamp(row.int("expires_ms")?),
        revoked_at: row.optional_int("revoked_ms")?.map(Timestamp),
        ends_at: read_end(row.int("created_ms")?, row.optional_int("ends_ms")?),
        depends_on: Dependence::read(row.optional_text("depends_on")?),
        key_id: row.text("key_id")?.to_owned(),
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("session", error))?,
    })
}

/// Returns the latest end of a session. Sessions of earlier versions have none stored.
fn read_end(created_ms: i64, ends_ms: Option<i64>) -> Timestamp {
    ends_ms.map_or(Timestamp(created_ms).plus_ms(LIFE_MS), Timestamp)
}
