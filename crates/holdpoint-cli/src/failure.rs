//! Errors of commands: a message, details, a hint and the exit code.

use std::fmt;
use std::process::ExitCode;

use holdpoint_api::errors::{ErrorCode, ErrorDetails, WorkflowFlaw};
use holdpoint_client as client;
use serde_json::{Map, Value};

use super::output::clean;

#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    details: Option<String>,
    hint: Option<String>,
    refusal: Option<RefusalBody>,
    is_transient: bool,
}

/// The response of the server, for scripts.
#[derive(Debug)]
struct RefusalBody {
    status: u16,
    /// On one line.
    body: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Refused = 1,
    Usage = 2,
    Broken = 3,
    Key = 4,
}

impl Failure {
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub fn broken(message: impl Into<String>) -> Self {
        Self::new(Kind::Broken, message)
    }

    pub fn key(message: impl Into<String>) -> Self {
        Self::new(Kind::Key, message)
    }

    pub fn unreachable(server: &str, why: &str) -> Self {
        let failure = Self::broken(format!("cannot reach {server}: {why}"));
        // The TLS library reports this error for a plain HTTP response.
        if let Some(rest) = server.strip_prefix("https://")
            && why.contains("InvalidContentType")
        {
            return failure.hint(format!("the server seems to use plain HTTP; try http://{rest}"));
        }
        if why.contains("CaUsedAsEndEntity") {
            let hint = "the certificate of the server is a CA certificate; create one with basicConstraints=CA:FALSE and trust \
                        it, or its authority, with --ca FILE";
            return failure.hint(hint);
        }
        if why.contains("invalid peer certificate") {
            return failure.hint("trust the authority of the server certificate with --ca FILE");
        }
        failure.hint("start the server with `holdpoint serve`, or use another one with --server")
    }

    /// Describes a refusal of the server: its message, its details and a hint.
    fn of_refusal(refusal: &client::Refusal) -> Self {
        let client::Refusal { status, path, code, .. } = refusal;
        let kind = match status {
            401 | 403 => Kind::Key,
            400..=499 => Kind::Refused,
            _ => Kind::Broken,
        };
        if !refusal.has_envelope() {
            return Self::new(
                kind,
                format!("the server responded with status {status} and no error message"),
            )
            .hint("check that --server is the URL of a Holdpoint server, not of a proxy");
        }
        let details = refusal.known_details();
        let flawed = details.flaws.as_deref().unwrap_or_default();
        let message = match refusal.message.split_once(": ") {
            // The rest of the message repeats the flaws.
            Some((head, _)) if !flawed.is_empty() => head,
            _ => &refusal.message,
        };
        let mut failure = Self::new(kind, format!("{} ({})", clean(message), clean(code)));
        failure.details = if flawed.is_empty() { raw(&refusal.details) } else { Some(flaws(flawed)) };
        failure.hint = input_hint(&refusal.message, &details)
            .or_else(|| agent_hint(*status, &refusal.message, path))
            .map_or_else(
                || refusal_hint(*status, refusal.error_code(), path, &details),
                |hint| Some(hint.to_owned()),
            );
        let body = serde_json::from_str::<Value>(&refusal.body).unwrap_or_default().to_string();
        failure.refusal = Some(RefusalBody { status: *status, body });
        failure
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the file or the object that failed to the message.
    pub fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the HTTP status if the server refused the request.
    pub fn status(&self) -> Option<u16> {
        self.refusal.as_ref().map(|refusal| refusal.status)
    }

    /// Returns the error envelope of the server on one line, for scripts. Other errors are text.
    pub fn json_line(&self) -> String {
        self.refusal.as_ref().map_or_else(|| self.to_string(), |refusal| refusal.body.clone())
    }

    /// Returns whether the same command may succeed later: the server cannot be reached, failed or limits the rate.
    pub fn is_transient(&self) -> bool {
        self.is_transient
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }

    /// Returns the exit code of commands whose small codes are outcomes: 64 wrong usage, 65 refused, 69 server not
    /// reachable, 77 no valid key.
    pub fn sysexits_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 64,
            Kind::Refused => 65,
            Kind::Broken => 69,
            Kind::Key => 77,
        }
    }

    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None, hint: None, refusal: None, is_transient: false }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        Self { is_transient: error.is_transient(), ..Self::of_error(&error) }
    }
}

