//! What went wrong, in words a person can act on, and the exit code that tells a script. Prints nothing itself.

use std::fmt;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::output::clean;

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    details: Option<String>,
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Refused = 1,
    Usage = 2,
    Broken = 3,
    Key = 4,
}

/// Every refusal of the server has this body.
#[derive(Deserialize)]
struct Envelope {
    error: String,
    message: String,
    details: Option<Value>,
}

impl Failure {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(Kind::Broken, message)
    }

    pub(crate) fn key(message: impl Into<String>) -> Self {
        Self::new(Kind::Key, message)
    }

    pub(crate) fn unreachable(server: &str, why: &str) -> Self {
        Self::broken(format!("cannot reach {server}: {why}"))
            .hint("is the server running? start it with `holdpoint serve`, or name another with --server")
    }

    /// A reply that is no success. Without the envelope the status alone must tell.
    pub(crate) fn from_reply(status: u16, path: &str, body: &[u8]) -> Self {
        let kind = match status {
            401 | 403 => Kind::Key,
            400..=499 => Kind::Refused,
            _ => Kind::Broken,
        };
        let Ok(envelope) = serde_json::from_slice::<Envelope>(body) else {
            return Self::new(kind, format!("the server answered {status} without saying why"))
                .hint("does --server name a Holdpoint server, and not something in front of it?");
        };
        let mut failure =
            Self::new(kind, format!("{} ({})", clean(&envelope.message), clean(&envelope.error)));
        failure.details = envelope.details.map(|details| clean(&details.to_string()));
        failure.hint = advice(status, &envelope.error, path).map(str::to_string);
        failure
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says which of several things failed.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// True when trying again later may help: the server is away or stumbled.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind == Kind::Broken
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }

    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None, hint: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(details) = &self.details {
            write!(f, "\ndetails: {details}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

fn advice(status: u16, code: &str, path: &str) -> Option<&'static str> {
    match (status, code) {
        (401, _) => {
            Some("give a valid key with --key or HOLDPOINT_KEY, or point --data at the server's data folder")
        }
        (403, _) => Some("use a key with the scope this needs; `holdpoint keys create --scopes …` makes one"),
        (_, "interrupt_not_found") => Some("`holdpoint pending` shows which runs wait, and at which node"),
        (_, "interrupt_already_resolved") => {
            Some("another answer came first; `holdpoint runs show RUN` shows what became of the run")
        }
        (_, "interrupt_cancelled") => Some("the run no longer waits; `holdpoint runs show RUN` says why"),
        (404, _) if path.starts_with("/v1/runs/") => {
            Some("`holdpoint runs list` shows the runs this key may see")
        }
        (404, _) if path.starts_with("/v1/keys/") => Some("`holdpoint keys list` shows the keys"),
        (404, _) => Some(
            "`holdpoint workflows list` shows what is registered; `holdpoint workflows put FILE` registers",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_message_code_details_and_what_to_do() {
        let body = br#"{"error":"run_not_found","message":"no such run","details":{"runId":"x"}}"#;
        let text = Failure::from_reply(404, "/v1/runs/x", body).to_string();
        assert!(
            text.starts_with("error: no such run (run_not_found)\ndetails: {\"runId\":\"x\"}\nhint: "),
            "{text}"
        );
        assert!(text.contains("runs list"));
    }

    #[test]
    fn the_status_decides_the_kind_even_without_an_envelope() {
        for (status, kind) in [(400, Kind::Refused), (401, Kind::Key), (403, Kind::Key), (502, Kind::Broken)]
        {
            assert_eq!(Failure::from_reply(status, "/v1/runs", b"<html>").kind, kind);
        }
    }
}
