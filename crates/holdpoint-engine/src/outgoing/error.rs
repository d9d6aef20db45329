//! What an outgoing call says instead of a response. These texts reach events, logs and people, so they name the
//! origin (scheme, host and port) and never a path, a query, a header or an address that a private name led to.

use std::net::IpAddr;

use super::progress::Stage;
use super::ranges::Special;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not allowed here; trying again will not help.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the name {host} has no address: {why}")]
    Unresolvable { host: String, why: String },
    #[error("{origin} cannot be connected to: {why}")]
    ConnectFailed { origin: String, why: String },
    #[error("{origin} did not answer within {timeout_ms} ms, which were over while {during}")]
    TimedOut { origin: String, timeout_ms: u64, during: Stage },
    #[error("{origin} answered with more than {bytes_max} bytes")]
    BodyTooLarge { origin: String, bytes_max: usize },
    #[error("there is no trusted connection to {origin}: {why}")]
    Tls { origin: String, why: String },
    /// The other side does not keep to HTTP, or went away in the middle.
    #[error("the connection to {origin} broke: {why}")]
    Broken { origin: String, why: String },
}

/// Why a call is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the URL {0}")]
    Url(&'static str),
    #[error("the URL must begin with https://")]
    Scheme,
    /// Plain HTTP is for loopback, where that was switched on, and for networks that an operator names for it.
    #[error("{host} is not on this machine, so it must be called with https://")]
    PlainText { host: String },
    #[error("the URL must not carry a user name or a password")]
    UserInfo,
    #[error("the host name {0} stands for the inside of a network")]
    Name(String),
    #[error("{host} leads to {} ({}), which must not be called", special.network, special.purpose)]
    Address { host: String, special: Special },
    #[error("{host} leads to a network that this server's operator denies")]
    Denied { host: String },
    #[error("the header {0:?} cannot be sent")]
    Header(String),
}

impl Refused {
    /// A refusal for the log of operators, who may know the address as well.
    pub(super) fn logged(self, address: IpAddr) -> Self {
        tracing::debug!(%address, reason = %self, "an outgoing call was refused");
        self
    }
}

/// An error with its causes, in as many characters as a log should have to take from somebody else's mistakes.
pub(super) fn excerpt(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut said: Vec<String> = Vec::new();
    for text in causes.map(ToString::to_string) {
        // Some say where to read more, which is for whoever wrote them.
        let text = text.split(": https://").next().unwrap_or_default().to_owned();
        // Some show what they were caused by themselves.
        if !said.last().is_some_and(|last| last.ends_with(&text)) {
            said.push(text);
        }
    }
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    said.join(": ").chars().map(plain).take(EXCERPT_CHARS_MAX).collect()
}

const EXCERPT_CHARS_MAX: usize = 200;
