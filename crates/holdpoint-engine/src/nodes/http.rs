//! `core.http`: one HTTP request, whose response is recorded before the run continues. The outgoing policy decides
//! which addresses it may call.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{NodeId, RunError, RunId, TenantId};
use serde_json::{Map, Value, json};

use super::{Node, Outputs};
use crate::approval_check::{self, APPROVED_BY};
use crate::context::{EffectContext, Stop};
use crate::outgoing::{Error, Outgoing, OutgoingPolicy, OutgoingRequest, OutgoingResponse, activity_key};

mod settings;

use settings::{HttpSettings, ResponseType};

/// The provider name in the idempotency key.
const PROVIDER: &str = "core.http";

/// The response headers that are recorded. Cookies and challenges are not, because readers of the run can see the
/// record.
const KEPT_HEADERS: [&str; 9] = [
    "content-language",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
];

#[derive(Debug)]
pub(crate) struct HttpNode(Outgoing);

impl HttpNode {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self(outgoing)
    }
}

impl Default for HttpNode {
    fn default() -> Self {
        Self(Outgoing::new(OutgoingPolicy::default()))
    }
}

impl Node for HttpNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = HttpSettings::of(node).err().unwrap_or_default();
        let url = node.config.get("url").and_then(Value::as_str);
        if let Some(refused) = url.and_then(|url| self.0.check_url(url).err()) {
            flaws.push(DefinitionFlaw::of_node(&node.id, "config.url", refused.to_string()));
        }
        flaws
    }

    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        node.config.get(APPROVED_BY).and_then(Value::as_str)
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let (call, outgoing) = (HttpCall::of(context)?, self.0.clone());
        if let Some(gate) = &call.settings.approved_by {
            context.check_approved(gate, call.inputs.get("body"))?;
        }
        approval_check::check_shown(context.run(), &context.node().id, call.inputs.get("body"))?;
        let recorded = context.step("request", || async move { call.send(&outgoing).await }).await?;
        match recorded {
            Value::Object(outputs) => Ok(outputs),
            other => {
                Err(Stop::failed("http_failed", format!("the recorded answer is {other}, not an object")))
            }
        }
    }
}

/// The settings and the data of the run for one request.
struct HttpCall {
    settings: HttpSettings,
    inputs: Map<String, Value>,
    tenant: TenantId,
    run: RunId,
    node: NodeId,
    /// The visit of the node, which makes the idempotency key of the request unique.
    visit: u32,
    trace: Vec<(String, String)>,
}

impl HttpCall {
    fn of(context: &EffectContext) -> Result<Self, Stop> {
        let first = |flaws: Vec<DefinitionFlaw>| flaws.first().map(ToString::to_string).unwrap_or_default();
        let settings = HttpSettings::of(context.node()).map_err(|flaws| invalid(first(flaws)))?;
        let started = context.started().ok_or_else(|| invalid("the run was never started"))?;
        Ok(Self {
            settings,
            inputs: context.inputs.clone(),
            tenant: started.owner.tenant.clone(),
            run: context.run_id().clone(),
            node: context.node().id.clone(),
            visit: context.visit(),
            trace: context.trace_headers(),
        })
    }

    async fn send(self, outgoing: &Outgoing) -> Result<Value, Stop> {
        let request = self.request(outgoing)?;
        let method = request.method.as_str();
        let origin = outgoing.check_url(&request.url).map_err(call_refused)?.origin().ascii_serialization();
        let response = outgoing.send(request).await.map_err(call_failed)?;
        if !self.settings.expects(response.status) {
            let message = format!("{origin} answered {method} with the status {}", response.status);
            return Err(Stop::Failed(RunError {
                retryable: matches!(response.status, 408 | 429 | 500..=599),
                ..RunError::new("http_status", message)
            }));
        }
        let body = self.body_of(&response).map_err(|why| permanent_failure(format!("{origin} {why}")))?;
        Ok(json!({"status": response.status, "headers": kept_headers(&response), "body": body}))
    }

