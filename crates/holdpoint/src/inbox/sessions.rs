//! Signing in and out. A session stands for a key, in a cookie that no script can read; whoever signs in proves a key
//! once, or comes with a link that somebody with the key has made.

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
    Caller, CanManageKeys, CanSignIn, FailureGuard, Origin, Permission, SignedIn, check_scopes, session_ended,
};
use crate::body::{Body, InPath, NoBody, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::Keyed;
use crate::request_log::Record;

/// More sessions than a key has use for; the list is not paged.
const LIST_MAX: u64 = 1000;

/// The address of a sign-in request, after the origin check, and the log record of the request.
#[derive(Debug)]
pub(crate) struct Visitor {
    from: Origin,
    record: Option<Arc<Record>>,
}

impl FromRequestParts<App> for Visitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // Nobody is signed in as somebody else by a form on a page that they happen to look at.
        check_origin(&parts.headers, app.links.public_url())?;
        let record = parts.extensions.get::<Arc<Record>>().cloned();
        Ok(Self { from: Origin::of(parts), record })
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    Visitor { from, record }: Visitor,
    Keyed(_, Body(body)): Keyed<Body<SignIn>>,
) -> Result<Response, ApiError> {
    let failures = app.failure_guard(&from);
    let (token, signed_in) = match (body.key, body.once) {
        (Some(key), None) => with_key(&app, &failures, &key).await?,
        (None, Some(once)) => with_link(&app, &failures, &once).await?,
        _ => {
            return Err(ApiError::invalid("key", "give a key, or the token of a link as once, and not both"));
        }
    };
    if let Some(record) = record {
        record.set_caller(&signed_in.key.principal, &signed_in.key.tenant);
    }
    let session = describe(&signed_in.key, Some(&signed_in));
    let cookie = kept(&app, &token, &signed_in)?;
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], Json(session)).into_response())
}

async fn with_key(app: &App, failures: &FailureGuard<'_>, key: &str) -> Result<(String, SignedIn), ApiError> {
    let Caller(key, _) = Caller::holding(app, failures, key).await?;
    let (token, hash, id) = fresh_token("ses_")?;
    let session = app.engine.add_session(&key, &id, &hash).await?;
    Ok((token, SignedIn { session: session.into(), key }))
}

async fn with_link(
    app: &App,
    failures: &FailureGuard<'_>,
    once: &str,
) -> Result<(String, SignedIn), ApiError> {
    failures.check()?;
    let (token, hash, id) = fresh_token("ses_")?;
    let found = app.engine.sign_in_by_link(&token_hash(once), &id, &hash).await?;
    let (session, key) = found.ok_or_else(|| {
        failures.count();
        let message = "this link was used, has expired, or is none; `holdpoint inbox --link` makes another";
        ApiError::new(ErrorCode::LinkUsed, message)
    })?;
    Ok((token, SignedIn { session: session.into(), key: key.into() }))
}

/// The cookie lasts as long as the session would if nobody used it.
fn kept(app: &App, token: &str, signed_in: &SignedIn) -> Result<HeaderValue, ApiError> {
    let left_ms = signed_in.expires_at().0 - app.engine.now().0;
    // A moment too long rather than too short: the store decides.
    set_cookie(token, (left_ms + 999) / 1000, app.reach)
}

/// Who is signed in. The cookie is given once more, for as long as the session lasts now.
pub(crate) async fn show(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Caller(key, signed_in) = caller;
    let (Some(signed_in), Some(token)) = (signed_in, cookie(&headers, app.reach)) else {
        return Ok(Json(describe(&key, None)).into_response());
    };
    let signed_in = SignedIn { session: signed_in.session, key };
    let cookie = kept(&app, token, &signed_in)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(describe(&signed_in.key, Some(&signed_in)))).into_response())
}

