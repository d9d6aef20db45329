//! Authentication and scopes. A caller sends an API key, or the cookie of a browser session that stands for a key. Keys
//! are compared by their hashes, in constant time. No scope implies another.

mod failures;
mod guard;
mod key_cache;
mod minting;
mod rate;
pub(crate) mod sessions;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use holdpoint_core::{
    Answer, Owner, Principal, RequestSource, RunId, RunRef, StartRequest, TenantId, Timestamp, Transport, Via,
};
use holdpoint_engine::{ApiKey, BrowserSession, CredentialLimits, Dependence};
use serde_json::Value;

pub(crate) use failures::{FailureGuard, FailureLimit, Origin};
pub(crate) use guard::CredentialGuard;
pub(crate) use holdpoint_api::keys::SCOPES;
use holdpoint_api::{ErrorCode, ErrorDetails};
pub(crate) use key_cache::KeyCache;
pub(crate) use minting::{KeyKind, TEST_KEY_PREFIX, check_scopes, fresh_secret, stored_key};
pub(crate) use rate::{RateLimit, too_many};
pub(crate) use sessions::{SessionCache, SessionWithKey};

use crate::app::App;
use crate::error::ApiError;
use crate::idempotency::Sender;
use crate::request_log::record_caller;

/// The scope for answering interrupts.
pub(crate) const RESPOND: &str = "approvals:respond";
/// The scope for answering in the name of another principal.
const ACT_AS: &str = "approvals:act-as";

/// The access rule of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No credential is required.
    Public,
    /// A key with one of these scopes.
    Any(&'static [&'static str]),
    /// A key with all of these scopes.
    All(&'static [&'static str]),
}

impl Access {
    /// Returns the scope that the caller lacks, or None if it has access.
    fn missing(self, held: impl Fn(&str) -> bool) -> Option<&'static str> {
        match self {
            Self::Public => None,
            Self::Any(scopes) if scopes.iter().any(|scope| held(scope)) => None,
            Self::Any(scopes) => scopes.first().copied(),
            Self::All(scopes) => scopes.iter().copied().find(|scope| !held(scope)),
        }
    }
}

/// An authenticated caller: the key, and the session if the request has a session cookie instead of a key.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub Arc<ApiKey>, pub Option<SessionRef>);

/// The session of a request.
#[derive(Clone, Debug)]
pub(crate) struct SessionRef {
    pub session: Arc<BrowserSession>,
    pub token_hash: String,
}

