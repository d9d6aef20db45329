//! The headers of a request that starts a run, and the options that only test keys may use.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use holdpoint_api::ErrorCode;
use holdpoint_api::runs::StartRunHeaders;
use holdpoint_engine::{SpanName, read_trace_state};
use serde_json::{Map, Value};

use crate::auth::Caller;
use crate::error::ApiError;

#[derive(Debug)]
pub(crate) struct StartHeaders {
    /// A `traceparent` that cannot be read is left out, together with its `tracestate`.
    pub sent: StartRunHeaders,
    forced_version: bool,
}

impl StartHeaders {
    pub(crate) fn exclusive(&self) -> Result<bool, ApiError> {
        match self.sent.dedup.as_deref() {
            None => Ok(false),
            Some(word) if word.eq_ignore_ascii_case("enforce") => Ok(true),
            Some(_) => Err(ApiError::invalid("X-Dedup", "there is only: enforce")),
        }
    }

    /// Features for tests are for test keys. This one we do not have: one build has one version.
    pub(crate) fn check(&self, caller: &Caller) -> Result<(), ApiError> {
        match (self.forced_version, caller.is_test()) {
            (false, _) => Ok(()),
            (true, true) => {
                Err(ApiError::invalid("X-Force-Engine-Version", "this server has one engine version"))
            }
            (true, false) => Err(for_tests_only("X-Force-Engine-Version")),
        }
    }
}

/// A provider that only says what it is told to must not decide anything real.
pub(crate) fn check_configurable(caller: &Caller, options: &Map<String, Value>) -> Result<(), ApiError> {
    match options.contains_key("mockProvider") && !caller.is_test() {
        true => Err(for_tests_only("configurable.mockProvider")),
        false => Ok(()),
    }
}

/// The refusal of something that live keys must not ask for.
fn for_tests_only(what: &str) -> ApiError {
    let message = format!("{what} is for tests and needs a test key");
    ApiError::new(ErrorCode::Forbidden, message)
}

impl<S: Send + Sync> FromRequestParts<S> for StartHeaders {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let headers = &parts.headers;
        let dedup = text(headers, "x-dedup").map(str::to_owned);
        let traceparent = text(headers, "traceparent").and_then(SpanName::parse).map(|name| name.to_string());
        let states = headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok());
        // Several headers are one list, as HTTP joins them.
        let tracestate =
            traceparent.as_ref().and_then(|_| read_trace_state(&states.collect::<Vec<_>>().join(",")));
        let forced_version = headers.contains_key("x-force-engine-version");
        Ok(Self { sent: StartRunHeaders { dedup, traceparent, tracestate }, forced_version })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}
