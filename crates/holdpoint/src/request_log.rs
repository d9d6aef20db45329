//! The request log: one line for each request, and one for each sign-in, refusal and administrative change. The engine
//! logs decisions. No line contains a path, a query, a header or a body: these may contain secrets.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use holdpoint_api::ErrorCode;
use holdpoint_core::{TenantId, hex};

use crate::auth::Access;
use crate::routes::{Operation, verbs};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 64;
const SUBJECT_CHARS_MAX: usize = 200;
/// An operation that changes state and requires one of these scopes is administrative.
const ADMINISTRATIVE: [&str; 5] =
    ["manifest:write", "webhooks:manage", "triggers:manage", "keys:manage", "tenants:manage"];

/// The kind of line that is written about an operation in addition to the line for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuditClass {
    SignIn,
    SignOut,
    Administration,
    Other,
}

/// Operations by method and pattern, to name them in the log.
#[derive(Clone, Debug)]
pub(crate) struct RequestLog(Arc<HashMap<(Method, String), LoggedOperation>>);

/// The name and the class of an operation in the log.
#[derive(Clone, Copy, Debug)]
struct LoggedOperation {
    class: AuditClass,
    operation: &'static str,
}

/// The log record of a request, stored as an extension of the request.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    log: RequestLog,
    id: String,
    method: Method,
    began: Instant,
    route: OnceLock<MatchedRoute>,
    caller: OnceLock<(String, TenantId)>,
}

#[derive(Debug)]
struct MatchedRoute {
    pattern: String,
    class: AuditClass,
    operation: &'static str,
    /// The path parameters of an administrative operation: ids of keys, workflows, agents and webhooks.
    subject: Option<String>,
}

impl RequestLog {
    /// Returns None if the log level excludes all its lines.
    pub(crate) fn new<'o>(operations: impl Iterator<Item = &'o Operation>) -> Option<Self> {
        let requests = tracing::enabled!(target: "holdpoint::request", tracing::Level::INFO);
        let acts = tracing::enabled!(target: "holdpoint::audit", tracing::Level::INFO);
        (requests || acts).then(|| Self::of(operations))
    }

    fn of<'o>(operations: impl Iterator<Item = &'o Operation>) -> Self {
        let entries = operations.filter_map(|operation| {
            let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).ok()?;
            let pattern = verbs::pattern(operation.path);
            let named = LoggedOperation { class: classify(operation), operation: operation.id };
            Some(((method, pattern), named))
        });
        Self(Arc::new(entries.collect()))
    }

    /// Begins the record of a request.
    pub(crate) fn begin<B>(&self, request: &mut axum::http::Request<B>) -> Arc<RequestRecord> {
        let record = Arc::new(RequestRecord {
            log: self.clone(),
            id: request_id(request.headers()),
            method: request.method().clone(),
            began: Instant::now(),
            route: OnceLock::new(),
            caller: OnceLock::new(),
        });
        request.extensions_mut().insert(record.clone());
        record
    }
}

/// Records the route of a request. Runs inside the router, which has chosen it.
pub(crate) async fn record_route(request: Request) -> Request {
    let extensions = request.extensions();
    if let (Some(record), Some(matched)) =
        (extensions.get::<Arc<RequestRecord>>(), extensions.get::<MatchedPath>())
    {
        let pattern = matched.as_str();
        let known = record.log.0.get(&(record.method.clone(), pattern.to_owned())).copied();
        let LoggedOperation { class, operation } =
            known.unwrap_or(LoggedOperation { class: AuditClass::Other, operation: "" });
        let is_administrative = class == AuditClass::Administration;
        let subject = is_administrative.then(|| subject(pattern, request.uri().path()));
        let route = MatchedRoute { pattern: verbs::public_path(pattern), class, operation, subject };
        // Cannot fail: a request is routed once.
        let _ = record.route.set(route);
    }
    request
}

/// Records the principal of a request.
pub(crate) fn record_caller(parts: &Parts, principal: &str, tenant: &TenantId) {
    if let Some(record) = parts.extensions.get::<Arc<RequestRecord>>() {
        record.set_caller(principal, tenant);
    }
}

impl RequestRecord {
    pub(crate) fn set_caller(&self, principal: &str, tenant: &TenantId) {
        // Fails if a caller is recorded already: only the first credential of a request is recorded.
        let _ = self.caller.set((principal.to_owned(), tenant.clone()));
    }

