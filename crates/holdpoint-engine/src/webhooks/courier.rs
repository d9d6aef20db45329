//! The interface to the courier: the function that makes and sends the request of one attempt. The server has it, beside
//! the code that renders the bodies, because bodies, headers and signatures are part of its protocol.

use std::fmt;
use std::time::Instant;

use futures_util::future::BoxFuture;
use holdpoint_core::webhook::{AttemptOutcome, DeliveryResponse, Mode};
use holdpoint_core::{RunRef, Timestamp};

use super::settings::millis;
use crate::engine::{Engine, SigningSecrets};
use crate::outgoing::{Method, OutgoingRequest};
use crate::store::Statement;
use crate::store::deliveries::attempts::{self, NewAttempt};
use crate::store::deliveries::{Delivery, DeliveryKind};

/// The maximum size of a response. Its content is not used; a larger response is a failure.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Makes and sends the request of one attempt. Returns None if the event no longer exists.
pub(super) type Courier =
    dyn Fn(DeliveryJob, AttemptClient) -> BoxFuture<'static, Option<AttemptResult>> + Send + Sync;

/// One attempt of a delivery. The body of an event is the same at every attempt; a callback may have a new link at each
/// attempt.
#[derive(Clone, Debug)]
pub struct DeliveryJob {
    /// The run of the event.
    pub of: RunRef,
    /// The sequence number of the event in the log of its run.
    pub seq: u64,
    /// The kind of the delivery.
    pub kind: DeliveryKind,
    /// The subscription. None for a callback of a run.
    pub webhook: Option<String>,
    /// The secrets that sign the body. None for callbacks of runs that earlier versions started.
    pub secrets: Option<SigningSecrets>,
    /// The id of the delivery.
    pub id: String,
    /// The key by which the receiver recognizes a repeated delivery. None for a best-effort delivery, whose id is not
    /// sent either.
    pub dedup_key: Option<String>,
    /// The time of the attempt.
    pub at: Timestamp,
}

/// The client of one attempt. It sends one request to the address of the delivery, with the outgoing policy and the
/// limits of webhooks. Only this client creates an [`AttemptResult`].
pub struct AttemptClient {
    pub(super) engine: Engine,
    pub(super) url: String,
    /// The id of the delivery.
    pub(super) delivery: String,
    pub(super) mode: Mode,
    pub(super) at: Timestamp,
    pub(super) started: Instant,
}

/// The result of one attempt.
#[derive(Debug)]
pub struct AttemptResult {
    at: Timestamp,
    latency_ms: u64,
    status: Option<u16>,
    error: Option<String>,
    pub(super) response: DeliveryResponse,
    /// True if the request was sent. Only then does the result count for the circuit breaker.
    pub(super) request_sent: bool,
}

impl fmt::Debug for AttemptClient {
    // The URL can contain credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptClient").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl AttemptClient {
    /// Sends the request and returns its result.
    pub async fn post(self, headers: Vec<(String, String)>, body: Vec<u8>) -> AttemptResult {
        let hooks = self.engine.hooks();
        let request = OutgoingRequest {
            method: Method::Post,
            url: self.url.clone(),
            headers,
            body,
            timeout_ms: hooks.settings.attempt_timeout_ms(),
            body_bytes_max: RESPONSE_BYTES_MAX,
        };
        let mut result = AttemptResult { request_sent: true, ..AttemptResult::failed(self.at) };
        let sent = match self.mode {
            // The receiver recognizes a repeated request by its key.
            Mode::Durable => hooks.outgoing.send_reusing(request).await,
            Mode::BestEffort => hooks.outgoing.send(request).await,
        };
        match sent {
            Ok(response) => {
                let header = response.headers.iter().find(|(name, _)| name == "retry-after");
                let after = header.map(|(_, value)| value.as_str());
                result.status = Some(response.status);
                result.response = DeliveryResponse::of_status(response.status, after, self.engine.now());
                let failed = !result.response.succeeded();
                result.error = failed.then(|| format!("answered {}", response.status));
            }
            Err(error) => result.error = Some(error.to_string()),
        }
        result.latency_ms = millis(self.started.elapsed());
        result
    }

    /// Returns the result of an attempt whose body could not be rendered. Logs the reason, which is not part of the
    /// result.
    pub fn fail(self, why: &str) -> AttemptResult {
        tracing::error!(error = why, delivery = self.delivery, "cannot render the body of a delivery");
        let error = Some("the body could not be rendered".to_owned());
        AttemptResult { error, ..AttemptResult::failed(self.at) }
    }
}

impl AttemptResult {
    fn failed(at: Timestamp) -> Self {
        let response = DeliveryResponse::Failed { retry_after_ms: None };
        Self { at, latency_ms: 0, status: None, error: None, response, request_sent: false }
    }

    pub(super) fn row(&self, delivery: &Delivery, outcome: AttemptOutcome) -> Statement {
        let error = self.error.as_deref();
        let attempt =
            NewAttempt { at: self.at, latency_ms: self.latency_ms, status: self.status, error, outcome };
        attempts::insert(delivery, &attempt)
    }
}
