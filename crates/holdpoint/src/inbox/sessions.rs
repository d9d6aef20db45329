//! Sign-in and sign-out. A session stands for an API key, in a cookie that no script can read. A user signs in with a
//! key, or with a link that a holder of the key created.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_api::ErrorCode;
use holdpoint_api::sessions::{CreateSessionLink, ListedSession, Session, SessionLink, SessionList, SignIn};
use holdpoint_core::Timestamp;
use holdpoint_engine::{ApiKey, CredentialLimits, Engine};

use crate::app::App;
use crate::auth::sessions::{check_origin, cookie, fresh_token, set_cookie, token_hash};
use crate::auth::{
    Caller, CanManageKeys, CanSignIn, FailureGuard, Origin, Permission, SessionWithKey, check_scopes,
    session_ended,
};
use crate::body::{IgnoredBody, InPath, JsonBody, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::KeyedBody;
use crate::request_log::RequestRecord;

/// Maximum length of the list, which has no pages. Further sessions are not listed.
const LIST_MAX: u64 = 1000;

/// The address of a sign-in request, after the origin check, and the log record of the request.
#[derive(Debug)]
pub(crate) struct SignInClient {
    from: Origin,
    record: Option<Arc<RequestRecord>>,
}

impl FromRequestParts<App> for SignInClient {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // A form on a page of another origin must not sign a user in as another principal.
        check_origin(&parts.headers, app.links.public_url())?;
        let record = parts.extensions.get::<Arc<RequestRecord>>().cloned();
        Ok(Self { from: Origin::of(parts), record })
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    SignInClient { from, record }: SignInClient,
    KeyedBody(_, JsonBody(body)): KeyedBody<JsonBody<SignIn>>,
) -> Result<Response, ApiError> {
    let (token, signed_in) = sign_in(&app, &app.failure_guard(&from), body).await?;
    if let Some(record) = record {
        record.set_caller(&signed_in.key.principal, &signed_in.key.tenant);
    }
    let session = describe(&signed_in.key, Some(&signed_in));
    let cookie = session_cookie(&app, &token, &signed_in)?;
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], Json(session)).into_response())
}

/// Creates a session. Returns its token and the session.
async fn sign_in(
    app: &App,
    failures: &FailureGuard<'_>,
    body: SignIn,
) -> Result<(String, SessionWithKey), ApiError> {
    match (body.key, body.once) {
        (Some(key), None) => sign_in_with_key(app, failures, &key).await,
        (None, Some(once)) => sign_in_with_link(app, failures, &once).await,
        _ => Err(ApiError::invalid("key", "give this, or once with the token of a sign-in link, not both")),
    }
}

async fn sign_in_with_key(
    app: &App,
    failures: &FailureGuard<'_>,
    key: &str,
) -> Result<(String, SessionWithKey), ApiError> {
    let Caller(key, _) = Caller::from_key(app, failures, key).await?;
    let (token, hash, id) = fresh_token("ses_")?;
    let session = app.engine.sessions().add(&key, &id, &hash).await?;
    Ok((token, SessionWithKey { session: session.into(), key }))
}

async fn sign_in_with_link(
    app: &App,
    failures: &FailureGuard<'_>,
    once: &str,
) -> Result<(String, SessionWithKey), ApiError> {
    failures.check()?;
    let (token, hash, id) = fresh_token("ses_")?;
    let found = app.engine.sessions().sign_in_by_link(&token_hash(once), &id, &hash).await?;
    let (session, key) = found.ok_or_else(|| {
        failures.count();
        let message =
            "this sign-in link is invalid, expired or already used; `holdpoint inbox --link` creates another";
        ApiError::new(ErrorCode::LinkUsed, message)
    })?;
    Ok((token, SessionWithKey { session: session.into(), key: key.into() }))
}

/// Returns the cookie. It lasts as long as the session does without another use.
fn session_cookie(app: &App, token: &str, signed_in: &SessionWithKey) -> Result<HeaderValue, ApiError> {
    let left_ms = signed_in.expires_at().0 - app.engine.now().0;
    // Rounded up: the store decides when the session ends.
    set_cookie(token, (left_ms + 999) / 1000, app.public_scheme)
}

/// Returns the caller and its session. Renews the cookie for the remaining lifetime of the session.
pub(crate) async fn show(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Caller(key, signed_in) = caller;
    let (Some(signed_in), Some(token)) = (signed_in, cookie(&headers, app.public_scheme)) else {
        return Ok(Json(describe(&key, None)).into_response());
    };
    let signed_in = SessionWithKey { session: signed_in.session, key };
    let cookie = session_cookie(&app, token, &signed_in)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(describe(&signed_in.key, Some(&signed_in)))).into_response())
}