impl Failure {
    fn of_error(error: &client::Error) -> Self {
        use client::Error;
        match error {
            Error::Refused(refusal) => Self::of_refusal(refusal),
            Error::Connect { server, reason } => Self::unreachable(server, reason),
            Error::Connection { server, reason } => {
                Self::broken(format!("lost the connection to {server}: {reason}"))
                    .hint("the server may have executed the request; check before you repeat it")
            }
            Error::Timeout { server, limit } => Self::broken(format!("{server} took longer than {limit:?}"))
                .hint("the server may have executed the request; check before you repeat it"),
            Error::InvalidResponse { .. } => Self::broken(clean(&error.to_string()))
                .hint("check that --server is the URL of a Holdpoint server of this version"),
            Error::InvalidSetting { setting, reason } => {
                let flag = match *setting {
                    "authorities" => "--ca",
                    "client certificate" => "--client-cert",
                    "client key" => "--client-key",
                    other => other,
                };
                Self::usage(format!("{flag}: {reason}"))
            }
            _ => Self::usage(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(details) = &self.details {
            write!(f, "\n{details}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Returns a line for each flaw of a definition.
fn flaws(flaws: &[WorkflowFlaw]) -> String {
    let line = |flaw: &WorkflowFlaw| {
        let node = flaw.node_id.as_ref().map(|node| format!("node {node}, ")).unwrap_or_default();
        clean(&format!("  {node}{}: {}", flaw.field, flaw.message))
    };
    flaws.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the details as JSON, unless they only repeat the field that the message names.
fn raw(details: &Map<String, Value>) -> Option<String> {
    let is_repeated = details.keys().all(|name| name == "field");
    (!is_repeated).then(|| format!("details: {}", clean(&Value::Object(details.clone()).to_string())))
}

/// Returns a hint for an input of the wrong type, which is usually a number that was meant as text.
fn input_hint(message: &str, details: &ErrorDetails) -> Option<&'static str> {
    let is_input = details.field.as_ref().is_some_and(|field| field.starts_with("inputs."));
    (is_input && message.contains("must be of type")).then_some(
        "a value that parses as JSON is sent as JSON; quote it to send text: --input 'version=\"1.4\"'",
    )
}

/// Returns a hint for agents, threads and calls that do not exist.
fn agent_hint(status: u16, message: &str, path: &str) -> Option<&'static str> {
    match (status, message) {
        (404, "agent not found") => {
            Some("`holdpoint agents list` lists the agents; `holdpoint agents put FILE` declares one")
        }
        (404, "ticket not found") => {
            Some("`holdpoint threads messages THREAD` shows the calls of an agent, in brackets")
        }
        (404, "thread not found" | "open run not found") if path.starts_with("/v1/threads/") => {
            Some("`holdpoint threads say THREAD MESSAGE --agent ID` starts a run in a thread")
        }
        _ => None,
    }
}

fn refusal_hint(status: u16, code: Option<ErrorCode>, path: &str, details: &ErrorDetails) -> Option<String> {
    const WORKFLOWS: &str =
        "`holdpoint workflows list` lists the workflows; `holdpoint workflows put FILE` registers one";
    // The run of the request, or a placeholder.
    let run =
        path.strip_prefix("/v1/runs/").and_then(|rest| rest.split(['/', ':', '?']).next()).unwrap_or("RUN");
    Some(match (status, code) {
        (401, _) => {
            "set a valid key with --key or HOLDPOINT_KEY, or the data folder of the server with --data".into()
        }
        (403, _) => {
            let scope = clean(details.scope_required.as_ref()?);
            format!(
                "use a key with the scope {scope}; `holdpoint keys create --scopes {scope},…` creates one"
            )
        }
        (_, Some(ErrorCode::InterruptNotFound)) => {
            "`holdpoint pending` lists pending interrupts with their runs and nodes".into()
        }
        (_, Some(ErrorCode::InterruptAmbiguous)) => {
            format!("select one with --interrupt; `holdpoint runs interrupts {run}` lists them")
        }
        (_, Some(ErrorCode::InterruptAlreadyResolved)) => {
            format!("it was already answered or has expired; `holdpoint runs watch {run}` shows its outcome")
        }
        (_, Some(ErrorCode::InterruptCancelled)) => {
            format!("the interrupt was cancelled; `holdpoint runs watch {run}` shows the reason")
        }
        (_, Some(ErrorCode::DispatchClaimed)) => {
            let run = clean(details.run_id.as_ref()?);
            format!("`holdpoint runs cancel {run}` cancels the run while a worker has the dispatch")
        }
        (_, Some(ErrorCode::DispatchNotDead | ErrorCode::DispatchEnded)) => {
            "`holdpoint mailbox show ID` shows its state and its run".into()
        }
        (_, Some(ErrorCode::RunFinished)) if path.starts_with("/v1/dispatches/") => {
            "its run has ended; start a new one with `holdpoint runs start`".into()
        }
        (404, _) if path.starts_with("/v1/dispatches/") => {
            "`holdpoint mailbox list THREAD` lists ids; ended dispatches are kept for a day".into()
        }
        (400, _) if path == "/v1/runs" && details.field.as_deref() == Some("workflowId") => WORKFLOWS.into(),
        (_, Some(ErrorCode::RunAlreadyActive)) => {
            format!(
                "`holdpoint runs show {}` shows the active run",
                clean(details.active_run_id.as_ref()?.as_str())
            )
        }
        (_, Some(ErrorCode::WrongState | ErrorCode::RunFinished)) if path.starts_with("/v1/runs/") => {
            format!("`holdpoint runs show {run}` shows its state")
        }
        (_, Some(ErrorCode::BeyondLog)) => {
            format!("`holdpoint runs events {run}` lists the events with their sequence numbers")
        }
        (404, _) if path.contains("/artifacts/") => {
            format!("`holdpoint runs events {run}` shows the artifacts as artifact.created")
        }
        (404, _) if path.starts_with("/v1/runs/") => {
            "`holdpoint runs list` lists the runs that this key may read".into()
        }
        (404, _) if path.starts_with("/v1/holds/") => {
            "`holdpoint ask --detach` prints the id of its hold; `holdpoint pending` lists pending interrupts"
                .into()
        }
        (404, _) if path.starts_with("/v1/keys/") => "`holdpoint keys list` lists the keys".into(),
        (404, _) => WORKFLOWS.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, path: &str, body: &str) -> Failure {
        Failure::of_refusal(&client::Refusal::from_response(status, path, body.to_owned()))
    }

    #[test]
    fn a_refusal_shows_message_code_details_and_a_hint() {
        let body = r#"{"error":"run_not_found","message":"no such run","details":{"runId":"x"}}"#;
        let text = refused(404, "/v1/runs/x", body).to_string();
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
            assert_eq!(refused(status, "/v1/runs", "<html>").kind, kind);
        }
    }

    #[test]
    fn each_flaw_is_one_line_and_the_message_does_not_repeat_them() {
        let body = r#"{"error":"validation_error","message":"the workflow is not valid: node a: x; y","details":
            {"flaws":[{"nodeId":"a","field":"config.b","message":"x"},{"field":"edges","message":"y"}]}}"#;
        let failure = refused(400, "/v1/workflows/w", body);
        let text = "error: the workflow is not valid (validation_error)\n  node a, config.b: x\n  edges: y";
        assert_eq!(failure.to_string(), text);
        assert!(failure.json_line().starts_with('{') && !failure.json_line().contains('\n'));
        let body = r#"{"error":"validation_error","message":"limit: too many","details":{"field":"limit"}}"#;
        let text = refused(400, "/v1/runs?limit=1", body).to_string();
        assert_eq!(text, "error: limit: too many (validation_error)");
    }

    #[test]
    fn hints_fit_the_refusal() {
        let text = |status: u16, path: &str, code: &str, details: &str| {
            let body = format!(r#"{{"error":"{code}","message":"m","details":{details}}}"#);
            refused(status, path, &body).to_string()
        };
        let answer = "/v1/runs/r1/interrupts/gate";
        assert!(
            text(409, answer, "interrupt_already_resolved", "{}")
                .contains("runs watch r1` shows its outcome")
        );
        assert!(text(422, answer, "interrupt_cancelled", "{}").contains("runs watch r1` shows the reason"));
        assert!(
            !text(403, answer, "forbidden", "null").contains("hint"),
            "a caller that is not an approver needs no other scope"
        );
        assert!(
            text(403, answer, "forbidden", r#"{"scopeRequired":"runs:read"}"#).contains("scope runs:read")
        );
        assert!(
            text(400, "/v1/runs", "validation_error", r#"{"field":"workflowId"}"#).contains("workflows put")
        );
        let gone = |path: &str, message: &str| {
            let body = format!(r#"{{"error":"not_found","message":"{message}"}}"#);
            refused(404, path, &body).to_string()
        };
        for path in ["/v1/agents/unknown", "/v1/agents/unknown/runs", "/v1/threads/t/messages"] {
            let text = gone(path, "agent not found");
            assert!(text.contains("holdpoint agents list") && !text.contains("workflows"), "{text}");
        }
        assert!(gone("/v1/threads/t/events", "thread not found").contains("threads say"));
        assert!(gone("/v1/runs/r/decision", "ticket not found").contains("threads messages"));
        let typed = ErrorDetails::of_field("inputs.v");
        assert!(input_hint("inputs.v: must be of type string", &typed).is_some());
        assert!(input_hint("inputs.v: is required", &typed).is_none());
        let plain =
            Failure::unreachable("https://a:1", "received corrupt message of type InvalidContentType");
        assert!(plain.to_string().contains("try http://a:1"));
    }
}
