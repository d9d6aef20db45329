//! What went wrong, in words a person can act on, and the exit code that tells a script. Prints nothing itself.

use std::fmt;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::output::{cell, clean};

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    details: Option<String>,
    hint: Option<String>,
    refusal: Option<Refusal>,
}

/// What the server said, for scripts.
#[derive(Debug)]
struct Refusal {
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
        let failure = Self::broken(format!("cannot reach {server}: {why}"));
        // So TLS calls the first bytes of a server that speaks plain HTTP.
        if let Some(rest) = server.strip_prefix("https://")
            && why.contains("InvalidContentType")
        {
            return failure.hint(format!("this server seems to speak plain HTTP: try http://{rest}"));
        }
        if why.contains("CaUsedAsEndEntity") {
            let hint = "the server's certificate is one of an authority; make a certificate with basicConstraints=CA:FALSE \
                        and trust it, or its authority, with --ca FILE";
            return failure.hint(hint);
        }
        if why.contains("invalid peer certificate") {
            return failure.hint("trust the authority of the server's certificate with --ca FILE");
        }
        failure.hint("is the server running? start it with `holdpoint serve`, or name another with --server")
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
        let details = envelope.details.unwrap_or(Value::Null);
        let flaws = flaws(&details);
        let message = match envelope.message.split_once(": ") {
            // The message counts them up as well; one list is enough.
            Some((head, _)) if !flaws.is_empty() => head,
            _ => &envelope.message,
        };
        let mut failure = Self::new(kind, format!("{} ({})", clean(message), clean(&envelope.error)));
        failure.details = if flaws.is_empty() { raw(&details) } else { Some(flaws.join("\n")) };
        failure.hint = input_advice(&envelope.message, &details)
            .or_else(|| agent_advice(status, &envelope.message, path))
            .map_or_else(|| advice(status, &envelope.error, path, &details), |hint| Some(hint.to_string()));
        let body = serde_json::from_slice::<Value>(body).unwrap_or_default().to_string();
        failure.refusal = Some(Refusal { status, body });
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

    /// The status of the server's refusal, if it was the server that refused.
    pub(crate) fn status(&self) -> Option<u16> {
        self.refusal.as_ref().map(|refusal| refusal.status)
    }

    /// For scripts: the server's own envelope on one line. What the server has not said is said in our words.
    pub(crate) fn json_line(&self) -> String {
        self.refusal.as_ref().map_or_else(|| self.to_string(), |refusal| refusal.body.clone())
    }

    /// True when trying again later may help: the server is away or stumbled.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind == Kind::Broken
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }

    /// For commands whose small codes are the answers of people: 64 wrong usage, 65 refused, 69 no server, 77 no key.
    pub(crate) fn code_beside_answers(&self) -> u8 {
        match self.kind {
            Kind::Usage => 64,
            Kind::Refused => 65,
            Kind::Broken => 69,
            Kind::Key => 77,
        }
    }

    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None, hint: None, refusal: None }
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

/// One line for each flaw of a definition.
fn flaws(details: &Value) -> Vec<String> {
    let line = |flaw: &Value| {
        let node = flaw["nodeId"].as_str().map(|node| format!("node {}, ", clean(node))).unwrap_or_default();
        format!("  {node}{}: {}", cell(&flaw["field"]), cell(&flaw["message"]))
    };
    details["flaws"].as_array().into_iter().flatten().map(line).collect()
}

/// The details as they are, unless they only repeat the field that the message names.
fn raw(details: &Value) -> Option<String> {
    let told = match details {
        Value::Null => true,
        Value::Object(members) => members.keys().all(|name| name == "field"),
        _ => false,
    };
    (!told).then(|| format!("details: {}", clean(&details.to_string())))
}

/// An input of the wrong type is mostly a number that was meant as text.
fn input_advice(message: &str, details: &Value) -> Option<&'static str> {
    let is_input = details["field"].as_str().is_some_and(|field| field.starts_with("inputs."));
    (is_input && message.contains("must be of type")).then_some(
        "a value that reads as JSON is taken as JSON; quote it to force text: --input 'version=\"1.4\"'",
    )
}

/// Agents, threads and calls that are not there. A thread begins with what is said in it.
fn agent_advice(status: u16, message: &str, path: &str) -> Option<&'static str> {
    match (status, message) {
        (404, "agent not found") => {
            Some("`holdpoint agents list` shows who is declared; `holdpoint agents put FILE` declares")
        }
        (404, "ticket not found") => {
            Some("`holdpoint threads messages THREAD` names the calls of an agent, in brackets")
        }
        (404, "thread not found" | "open run not found") if path.starts_with("/v1/threads/") => {
            Some("`holdpoint threads say THREAD MESSAGE --agent ID` begins a run in a thread")
        }
        _ => None,
    }
}

