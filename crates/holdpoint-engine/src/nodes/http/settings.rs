//! The config of `core.http`, from JSON with every flaw.

use holdpoint_core::limits;
use holdpoint_core::workflow::{self, Flaw};
use serde_json::Value;

use crate::approved::APPROVED_BY;
use crate::nodes::unknown_config;
use crate::outgoing::{Method, may_be_set};

const KNOWN: [&str; 8] = [
    "method",
    "url",
    "headers",
    "timeoutMs",
    "expectStatus",
    "responseType",
    "maxResponseBytes",
    APPROVED_BY,
];
const TIMEOUT_MS: u64 = 30_000;
const TIMEOUT_MS_MAX: u64 = 300_000;
/// An answer is recorded as a step, which has a limit of its own.
const RESPONSE_BYTES_MAX: u64 = limits::STEP_RESULT_BYTES_MAX as u64;

pub(super) struct Settings {
    pub(super) method: Method,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout_ms: u64,
    /// Empty: every 2xx.
    expected: Vec<u16>,
    /// Nothing: as the answer says.
    pub(super) response_type: Option<ResponseType>,
    pub(super) response_bytes_max: usize,
    /// The gate that must have granted the body.
    pub(super) approved_by: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum ResponseType {
    Json,
    Text,
}

impl Settings {
    pub(super) fn of(node: &workflow::Node) -> Result<Self, Vec<Flaw>> {
        let mut reading = Reading { node, flaws: unknown_config(node, &KNOWN) };
        let settings = Self {
            method: reading.method(),
            url: reading.url(),
            headers: reading.headers(),
            timeout_ms: reading.number("timeoutMs", TIMEOUT_MS, TIMEOUT_MS_MAX),
            expected: reading.expected(),
            response_type: reading.response_type(),
            response_bytes_max: usize::try_from(reading.number(
                "maxResponseBytes",
                RESPONSE_BYTES_MAX / 2,
                RESPONSE_BYTES_MAX,
            ))
            .unwrap_or(usize::MAX),
            approved_by: reading.approved_by(),
        };
        if reading.flaws.is_empty() { Ok(settings) } else { Err(reading.flaws) }
    }

    pub(super) fn expects(&self, status: u16) -> bool {
        if self.expected.is_empty() { (200..300).contains(&status) } else { self.expected.contains(&status) }
    }
}

/// Whether authors may set a header. What identifies the call is ours, and so is what frames it.
pub(super) fn header_is_free(name: &str) -> bool {
    let ours =
        ["idempotency-key", "traceparent", "tracestate"].iter().any(|ours| name.eq_ignore_ascii_case(ours));
    !ours && may_be_set(name)
}

struct Reading<'a> {
    node: &'a workflow::Node,
    flaws: Vec<Flaw>,
}

impl Reading<'_> {
    fn flaw(&mut self, field: &str, message: impl Into<String>) {
        self.flaws.push(Flaw::of_node(&self.node.id, format!("config.{field}"), message));
    }

    fn method(&mut self) -> Method {
        let Some(value) = self.node.config.get("method") else { return Method::Get };
        value.as_str().and_then(Method::parse).unwrap_or_else(|| {
            let known = Method::ALL.map(Method::as_str).join(", ");
            self.flaw("method", format!("must be one of {known}"));
            Method::Get
        })
    }

    fn url(&mut self) -> Option<String> {
        match self.node.config.get("url") {
            Some(Value::String(url)) => return Some(url.clone()),
            Some(_) => self.flaw("url", "must be a string"),
            None if self.node.inputs.contains_key("url") => {}
            None => self.flaw("url", "is missing, and so is the input url"),
        }
        None
    }

    fn headers(&mut self) -> Vec<(String, String)> {
        let headers = match self.node.config.get("headers") {
            None => return Vec::new(),
            Some(Value::Object(headers)) => headers,
            Some(_) => {
                self.flaw("headers", "must be an object of strings");
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for (name, value) in headers {
            match value.as_str() {
                Some(value) if header_is_free(name) && is_header_text(value) => {
                    found.push((name.clone(), value.to_owned()));
                }
                // Without the value, which may be a credential.
                Some(_) if header_is_free(name) => {
                    self.flaw(&format!("headers.{name}"), "must be printable ASCII on one line");
                }
                Some(_) => self.flaw(&format!("headers.{name}"), "is a header that cannot be set here"),
                None => self.flaw(&format!("headers.{name}"), "must be a string"),
            }
        }
        found
    }

    fn number(&mut self, field: &str, usual: u64, max: u64) -> u64 {
        let Some(value) = self.node.config.get(field) else { return usual };
        value.as_u64().filter(|number| (1..=max).contains(number)).unwrap_or_else(|| {
            self.flaw(field, format!("must be a whole number from 1 to {max}"));
            usual
        })
    }

    fn expected(&mut self) -> Vec<u16> {
        let Some(value) = self.node.config.get("expectStatus") else { return Vec::new() };
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let status = |value: &Value| {
            value.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| (200..600).contains(n))
        };
        let found: Option<Vec<u16>> = values.iter().map(status).collect();
        found.filter(|statuses| !statuses.is_empty()).unwrap_or_else(|| {
            self.flaw("expectStatus", "must be a status from 200 to 599, or a list of them");
            Vec::new()
        })
    }

    /// What people approve is the body; where it goes and what goes with it must not be a matter of the run.
    fn approved_by(&mut self) -> Option<String> {
        let value = self.node.config.get(APPROVED_BY)?;
        for port in ["url", "query", "headers"] {
            if self.node.inputs.contains_key(port) {
                let message =
                    format!("cannot be kept beside the input {port}: nobody is shown what that will be");
                self.flaw(APPROVED_BY, message);
            }
        }
        if !self.node.inputs.contains_key("body") {
            self.flaw(APPROVED_BY, "needs the input body: it is what was approved");
        }
        match value.as_str() {
            Some(gate) if !gate.is_empty() => Some(gate.to_owned()),
            _ => {
                self.flaw(APPROVED_BY, "must be the id of an approval gate");
                None
            }
        }
    }

    fn response_type(&mut self) -> Option<ResponseType> {
        let value = self.node.config.get("responseType")?;
        match value.as_str() {
            Some("json") => Some(ResponseType::Json),
            Some("text") => Some(ResponseType::Text),
            _ => {
                self.flaw("responseType", "must be json or text");
                None
            }
        }
    }
}

fn is_header_text(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}