    fn request(&self, outgoing: &Outgoing) -> Result<OutgoingRequest, Stop> {
        let text = match self.inputs.get("url") {
            Some(url) => url.as_str().ok_or_else(|| invalid("the input url must be a string"))?,
            None => {
                self.settings.url.as_deref().ok_or_else(|| invalid("neither url nor config.url is set"))?
            }
        };
        let mut url = outgoing.check_url(text).map_err(call_refused)?;
        if let Some(query) = self.inputs.get("query") {
            for (name, value) in pairs("query", query)? {
                url.query_pairs_mut().append_pair(&name, &value);
            }
        }
        let mut headers = self.headers()?;
        let body = self.body(&mut headers)?;
        let key = activity_key(&self.tenant, &self.run, &self.node, self.visit, PROVIDER);
        headers.push(("idempotency-key".to_owned(), key));
        headers.extend(self.trace.iter().cloned());
        Ok(OutgoingRequest {
            method: self.settings.method,
            url: url.into(),
            headers,
            body,
            timeout_ms: self.settings.timeout_ms,
            body_bytes_max: self.settings.response_bytes_max,
        })
    }

    /// Returns the headers of the config, overridden by those of the input.
    fn headers(&self) -> Result<Vec<(String, String)>, Stop> {
        let mut headers = self.settings.headers.clone();
        let Some(given) = self.inputs.get("headers") else { return Ok(headers) };
        let given = pairs("headers", given)?;
        if let Some((name, _)) = given.iter().find(|(name, _)| !settings::may_set_header(name)) {
            return Err(invalid(format!("the input headers must not set {name:?}")));
        }
        headers.retain(|(name, _)| !given.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        headers.extend(given);
        Ok(headers)
    }

    /// Returns the body as JSON. With another content type the input must be a string, which is sent unchanged.
    fn body(&self, headers: &mut Vec<(String, String)>) -> Result<Vec<u8>, Stop> {
        let Some(body) = self.inputs.get("body") else { return Ok(Vec::new()) };
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        match (named.map(|(_, value)| is_json(value)), body) {
            (Some(false), Value::String(text)) => Ok(text.clone().into_bytes()),
            (Some(false), _) => Err(invalid("a body that is not JSON must be a string")),
            (named, body) => {
                if named.is_none() {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                Ok(body.to_string().into_bytes())
            }
        }
    }

    fn body_of(&self, response: &OutgoingResponse) -> Result<Value, String> {
        let declared = response.headers.iter().find(|(name, _)| name == "content-type");
        let json = match self.settings.response_type {
            Some(ResponseType::Json) => true,
            Some(ResponseType::Text) => false,
            None => declared.is_some_and(|(_, value)| is_json(value)),
        };
        if response.body.is_empty() {
            return Ok(if json { Value::Null } else { Value::String(String::new()) });
        }
        if json {
            return serde_json::from_slice(&response.body)
                .map_err(|error| format!("answered with JSON that cannot be read: {error}"));
        }
        match std::str::from_utf8(&response.body) {
            Ok(text) => Ok(Value::String(text.to_owned())),
            Err(_) => Err("answered with bytes that are not UTF-8 text".to_owned()),
        }
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

fn kept_headers(response: &OutgoingResponse) -> Map<String, Value> {
    let kept = response.headers.iter().filter(|(name, _)| KEPT_HEADERS.contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect()
}

/// Returns the names and values of an input. A list repeats its name; null is omitted.
fn pairs(input: &str, value: &Value) -> Result<Vec<(String, String)>, Stop> {
    let wrong = || invalid(format!("the input {input} must be an object of strings, numbers and booleans"));
    let mut pairs = Vec::new();
    for (name, value) in value.as_object().ok_or_else(wrong)? {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            match value {
                Value::Null => {}
                Value::String(text) => pairs.push((name.clone(), text.clone())),
                Value::Number(_) | Value::Bool(_) => pairs.push((name.clone(), value.to_string())),
                Value::Array(_) | Value::Object(_) => return Err(wrong()),
            }
        }
    }
    Ok(pairs)
}

fn invalid(message: impl Into<String>) -> Stop {
    Stop::failed("invalid_input", message)
}

/// Returns the failure of a node whose call the outgoing policy refused.
pub fn call_refused(refused: crate::outgoing::OutgoingRefusal) -> Stop {
    Stop::failed("http_refused", refused.to_string())
}

fn permanent_failure(message: String) -> Stop {
    Stop::failed("http_failed", message)
}

/// Returns the failure of a node whose call failed. Errors of the connection are retryable.
pub fn call_failed(error: Error) -> Stop {
    let message = error.to_string();
    match error {
        Error::Refused(reason) => call_refused(reason),
        Error::BodyTooLarge { .. } => permanent_failure(message),
        Error::Unresolvable { .. }
        | Error::ConnectFailed { .. }
        | Error::TimedOut { .. }
        | Error::Tls { .. }
        | Error::Broken { .. } => {
            Stop::Failed(RunError { retryable: true, ..RunError::new("http_failed", message) })
        }
    }
}
