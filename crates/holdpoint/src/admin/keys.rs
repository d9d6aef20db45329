//! API keys over HTTP. A key is shown once, when it is made; a caller can only hand out what it holds itself.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::{TenantId, Timestamp};
use holdpoint_engine::ApiKey;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::{Caller, CanManageKeys, SCOPES, SCOPES_DEFAULT, hash, hex};
use crate::body::{Body, InPath};
use crate::error::ApiError;

/// More keys than a tenant has use for; the list is not paged.
const LIST_MAX: u64 = 10_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateKey {
    tenant: Option<String>,
    principal: Option<String>,
    roles: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
}

pub(crate) async fn create(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
    Body(body): Body<CreateKey>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let tenant = allowed_tenant(&caller, body.tenant.as_deref())?;
    let scopes = allowed_scopes(&caller, body.scopes)?;
    let roles = body.roles.unwrap_or_default();
    for role in &roles {
        check_word("roles", role)?;
    }
    let secret = fresh_secret()?;
    let mut key = stored_key(&secret, tenant, app.engine.now())?;
    if let Some(principal) = body.principal {
        check_word("principal", &principal)?;
        key.principal = principal;
    }
    (key.roles, key.scopes) = (roles, scopes);
    if !app.engine.add_key(&key).await? {
        return Err(ApiError::internal("the id of a new key was taken"));
    }
    let mut shown = show(&key);
    shown["key"] = json!(secret);
    Ok((StatusCode::CREATED, Json(shown)))
}

pub(crate) async fn list(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
) -> Result<Json<Value>, ApiError> {
    let keys = app.engine.keys(caller.tenant(), LIST_MAX).await?;
    let keys: Vec<Value> = keys.iter().map(show).collect();
    Ok(Json(json!({"keys": keys})))
}

pub(crate) async fn revoke(
    State(app): State<App>,
    CanManageKeys(caller): CanManageKeys,
    InPath(key_id): InPath<String>,
) -> Result<StatusCode, ApiError> {
    // Goes on when the caller goes away: a key that is revoked on disk must not stay valid in memory.
    let revoking = tokio::spawn(async move {
        let revoked = app.engine.revoke_key(caller.tenant(), &key_id).await;
        app.keys.clear();
        revoked
    });
    let revoked = revoking.await.map_err(ApiError::internal)??;
    if revoked { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::not_found("key")) }
}

/// A key nobody can guess.
pub(crate) fn fresh_secret() -> Result<String, ApiError> {
    Ok(format!("hp_{}", random_hex(24)?))
}

/// What is stored of a given key: all scopes, named after its id.
pub(crate) fn stored_key(secret: &str, tenant: TenantId, now: Timestamp) -> Result<ApiKey, ApiError> {
    let key_id = format!("key_{}", random_hex(8)?);
    Ok(ApiKey {
        principal: key_id.clone(),
        key_id,
        key_hash: hash(secret),
        tenant,
        roles: Vec::new(),
        scopes: SCOPES.iter().map(ToString::to_string).collect(),
        created_at: now,
        revoked_at: None,
    })
}

fn random_hex(length: usize) -> Result<String, ApiError> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(hex(&bytes))
}

/// A key of another tenant can only be made by an administrator.
fn allowed_tenant(caller: &Caller, wanted: Option<&str>) -> Result<TenantId, ApiError> {
    let Some(wanted) = wanted else { return Ok(caller.tenant().clone()) };
    check_word("tenant", wanted)?;
    let tenant = TenantId::parse(wanted).map_err(|error| ApiError::invalid("tenant", error))?;
    if tenant == *caller.tenant() || caller.may("tenants:manage") {
        return Ok(tenant);
    }
    let message = "a key of another tenant needs an administrator's key (scope tenants:manage)";
    let details = json!({"scopeRequired": "tenants:manage"});
    Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).with(details))
}

fn allowed_scopes(caller: &Caller, wanted: Option<Vec<String>>) -> Result<Vec<String>, ApiError> {
    let Some(wanted) = wanted else {
        let held = SCOPES_DEFAULT.iter().filter(|scope| caller.may(scope));
        return Ok(held.map(ToString::to_string).collect());
    };
    for scope in &wanted {
        if !SCOPES.contains(&scope.as_str()) {
            let message = format!("{scope:?} is not a scope; known: {}", SCOPES.join(", "));
            return Err(ApiError::invalid("scopes", message));
        }
        if !caller.may(scope) {
            let message = format!("you cannot hand out {scope}, which your own key lacks");
            let details = json!({"scopeRequired": scope});
            return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).with(details));
        }
    }
    Ok(wanted)
}

fn check_word(field: &str, text: &str) -> Result<(), ApiError> {
    let fits = (1..=128).contains(&text.chars().count());
    if fits && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',') {
        return Ok(());
    }
    Err(ApiError::invalid(field, "must be 1 to 128 characters without spaces and commas"))
}

fn show(key: &ApiKey) -> Value {
    let mut shown = json!({
        "keyId": key.key_id, "tenant": key.tenant, "principal": key.principal, "roles": key.roles,
        "scopes": key.scopes, "createdAt": key.created_at.to_string(),
    });
    if let Some(at) = key.revoked_at {
        shown["revokedAt"] = json!(at.to_string());
    }
    shown
}