/// Signs out. A caller with an API key has no session: then only the cookie is removed.
pub(crate) async fn end(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    KeyedBody(_, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<Response, ApiError> {
    if let Some(signed_in) = caller.1.clone() {
        revoke_session(&app, caller, signed_in.session.session_id.clone()).await?;
    }
    let removed = set_cookie("", 0, app.public_scheme)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, removed)]).into_response())
}

pub(crate) async fn list(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
) -> Result<Json<SessionList>, ApiError> {
    let own = caller.1.as_ref().map(|signed_in| signed_in.session.session_id.clone());
    let found = app.engine.sessions().list(caller.tenant(), &caller.0.key_id, LIST_MAX).await?;
    Ok(Json(SessionList { sessions: found.iter().map(|one| list_entry(one, own.as_deref())).collect() }))
}

pub(crate) async fn revoke(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    InPath(session_id): InPath<String>,
    KeyedBody(_, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<StatusCode, ApiError> {
    match revoke_session(&app, caller, session_id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found("session")),
    }
}

/// Revokes a session with the keys and sessions that depend on it. Runs in a separate task, so that it completes if the
/// client disconnects: a session that is revoked in the store must not stay valid in the cache.
async fn revoke_session(app: &App, caller: Caller, session_id: String) -> Result<bool, ApiError> {
    let app = app.clone();
    let revoking = tokio::spawn(async move {
        let revoked = app.engine.sessions().revoke(caller.tenant(), &caller.0.key_id, &session_id).await;
        app.keys.clear();
        app.sessions.clear();
        revoked
    });
    Ok(revoking.await.map_err(ApiError::internal)??)
}

/// Creates a sign-in link, for the caller's key or for another key whose scopes the caller has. Its session ends no
/// later than the session or the key that created the link, and with the sign-out of that session.
pub(crate) async fn link(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    KeyedBody(_, OptionalBody(body)): KeyedBody<OptionalBody<CreateSessionLink>>,
) -> Result<Response, ApiError> {
    let limits = caller.limits();
    let key_id = choose_key(&app, caller, body.key_id).await?;
    let (url, expires_at) = make_link(&app.engine, app.links.public_url(), &key_id, &limits).await?;
    Ok((StatusCode::CREATED, Json(SessionLink { url, expires_at: expires_at.into() })).into_response())
}

/// Returns the id of the key that a link signs in with: the named one, or that of the caller.
async fn choose_key(app: &App, caller: Caller, named: Option<String>) -> Result<String, ApiError> {
    let Some(other) = named.filter(|id| *id != caller.0.key_id) else { return Ok(caller.0.key_id.clone()) };
    let caller = caller.require(CanManageKeys::ACCESS)?;
    let found = app.engine.keys().get(caller.tenant(), &other).await?;
    let key = found.ok_or_else(|| ApiError::not_found("key"))?;
    check_scopes(&caller, "keyId", key.scopes)?;
    Ok(key.key_id)
}

/// Creates a sign-in link. The token is in the fragment, which browsers do not send to servers.
pub(crate) async fn make_link(
    engine: &Engine,
    public_url: &str,
    key_id: &str,
    limits: &CredentialLimits,
) -> Result<(String, Timestamp), ApiError> {
    let (token, hash, _) = fresh_token("")?;
    let stored = engine.sessions().add_link(key_id, &hash, limits).await?;
    let expires_at = stored.ok_or_else(session_ended)?;
    Ok((format!("{public_url}/inbox#once={token}"), expires_at))
}

fn describe(key: &ApiKey, signed_in: Option<&SessionWithKey>) -> Session {
    Session {
        principal: key.principal.clone(),
        tenant: key.tenant.clone(),
        roles: key.roles.clone(),
        groups: key.groups.clone(),
        scopes: key.scopes.clone(),
        test: key.test,
        session_id: signed_in.map(|signed_in| signed_in.session.session_id.clone()),
        expires_at: signed_in.map(SessionWithKey::expires_at).or(key.expires_at).map(Into::into),
    }
}

fn list_entry(session: &holdpoint_engine::BrowserSession, own: Option<&str>) -> ListedSession {
    ListedSession {
        session_id: session.session_id.clone(),
        created_at: session.created_at.into(),
        used_at: session.used_at.into(),
        expires_at: session.expires_at.into(),
        current: own == Some(session.session_id.as_str()),
    }
}
