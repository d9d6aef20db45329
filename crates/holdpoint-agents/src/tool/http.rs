//! Tools that send one HTTP request. The arguments are checked against the schema of the tool first.

mod template;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use holdpoint_core::TenantId;
use holdpoint_engine::extension::{excerpt, truncate};
use holdpoint_engine::outgoing::{
    self, Method, Outgoing, OutgoingRequest, OutgoingResponse, is_settable_header,
};
use serde_json::{Map, Value, json};
use url::Url;

use super::RECEIVED_BYTES_MAX;
use super::definition::{BadTools, ToolMembers};
use super::secret::SecretRef;
use super::{
    ArgumentsCheck, Call, CallFuture, CallOutcome, ListFuture, ToolError, ToolSpec, Toolbox, unsent_error,
    was_never_sent,
};
use template::{UrlTemplate, scalar};

const TIMEOUT_MS: u64 = 60_000;

pub(super) struct HttpTool {
    spec: Arc<ToolSpec>,
    method: Method,
    template: UrlTemplate,
    headers: Vec<(String, SecretRef)>,
    timeout_ms: u64,
    check: ArgumentsCheck,
    outgoing: Outgoing,
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

const KNOWN: [&str; 10] = [
    "type",
    "name",
    "description",
    "method",
    "url",
    "headers",
    "parameters",
    "idempotent",
    "primary",
    "timeoutMs",
];

impl HttpTool {
    pub(super) fn parse(
        members: &ToolMembers<'_>,
        name: &str,
        base: Option<&Path>,
        outgoing: &Outgoing,
    ) -> Result<Self, BadTools> {
        members.reject_unknown(&KNOWN)?;
        let parameters = members.schema("parameters")?;
        let check =
            holdpoint_core::compile_checker(&parameters).map_err(|why| members.bad("parameters", why))?;
        let template =
            UrlTemplate::parse(members.needed_text("url")?).map_err(|why| members.bad("url", why))?;
        outgoing.check_url(&template.sample()).map_err(|refused| members.bad("url", refused.to_string()))?;
        let required = parameters["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(name) = template.placeholders().into_iter().find(|name| !required.contains(&json!(name)))
        {
            return Err(members.bad(
                "url",
                format!("has the placeholder {{{name}}}, which parameters must list as required"),
            ));
        }
        let headers = members.secrets("headers", base)?;
        if let Some((name, _)) = headers.iter().find(|(name, _)| !is_settable(name)) {
            return Err(members.bad(&format!("headers.{name}"), "is a header that cannot be set here"));
        }
        let spec = ToolSpec {
            name: name.to_owned(),
            description: members.text("description")?.unwrap_or_default().to_owned(),
            parameters,
            idempotent: members.flag("idempotent")?,
            primary: members.text("primary")?.map(str::to_owned),
        };
        Ok(Self {
            spec: Arc::new(spec),
            method: method(members)?,
            template,
            headers,
            timeout_ms: members.milliseconds("timeoutMs", TIMEOUT_MS)?,
            check: Box::new(check),
            outgoing: outgoing.clone(),
        })
    }

    fn request(&self, call: &Call) -> Result<OutgoingRequest, String> {
        (self.check)(&call.arguments).map_err(|why| format!("the arguments are wrong: {why}"))?;
        let Some(arguments) = call.arguments.as_object() else {
            return Err("the arguments are wrong: they must be an object".to_owned());
        };
        let url = self.template.fill(arguments)?;
        let placeholders = self.template.placeholders();
        let rest = arguments.iter().filter(|(name, _)| !placeholders.contains(name.as_str()));
        let rest: Map<String, Value> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
        let (url, body) = match self.method {
            Method::Post | Method::Put | Method::Patch => (url, Value::Object(rest).to_string().into_bytes()),
            Method::Get | Method::Head | Method::Delete => (with_query(&url, &rest)?, Vec::new()),
        };
        self.check_origin(&url)?;
        let mut headers = vec![("idempotency-key".to_owned(), call.idempotency_key.clone())];
        for (name, secret) in &self.headers {
            headers.push((name.clone(), secret.read()?));
        }
        let usual = [("accept", "application/json, text/*;q=0.9"), ("content-type", "application/json")];
        for (name, value) in usual.into_iter().filter(|(name, _)| *name != "content-type" || !body.is_empty())
        {
            if !headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name)) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        let timeout_ms = self.timeout_ms;
        Ok(OutgoingRequest {
            method: self.method,
            url,
            headers,
            body,
            timeout_ms,
            body_bytes_max: RECEIVED_BYTES_MAX,
        })
    }

