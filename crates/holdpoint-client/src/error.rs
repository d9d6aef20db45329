//! Errors of requests: refusals of the server, and failed connections.

use std::time::Duration;

use holdpoint_api::{ErrorCode, ErrorDetails};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The error of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request or failed to execute it.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The connection could not be made. The server has not received the request.
    #[error("cannot connect to {server}: {reason}")]
    Connect {
        /// The URL of the server.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The connection was lost. The server may have executed the request.
    #[error("lost the connection to {server}: {reason}")]
    Connection {
        /// The URL of the server.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The response did not arrive in time. The server may have executed the request.
    #[error("{server} did not respond within {limit:?}")]
    Timeout {
        /// The URL of the server.
        server: String,
        /// The timeout of the request.
        limit: Duration,
    },
    /// The response does not match the API. The URL may belong to another server or to another version.
    #[error("{server} sent an invalid response: {reason}")]
    InvalidResponse {
        /// The URL of the server.
        server: String,
        /// The defect of the response.
        reason: String,
    },
    /// The request cannot be sent.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// A setting of the client is invalid.
    #[error("{setting}: {reason}")]
    InvalidSetting {
        /// The name of the setting.
        setting: &'static str,
        /// The defect of its value.
        reason: String,
    },
}

/// A response of the server that is not a success.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable error code; empty if the response does not have the error envelope.
    pub code: String,
    /// The error message; empty if the response does not have the error envelope.
    pub message: String,
    /// Further members of the error; they depend on the code.
    pub details: Map<String, Value>,
    /// The time after which the request may be sent again, from `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The path of the request, without its query.
    pub path: String,
    /// The body as it was received.
    pub body: String,
}

/// The error envelope. Members that this version does not know are ignored.
#[derive(Deserialize)]
struct Envelope {
    error: String,
    message: String,
    details: Option<Map<String, Value>>,
}

impl Refusal {
    /// Reads the error envelope of a response.
    pub fn from_response(status: u16, path: &str, body: String) -> Self {
        let envelope = serde_json::from_str(&body).unwrap_or_else(|_| Envelope {
            error: String::new(),
            message: String::new(),
            details: None,
        });
        Self {
            status,
            code: envelope.error,
            message: envelope.message,
            details: envelope.details.unwrap_or_default(),
            retry_after: None,
            path: path.to_owned(),
            body,
        }
    }

    /// Returns the code, or None if this version does not know it.
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(&self.code)
    }

    /// Returns the members of the details that this version knows.
    pub fn known_details(&self) -> ErrorDetails {
        serde_json::from_value(Value::Object(self.details.clone())).unwrap_or_default()
    }

    /// Returns whether the response has the error envelope of the API.
    pub fn has_envelope(&self) -> bool {
        !self.code.is_empty()
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.has_envelope() {
            write!(f, "{} ({}, status {})", self.message, self.code, self.status)
        } else {
            write!(f, "the server responded with status {} and no error envelope", self.status)
        }
    }
}

impl Error {
    /// Returns the refusal if the server has refused the request.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns the error code of the server, such as `interrupt_already_resolved`.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.code.as_str()).filter(|code| !code.is_empty())
    }

    /// Returns the error code of the server as a value, or None if this version does not know it.
    pub fn error_code(&self) -> Option<ErrorCode> {
        self.refusal().and_then(Refusal::error_code)
    }

    /// Returns the HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// Returns whether the same request may succeed later: the server cannot be reached, failed, is
    /// overloaded or limits the rate.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => matches!(refusal.status, 408 | 429 | 500 | 502..=599),
            Self::Connect { .. } | Self::Connection { .. } | Self::Timeout { .. } => true,
            Self::InvalidResponse { .. } | Self::InvalidRequest(_) | Self::InvalidSetting { .. } => false,
        }
    }
}