impl Caller {
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    /// Returns the sender under which receipts of the caller are stored.
    pub(crate) fn sender(&self) -> Sender<'_> {
        Sender::Principal(&self.0.tenant, &self.0.principal)
    }

    /// Returns the name of the principal.
    pub(crate) fn name(&self) -> &str {
        &self.0.principal
    }

    pub(crate) fn principal(&self) -> Principal {
        self.0.holder()
    }

    /// Returns the credential of the request: the id of the session or of the key.
    pub(crate) fn via(&self) -> Via {
        match &self.1 {
            Some(signed_in) => Via::session(signed_in.session.session_id.as_str()),
            None => Via::key(self.0.key_id.as_str()),
        }
    }

    /// Returns the instant at which the credential ends at the latest, if there is one: the end of the key or of the
    /// session, whichever is earlier. Keys and sessions that the caller creates end no later.
    pub(crate) fn ends_at(&self) -> Option<Timestamp> {
        let session_ends_at = self.1.as_ref().map(|signed_in| signed_in.session.ends_at);
        [self.0.expires_at, session_ends_at].into_iter().flatten().min()
    }

    /// Returns the sessions that new keys and sessions of the caller depend on. Signing out of one of these sessions
    /// also ends the keys and sessions that depend on it.
    pub(crate) fn dependents(&self) -> Dependence {
        self.1.as_ref().map_or_else(|| self.0.depends_on.clone(), |signed_in| signed_in.session.dependents())
    }

    pub(crate) fn limits(&self) -> CredentialLimits {
        CredentialLimits { ends_at: self.ends_at(), depends_on: self.dependents() }
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner { tenant: self.0.tenant.clone(), principal: self.0.principal.clone() }
    }

    /// Returns the request that starts a run of this caller. It names the lineage of the key: a link that the server
    /// creates for the run has at most the rights of this lineage.
    pub(crate) fn start(&self, transport: Transport) -> StartRequest {
        StartRequest {
            credentials: vec![self.0.lineage.clone()],
            source: Some(RequestSource::user(transport)),
            ..StartRequest::new(self.owner())
        }
    }

    /// Returns an answer of this caller to an interrupt, with the principal and the credential that the core checks.
    /// All protocols use this function. `digest` is the digest of the payload that the caller saw, if the request has
    /// it.
    pub(crate) fn answer(&self, value: Value, digest: Option<String>) -> Answer {
        let (acting_as, via) = (self.may(ACT_AS), Some(self.via()));
        Answer { acting_as, digest, via, ..Answer::new(value, self.principal()) }
    }

    pub(crate) fn may(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|held| held == scope)
    }

    /// Returns true for a test key. Features for tests require one.
    pub(crate) fn is_test(&self) -> bool {
        self.0.test
    }

    /// Returns the reference of a run in the caller's tenant. An invalid id gets the error of an unknown run.
    pub(crate) fn run(&self, id: &str) -> Result<RunRef, ApiError> {
        let run = RunId::parse(id).map_err(|_| ApiError::not_found("run"))?;
        Ok(RunRef { tenant: self.tenant().clone(), run })
    }

    /// Checks an access rule in addition to that of the route.
    pub(crate) fn require(self, access: Access) -> Result<Self, ApiError> {
        match access.missing(|scope| self.may(scope)) {
            None => Ok(self),
            Some(missing) => {
                let named = match access {
                    Access::Any(scopes) => scopes.join(" or "),
                    Access::All(_) | Access::Public => missing.to_owned(),
                };
                Err(missing_scope(&named, missing))
            }
        }
    }

    /// Checks a scope that the operator has set.
    pub(crate) fn require_scope(self, scope: &'static str) -> Result<Self, ApiError> {
        if self.may(scope) { Ok(self) } else { Err(missing_scope(scope, scope)) }
    }

    /// Authenticates a request by its API key, or else by its session cookie.
    pub(crate) async fn authenticate(parts: &Parts, app: &App) -> Result<Self, ApiError> {
        if parts.headers.get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
            return Err(ApiError::invalid("Authorization", "must be given once"));
        }
        let from = Origin::of(parts);
        let failures = app.failure_guard(&from);
        let caller = match (
            parts.headers.get(header::AUTHORIZATION),
            sessions::cookie(&parts.headers, app.public_scheme),
        ) {
            (Some(header), _) => {
                let text = header.to_str().ok().and_then(|text| text.split_once(' '));
                let Some((_, key)) = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
                    return Err(unauthenticated("the Authorization header must read: Bearer <key>"));
                };
                Self::from_key(app, &failures, key).await?
            }
            (None, Some(token)) => {
                let signed_in = Self::find_session(app, &failures, token).await?;
                sessions::check_page(&parts.method, &parts.headers, app.links.public_url())?;
                let token_hash = sessions::token_hash(token);
                Self(signed_in.key, Some(SessionRef { session: signed_in.session, token_hash }))
            }
            (None, None) => return Err(unauthenticated("send an API key: Authorization: Bearer <key>")),
        };
        record_caller(parts, &caller.0.principal, &caller.0.tenant);
        // The rate limit is checked before the scopes, so that requests without the required scope count, too.
        if let Some(limit) = &app.rate_limit {
            limit.take(&caller.0.key_id, Instant::now())?;
        }
        Ok(caller)
    }

    /// Returns the caller with this key, if the key is valid.
    pub(crate) async fn from_key(
        app: &App,
        failures: &FailureGuard<'_>,
        key: &str,
    ) -> Result<Self, ApiError> {
        let found = app.keys.find(&app.engine, failures, key.trim()).await?;
        let key = found.ok_or_else(|| unauthenticated("unknown API key"))?;
        check_valid(&key, app.engine.now())?;
        Ok(Self(key, None))
    }

    /// Returns the session with this token, if the session and its key are valid.
    pub(crate) async fn find_session(
        app: &App,
        failures: &FailureGuard<'_>,
        token: &str,
    ) -> Result<SessionWithKey, ApiError> {
        check_session(app.sessions.find(&app.engine, failures, token).await?, app.engine.now())
    }
}

