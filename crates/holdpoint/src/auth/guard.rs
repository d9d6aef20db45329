//! Checks the credential of a request while its response is open.

use std::fmt;
use std::time::Duration;

use axum::http::StatusCode;
use holdpoint_core::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Caller, check_session, check_valid, unauthenticated};
use crate::app::App;
use crate::error::ApiError;

/// The time between two checks. The caches of keys and sessions can delay the result by another second.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// The timeout of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before the next check if the store did not respond.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// A credential that could not be confirmed for this long counts as ended.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(10);

/// The credential of a response that stays open: a stream or a long poll. Revocation, expiry and sign-out end the
/// response within 15 seconds on every node, and at once on the node that executes them.
pub(crate) struct CredentialGuard {
    app: App,
    credential: Credential,
    /// Changes when a key or a session was revoked at this node.
    revocations: watch::Receiver<u64>,
    confirmed: Instant,
    next_check: Instant,
    every: Duration,
}

/// A credential by the hash of its secret.
#[derive(Debug)]
enum Credential {
    Key(String),
    Session(String),
}

impl fmt::Debug for CredentialGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialGuard").field("confirmed", &self.confirmed).finish_non_exhaustive()
    }
}

impl Caller {
    /// Returns the guard of a response that stays open.
    pub(crate) fn guard(&self, app: &App) -> CredentialGuard {
        let (credential, revocations, ends_at) = match &self.1 {
            None => {
                let hash = self.0.key_hash.clone();
                (Credential::Key(hash), app.keys.revocations(), self.0.expires_at)
            }
            Some(session) => {
                let hash = session.token_hash.clone();
                (Credential::Session(hash), app.sessions.revocations(), self.0.expires_at)
            }
        };
        let now = Instant::now();
        let app = app.clone();
        let mut guard = CredentialGuard {
            app,
            credential,
            revocations,
            confirmed: now,
            next_check: now,
            every: CHECK_EVERY,
        };
        guard.confirm(now, ends_at);
        guard
    }
}

impl CredentialGuard {
    /// Returns the output of `work`, or the reason for which the credential ended before it.
    pub(crate) async fn during<T>(
        mut self,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        tokio::select! {
            done = work => done,
            ended = self.ended() => Err(ended),
        }
    }

    /// Waits until the credential has ended, and returns the reason. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> ApiError {
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(self.next_check) => {}
                // The sender is in the app, which outlives this guard.
                _ = self.revocations.changed() => self.next_check = Instant::now(),
            }
            if let Err(ended) = self.check_if_due().await {
                return ended;
            }
        }
    }

    /// Fails if a check is due and the credential has ended.
    pub(crate) async fn check_if_due(&mut self) -> Result<(), ApiError> {
        let now = Instant::now();
        if now < self.next_check {
            return Ok(());
        }
        let checked = tokio::time::timeout(CHECK_TIMEOUT, self.credential.check(&self.app)).await;
        match checked {
            Ok(Ok(ends_at)) => self.confirm(now, ends_at),
            Ok(Err(error)) if error.status() == StatusCode::UNAUTHORIZED => return Err(error),
            Ok(Err(_)) | Err(_) if self.confirmed.elapsed() >= UNCONFIRMED_MAX => {
                return Err(ApiError::unavailable("the credential of this response could not be checked"));
            }
            Ok(Err(_)) | Err(_) => self.next_check = Instant::now() + RETRY_AFTER,
        }
        Ok(())
    }

    /// Plans the next check: after the usual time, or when the credential expires if that is earlier.
    fn confirm(&mut self, at: Instant, ends_at: Option<Timestamp>) {
        let left_ms = |end: Timestamp| u64::try_from(end.0 - self.app.engine.now().0).unwrap_or_default();
        let left = ends_at.map_or(self.every, |end| Duration::from_millis(left_ms(end)));
        self.confirmed = at;
        self.next_check = at + self.every.min(left);
    }

    /// Sets the interval of the checks.
    #[cfg(test)]
    pub(crate) fn checking_every(mut self, every: Duration) -> Self {
        self.every = every;
        self.next_check = self.confirmed + every;
        self
    }
}

impl Credential {
    /// Returns when the credential expires, or the error that a new request with it gets.
    async fn check(&self, app: &App) -> Result<Option<Timestamp>, ApiError> {
        let (engine, now) = (&app.engine, app.engine.now());
        match self {
            Self::Key(hash) => {
                let found = app.keys.recheck(engine, hash).await?;
                let key = found.ok_or_else(|| unauthenticated("unknown API key"))?;
                check_valid(&key, now)?;
                Ok(key.expires_at)
            }
            Self::Session(hash) => {
                let signed_in = check_session(app.sessions.recheck(engine, hash).await?, now)?;
                Ok(Some(signed_in.expires_at()))
            }
        }
    }
}