    /// Checks that the URL has the origin of the definition. The template ensures this already; the check is a second
    /// safeguard.
    fn check_origin(&self, url: &str) -> Result<(), String> {
        let origin = |text: &str| Url::parse(text).map(|url| url.origin());
        match (origin(url), origin(&self.template.sample())) {
            (Ok(now), Ok(defined)) if now == defined => Ok(()),
            _ => Err("the arguments change the origin of the URL".to_owned()),
        }
    }

    async fn send_call(&self, call: &Call) -> Result<CallOutcome, ToolError> {
        let request = self.request(call).map_err(ToolError::NotCalled)?;
        match self.outgoing.send(request).await {
            Ok(response) => Ok(outcome(&response)),
            Err(error) => failure_outcome(&error),
        }
    }
}

impl Toolbox for HttpTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(self.send_call(call))
    }
}

/// Returns the outcome of a call without a complete response.
pub(super) fn failure_outcome(error: &outgoing::Error) -> Result<CallOutcome, ToolError> {
    if was_never_sent(error) {
        return Err(unsent_error(error, error.to_string()));
    }
    match error {
        // The call was made; only its response is lost. A retry would get a response of the same size.
        outgoing::Error::BodyTooLarge { .. } => Ok(CallOutcome::Failed(
            json!({"error": format!("the call was made, but its response was discarded: {error}")}),
        )),
        other => Err(ToolError::Unknown(other.to_string())),
    }
}

fn outcome(response: &OutgoingResponse) -> CallOutcome {
    let body = truncate(body(response));
    match response.status {
        200..300 => CallOutcome::Result(body),
        status => CallOutcome::Failed(json!({"status": status, "body": body})),
    }
}

fn body(response: &OutgoingResponse) -> Value {
    if response.body.is_empty() {
        return Value::Null;
    }
    let kind = response.headers.iter().find(|(name, _)| name == "content-type");
    let is_json = kind.is_some_and(|(_, kind)| kind.contains("json"));
    let parsed = if is_json { serde_json::from_slice(&response.body).ok() } else { None };
    parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(&response.body).into_owned()))
}

fn with_query(url: &str, rest: &Map<String, Value>) -> Result<String, String> {
    let mut pairs = Vec::new();
    for (name, value) in rest {
        match value {
            Value::Null => {}
            Value::Array(items) => pairs.extend(items.iter().map(|item| (name, item))),
            other => pairs.push((name, other)),
        }
    }
    if pairs.is_empty() {
        return Ok(url.to_owned());
    }
    let mut url = Url::parse(url).map_err(|_| format!("the URL {} is invalid", excerpt(url, 200)))?;
    let text = |value: &Value| scalar(value).unwrap_or_else(|| value.to_string());
    url.query_pairs_mut().extend_pairs(pairs.into_iter().map(|(name, value)| (name, text(value))));
    Ok(url.into())
}

fn method(members: &ToolMembers<'_>) -> Result<Method, BadTools> {
    match Method::parse(members.text("method")?.unwrap_or("POST")) {
        None | Some(Method::Head) => Err(members.bad("method", "must be GET, POST, PUT, PATCH or DELETE")),
        Some(method) => Ok(method),
    }
}

/// Returns true if a definition may set this header. The idempotency key and the framing headers are reserved.
fn is_settable(name: &str) -> bool {
    is_settable_header(name) && !name.eq_ignore_ascii_case("idempotency-key")
}
