//! Extractors for signed links. They check that this server has signed the link, that it has not expired, and that it
//! permits the request. Errors are sent before the body is read. All tokens that this server has not signed get the
//! same error.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use holdpoint_api::links::Intent;
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{Interrupt, InterruptId, Kind, Refusal, Resolution, Run};
use holdpoint_engine::Error;

use super::token::{self, Claims};
use super::{Links, Peer, find_allowed_intent};
use crate::app::App;
use crate::error::ApiError;
use crate::request_log::record_caller;

/// A verified link and its interrupt.
#[derive(Debug)]
pub(crate) struct Link {
    /// Identifies the link in records, which must not contain the token.
    pub id: String,
    pub claims: Claims,
    pub run: Arc<Run>,
    pub interrupt: InterruptId,
}

/// A link that permits inspection.
#[derive(Debug)]
pub(crate) struct CanInspect(pub Link);

/// A link that permits an answer. The core checks with the answer that the interrupt is still open.
#[derive(Debug)]
pub(crate) struct CanResolve(pub Link);

impl FromRequestParts<App> for CanInspect {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        Link::open(parts, app).await.map(Self).map_err(respond_and_close)
    }
}

impl FromRequestParts<App> for CanResolve {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let link = Link::open(parts, app).await.map_err(respond_and_close)?;
        link.check_answering().map(|()| Self(link)).map_err(respond_and_close)
    }
}

impl Link {
    async fn open(parts: &Parts, app: &App) -> Result<Self, ApiError> {
        let from = parts.extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer.0.ip());
        // The token is not percent-decoded: a token in another spelling is another token.
        let text = parts.uri.path().rsplit('/').next().unwrap_or_default();
        let claims = app.links.read(app, text, from).await?;
        record_caller(parts, &claims.sub, &claims.of.tenant);
        if claims.expires_at <= app.engine.now() {
            return Err(expired());
        }
        if !claims.keys.is_empty()
            && find_allowed_intent(&app.engine, &claims.of.tenant, &claims.keys).await?.is_none()
        {
            return Err(revoked());
        }
        let run = match app.engine.runs().get(&claims.of).await {
            Err(Error::NotFound(_)) => return Err(Refusal::InterruptNotFound.into()),
            other => other?,
        };
        let interrupt = run.interrupt_named(&claims.interrupt).ok_or(Refusal::InterruptNotFound)?.id;
        Ok(Self { id: token::id(text), claims, run, interrupt })
    }

    /// Rejects links that cannot answer. The intent is checked before the requirements of the gate.
    fn check_answering(&self) -> Result<(), ApiError> {
        let owner = self.run.started.as_ref().map(|started| started.owner.principal.as_str());
        match self.claims.intent {
            Intent::Resolve if owner.is_some_and(|owner| self.claims.is_old_callback(owner)) => {
                let message = "this link was sent to the callback address of the run by an earlier version and cannot answer; \
                               answer with a key, or request a new link";
                Err(ApiError::new(ErrorCode::Forbidden, message))
            }
            Intent::Inspect => {
                let message = "this link permits inspection only; it cannot answer";
                Err(ApiError::new(ErrorCode::Forbidden, message))
            }
            Intent::Resolve if self.run.interrupt(self.interrupt).is_some_and(Interrupt::needs_key) => {
                Err(Refusal::KeyRequired.into())
            }
            Intent::Resolve => Ok(()),
        }
    }
}

impl Links {
    /// Verifies a token. The signature is checked before the request is counted: behind a proxy all clients have one
    /// address, and invalid tokens from there must not use up the limit of valid links.
    async fn read(&self, app: &App, text: &str, from: Option<IpAddr>) -> Result<Claims, ApiError> {
        let secrets = self.secrets.secrets(&app.engine).await?;
        let mut claims = token::verify(text, &secrets);
        if let Some(kid) = token::unknown_kid(text, &secrets)
            && let Some(secrets) = self.secrets.secrets_with(&app.engine, &kid).await?
        {
            claims = token::verify(text, &secrets);
        }
        let now = Instant::now();
        match (claims, &self.limit) {
            (Some(claims), Some(limit)) => limit.admit(&claims, now).map(|()| claims),
            (Some(claims), None) => Ok(claims),
            (None, Some(limit)) => Err(limit.count_invalid(from, now).err().unwrap_or_else(unknown)),
            (None, None) => Err(unknown()),
        }
    }
}

fn unknown() -> ApiError {
    Refusal::InterruptNotFound.into()
}

/// Returns the error for a refused answer over a link. It distinguishes fewer cases than the error for a key: the link
/// is used up or expired.
pub(crate) fn link_refusal(refusal: Refusal, interrupt: Option<&Interrupt>) -> ApiError {
    let timed_out =
        || interrupt.is_some_and(|one| matches!(one.resolution, Some(Resolution::TimedOut { .. })));
    match refusal {
        Refusal::Expired => expired(),
        Refusal::AlreadyResolved if timed_out() => expired(),
        Refusal::AlreadyResolved | Refusal::InterruptCancelled | Refusal::InterruptGone => {
            let error = ApiError::new(Refusal::AlreadyResolved.code(), refusal.to_string());
            match interrupt {
                Some(interrupt) => error.with(describe_outcome(interrupt)),
                None => error,
            }
        }
        other => other.into(),
    }
}

/// Describes the outcome of the interrupt. The holder of a valid link may see it: the link also shows the names of
/// voters.
fn describe_outcome(interrupt: &Interrupt) -> ErrorDetails {
    let of_interrupt = ErrorDetails {
        kind: Some(interrupt.kind),
        title: Some(interrupt.title().to_owned()),
        ..ErrorDetails::of_state("cancelled")
    };
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, at, .. }) => ErrorDetails {
            state: Some("answered".into()),
            answered_by: Some(by.clone()),
            answered_at: Some((*at).into()),
            action: value.get("action").filter(|_| interrupt.kind == Kind::Approval).cloned(),
            ..of_interrupt
        },
        Some(Resolution::TimedOut { .. }) | None => of_interrupt,
    }
}

fn expired() -> ApiError {
    ApiError::new(ErrorCode::InterruptExpired, "this link or its interrupt has expired")
        .with(ErrorDetails::of_state("expired"))
}

fn revoked() -> ApiError {
    let message =
        "this link has ended because the key that created it was revoked or has expired; request a new link";
    ApiError::new(ErrorCode::LinkRevoked, message).with(ErrorDetails::of_state("revoked"))
}

/// Responds without reading the body, which ends the connection. The header tells the client not to send its next
/// request over it.
fn respond_and_close(error: ApiError) -> Response {
    let mut response = error.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_answer_over_a_link_has_its_status_and_code() {
        for (refusal, status, code) in [
            (Refusal::Expired, 410, "interrupt_expired"),
            (Refusal::AlreadyResolved, 409, "interrupt_already_resolved"),
            (Refusal::InterruptCancelled, 409, "interrupt_already_resolved"),
            (Refusal::InterruptGone, 409, "interrupt_already_resolved"),
            (Refusal::InterruptNotFound, 404, "interrupt_not_found"),
            (Refusal::KeyRequired, 401, "unauthenticated"),
            (Refusal::PayloadMismatch, 409, "payload_mismatch"),
            (Refusal::invalid("action", "is not offered"), 400, "validation_error"),
        ] {
            let error = link_refusal(refusal, None);
            assert_eq!((error.status().as_u16(), error.body()["error"].as_str()), (status, Some(code)));
        }
    }
}
