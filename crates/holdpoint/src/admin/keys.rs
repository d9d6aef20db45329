//! API keys over HTTP. A key is shown once, in the response that creates it. A caller can only grant scopes that it has.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::keys::{
    CreateKey, Key, KeyCreated, KeyList, LIFE_SECONDS_MAX, OVERLAP_SECONDS_DEFAULT, OVERLAP_SECONDS_MAX,
    RotateKey, SCOPES_DEFAULT,
};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{TenantId, Timestamp};
use holdpoint_engine::{ApiKey, Once};

use crate::app::App;
use crate::auth::{Caller, CanManageKeys, KeyKind, check_scopes, fresh_secret, session_ended, stored_key};
use crate::body::{IgnoredBody, InPath, JsonBody, OptionalBody, check_word, parse_principal, parse_word};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

/// Maximum length of the list, which has no pages. Further keys are not listed.
const LIST_MAX: u64 = 10_000;
/// Maximum roles of a key, and maximum groups. A list of pending interrupts reads one index range for each of them.
const WORDS_MAX: usize = 64;

pub(crate) async fn create(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<CreateKey>>,
) -> Result<ApiResponse, ApiError> {
    let add = async |once: Option<&Once<ApiKey>>| {
        // Only the first request is checked: a repeated one may arrive after the key has expired.
        let (made, secret) = draft_key(&caller, body, app.engine.now())?;
        if !app.engine.keys().add(&made, once).await? {
            return Err(explain_unstored(&app, &made).await?);
        }
        log_new_key(&caller, &made);
        Ok((made, Some(secret)))
    };
    key.once_with_secret(&app, caller.sender(), respond_created, add).await
}

fn respond_created(key: &ApiKey, secret: Option<String>) -> ApiResponse {
    ApiResponse::json(StatusCode::CREATED, &KeyCreated { stored: describe(key), key: secret })
}

/// Logs the id and the principal of a new key. The log line of the request does not have the id.
fn log_new_key(caller: &Caller, key: &ApiKey) {
    let (principal, subject, holder) =
        (caller.0.principal.as_str(), key.key_id.as_str(), key.principal.as_str());
    let (tenant, key_tenant) = (caller.tenant(), &key.tenant);
    tracing::info!(
        target: "holdpoint::audit", event = "key-created", principal, %tenant, subject, holder, %key_tenant, "audit"
    );
}

/// Returns the requested key and its secret, or the reason for which the caller may not create it.
fn draft_key(caller: &Caller, body: CreateKey, now: Timestamp) -> Result<(ApiKey, String), ApiError> {
    let kind = allowed_kind(caller, body.test)?;
    let tenant = allowed_tenant(caller, body.tenant.as_deref())?;
    let scopes = allowed_scopes(caller, body.scopes, body.add_scopes)?;
    let expires_at = expiry(body.expires_at.as_deref(), body.expires_in_seconds, now)?;
    let expires_at = allowed_expiry(caller, expires_at)?;
    // Roles and groups are not limited to those of the caller: a caller with keys:manage defines the principals of its
    // tenant.
    let roles = parse_words("roles", body.roles)?;
    let groups = parse_words("groups", body.groups)?;
    let secret = fresh_secret(kind)?;
    let mut key = stored_key(&secret, tenant, now)?;
    if let Some(principal) = body.principal {
        key.principal = parse_principal("principal", &principal)?;
    }
    (key.roles, key.groups, key.scopes, key.expires_at) = (roles, groups, scopes, expires_at);
    key.depends_on = caller.dependents();
    Ok((key, secret))
}

/// Returns the reason for which a new key was not stored. Its hash is unique, so the kind of the tenant does not match,
/// or a session on which the key depends was revoked.
async fn explain_unstored(app: &App, key: &ApiKey) -> Result<ApiError, ApiError> {
    let message = match (app.engine.keys().tenant_is_test(&key.tenant).await?, key.test) {
        (Some(true), false) => "this tenant accepts test keys only; send \"test\": true",
        (Some(false), true) => "this tenant has live keys; create test keys in another tenant",
        _ if !key.depends_on.is_empty() => return Ok(session_ended()),
        _ => return Ok(ApiError::internal("the id of a new key already exists")),
    };
    Ok(ApiError::new(ErrorCode::KeyKindMismatch, message))
}

/// Creates the successor of a key: the same principal, roles, groups, scopes and lineage. The key ends after the
/// overlap.
pub(crate) async fn rotate(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
    InPath(key_id): InPath<String>,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<RotateKey>>,
) -> Result<ApiResponse, ApiError> {
    let overlap_ms = parse_overlap_ms(&body)?;
    let rotate = async |once: Option<&Once<ApiKey>>| {
        let (made, secret) = add_successor(&app, &caller, &key_id, &body, overlap_ms, once).await?;
        log_new_key(&caller, &made);
        Ok((made, Some(secret)))
    };
    let rotated = key.once_with_secret(&app, caller.sender(), respond_created, rotate).await;
    // The caches still have the old key without its new expiry.
    app.keys.clear();
    app.sessions.clear();
    rotated
}

