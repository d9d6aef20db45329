//! Every answer that is not a success: one envelope, one table from refusals to statuses.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_core::Refusal;
use holdpoint_core::mailbox::MailboxError;
use holdpoint_core::workflow::Flaw;
use holdpoint_engine::{Error, Receipt, StoreError};
use serde_json::{Value, json};

use crate::request_log::ErrorCode;

/// `{error, message, details?}` with its status.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Option<Value>,
    /// Seconds after which trying again may help.
    retry_after_s: Option<u64>,
    /// What was answered to the same request before.
    receipt: Option<Box<Receipt>>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: None, retry_after_s: None, receipt: None }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether asking again would not change it. What says when to try again says that it might.
    pub(crate) fn is_final(&self) -> bool {
        let lasting =
            [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::GONE, StatusCode::UNPROCESSABLE_ENTITY];
        let changes =
            self.retry_after_s.is_some() || ["interrupt_ambiguous", "quota_exceeded"].contains(&self.code);
        lasting.contains(&self.status) && !changes
    }

    pub(crate) fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take().map(|receipt| *receipt)
    }

    /// The envelope.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({"error": self.code, "message": self.message});
        if let Some(details) = &self.details {
            body["details"] = details.clone();
        }
        body
    }

    #[must_use]
    pub(crate) fn retry_after_s(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "validation_error", format!("{field}: {message}"))
            .with(json!({"field": field}))
    }

    /// A URL of a webhook or a callback that the guard of outgoing calls refuses.
    pub(crate) fn rejected_url(field: &str, message: impl std::fmt::Display) -> Self {
        Self { code: "webhook_url_rejected", ..Self::invalid(field, message) }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} not found"))
    }

    pub(crate) fn no_subscription() -> Self {
        Self::new(StatusCode::NOT_FOUND, "subscription_not_found", "webhook not found")
    }

    /// Something broke. The caller learns a number; what broke is logged under it.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        let id = correlation_id();
        tracing::error!(correlation_id = id, %error, "a request failed");
        let message = "something went wrong on our side; the log has more under this correlation id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
            .with(json!({"correlationId": id}))
    }

    /// The database is away. What it said stays in the log: it may name hosts and users.
    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        tracing::warn!(%why, "the database cannot be reached");
        let message = "the database cannot be reached now; try again, and look before you repeat a change";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "database_unavailable", message)
    }
}

/// Seconds after which a request that exceeded a quota may succeed.
pub(crate) const QUOTA_RETRY_SECONDS: u64 = 5;

fn correlation_id() -> String {
    let mut bytes = [0; 8];
    // Only a label for a log line: without randomness it is less unique, not less right.
    let _ = getrandom::fill(&mut bytes);
    holdpoint_core::hex(&bytes)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        response.extensions_mut().insert(ErrorCode(self.code));
        let unavailable = (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        if let Some(seconds) = self.retry_after_s.or(unavailable) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // The same whatever was wrong: a challenge must not tell keys apart.
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"holdpoint\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        // Who may not call is told so before the body is read. What is left of it ends the connection, and a client
        // that is not told would send its next request into a closed one.
        let unread = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
        if unread.contains(&self.status) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::InvalidRequest { .. } => StatusCode::BAD_REQUEST,
            Refusal::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::NotAnApprover(_)
            | Refusal::NotAuthorized(_)
            | Refusal::OwnRequest(_)
            | Refusal::MayNotActFor(_)
            | Refusal::MayNotReply(_)
            | Refusal::UnknownName(_) => StatusCode::FORBIDDEN,
            Refusal::KeyRequired => StatusCode::UNAUTHORIZED,
            Refusal::InterruptNotFound | Refusal::AskNotFound => StatusCode::NOT_FOUND,
            Refusal::InterruptGone => StatusCode::GONE,
            Refusal::InterruptCancelled | Refusal::CorrelationMismatch(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::AlreadyStarted
            | Refusal::RunFinished(_)
            | Refusal::InterruptAmbiguous(_)
            | Refusal::AlreadyResolved
            | Refusal::Expired
            | Refusal::AlreadyVoted(_)
            | Refusal::PayloadMismatch
            | Refusal::DecisionConflict(_)
            | Refusal::BadCall(_)
            | Refusal::AskAnswered
            | Refusal::TooManyAsks(_)
            | Refusal::NotDue
            | Refusal::WrongState(_)
            | Refusal::ChildNotFound
            | Refusal::NodeNotRunning
            | Refusal::GrantUsed { .. }
            | Refusal::UnusableGrant(_) => StatusCode::CONFLICT,
        };
        let error = Self::new(status, refusal.code(), refusal.to_string());
        match refusal {
            Refusal::InvalidRequest { field, message } => Self::invalid(&field, without_value(&message)),
            Refusal::InterruptAmbiguous(names) => error.with(json!({"interruptIds": names})),
            Refusal::TooLarge { max, .. } => error.with(json!({"maxBytes": max})),
            Refusal::RunFinished(status) | Refusal::WrongState(status) => {
                error.with(json!({"runStatus": status.as_str()}))
            }
            _ => error,
        }
    }
}

