//! The errors of outgoing calls. The messages appear in events and logs, so they contain the origin (scheme, host and
//! port) but no path, query, header or resolved private address.

use std::net::IpAddr;

use super::progress::CallStage;
use super::ranges::SpecialNetwork;

/// An error of an outgoing call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The policy forbids the call. A retry does not help.
    #[error(transparent)]
    Refused(#[from] OutgoingRefusal),
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {why}")]
    Unresolvable {
        /// The host name.
        host: String,
        /// The reason.
        why: String,
    },
    /// No address of the host accepted a connection.
    #[error("cannot connect to {origin}: {why}")]
    ConnectFailed {
        /// Scheme, host and port.
        origin: String,
        /// The reason.
        why: String,
    },
    /// The call exceeded its time limit.
    #[error("{origin} timed out after {timeout_ms} ms while {during}")]
    TimedOut {
        /// Scheme, host and port.
        origin: String,
        /// The time limit.
        timeout_ms: u64,
        /// The stage of the call at the timeout.
        during: CallStage,
    },
    /// The response body exceeds the size limit.
    #[error("the response of {origin} exceeds {bytes_max} bytes")]
    BodyTooLarge {
        /// Scheme, host and port.
        origin: String,
        /// The size limit.
        bytes_max: usize,
    },
    /// The TLS handshake failed.
    #[error("the TLS connection to {origin} failed: {why}")]
    Tls {
        /// Scheme, host and port.
        origin: String,
        /// The reason.
        why: String,
    },
    /// The server violated HTTP or closed the connection during the call.
    #[error("the connection to {origin} broke: {why}")]
    Broken {
        /// Scheme, host and port.
        origin: String,
        /// The reason.
        why: String,
    },
}

/// The reason why the policy forbids a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingRefusal {
    /// The URL is invalid.
    #[error("the URL {0}")]
    Url(&'static str),
    /// The scheme is not allowed.
    #[error("the URL must begin with https://")]
    Scheme,
    /// Plain HTTP is allowed only for loopback, if enabled, and for networks that the operator lists.
    #[error("{host} must be called with https://")]
    PlainText {
        /// The host.
        host: String,
    },
    /// The URL contains credentials.
    #[error("the URL must not contain a user name or a password")]
    UserInfo,
    /// The host name belongs to an internal network.
    #[error("the host name {0} belongs to an internal network")]
    Name(String),
    /// The host has an address in a special-purpose network.
    #[error("{host} resolves to {} ({}), which must not be called", special.network, special.purpose)]
    Address {
        /// The host.
        host: String,
        /// The network of the address.
        special: SpecialNetwork,
    },
    /// The host has an address in a network that the operator denies.
    #[error("{host} resolves to a network that the operator denies")]
    Denied {
        /// The host.
        host: String,
    },
    /// The header is reserved or invalid.
    #[error("the header {0:?} cannot be sent")]
    Header(String),
}

impl OutgoingRefusal {
    /// Logs the refusal with the address, which only operators may see.
    pub(super) fn logged(self, address: IpAddr) -> Self {
        tracing::debug!(%address, reason = %self, "the outgoing policy refused a call");
        self
    }
}

/// Returns an error with its causes as one line of limited length.
pub(super) fn excerpt(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = Vec::new();
    for text in causes.map(ToString::to_string) {
        // Removes links to the documentation of a library.
        let text = text.split(": https://").next().unwrap_or_default().to_owned();
        // Skips a cause that the previous text already contains.
        if !texts.last().is_some_and(|last| last.ends_with(&text)) {
            texts.push(text);
        }
    }
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    texts.join(": ").chars().map(plain).take(EXCERPT_CHARS_MAX).collect()
}

const EXCERPT_CHARS_MAX: usize = 200;