fn parse_overlap_ms(body: &RotateKey) -> Result<u64, ApiError> {
    match body.overlap_seconds.unwrap_or(OVERLAP_SECONDS_DEFAULT) {
        seconds @ 0..=OVERLAP_SECONDS_MAX => Ok(seconds * 1000),
        _ => Err(ApiError::invalid("overlapSeconds", format!("must be 0 to {OVERLAP_SECONDS_MAX}"))),
    }
}

/// Stores the successor of a key and the end of the key. Returns the successor and its secret.
async fn add_successor(
    app: &App,
    caller: &Caller,
    key_id: &str,
    body: &RotateKey,
    overlap_ms: u64,
    once: Option<&Once<ApiKey>>,
) -> Result<(ApiKey, String), ApiError> {
    let found = app.engine.keys().get(caller.tenant(), key_id).await?;
    let old = found.ok_or_else(|| ApiError::not_found("key"))?;
    let now = app.engine.now();
    let (made, secret) = make_successor(caller, &old, body, now)?;
    if !app.engine.keys().rotate(&made, &old.key_id, now.plus_ms(overlap_ms), once).await? {
        let message = "this key was revoked or has expired; create a new key instead";
        return Err(ApiError::new(ErrorCode::KeyEnded, message));
    }
    Ok((made, secret))
}

/// Returns the successor of a key and its secret. The caller must hold all scopes of the key: otherwise it could get
/// scopes by rotation that it does not have.
fn make_successor(
    caller: &Caller,
    old: &ApiKey,
    body: &RotateKey,
    now: Timestamp,
) -> Result<(ApiKey, String), ApiError> {
    let scopes = allowed_scopes(caller, Some(old.scopes.clone()), None)?;
    let asked = expiry(body.expires_at.as_deref(), body.expires_in_seconds, now)?;
    // By default the successor is valid for as long as the key was, and no longer than the caller's key or session.
    let lived = |end: Timestamp| now.plus_ms(u64::try_from(end.0 - old.created_at.0).unwrap_or_default());
    let usual = || Some(old.expires_at.map(lived)?.min(caller.ends_at().unwrap_or(Timestamp(i64::MAX))));
    let expires_at = allowed_expiry(caller, asked.or_else(usual))?;
    let secret = fresh_secret(KeyKind::of(old))?;
    let fresh = stored_key(&secret, old.tenant.clone(), now)?;
    let (principal, lineage) = (old.principal.clone(), old.lineage.clone());
    let (roles, groups) = (old.roles.clone(), old.groups.clone());
    let depends_on = old.depends_on.clone().joined(&caller.dependents());
    Ok((ApiKey { principal, lineage, roles, groups, scopes, expires_at, depends_on, ..fresh }, secret))
}

pub(crate) async fn list(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
) -> Result<Json<KeyList>, ApiError> {
    let keys = app.engine.keys().list(caller.tenant(), LIST_MAX).await?;
    Ok(Json(KeyList { keys: keys.iter().map(describe).collect() }))
}