/// What is wrong with a value, without the value: the core begins with it, and it may be a secret.
fn without_value(message: &str) -> String {
    let mut values = serde_json::Deserializer::from_str(message).into_iter::<serde::de::IgnoredAny>();
    let rest = match values.next() {
        Some(Ok(_)) => &message[values.byte_offset()..],
        // Quoted in another way than JSON quotes.
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
                let message = "another request with this Idempotency-Key was answered first";
                let mut error = Self::new(StatusCode::CONFLICT, "idempotency_in_flight", message);
                error.receipt = Some(receipt);
                error
            }
            Error::EventConflict => {
                let message = "another event was sent under this eventId; take a new one for a new event";
                Self::new(StatusCode::CONFLICT, "event_id_conflict", message)
            }
            Error::ScopeBusy { active_run } => {
                let message = "another run is at work in this scope; wait for its end or cancel it";
                Self::new(StatusCode::CONFLICT, "run_already_active", message)
                    .with(json!({"activeRunId": active_run, "activeHost": "holdpoint", "retryAfter": 5}))
                    .retry_after_s(5)
            }
            Error::BeyondLog { events } => {
                let message = format!("fromSeq: the log has {events} events, and this is beyond them");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "beyond_log", message)
                    .with(json!({"field": "fromSeq", "events": events}))
            }
            Error::Quota(exceeded) => {
                let status = match exceeded.is_temporary() {
                    true => StatusCode::TOO_MANY_REQUESTS,
                    false => StatusCode::UNPROCESSABLE_ENTITY,
                };
                let error = Self::new(status, "quota_exceeded", exceeded.to_string())
                    .with(json!({"quota": exceeded.quota, "limit": exceeded.limit}));
                if exceeded.is_temporary() { error.retry_after_s(QUOTA_RETRY_SECONDS) } else { error }
            }
            Error::TooMany(what) => {
                let message = format!("this tenant has as many {what} as it may have; try again later");
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
            }
            Error::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", error.to_string()),
            Error::Mailbox(error) => error.into(),
            Error::Store(StoreError::Unavailable(why)) => Self::unavailable(why),
            Error::Store(StoreError::Busy) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "the database is busy; try again")
            }
            Error::Store(StoreError::Unknown(why)) => MailboxError::CommitUnknown(why).into(),
            Error::Store(StoreError::Closed) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the server is shutting down")
            }
            other => Self::internal(other),
        }
    }
}

impl From<MailboxError> for ApiError {
    fn from(error: MailboxError) -> Self {
        let message = error.to_string();
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, message.clone());
        match error {
            MailboxError::Validation(_) => Self::new(StatusCode::BAD_REQUEST, "validation_error", message),
            MailboxError::NotFound { kind, .. } => Self::not_found(kind),
            MailboxError::DuplicateDispatch { dispatch_id } => {
                conflict("dispatch_exists").with(json!({"dispatchId": dispatch_id}))
            }
            MailboxError::DuplicateKey { existing_dispatch_id, .. } => {
                conflict("dispatch_key_in_use").with(json!({"dispatchId": existing_dispatch_id}))
            }
            MailboxError::StaleClaim { status, .. } => {
                conflict("dispatch_not_held").with(json!({"status": status.as_str()}))
            }
            MailboxError::EpochConflict { dispatch_epoch, current_epoch, .. } => {
                let details = json!({"dispatchEpoch": dispatch_epoch, "currentEpoch": current_epoch});
                conflict("dispatch_superseded").with(details)
            }
            MailboxError::VersionConflict { expected, actual } => {
                conflict("version_conflict").with(json!({"expected": expected, "actual": actual}))
            }
            MailboxError::CommitUnknown(why) => {
                tracing::warn!(%why, "a commit may be stored or not");
                let message = "the change may be stored or not: look before you repeat it";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "commit_unknown", message)
            }
            MailboxError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message),
            MailboxError::Io(why) => Self::unavailable(why),
            other => Self::internal(other),
        }
    }
}

/// All flaws at once, so that an author does not have to come back for each.
fn invalid_workflow(flaws: &[Flaw]) -> ApiError {
    let list: Vec<Value> = flaws
        .iter()
        .map(|flaw| match &flaw.node {
            Some(node) => json!({"nodeId": node, "field": flaw.field, "message": flaw.message}),
            None => json!({"field": flaw.field, "message": flaw.message}),
        })
        .collect();
    let lines: Vec<String> = flaws.iter().map(ToString::to_string).collect();
    let message = format!("the workflow is not valid: {}", lines.join("; "));
    let mut details = json!({"flaws": list});
    let capability = flaws.iter().find_map(|flaw| Some((flaw.capability?, flaw.node.as_ref()?)));
    if let Some((capability, node)) = capability {
        details["requiredCapability"] = json!(capability);
        details["nodeId"] = json!(node);
        return ApiError::new(StatusCode::BAD_REQUEST, "capability_required", message).with(details);
    }
    ApiError::new(StatusCode::BAD_REQUEST, "validation_error", message).with(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_core::mailbox::RunDispatchStatus;

    #[test]
    fn every_no_of_mailbox_and_store_has_its_status_and_code() {
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
            assert_eq!((shown.status.as_u16(), shown.code), (status, code), "{words}");
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
    fn a_database_that_is_away_is_no_secret_and_no_fault_of_ours() {
        let words = || "connect to db-7 as holdpoint".to_owned();
        for (error, code) in [
            (StoreError::Unavailable(words()), "database_unavailable"),
            (StoreError::Unknown(words()), "commit_unknown"),
        ] {
            let shown = ApiError::from(Error::Store(error));
            assert_eq!((shown.code, shown.message.contains("db-7")), (code, false));
            let response = shown.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        }
    }
}