    /// Writes the lines of a request when its response begins, and adds its id to the response.
    pub(crate) fn finish(&self, response: &mut Response) {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        let (request_id, status) = (self.id.as_str(), response.status().as_u16());
        let method = method_name(&self.method);
        let route = self.route.get().map_or("unmatched", |route| route.pattern.as_str());
        let principal = self.caller.get().map(|(principal, _)| principal.as_str());
        let tenant = self.caller.get().map(|(_, tenant)| tenant.as_str());
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "holdpoint::request", method, route, status, ms, principal, tenant, request_id, "request"
        );
        let Some(event) = self.event(response.status()) else { return };
        let code = response.extensions().get::<ErrorCode>().map(|code| code.as_str());
        let found = self.route.get().filter(|route| !route.operation.is_empty());
        let operation = found.map(|route| route.operation);
        let subject = found.and_then(|route| route.subject.as_deref()).filter(|_| event == "administration");
        tracing::info!(
            target: "holdpoint::audit", event, operation, subject, status, code, principal, tenant, request_id,
            "audit"
        );
    }

    /// Returns the name of the audit line, if there is one.
    fn event(&self, status: StatusCode) -> Option<&'static str> {
        let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
        if refused.contains(&status) {
            return Some("refused");
        }
        match self.route.get().filter(|_| status.is_success())?.class {
            AuditClass::SignIn => Some("sign-in"),
            AuditClass::SignOut => Some("sign-out"),
            AuditClass::Administration => Some("administration"),
            AuditClass::Other => None,
        }
    }
}

fn classify(operation: &Operation) -> AuditClass {
    let scopes = match operation.access {
        Access::Public => &[],
        Access::Any(scopes) | Access::All(scopes) => scopes,
    };
    match operation.id {
        "createSession" => AuditClass::SignIn,
        "endSession" | "revokeSession" => AuditClass::SignOut,
        "createSessionLink" => AuditClass::Administration,
        _ if operation.method != "get" && scopes.iter().any(|scope| ADMINISTRATIVE.contains(scope)) => {
            AuditClass::Administration
        }
        _ => AuditClass::Other,
    }
}

/// Returns the values of the path parameters.
fn subject(pattern: &str, path: &str) -> String {
    let pairs = pattern.split('/').zip(path.split('/'));
    let given: Vec<&str> = pairs.filter(|(name, _)| name.starts_with('{')).map(|(_, value)| value).collect();
    given.join("/").chars().take(SUBJECT_CHARS_MAX).collect()
}

/// Returns the id that the client or a proxy has sent, if it is short and plain, or a new id.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_plain = |text: &&str| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    given.filter(is_plain).map_or_else(fresh_id, str::to_owned)
}

fn fresh_id() -> String {
    let mut bytes = [0; 12];
    // The id is only a label for log lines. Without random bytes it is not unique, but still valid.
    let _ = getrandom::fill(&mut bytes);
    hex(&bytes)
}

/// Returns the name of a known method, or `other`: clients can send any word as a method.
fn method_name(method: &Method) -> &str {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::CONNECT,
        Method::TRACE,
    ];
    if known.contains(method) { method.as_str() } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_kept_if_it_is_short_and_plain() {
        let id = |given: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_static(given));
            request_id(&headers)
        };
        assert_eq!(id("abc-DEF_1.2"), "abc-DEF_1.2");
        let long = "x".repeat(REQUEST_ID_CHARS_MAX + 1);
        for given in ["", "a b", "a\"b", "a/b", "a%0ab", String::leak(long)] {
            let made = id(given);
            assert_eq!(
                (made.len(), made.bytes().all(|byte| byte.is_ascii_hexdigit())),
                (24, true),
                "{given}"
            );
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }

    #[test]
    fn only_known_methods_are_logged_by_name() {
        assert_eq!(method_name(&Method::DELETE), "DELETE");
        assert_eq!(method_name(&Method::from_bytes(b"PASSWORD").unwrap()), "other");
    }

    #[test]
    fn operations_are_classified_by_their_scopes() {
        let routes = crate::app::routes();
        let of = |id: &str| {
            let route =
                routes.iter().find(|route| route.operation.id == id).unwrap_or_else(|| panic!("{id}"));
            classify(&route.operation)
        };
        for id in ["createKey", "revokeKey", "rotateSecrets", "putWorkflow", "putAgent", "createWebhook"] {
            assert_eq!(of(id), AuditClass::Administration, "{id}");
        }
        for id in ["listKeys", "createRun", "resolveInterrupt", "resolveByToken", "metrics"] {
            assert_eq!(of(id), AuditClass::Other, "{id}");
        }
        assert_eq!((of("createSession"), of("endSession")), (AuditClass::SignIn, AuditClass::SignOut));
    }

    #[test]
    fn the_subject_is_the_values_of_the_path_parameters() {
        assert_eq!(subject("/v1/keys/{keyId}", "/v1/keys/key_1"), "key_1");
        assert_eq!(
            subject("/!/v1/webhooks/{id}/deliveries/{d}/replay", "/!/v1/webhooks/a/deliveries/b/replay"),
            "a/b"
        );
        assert_eq!(subject("/v1/keys", "/v1/keys"), "");
    }
}
