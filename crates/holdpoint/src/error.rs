//! Error responses: the envelope, and the codes of refusals and failures.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_api::errors::WorkflowFlaw;
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::Refusal;
use holdpoint_core::mailbox::MailboxError;
use holdpoint_core::workflow::DefinitionFlaw;
use holdpoint_engine::{Error, Receipt, StoreError};
use serde_json::Value;

/// An error response: the envelope `{error, message, details?}` and its status.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: ErrorCode,
    message: String,
    details: Option<Box<ErrorDetails>>,
    /// Seconds after which a retry may succeed.
    retry_after_s: Option<u64>,
    /// The stored response of an earlier request with the same idempotency key.
    receipt: Option<Box<Receipt>>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(code.statuses()[0]).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code, message: message.into(), details: None, retry_after_s: None, receipt: None }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns true if a repeated request would get the same error. An error with a time for a retry is not final.
    pub(crate) fn is_final(&self) -> bool {
        let lasting =
            [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::GONE, StatusCode::UNPROCESSABLE_ENTITY];
        let changes = self.retry_after_s.is_some()
            || [ErrorCode::InterruptAmbiguous, ErrorCode::QuotaExceeded].contains(&self.code);
        lasting.contains(&self.status) && !changes
    }

    pub(crate) fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take().map(|receipt| *receipt)
    }

    pub(crate) fn into_message(self) -> String {
        self.message
    }

    /// The envelope as JSON.
    pub(crate) fn body(&self) -> Value {
        // Serialization cannot fail: all keys are strings.
        serde_json::to_value(self.envelope()).unwrap_or_default()
    }

    fn envelope(&self) -> holdpoint_api::Error {
        let error = self.code.as_str().into();
        holdpoint_api::Error { error, message: self.message.clone(), details: self.details.clone() }
    }

    /// Replaces the default status of the code by another one that the code may have.
    #[must_use]
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        debug_assert!(self.code.statuses().contains(&status.as_u16()), "{} with {status}", self.code);
        Self { status, ..self }
    }

    #[must_use]
    pub(crate) fn retry_after_s(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, details: ErrorDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::ValidationError, format!("{field}: {message}"))
            .with(ErrorDetails::of_field(field))
    }

    /// Returns the error for a URL of a webhook or a callback that the outgoing policy rejects.
    pub(crate) fn rejected_url(field: &str, message: impl std::fmt::Display) -> Self {
        Self { code: ErrorCode::WebhookUrlRejected, ..Self::invalid(field, message) }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("{what} not found"))
    }

    pub(crate) fn no_subscription() -> Self {
        Self::new(ErrorCode::SubscriptionNotFound, "webhook not found")
    }

    pub(crate) fn quota_exceeded(quota: &'static str, limit: u64, message: impl Into<String>) -> Self {
        let details = ErrorDetails { quota: Some(quota.into()), limit: Some(limit), ..Default::default() };
        Self::new(ErrorCode::QuotaExceeded, message).with(details)
    }

    /// Returns the error for an internal failure. The caller gets a correlation id; the log has the cause under it.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        let id = correlation_id();
        tracing::error!(correlation_id = id, %error, "a request failed");
        let message = "internal error; the log of the server has the cause under this correlation id";
        Self::new(ErrorCode::InternalError, message)
            .with(ErrorDetails { correlation_id: Some(id), ..Default::default() })
    }

    /// Returns the error for an unavailable database. The cause is only logged: it may name hosts and users.
    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        tracing::warn!(%why, "the database is unavailable");
        let message =
            "the database is unavailable; try again, and check the current state before you repeat a change";
        Self::new(ErrorCode::DatabaseUnavailable, message)
    }
}

/// Seconds after which a request that exceeded a quota may succeed.
pub(crate) const QUOTA_RETRY_SECONDS: u64 = 5;

fn correlation_id() -> String {
    let mut bytes = [0; 8];
    // The id is only a label for a log line. Without random bytes it is not unique, but still valid.
    let _ = getrandom::fill(&mut bytes);
    holdpoint_core::hex(&bytes)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.envelope())).into_response();
        response.extensions_mut().insert(self.code);
        let unavailable = (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        if let Some(seconds) = self.retry_after_s.or(unavailable) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // The challenge is the same for every cause, so that it does not reveal which keys exist.
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"holdpoint\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        // These responses are sent before the body is read, and the unread body ends the connection. Without the header
        // a client would send its next request over the closed connection.
        let unread = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
        if unread.contains(&self.status) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let error = Self::new(refusal.code(), refusal.to_string());
        let details = match refusal {
            Refusal::InvalidRequest { field, message } => {
                return Self::invalid(&field, without_value(&message));
            }
            Refusal::InterruptAmbiguous(names) => {
                ErrorDetails { interrupt_ids: Some(names), ..Default::default() }
            }
            Refusal::TooLarge { max, .. } => ErrorDetails { max_bytes: Some(max), ..Default::default() },
            Refusal::RunFinished(status) | Refusal::WrongState(status) => {
                ErrorDetails { run_status: Some(status), ..Default::default() }
            }
            _ => return error,
        };
        error.with(details)
    }
}