fn advice(status: u16, code: &str, path: &str, details: &Value) -> Option<String> {
    // The run that the request was about, or the word for one.
    let run =
        path.strip_prefix("/v1/runs/").and_then(|rest| rest.split(['/', ':', '?']).next()).unwrap_or("RUN");
    let field = details["field"].as_str().unwrap_or_default();
    let text = match (status, code) {
        (401, _) => {
            "give a valid key with --key or HOLDPOINT_KEY, or point --data at the server's data folder"
        }
        (403, _) => {
            let scope = clean(details["scopeRequired"].as_str()?);
            return Some(format!(
                "use a key with the scope {scope}; `holdpoint keys create --scopes {scope},…` makes one"
            ));
        }
        (_, "interrupt_not_found") => "`holdpoint pending` shows which runs wait, and at which node",
        (_, "interrupt_ambiguous") => {
            return Some(format!(
                "name one with --interrupt; `holdpoint runs interrupts {run}` shows what each of them asks"
            ));
        }
        (_, "interrupt_already_resolved") => {
            return Some(format!(
                "it was answered before, or its time is over; `holdpoint runs watch {run}` shows which"
            ));
        }
        (_, "interrupt_cancelled") => {
            return Some(format!("the run no longer waits; `holdpoint runs watch {run}` says why"));
        }
        (_, "dispatch_claimed") => {
            let run = clean(details["runId"].as_str()?);
            return Some(format!("`holdpoint runs cancel {run}` ends the run, whoever works on it"));
        }
        (_, "dispatch_not_dead" | "dispatch_ended") => {
            "`holdpoint mailbox show ID` tells where it stands, and its run"
        }
        (_, "run_finished") if path.starts_with("/v1/dispatches/") => {
            "its run has ended and cannot go on; start a new one with `holdpoint runs start`"
        }
        (404, _) if path.starts_with("/v1/dispatches/") => {
            "`holdpoint mailbox list THREAD` shows ids; dispatches that have ended are kept for a day"
        }
        (400, _) if path == "/v1/runs" && field == "workflowId" => {
            "`holdpoint workflows list` shows what is registered; `holdpoint workflows put FILE` registers"
        }
        (_, "run_already_active") => {
            let active = clean(details["activeRunId"].as_str()?);
            return Some(format!("`holdpoint runs show {active}` shows the one that is at work"));
        }
        (_, "wrong_state" | "run_finished") if path.starts_with("/v1/runs/") => {
            return Some(format!("`holdpoint runs show {run}` tells where it stands"));
        }
        (_, "beyond_log") => {
            return Some(format!("`holdpoint runs events {run}` shows the events with their numbers"));
        }
        (404, _) if path.contains("/artifacts/") => {
            return Some(format!("`holdpoint runs events {run}` shows what was made, as artifact.created"));
        }
        (404, _) if path.starts_with("/v1/runs/") => "`holdpoint runs list` shows the runs this key may see",
        (404, _) if path.starts_with("/v1/holds/") => {
            "`holdpoint ask --detach` prints the id of what it asks; `holdpoint pending` shows what waits"
        }
        (404, _) if path.starts_with("/v1/keys/") => "`holdpoint keys list` shows the keys",
        (404, _) => {
            "`holdpoint workflows list` shows what is registered; `holdpoint workflows put FILE` registers"
        }
        _ => return None,
    };
    Some(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn flaws_stand_one_on_a_line_and_what_is_told_is_not_told_twice() {
        let body =
            br#"{"error":"validation_error","message":"the workflow is not valid: node a: x; y","details":
            {"flaws":[{"nodeId":"a","field":"config.b","message":"x"},{"field":"edges","message":"y"}]}}"#;
        let failure = Failure::from_reply(400, "/v1/workflows/w", body);
        let told = "error: the workflow is not valid (validation_error)\n  node a, config.b: x\n  edges: y";
        assert_eq!(failure.to_string(), told);
        assert!(failure.json_line().starts_with('{') && !failure.json_line().contains('\n'));
        let body = br#"{"error":"validation_error","message":"limit: too many","details":{"field":"limit"}}"#;
        let text = Failure::from_reply(400, "/v1/runs?limit=1", body).to_string();
        assert_eq!(text, "error: limit: too many (validation_error)");
    }

    #[test]
    fn hints_fit_the_refusal() {
        let said = |status: u16, path: &str, code: &str, details: &str| {
            let body = format!(r#"{{"error":"{code}","message":"m","details":{details}}}"#);
            Failure::from_reply(status, path, body.as_bytes()).to_string()
        };
        let answer = "/v1/runs/r1/interrupts/gate";
        assert!(said(409, answer, "interrupt_already_resolved", "{}").contains("runs watch r1` shows which"));
        assert!(said(422, answer, "interrupt_cancelled", "{}").contains("runs watch r1` says why"));
        assert!(
            !said(403, answer, "forbidden", "null").contains("hint"),
            "who is no approver needs no scope"
        );
        assert!(
            said(403, answer, "forbidden", r#"{"scopeRequired":"runs:read"}"#).contains("scope runs:read")
        );
        assert!(
            said(400, "/v1/runs", "validation_error", r#"{"field":"workflowId"}"#).contains("workflows put")
        );
        let gone = |path: &str, message: &str| {
            let body = format!(r#"{{"error":"not_found","message":"{message}"}}"#);
            Failure::from_reply(404, path, body.as_bytes()).to_string()
        };
        for path in ["/v1/agents/nobody", "/v1/agents/nobody/runs", "/v1/threads/t/messages"] {
            let told = gone(path, "agent not found");
            assert!(told.contains("holdpoint agents list") && !told.contains("workflows"), "{told}");
        }
        assert!(gone("/v1/threads/t/events", "thread not found").contains("threads say"));
        assert!(gone("/v1/runs/r/decision", "ticket not found").contains("threads messages"));
        let typed = json!({"field": "inputs.v"});
        assert!(input_advice("inputs.v: must be of type string", &typed).is_some());
        assert!(input_advice("inputs.v: is required", &typed).is_none());
        let plain =
            Failure::unreachable("https://a:1", "received corrupt message of type InvalidContentType");
        assert!(plain.to_string().contains("try http://a:1"));
    }
}
