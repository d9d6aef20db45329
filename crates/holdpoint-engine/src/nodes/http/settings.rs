//! Parses the config of `core.http` and collects all flaws.

use holdpoint_core::limits;
use holdpoint_core::workflow::{self, DefinitionFlaw};
use serde_json::Value;

use crate::approval_check::APPROVED_BY;
use crate::nodes::unknown_config;
use crate::outgoing::{Method, is_settable_header};

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
/// The response is recorded as a step, whose size is limited.
const RESPONSE_BYTES_MAX: u64 = limits::STEP_RESULT_BYTES_MAX as u64;

pub(super) struct HttpSettings {
    pub(super) method: Method,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout_ms: u64,
    /// The expected statuses. Empty for every 2xx.
    expected: Vec<u16>,
    /// None to use the content type of the response.
    pub(super) response_type: Option<ResponseType>,
    pub(super) response_bytes_max: usize,
    /// The gate that must have approved the body.
    pub(super) approved_by: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum ResponseType {
    Json,
    Text,
}

impl HttpSettings {
    pub(super) fn of(node: &workflow::Node) -> Result<Self, Vec<DefinitionFlaw>> {
        let mut reader = SettingsReader { node, flaws: unknown_config(node, &KNOWN) };
        let settings = Self {
            method: reader.method(),
            url: reader.url(),
            headers: reader.headers(),
            timeout_ms: reader.number("timeoutMs", TIMEOUT_MS, TIMEOUT_MS_MAX),
            expected: reader.expected(),
            response_type: reader.response_type(),
            response_bytes_max: usize::try_from(reader.number(
                "maxResponseBytes",
                RESPONSE_BYTES_MAX / 2,
                RESPONSE_BYTES_MAX,
            ))
            .unwrap_or(usize::MAX),
            approved_by: reader.approved_by(),
        };
        if reader.flaws.is_empty() { Ok(settings) } else { Err(reader.flaws) }
    }

    pub(super) fn expects(&self, status: u16) -> bool {
        if self.expected.is_empty() { (200..300).contains(&status) } else { self.expected.contains(&status) }
    }
}

/// Returns true if a definition may set this header. Idempotency, tracing and framing headers are reserved.
pub(super) fn may_set_header(name: &str) -> bool {
    let is_reserved =
        ["idempotency-key", "traceparent", "tracestate"].iter().any(|one| name.eq_ignore_ascii_case(one));
    !is_reserved && is_settable_header(name)
}

struct SettingsReader<'a> {
    node: &'a workflow::Node,
    flaws: Vec<DefinitionFlaw>,
}

impl SettingsReader<'_> {
    fn flaw(&mut self, field: &str, message: impl Into<String>) {
        self.flaws.push(DefinitionFlaw::of_node(&self.node.id, format!("config.{field}"), message));
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
                Some(value) if may_set_header(name) && is_header_text(value) => {
                    found.push((name.clone(), value.to_owned()));
                }
                // The message does not contain the value, which may be a credential.
                Some(_) if may_set_header(name) => {
                    self.flaw(&format!("headers.{name}"), "must be printable ASCII on one line");
                }
                Some(_) => self.flaw(&format!("headers.{name}"), "is a header that cannot be set here"),
                None => self.flaw(&format!("headers.{name}"), "must be a string"),
            }
        }
        found
    }

    fn number(&mut self, field: &str, default: u64, max: u64) -> u64 {
        let Some(value) = self.node.config.get(field) else { return default };
        value.as_u64().filter(|number| (1..=max).contains(number)).unwrap_or_else(|| {
            self.flaw(field, format!("must be a whole number from 1 to {max}"));
            default
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

    /// Reads the id of the gate. Approvers see only the body, so the URL, the query and the headers must not come from
    /// inputs.
    fn approved_by(&mut self) -> Option<String> {
        let value = self.node.config.get(APPROVED_BY)?;
        for port in ["url", "query", "headers"] {
            if self.node.inputs.contains_key(port) {
                let message = format!("cannot be combined with the input {port}, which approvers do not see");
                self.flaw(APPROVED_BY, message);
            }
        }
        if !self.node.inputs.contains_key("body") {
            self.flaw(APPROVED_BY, "requires the input body, which is what approvers see");
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