/// Returns the message without the value at its beginning: the core quotes the value, which may be a secret.
fn without_value(message: &str) -> String {
    let mut values = serde_json::Deserializer::from_str(message).into_iter::<serde::de::IgnoredAny>();
    let rest = match values.next() {
        Some(Ok(_)) => &message[values.byte_offset()..],
        // The value is quoted, but not as JSON.
        _ if message.starts_with('"') => message.rsplit('"').next().unwrap_or_default(),
        _ => return message.to_owned(),
    };
    format!("the value{rest}")
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::NotFound("webhook") => Self::no_subscription(),
            Error::NotFound(what) => Self::not_found(what),
            Error::InvalidWorkflow(flaws) => invalid_workflow(&flaws),
            Error::Duplicate(receipt) => {
                let message = "another request with this Idempotency-Key was executed first";
                let mut error = Self::new(ErrorCode::IdempotencyInFlight, message);
                error.receipt = Some(receipt);
                error
            }
            Error::EventConflict => {
                let message = "eventId: another event was sent with this id; use a new id for a new event";
                Self::new(ErrorCode::EventIdConflict, message)
            }
            Error::ScopeBusy { active_run } => {
                let message = "another run is active in this scope; wait until it ends or cancel it";
                let details = ErrorDetails {
                    active_run_id: Some(active_run),
                    active_host: Some("holdpoint".into()),
                    retry_after: Some(5),
                    ..Default::default()
                };
                Self::new(ErrorCode::RunAlreadyActive, message).with(details).retry_after_s(5)
            }
            Error::BeyondLog { events } => {
                let message = format!("fromSeq: is beyond the end of the log, which has {events} events");
                let details = ErrorDetails { events: Some(events), ..ErrorDetails::of_field("fromSeq") };
                Self::new(ErrorCode::BeyondLog, message).with(details)
            }
            Error::Quota(exceeded) => {
                let error = Self::quota_exceeded(exceeded.quota, exceeded.limit, exceeded.to_string());
                if exceeded.is_temporary() {
                    error.retry_after_s(QUOTA_RETRY_SECONDS)
                } else {
                    error.with_status(StatusCode::UNPROCESSABLE_ENTITY)
                }
            }
            Error::TooMany(what) => {
                let message = format!("this tenant has reached its limit of {what}; try again later");
                Self::new(ErrorCode::TooMany, message)
            }
            Error::Busy => Self::new(ErrorCode::Overloaded, error.to_string()),
            Error::Mailbox(error) => error.into(),
            Error::Store(StoreError::Unavailable(why)) => Self::unavailable(why),
            Error::Store(StoreError::Busy) => {
                Self::new(ErrorCode::Overloaded, "the database is busy; try again")
            }
            Error::Store(StoreError::Unknown(why)) => MailboxError::CommitUnknown(why).into(),
            Error::Store(StoreError::Closed) => {
                Self::new(ErrorCode::ShuttingDown, "the server is shutting down")
            }
            other => Self::internal(other),
        }
    }
}

impl From<MailboxError> for ApiError {
    fn from(error: MailboxError) -> Self {
        let message = error.to_string();
        let conflict = |code, details| Self::new(code, message.clone()).with(details);
        match error {
            MailboxError::Validation(_) => Self::new(ErrorCode::ValidationError, message),
            MailboxError::NotFound { kind, .. } => Self::not_found(kind),
            MailboxError::DuplicateDispatch { dispatch_id } => {
                let details = ErrorDetails { dispatch_id: Some(dispatch_id), ..Default::default() };
                conflict(ErrorCode::DispatchExists, details)
            }
            MailboxError::DuplicateKey { existing_dispatch_id, .. } => {
                let details = ErrorDetails { dispatch_id: Some(existing_dispatch_id), ..Default::default() };
                conflict(ErrorCode::DispatchKeyInUse, details)
            }
            MailboxError::StaleClaim { status, .. } => {
                let details = ErrorDetails { status: Some(status.as_str().into()), ..Default::default() };
                conflict(ErrorCode::DispatchNotHeld, details)
            }
            MailboxError::EpochConflict { dispatch_epoch, current_epoch, .. } => {
                let details = ErrorDetails {
                    dispatch_epoch: Some(dispatch_epoch),
                    current_epoch: Some(current_epoch),
                    ..Default::default()
                };
                conflict(ErrorCode::DispatchSuperseded, details)
            }
            MailboxError::VersionConflict { expected, actual } => {
                let (expected, actual) = (Some(expected), Some(actual));
                conflict(ErrorCode::VersionConflict, ErrorDetails { expected, actual, ..Default::default() })
            }
            MailboxError::CommitUnknown(why) => {
                tracing::warn!(%why, "the outcome of a commit is unknown");
                let message =
                    "the change may or may not be stored; check the current state before you repeat it";
                Self::new(ErrorCode::CommitUnknown, message)
            }
            MailboxError::Busy => Self::new(ErrorCode::Overloaded, message),
            MailboxError::Io(why) => Self::unavailable(why),
            other => Self::internal(other),
        }
    }
}

