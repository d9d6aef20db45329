//! Classifies failed attempts: whether a retry may help, and the message. Servers repeat API keys in their messages, so
//! this module removes keys from every message of a server.

use holdpoint_core::webhook::retry_after_ms;
use holdpoint_engine::{Clock, outgoing};
use serde_json::{Value, json};

use super::super::ModelError;
use super::super::SecretText;

const EXCERPT_CHARS_MAX: usize = 400;
/// The length of the shortest secret that is removed. Shorter ones would match ordinary text.
const SECRET_BYTES_MIN: usize = 4;

/// The error of one attempt, and whether it is retried at once.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) error: ModelError,
    pub(super) is_retryable: bool,
}

/// The secrets that must not appear in messages.
#[derive(Debug, Default)]
pub(super) struct HiddenSecrets(Vec<SecretText>);

impl HiddenSecrets {
    pub(super) fn add(&mut self, secret: SecretText) {
        if secret.expose().len() >= SECRET_BYTES_MIN {
            self.0.push(secret);
            // Longer secrets are replaced first, because one may be part of another.
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        }
    }

    /// Returns the beginning of a server's text, without secrets and control characters.
    pub(super) fn excerpt(&self, text: &str) -> String {
        let plain =
            self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "[hidden]"));
        let plain = plain.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(EXCERPT_CHARS_MAX).collect::<String>().trim().to_owned()
    }
}

impl AttemptFailure {
    pub(super) fn permanent(error: ModelError) -> Self {
        Self { error, is_retryable: false }
    }

    pub(super) fn bad_reply(why: impl Into<String>) -> Self {
        Self { error: ModelError::BadReply(why.into()), is_retryable: true }
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            error: ModelError::Unavailable { message: message.into(), retry_after_ms: None },
            is_retryable: true,
        }
    }

    /// Returns the error of a reply that is too large. It is not retried, because the next reply would probably be as
    /// large and would cost as much.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        Self::permanent(ModelError::BadReply(format!("the reply is larger than {bytes_max} bytes")))
    }

    /// Classifies an error response: one with a status, or an error in the middle of a stream.
    pub(super) fn from_response(
        status: Option<u16>,
        body: &str,
        retry_after_ms: Option<u64>,
        hidden: &HiddenSecrets,
    ) -> Self {
        let error = ErrorBody::parse(body);
        let status = status.or(error.status);
        let class = status.or_else(|| error.status_of_code());
        let excerpt = hidden.excerpt(&error.message);
        let message = match status {
            Some(status) if excerpt.is_empty() => format!("status {status}"),
            Some(status) => format!("{excerpt} (status {status})"),
            None => excerpt,
        };
        let unavailable = ModelError::Unavailable { message: message.clone(), retry_after_ms };
        match class {
            Some(401 | 403) => Self::permanent(ModelError::Unauthorized(message)),
            // An exhausted quota is not restored before the next retry.
            Some(429) => Self { error: unavailable, is_retryable: !error.is_about_quota() },
            _ if error.is_about_length() => Self::permanent(ModelError::ContextOverflow(message)),
            _ if error.is_about_contents() => Self::permanent(ModelError::Refused(message)),
            Some(408 | 409 | 425 | 500..) | None => Self { error: unavailable, is_retryable: true },
            Some(_) => Self::permanent(ModelError::BadRequest(message)),
        }
    }

    /// Classifies an error that a stream or a document with status 200 reports.
    pub(super) fn of_reported(error: &Value, hidden: &HiddenSecrets) -> Self {
        Self::from_response(None, &json!({ "error": error }).to_string(), None, hidden)
    }

    /// Classifies a call without a response. `reply_timeout_ms` is the timeout of the whole reply, if it has passed.
    pub(super) fn from_call(error: outgoing::Error, reply_timeout_ms: Option<u64>) -> Self {
        use outgoing::Error;
        match error {
            Error::TimedOut { timeout_ms, .. } => match reply_timeout_ms {
                Some(timeout_ms) => Self::permanent(ModelError::TimedOut(timeout_ms)),
                None => Self { error: ModelError::TimedOut(timeout_ms), is_retryable: true },
            },
            Error::BodyTooLarge { bytes_max, .. } => Self::too_large(bytes_max),
            Error::Refused(refused) => Self::permanent(ModelError::BadRequest(refused.to_string())),
            Error::Unresolvable { .. }
            | Error::ConnectFailed { .. }
            | Error::Tls { .. }
            | Error::Broken { .. } => Self::unavailable(error.to_string()),
        }
    }
}