/// Returns the session if it and its key are still valid.
fn check_session(found: Option<SessionWithKey>, now: Timestamp) -> Result<SessionWithKey, ApiError> {
    let valid = |found: &SessionWithKey| found.session.revoked_at.is_none() && found.session.expires_at > now;
    let signed_in = found.filter(valid).ok_or_else(session_ended)?;
    check_valid(&signed_in.key, now)?;
    Ok(signed_in)
}

pub(crate) fn session_ended() -> ApiError {
    let message = "this session has ended; sign in again";
    ApiError::new(ErrorCode::SessionEnded, message)
}

fn missing_scope(named: &str, missing: &str) -> ApiError {
    let message = format!("this key lacks the scope {named}");
    ApiError::new(ErrorCode::Forbidden, message).with(ErrorDetails::of_scope(missing))
}

fn unauthenticated(message: &str) -> ApiError {
    ApiError::new(ErrorCode::Unauthenticated, message)
}

fn check_valid(key: &ApiKey, now: Timestamp) -> Result<(), ApiError> {
    let refused = |code, message: &str| Err(ApiError::new(code, message));
    if key.revoked_at.is_some() {
        return refused(ErrorCode::KeyRevoked, "this API key was revoked");
    }
    if key.expires_at.is_some_and(|at| at <= now) {
        return refused(ErrorCode::KeyExpired, "this API key has expired");
    }
    Ok(())
}

/// A permission that a handler requires by its signature. The route table reads the access rule from it.
pub(crate) trait Permission {
    const ACCESS: Access;
}

/// Defines permissions. A handler with such a parameter requires `any` or `all` of the scopes.
macro_rules! permission {
    ($($name:ident: $which:ident [$($scope:literal),*]),+ $(,)?) => {$(
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub Caller);

        impl Permission for $name {
            const ACCESS: Access = permission!(@access $which [$($scope),*]);
        }

        impl FromRequestParts<App> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
                Caller::authenticate(parts, app).await?.require(Self::ACCESS).map(Self)
            }
        }
    )+};
    (@access any [$($scope:literal),*]) => { Access::Any(&[$($scope),*]) };
    (@access all [$($scope:literal),*]) => { Access::All(&[$($scope),*]) };
}

permission! {
    // Requires any valid credential.
    CanSignIn: all [],
    CanReadWorkflows: all ["manifest:read"],
    CanWriteWorkflows: all ["manifest:write"],
    CanCreateRuns: all ["runs:create"],
    CanReadRuns: all ["runs:read"],
    CanCancelRuns: all ["runs:cancel"],
    CanForkRuns: all ["runs:create", "runs:read"],
    CanReadArtifacts: all ["artifacts:read"],
    CanAnswer: all ["approvals:respond"],
    CanAnswerAsks: any ["approvals:respond", "runs:create"],
    CanSendEvents: all ["events:send"],
    CanManageWebhooks: all ["webhooks:manage"],
    // A webhook receives the data that `runs:read` shows.
    CanSubscribe: all ["webhooks:manage", "runs:read"],
    CanManageTriggers: all ["triggers:manage"],
    // The runs of a trigger start with the rights of its owner.
    CanOwnTriggers: all ["triggers:manage", "runs:create"],
    CanSeePending: any ["approvals:respond", "runs:read"],
    CanManageKeys: all ["keys:manage"],
    CanManageTenants: all ["tenants:manage"],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requires_every_scope_and_any_requires_one() {
        let holds = |held: &'static [&'static str]| move |scope: &str| held.contains(&scope);
        let both = Access::All(&["runs:create", "runs:read"]);
        assert_eq!(both.missing(holds(&["runs:create", "runs:read"])), None);
        assert_eq!(both.missing(holds(&["runs:create"])), Some("runs:read"), "the missing scope is named");
        assert_eq!(both.missing(holds(&["runs:read"])), Some("runs:create"));
        let either = Access::Any(&["approvals:respond", "runs:read"]);
        assert_eq!(either.missing(holds(&["runs:read"])), None);
        assert_eq!(either.missing(holds(&["runs:cancel"])), Some("approvals:respond"));
        assert_eq!(Access::Public.missing(holds(&[])), None);
    }
}
