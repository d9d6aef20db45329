//! The HTTP client for calls to hosts that workflows, tools or operators choose. Every call passes the outgoing policy.
//!
//! A URL is parsed once and checked as text. Its host name is resolved once, every address is checked, and the
//! connection goes to a checked address. Redirects are not followed, proxy settings of the environment are ignored, and
//! time, bytes and the number of calls are limited.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
pub use url::Url;

mod activity;
mod body;
mod connect;
mod connection;
mod dialer;
mod error;
mod exchange;
mod limited_stream;
mod network;
mod policy;
mod progress;
mod ranges;
mod resolver;
mod reuse;
mod target;
#[cfg_attr(not(feature = "tls"), path = "outgoing/without_tls.rs")]
mod trust;

pub use activity::activity_key;
pub use body::{ResponseBody, StreamedResponse};
pub use dialer::{Dialer, Switchboard};
pub use error::{Error, OutgoingRefusal};
pub use exchange::is_settable_header;
pub use network::{BadNetwork, Network};
pub use policy::OutgoingPolicy;
pub use progress::CallStage;
pub use ranges::SpecialNetwork;
pub use resolver::{Resolver, ScriptedResolver};
pub use trust::{Authorities, BadAuthorities};

use body::BodyTimeouts;
use connection::{ConnectionKey, HttpConnection, IdleConnections};
use error::excerpt;
use exchange::AfterCall;
use progress::CallProgress;
use target::{OutgoingTarget, TargetHost};
use trust::TlsClient;

/// Makes outgoing calls under one policy. Cheap to clone; clones share limits and counters.
#[derive(Clone, Debug)]
pub struct Outgoing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    policy: OutgoingPolicy,
    calls: Arc<Semaphore>,
    tls: TlsClient,
    connects: AtomicU64,
    /// Connections of [`Outgoing::send_reusing`].
    idle: Arc<IdleConnections>,
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 6] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// Returns the method in capitals, as in a request line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Parses a method in capitals.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }
}

/// A request of an outgoing call.
#[derive(Clone)]
pub struct OutgoingRequest {
    /// The HTTP method.
    pub method: Method,
    /// The URL.
    pub url: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Time limit of the whole call, from the wait for a free slot to the last byte of the response.
    pub timeout_ms: u64,
    /// The maximum size of the response body. A larger body is an error.
    pub body_bytes_max: usize,
}

impl fmt::Debug for OutgoingRequest {
    // URL, headers and body can contain credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The response of a call, with any status, including 3xx.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingResponse {
    /// The HTTP status.
    pub status: u16,
    /// Header names in lower case, with values. Values that are not text are left out.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl fmt::Debug for OutgoingResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// Logs a warning if workflow definitions can call this machine. Not used for addresses that an operator chooses.
    pub(crate) fn warn_if_loopback_allowed(&self) {
        if self.0.policy.allow_loopback {
            tracing::warn!(
                "OUTGOING CALLS MAY REACH THIS MACHINE: loopback addresses and http:// are allowed. This is for \
                 development and tests; every principal that can register a workflow can reach services on this machine."
            );
        }
    }

    /// Returns a client with the given policy.
    pub fn new(policy: OutgoingPolicy) -> Self {
        let calls = Arc::new(Semaphore::new(policy.calls_max.clamp(1, Semaphore::MAX_PERMITS)));
        let tls = TlsClient::new(policy.authorities.clone());
        Self(Arc::new(Shared { policy, calls, tls, connects: AtomicU64::new(0), idle: Arc::default() }))
    }

    /// Checks the text of a URL against the policy. Does not resolve the host name.
    pub fn check_url(&self, url: &str) -> Result<Url, OutgoingRefusal> {
        OutgoingTarget::parse(url, &self.0.policy).map(|target| target.url)
    }

    /// Checks a URL and the current addresses of its host against the policy. Does not connect.
    pub async fn check(&self, url: &str) -> Result<Url, Error> {
        let target = OutgoingTarget::parse(url, &self.0.policy)?;
        let within = self.0.policy.connect_timeout;
        let found = tokio::time::timeout(within, self.addresses(&target)).await;
        found.map_err(|_| timed_out(target.origin(), within, CallStage::Name))??;
        Ok(target.url)
    }