/// Signs out. Whoever came with a key was not signed in, and need not be told.
pub(crate) async fn end(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    Keyed(_, NoBody): Keyed<NoBody>,
) -> Result<Response, ApiError> {
    if let Some(signed_in) = caller.1.clone() {
        revoked(&app, caller, signed_in.session.session_id.clone()).await?;
    }
    let gone = set_cookie("", 0, app.reach)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, gone)]).into_response())
}

pub(crate) async fn list(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
) -> Result<Json<SessionList>, ApiError> {
    let own = caller.1.as_ref().map(|signed_in| signed_in.session.session_id.clone());
    let found = app.engine.sessions(caller.tenant(), &caller.0.key_id, LIST_MAX).await?;
    Ok(Json(SessionList { sessions: found.iter().map(|one| list_entry(one, own.as_deref())).collect() }))
}

pub(crate) async fn revoke(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    InPath(session_id): InPath<String>,
    Keyed(_, NoBody): Keyed<NoBody>,
) -> Result<StatusCode, ApiError> {
    match revoked(&app, caller, session_id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found("session")),
    }
}

/// Revokes a session and what was made over it. Goes on when the caller goes away: a session that is revoked on disk must
/// not stay valid in memory.
async fn revoked(app: &App, caller: Caller, session_id: String) -> Result<bool, ApiError> {
    let app = app.clone();
    let revoking = tokio::spawn(async move {
        let revoked = app.engine.revoke_session(caller.tenant(), &caller.0.key_id, &session_id).await;
        app.keys.clear();
        app.sessions.clear();
        revoked
    });
    Ok(revoking.await.map_err(ApiError::internal)??)
}

/// Creates a link that signs in once: as the caller, or with another key whose scopes the caller holds. The session that
/// it makes ends no later than the session or the key that made the link, and with the sign-out of that session.
pub(crate) async fn link(
    State(app): State<App>,
    CanSignIn(caller): CanSignIn,
    Keyed(_, OptionalBody(body)): Keyed<OptionalBody<CreateSessionLink>>,
) -> Result<Response, ApiError> {
    let limits = caller.limits();
    let key_id = match body.key_id.filter(|id| *id != caller.0.key_id) {
        None => caller.0.key_id.clone(),
        Some(other) => {
            let caller = caller.require(CanManageKeys::ACCESS)?;
            let found = app.engine.key(caller.tenant(), &other).await?;
            let key = found.ok_or_else(|| ApiError::not_found("key"))?;
            check_scopes(&caller, "keyId", key.scopes)?;
            key.key_id
        }
    };
    let (url, expires_at) = make_link(&app.engine, app.links.public_url(), &key_id, &limits).await?;
    Ok((StatusCode::CREATED, Json(SessionLink { url, expires_at: expires_at.into() })).into_response())
}

/// The token stands behind the hash sign, which browsers keep to themselves.
pub(crate) async fn make_link(
    engine: &Engine,
    public_url: &str,
    key_id: &str,
    limits: &CredentialLimits,
) -> Result<(String, Timestamp), ApiError> {
    let (token, hash, _) = fresh_token("")?;
    let stored = engine.add_session_link(key_id, &hash, limits).await?;
    let expires_at = stored.ok_or_else(session_ended)?;
    Ok((format!("{public_url}/inbox#once={token}"), expires_at))
}

fn describe(key: &ApiKey, signed_in: Option<&SignedIn>) -> Session {
    Session {
        principal: key.principal.clone(),
        tenant: key.tenant.clone(),
        roles: key.roles.clone(),
        groups: key.groups.clone(),
        scopes: key.scopes.clone(),
        test: key.test,
        session_id: signed_in.map(|signed_in| signed_in.session.session_id.clone()),
        expires_at: signed_in.map(SignedIn::expires_at).or(key.expires_at).map(Into::into),
    }
}

fn list_entry(session: &holdpoint_engine::Session, own: Option<&str>) -> ListedSession {
    ListedSession {
        session_id: session.session_id.clone(),
        created_at: session.created_at.into(),
        used_at: session.used_at.into(),
        expires_at: session.expires_at.into(),
        current: own == Some(session.session_id.as_str()),
    }
}
