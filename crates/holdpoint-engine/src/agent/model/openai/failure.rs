//! What went wrong, told apart: whether another try may help, and what may be said of it. Servers repeat keys in their
//! messages, so nothing of theirs is passed on before keys are taken out of it.

use holdpoint_core::webhook::retry_after_ms;
use serde_json::Value;

use super::super::ModelError;
use super::super::key::Secret;
use crate::clock::Clock;
use crate::outgoing;

const EXCERPT_CHARS_MAX: usize = 400;
/// Shorter ones would be found everywhere.
const SECRET_BYTES_MIN: usize = 4;

/// An error, and whether the model is worth another try at once.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ModelError,
    pub(super) again: bool,
}

/// What must not appear in what is told.
#[derive(Debug, Default)]
pub(super) struct Hidden(Vec<Secret>);

impl Hidden {
    pub(super) fn add(&mut self, secret: Secret) {
        if secret.expose().len() >= SECRET_BYTES_MIN {
            self.0.push(secret);
            // One may be part of another.
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        }
    }

    /// A text of somebody else's, without secrets and control characters, and not too much of it.
    pub(super) fn excerpt(&self, text: &str) -> String {
        let plain =
            self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "[hidden]"));
        let plain = plain.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(EXCERPT_CHARS_MAX).collect::<String>().trim().to_owned()
    }
}

impl Failure {
    pub(super) fn for_good(error: ModelError) -> Self {
        Self { error, again: false }
    }

    pub(super) fn bad_reply(why: impl Into<String>) -> Self {
        Self { error: ModelError::BadReply(why.into()), again: true }
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self { error: ModelError::Unavailable { message: message.into(), retry_after_ms: None }, again: true }
    }

    /// It would be as large again, and cost as much.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        Self::for_good(ModelError::BadReply(format!("it is larger than {bytes_max} bytes")))
    }

    /// What an endpoint says instead of a reply: with a status, or in the middle of a stream.
    pub(super) fn said(
        status: Option<u16>,
        body: &str,
        retry_after_ms: Option<u64>,
        hidden: &Hidden,
    ) -> Self {
        let said = Said::parse(body);
        let status = status.or(said.status);
        let excerpt = hidden.excerpt(&said.message);
        let message = match status {
            Some(status) if excerpt.is_empty() => format!("status {status}"),
            Some(status) => format!("{excerpt} (status {status})"),
            None => excerpt,
        };
        let unavailable = ModelError::Unavailable { message: message.clone(), retry_after_ms };
        match status {
            Some(401 | 403) => Self::for_good(ModelError::Unauthorized(message)),
            // Nobody's quota comes back within a minute.
            Some(429) => Self { error: unavailable, again: !said.is_about_quota() },
            _ if said.is_about_length() => Self::for_good(ModelError::ContextOverflow(message)),
            _ if said.is_about_contents() => Self::for_good(ModelError::Refused(message)),
            Some(408 | 409 | 425 | 500..) | None => Self { error: unavailable, again: true },
            Some(_) => Self::for_good(ModelError::BadRequest(message)),
        }
    }

    /// A call that has brought nothing back. `timeout_ms` is what is left of the whole, if that is over.
    pub(super) fn of_call(error: outgoing::Error, over: Option<u64>) -> Self {
        use outgoing::Error;
        match error {
            Error::TimedOut { timeout_ms, .. } => match over {
                Some(timeout_ms) => Self::for_good(ModelError::TimedOut(timeout_ms)),
                None => Self { error: ModelError::TimedOut(timeout_ms), again: true },
            },
            Error::BodyTooLarge { bytes_max, .. } => Self::too_large(bytes_max),
            Error::Refused(refused) => Self::for_good(ModelError::BadRequest(refused.to_string())),
            Error::Unresolvable { .. }
            | Error::ConnectFailed { .. }
            | Error::Tls { .. }
            | Error::Broken { .. } => Self::unavailable(error.to_string()),
        }
    }
}

/// How long an answer asks to be left alone.
pub(super) fn asked_wait_ms(headers: &[(String, String)]) -> Option<u64> {
    let header = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.trim());
    let exact = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    match exact.filter(|ms| ms.is_finite() && *ms >= 0.0) {
        Some(ms) => Some(ms.ceil() as u64),
        None => retry_after_ms(header("retry-after")?, Clock::System.now()),
    }
}

/// The error in a body, as far as servers agree on how to write one.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// Codes and types, in lower case.
    codes: String,
    status: Option<u16>,
}

impl Said {
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
        let spoken = error.as_str().or_else(|| text("message")).or_else(|| text("detail"));
        let inner = error.get("innererror").and_then(|inner| inner.get("code")).and_then(Value::as_str);
        let codes = [text("code"), text("type"), text("status"), inner];
        let number = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
        Self {
            message: spoken.map_or_else(|| error.to_string(), ToOwned::to_owned),
            codes: codes.into_iter().flatten().collect::<Vec<_>>().join(" ").to_lowercase(),
            status: number.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)),
        }
    }

    fn is_about_quota(&self) -> bool {
        self.codes.contains("insufficient_quota")
    }

    fn is_about_length(&self) -> bool {
        const CODES: [&str; 3] =
            ["context_length_exceeded", "exceed_context_size", "string_above_max_length"];
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