    /// Makes one call, without retries. The caller decides about retries.
    pub async fn send(&self, request: OutgoingRequest) -> Result<OutgoingResponse, Error> {
        let target = OutgoingTarget::parse(&request.url, &self.0.policy)?;
        let within = Duration::from_millis(request.timeout_ms);
        let progress = CallProgress::default();
        let call = async {
            let mut response = self.call(&target, request, &progress).await?;
            let body = response.body.read().await?;
            Ok(OutgoingResponse { status: response.status, headers: response.headers, body })
        };
        let in_time = tokio::time::timeout(within, call).await;
        in_time.map_err(|_| timed_out(target.origin(), within, progress.stage()))?
    }

    /// Makes one call and returns the response before its body is read. `idle` limits the time between two parts of the
    /// body; the time limit of the request applies to the whole call.
    pub async fn stream(&self, request: OutgoingRequest, idle: Duration) -> Result<StreamedResponse, Error> {
        let target = OutgoingTarget::parse(&request.url, &self.0.policy)?;
        let within = Duration::from_millis(request.timeout_ms);
        let until = Instant::now() + within;
        let progress = CallProgress::default();
        let in_time = tokio::time::timeout_at(until, self.call(&target, request, &progress)).await;
        let mut response = in_time.map_err(|_| timed_out(target.origin(), within, progress.stage()))??;
        response.body.timeouts = Some(BodyTimeouts { until, within, idle });
        Ok(response)
    }

    /// Returns the number of connection attempts so far.
    pub fn connects(&self) -> u64 {
        self.0.connects.load(Ordering::SeqCst)
    }

    async fn call(
        &self,
        target: &OutgoingTarget,
        request: OutgoingRequest,
        progress: &CallProgress,
    ) -> Result<StreamedResponse, Error> {
        let most = request.body_bytes_max;
        let prepared = exchange::prepare_request(target, request, AfterCall::Close)?;
        let permit = self.acquire_slot(target).await?;
        progress.enter(CallStage::Name);
        let addresses = self.addresses(target).await?;
        let (_, mut connection) = self.connect(target, &addresses, progress).await?;
        progress.enter(CallStage::Answer);
        let head = connection.send(prepared).await.map_err(|failure| broken(target, &failure.error))?;
        progress.enter(CallStage::Body);
        let mut response = exchange::response(target, head, connection, most);
        response.body.permit = Some(permit);
        Ok(response)
    }

    async fn acquire_slot(&self, target: &OutgoingTarget) -> Result<OwnedSemaphorePermit, Error> {
        self.0.calls.clone().acquire_owned().await.map_err(|error| broken(target, &error))
    }

    /// Opens a connection to the first of the checked addresses that accepts.
    async fn connect(
        &self,
        target: &OutgoingTarget,
        addresses: &[SocketAddr],
        progress: &CallProgress,
    ) -> Result<(ConnectionKey, HttpConnection), Error> {
        progress.enter(CallStage::Connection);
        let within = self.0.policy.connect_timeout;
        let (dialer, connects) = (&self.0.policy.dialer, &self.0.connects);
        let (address, tcp) = connect::connect_tcp(target, addresses, within, dialer, connects).await?;
        let opened = if target.is_tls() {
            progress.enter(CallStage::Handshake);
            let secured = self.0.tls.handshake(target, tcp, within).await?;
            HttpConnection::open(secured).await
        } else {
            HttpConnection::open(tcp).await
        };
        let connection = opened.map_err(|error| broken(target, &error))?;
        Ok((ConnectionKey::new(target, address), connection))
    }

    /// Resolves the host and checks every address. One forbidden address rejects the whole call: a name that resolves
    /// to an internal address is not trusted.
    async fn addresses(&self, target: &OutgoingTarget) -> Result<Vec<SocketAddr>, Error> {
        let found = match &target.host {
            TargetHost::Address(address) => vec![*address],
            TargetHost::Name(name) => {
                let unresolvable = |why: String| Error::Unresolvable { host: name.clone(), why };
                let resolved = self.0.policy.resolver.resolve(name).await;
                let found = resolved.map_err(|error| unresolvable(error.to_string()))?;
                if found.is_empty() {
                    return Err(unresolvable("the name has no addresses".to_owned()));
                }
                found
            }
        };
        for address in &found {
            target.check_address(*address, &self.0.policy)?;
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
    }
}

fn broken(target: &OutgoingTarget, error: &dyn std::error::Error) -> Error {
    Error::Broken { origin: target.origin(), why: excerpt(error) }
}

fn timed_out(origin: String, within: Duration, during: CallStage) -> Error {
    let timeout_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    Error::TimedOut { origin, timeout_ms, during }
}