/// Returns the wait that the headers of a response request.
pub(super) fn requested_wait_ms(headers: &[(String, String)]) -> Option<u64> {
    let header = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.trim());
    let exact = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    match exact.filter(|ms| ms.is_finite() && *ms >= 0.0) {
        Some(ms) => Some(ms.ceil() as u64),
        None => retry_after_ms(header("retry-after")?, Clock::System.now()),
    }
}

/// The error in a response body. Servers use different formats.
#[derive(Debug, Default)]
struct ErrorBody {
    message: String,
    /// Codes and types, in lower case.
    codes: String,
    status: Option<u16>,
}

impl ErrorBody {
    fn parse(body: &str) -> Self {
        let Ok(document) = serde_json::from_str::<Value>(body) else {
            return Self { message: body.to_owned(), ..Self::default() };
        };
        let document = match &document {
            Value::Array(several) => several.first().unwrap_or(&document),
            _ => &document,
        };
        let error = document.get("error").filter(|error| !error.is_null()).unwrap_or(document);
        let text = |name: &str| error.get(name).or_else(|| document.get(name)).and_then(Value::as_str);
        let message = error.as_str().or_else(|| text("message")).or_else(|| text("detail"));
        let inner = error.get("innererror").and_then(|inner| inner.get("code")).and_then(Value::as_str);
        let codes = [text("code"), text("type"), text("status"), inner];
        let number = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
        Self {
            message: message.map_or_else(|| error.to_string(), ToOwned::to_owned),
            codes: codes.into_iter().flatten().collect::<Vec<_>>().join(" ").to_lowercase(),
            status: number.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)),
        }
    }

    /// Returns the status that belongs to the code of an error without a status.
    fn status_of_code(&self) -> Option<u16> {
        const STATUSES: [(&str, u16); 9] = [
            ("rate_limit", 429),
            ("insufficient_quota", 429),
            ("authentication_error", 401),
            ("permission_error", 403),
            ("invalid_request_error", 400),
            ("invalid_prompt", 400),
            ("invalid_image", 400),
            ("not_found_error", 404),
            ("request_too_large", 413),
        ];
        STATUSES.iter().find(|(code, _)| self.codes.contains(code)).map(|(_, status)| *status)
    }

    fn is_about_quota(&self) -> bool {
        self.codes.contains("insufficient_quota")
    }

    fn is_about_length(&self) -> bool {
        const CODES: [&str; 4] = [
            "context_length_exceeded",
            "exceed_context_size",
            "request_too_large",
            "string_above_max_length",
        ];
        const WORDS: [&str; 10] = [
            "context_length_exceeded",
            "maximum context length",
            "context length exceeded",
            "exceeds the context",
            "exceed the context",
            "available context size",
            "context window",
            "prompt is too long",
            "input is too long",
            "exceeds the maximum number of tokens",
        ];
        let message = self.message.to_lowercase();
        CODES.iter().any(|code| self.codes.contains(code))
            || WORDS.iter().any(|words| message.contains(words))
    }

    fn is_about_contents(&self) -> bool {
        const CODES: [&str; 3] =
            ["content_filter", "content_policy_violation", "responsibleaipolicyviolation"];
        CODES.iter().any(|code| self.codes.contains(code))
    }
}
