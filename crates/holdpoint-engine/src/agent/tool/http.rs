//! Tools that are one HTTP request. What is sent was checked against the tool's own schema first.

mod template;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use holdpoint_core::TenantId;
use serde_json::{Map, Value, json};
use url::Url;

use super::cut::{TAKEN_BYTES_MAX, cut, excerpt};
use super::definition::{BadTools, Members};
use super::secret::Secret;
use super::{Call, Calling, Check, Listing, Returned, ToolError, ToolSpec, Toolbox, never_sent, unsent};
use crate::outgoing::{self, Method, Outgoing, Request, Response, may_be_set};
use template::{Template, scalar};

const TIMEOUT_MS: u64 = 60_000;

pub(super) struct HttpTool {
    spec: Arc<ToolSpec>,
    method: Method,
    template: Template,
    headers: Vec<(String, Secret)>,
    timeout_ms: u64,
    check: Check,
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
        members: &Members<'_>,
        name: &str,
        base: Option<&Path>,
        outgoing: &Outgoing,
    ) -> Result<Self, BadTools> {
        members.only(&KNOWN)?;
        let parameters = members.schema("parameters")?;
        let check = holdpoint_core::checker(&parameters).map_err(|why| members.bad("parameters", why))?;
        let template = Template::parse(members.needed_text("url")?).map_err(|why| members.bad("url", why))?;
        outgoing.check_url(&template.sample()).map_err(|refused| members.bad("url", refused.to_string()))?;
        let required = parameters["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(place) = template.places().into_iter().find(|place| !required.contains(&json!(place))) {
            return Err(
                members.bad("url", format!("has the place {{{place}}}, which parameters must require"))
            );
        }
        let headers = members.secrets("headers", base)?;
        if let Some((name, _)) = headers.iter().find(|(name, _)| !is_free(name)) {
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

    fn request(&self, call: &Call) -> Result<Request, String> {
        (self.check)(&call.arguments).map_err(|why| format!("the arguments are wrong: {why}"))?;
        let Some(arguments) = call.arguments.as_object() else {
            return Err("the arguments are wrong: they must be an object".to_owned());
        };
        let url = self.template.fill(arguments)?;
        let places = self.template.places();
        let rest = arguments.iter().filter(|(name, _)| !places.contains(name.as_str()));
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
        Ok(Request { method: self.method, url, headers, body, timeout_ms, body_bytes_max: TAKEN_BYTES_MAX })
    }

    /// The template cannot lead elsewhere; should it ever, nothing is sent.
    fn check_origin(&self, url: &str) -> Result<(), String> {
        let origin = |text: &str| Url::parse(text).map(|url| url.origin());
        match (origin(url), origin(&self.template.sample())) {
            (Ok(now), Ok(defined)) if now == defined => Ok(()),
            _ => Err("the arguments make a URL that leads elsewhere".to_owned()),
        }
    }

    async fn carry_out(&self, call: &Call) -> Result<Returned, ToolError> {
        let request = self.request(call).map_err(ToolError::NotCalled)?;
        match self.outgoing.send(request).await {
            Ok(response) => Ok(returned(&response)),
            Err(error) => failed(&error),
        }
    }
}

impl Toolbox for HttpTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(self.carry_out(call))
    }
}

/// What a call that brought no answer comes to.
pub(super) fn failed(error: &outgoing::Error) -> Result<Returned, ToolError> {
    if never_sent(error) {
        return Err(unsent(error, error.to_string()));
    }
    match error {
        // It was made and answered; only what was said is lost, and saying it again would not make it smaller.
        outgoing::Error::BodyTooLarge { .. } => Ok(Returned::Failed(
            json!({"error": format!("the call was made, but {error}, which is not taken")}),
        )),
        other => Err(ToolError::Unknown(other.to_string())),
    }
}

fn returned(response: &Response) -> Returned {
    let body = cut(body(response));
    match response.status {
        200..300 => Returned::Result(body),
        status => Returned::Failed(json!({"status": status, "body": body})),
    }
}

fn body(response: &Response) -> Value {
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
    let mut url =
        Url::parse(url).map_err(|_| format!("the URL {} cannot be understood", excerpt(url, 200)))?;
    let text = |value: &Value| scalar(value).unwrap_or_else(|| value.to_string());
    url.query_pairs_mut().extend_pairs(pairs.into_iter().map(|(name, value)| (name, text(value))));
    Ok(url.into())
}

fn method(members: &Members<'_>) -> Result<Method, BadTools> {
    match Method::parse(members.text("method")?.unwrap_or("POST")) {
        None | Some(Method::Head) => Err(members.bad("method", "must be GET, POST, PUT, PATCH or DELETE")),
        Some(method) => Ok(method),
    }
}

/// What identifies a call is ours, and so is what frames it.
fn is_free(name: &str) -> bool {
    may_be_set(name) && !name.eq_ignore_ascii_case("idempotency-key")
}