/// Returns one error that lists all flaws.
fn invalid_workflow(flaws: &[DefinitionFlaw]) -> ApiError {
    let lines: Vec<String> = flaws.iter().map(ToString::to_string).collect();
    let message = format!("the workflow is not valid: {}", lines.join("; "));
    let list = flaws.iter().map(|flaw| WorkflowFlaw {
        node_id: flaw.node.as_ref().map(ToString::to_string),
        field: flaw.field.clone(),
        message: flaw.message.clone(),
    });
    let details = ErrorDetails { flaws: Some(list.collect()), ..Default::default() };
    let capability = flaws.iter().find_map(|flaw| Some((flaw.capability?, flaw.node.as_ref()?)));
    match capability {
        Some((capability, node)) => {
            ApiError::new(ErrorCode::CapabilityRequired, message).with(ErrorDetails {
                required_capability: Some(capability.to_owned()),
                node_id: Some(node.to_string()),
                ..details
            })
        }
        None => ApiError::new(ErrorCode::ValidationError, message).with(details),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_core::mailbox::RunDispatchStatus;

    #[test]
    fn every_error_of_mailbox_and_store_has_its_status_and_code() {
        let id = || "d1".to_owned();
        let stale = MailboxError::StaleClaim { dispatch_id: id(), status: RunDispatchStatus::Acked };
        let key = MailboxError::DuplicateKey { dedupe_key: id(), existing_dispatch_id: id() };
        let epoch = MailboxError::EpochConflict { dispatch_id: id(), dispatch_epoch: 0, current_epoch: 1 };
        let table: Vec<(Error, u16, &str)> = vec![
            (MailboxError::Validation(id()).into(), 400, "validation_error"),
            (MailboxError::NotFound { kind: "dispatch", id: id() }.into(), 404, "not_found"),
            (MailboxError::DuplicateDispatch { dispatch_id: id() }.into(), 409, "dispatch_exists"),
            (key.into(), 409, "dispatch_key_in_use"),
            (stale.into(), 409, "dispatch_not_held"),
            (epoch.into(), 409, "dispatch_superseded"),
            (MailboxError::VersionConflict { expected: 1, actual: 2 }.into(), 409, "version_conflict"),
            (Error::TooMany("kept events"), 429, "too_many"),
            (MailboxError::CommitUnknown(id()).into(), 503, "commit_unknown"),
            (MailboxError::Busy.into(), 503, "overloaded"),
            (MailboxError::Io(id()).into(), 503, "database_unavailable"),
            (MailboxError::Serialization(id()).into(), 500, "internal_error"),
            (StoreError::Busy.into(), 503, "overloaded"),
            (StoreError::Unknown(id()).into(), 503, "commit_unknown"),
            (StoreError::Unavailable(id()).into(), 503, "database_unavailable"),
            (StoreError::Closed.into(), 503, "shutting_down"),
            (StoreError::Failed(id()).into(), 500, "internal_error"),
        ];
        for (error, status, code) in table {
            let words = error.to_string();
            let shown = ApiError::from(error);
            assert_eq!((shown.status.as_u16(), shown.code.as_str()), (status, code), "{words}");
        }
    }

    #[test]
    fn a_refused_value_is_not_repeated() {
        for (message, shown) in [
            ("must be 1 to 5", "must be 1 to 5"),
            ("nullable is not known", "nullable is not known"),
            ("\"hunter2\" is not offered; offered: a, b", "the value is not offered; offered: a, b"),
            ("\"a \\\"b\\\" c\" is not of type \"integer\"", "the value is not of type \"integer\""),
            ("{\"a\":[\"hunter2\"]} is not valid", "the value is not valid"),
            ("7301 is not of type \"string\"", "the value is not of type \"string\""),
            ("\"\\u{7f}hunter2\" is odd", "the value is odd"),
        ] {
            assert_eq!(without_value(message), shown);
        }
    }

    #[test]
    fn an_unavailable_database_is_reported_without_its_cause() {
        let words = || "connect to db-7 as holdpoint".to_owned();
        for (error, code) in [
            (StoreError::Unavailable(words()), "database_unavailable"),
            (StoreError::Unknown(words()), "commit_unknown"),
        ] {
            let shown = ApiError::from(Error::Store(error));
            assert_eq!((shown.code.as_str(), shown.message.contains("db-7")), (code, false));
            let response = shown.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        }
    }
}
