//! The headers of a request that starts a run, and the options that only test keys may use.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use holdpoint_api::ErrorCode;
use holdpoint_api::runs::StartRunHeaders;
use holdpoint_engine::{SpanContext, read_trace_state};
use serde_json::{Map, Value};

use crate::auth::Caller;
use crate::error::ApiError;

/// The headers of a request that starts a run.
#[derive(Debug)]
pub(crate) struct StartHeaders {
    /// A `traceparent` that cannot be read is left out, together with its `tracestate`.
    pub sent: StartRunHeaders,
    forced_version: bool,
}

impl StartHeaders {
    /// Returns whether the run must be the only active run of its scope.
    pub(crate) fn is_exclusive(&self) -> Result<bool, ApiError> {
        match self.sent.dedup.as_deref() {
            None => Ok(false),
            Some(word) if word.eq_ignore_ascii_case("enforce") => Ok(true),
            Some(_) => Err(ApiError::invalid("X-Dedup", "must be enforce")),
        }
    }

    /// Rejects `X-Force-Engine-Version`: with a live key because it requires a test key, with a test key because a
    /// build has only one engine version.
    pub(crate) fn check_test_options(&self, caller: &Caller) -> Result<(), ApiError> {
        match (self.forced_version, caller.is_test()) {
            (false, _) => Ok(()),
            (true, true) => Err(ApiError::invalid(
                "X-Force-Engine-Version",
                "is not supported: this server has one engine version",
            )),
            (true, false) => Err(requires_test_key("X-Force-Engine-Version")),
        }
    }
}

/// Rejects a mock provider for live keys: its scripted decisions must not affect real runs.
pub(crate) fn check_configurable(caller: &Caller, options: &Map<String, Value>) -> Result<(), ApiError> {
    match options.contains_key("mockProvider") && !caller.is_test() {
        true => Err(requires_test_key("configurable.mockProvider")),
        false => Ok(()),
    }
}

/// Returns the error for an option that live keys must not use.
fn requires_test_key(what: &str) -> ApiError {
    let message = format!("{what} requires a test key");
    ApiError::new(ErrorCode::Forbidden, message)
}

impl<S: Send + Sync> FromRequestParts<S> for StartHeaders {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let headers = &parts.headers;
        let dedup = text(headers, "x-dedup").map(str::to_owned);
        let traceparent =
            text(headers, "traceparent").and_then(SpanContext::parse).map(|name| name.to_string());
        let states = headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok());
        // Several headers are one list: HTTP joins them with commas.
        let tracestate =
            traceparent.as_ref().and_then(|_| read_trace_state(&states.collect::<Vec<_>>().join(",")));
        let forced_version = headers.contains_key("x-force-engine-version");
        Ok(Self { sent: StartRunHeaders { dedup, traceparent, tracestate }, forced_version })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}