pub(crate) async fn revoke(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
    InPath(key_id): InPath<String>,
    KeyedBody(key, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<ApiResponse, ApiError> {
    // Runs in a separate task, so that it completes if the client disconnects: a key that is revoked in the store must
    // not stay valid in the cache.
    let revoking = tokio::spawn(async move {
        let revoke = async |once: Option<&Once<()>>| {
            let revoked = app.engine.keys().revoke(caller.tenant(), &key_id, once).await?;
            revoked.then_some(()).ok_or_else(|| ApiError::not_found("key"))
        };
        let revoked = key.once(&app, caller.sender(), |()| ApiResponse::empty(), revoke).await;
        end_dependents(&app, caller.tenant()).await;
        revoked
    });
    revoking.await.map_err(ApiError::internal)?
}

/// Removes revoked keys from the caches, ends their sessions and pauses their webhooks.
async fn end_dependents(app: &App, tenant: &TenantId) {
    app.keys.clear();
    app.sessions.clear();
    if let Err(error) = app.engine.webhooks().pause_lapsed(tenant).await {
        tracing::warn!(%error, "webhooks of a revoked key are paused at their next delivery");
    }
}

/// Returns the kind of a new key. Callers with a test key cannot create live keys.
fn allowed_kind(caller: &Caller, test: Option<bool>) -> Result<KeyKind, ApiError> {
    match test {
        Some(false) if caller.is_test() => {
            let message = "a test key can only create test keys";
            Err(ApiError::new(ErrorCode::Forbidden, message))
        }
        Some(true) => Ok(KeyKind::Test),
        None if caller.is_test() => Ok(KeyKind::Test),
        Some(false) | None => Ok(KeyKind::Live),
    }
}

/// Returns the expiry of a key, given as an instant or as a number of seconds.
fn expiry(at: Option<&str>, seconds: Option<u64>, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
    match (at, seconds) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(ApiError::invalid("expiresAt", "give this or expiresInSeconds, not both")),
        (None, Some(seconds)) if (1..=LIFE_SECONDS_MAX).contains(&seconds) => {
            Ok(Some(now.plus_ms(seconds * 1000)))
        }
        (None, Some(_)) => {
            Err(ApiError::invalid("expiresInSeconds", format!("must be 1 to {LIFE_SECONDS_MAX}")))
        }
        (Some(text), None) => {
            let parsed = Timestamp::parse_rfc3339(text);
            let ahead = parsed.filter(|at| *at > now && *at <= now.plus_ms(LIFE_SECONDS_MAX * 1000));
            let message = "must be an instant in the next 100 years, such as 2030-01-31T12:00:00Z";
            ahead.map(Some).ok_or_else(|| ApiError::invalid("expiresAt", message))
        }
    }
}

/// Returns the expiry of a new key: the requested one, or that of the caller's key or session. A credential that
/// expires cannot create a key that outlives it, because it could extend its own lifetime that way.
fn allowed_expiry(caller: &Caller, wanted: Option<Timestamp>) -> Result<Option<Timestamp>, ApiError> {
    match (caller.ends_at(), wanted) {
        (Some(own), Some(wanted)) if wanted > own => {
            let by_session = caller.1.is_some() && caller.0.expires_at.is_none_or(|end| end > own);
            let message = if by_session {
                "expiresAt: a key created over a session cannot outlive the session; send this request with an API key"
            } else {
                "expiresAt: a key cannot outlive the key that creates it"
            };
            let expires_at_max = Some(own.into());
            let details = ErrorDetails { expires_at_max, ..ErrorDetails::of_field("expiresAt") };
            Err(ApiError::new(ErrorCode::Forbidden, message).with(details))
        }
        (own, wanted) => Ok(wanted.or(own)),
    }
}

/// Returns the tenant of a new key. A tenant other than the caller's requires the scope `tenants:manage`.
fn allowed_tenant(caller: &Caller, wanted: Option<&str>) -> Result<TenantId, ApiError> {
    let Some(wanted) = wanted else { return Ok(caller.tenant().clone()) };
    check_word("tenant", wanted)?;
    let tenant = TenantId::parse(wanted).map_err(|error| ApiError::invalid("tenant", error))?;
    if tenant == *caller.tenant() || caller.may("tenants:manage") {
        return Ok(tenant);
    }
    let message = "creating a key of another tenant requires the scope tenants:manage";
    let details = ErrorDetails::of_scope("tenants:manage");
    Err(ApiError::new(ErrorCode::Forbidden, message).with(details))
}

/// Returns the scopes that the request names, or the default scopes and those that it adds.
fn allowed_scopes(
    caller: &Caller,
    wanted: Option<Vec<String>>,
    added: Option<Vec<String>>,
) -> Result<Vec<String>, ApiError> {
    let added = match (wanted, added) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("addScopes", "give this or scopes, not both")),
        (Some(wanted), None) => return check_scopes(caller, "scopes", wanted),
        (None, added) => check_scopes(caller, "addScopes", added.unwrap_or_default())?,
    };
    let held = SCOPES_DEFAULT.iter().filter(|scope| caller.may(scope)).map(ToString::to_string);
    let mut scopes: Vec<String> = held.collect();
    scopes.extend(added.into_iter().filter(|scope| !SCOPES_DEFAULT.contains(&scope.as_str())));
    Ok(scopes)
}

fn parse_words(field: &str, given: Option<Vec<String>>) -> Result<Vec<String>, ApiError> {
    let given = given.unwrap_or_default();
    if given.len() > WORDS_MAX {
        return Err(ApiError::invalid(field, format!("must have at most {WORDS_MAX} entries")));
    }
    given.iter().map(|word| parse_word(field, word)).collect()
}

fn describe(key: &ApiKey) -> Key {
    Key {
        key_id: key.key_id.clone(),
        lineage: key.lineage.clone(),
        tenant: key.tenant.clone(),
        principal: key.principal.clone(),
        roles: key.roles.clone(),
        groups: key.groups.clone(),
        scopes: key.scopes.clone(),
        test: key.test,
        created_at: key.created_at.into(),
        expires_at: key.expires_at.map(Into::into),
        revoked_at: key.revoked_at.map(Into::into),
    }
}
