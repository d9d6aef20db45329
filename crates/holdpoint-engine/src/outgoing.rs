//! Every call that this program makes to a host somebody else chose: the only room with an HTTP client. Nothing in it
//! leads around the guard.
//!
//! A URL is parsed once and judged by its text; its name is resolved once, every address is judged, and the connection
//! goes to a judged address. No redirect is followed, no proxy setting of the environment is read, and time, bytes and
//! the number of calls have limits. Knows nothing of runs.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
pub use url::Url;

mod activity;
mod allowance;
mod body;
mod connect;
mod dialer;
mod error;
mod exchange;
mod network;
mod policy;
mod progress;
mod ranges;
mod resolver;
mod target;
mod trust;

pub use activity::activity_key;
pub use body::{Answer, Body};
pub use dialer::{Dialer, Switchboard};
pub use error::{Error, Refused};
pub(crate) use exchange::may_be_set;
pub use network::{BadNetwork, Network};
pub use policy::Policy;
pub use progress::Stage;
pub use ranges::Special;
pub use resolver::{Resolver, Script};
pub use trust::{Authorities, BadAuthorities};

use body::Patience;
use connect::Tls;
use progress::Progress;
use target::{Named, Target};

/// Makes outgoing calls under one policy. Cheap to clone; clones share limits and counters.
#[derive(Clone, Debug)]
pub struct Outgoing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    policy: Policy,
    calls: Arc<Semaphore>,
    tls: Tls,
    connects: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const ALL: [Method; 6] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete];

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

    /// In capitals, as on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }
}

#[derive(Clone)]
pub struct Request {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// For the whole call, from waiting for its turn to the last byte of the answer.
    pub timeout_ms: u64,
    /// How many bytes of an answer are taken; more is an error.
    pub body_bytes_max: usize,
}

impl fmt::Debug for Request {
    // URL, headers and body may carry credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

/// What came back, whatever its status; 3xx too.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Names in lower case. Values that are not text are left out.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// Said where definitions choose what is called; what an operator chooses may well be on this machine.
    pub(crate) fn warn_of_loopback(&self) {
        if self.0.policy.allow_loopback {
            tracing::warn!(
                "OUTGOING CALLS MAY REACH THIS MACHINE: loopback addresses and http:// are allowed. This is for \
                 development and tests; whoever can register a workflow can reach what listens here."
            );
        }
    }

    pub fn new(policy: Policy) -> Self {
        let calls = Arc::new(Semaphore::new(policy.calls_max.clamp(1, Semaphore::MAX_PERMITS)));
        let tls = Tls::new(policy.authorities.clone());
        Self(Arc::new(Shared { policy, calls, tls, connects: AtomicU64::new(0) }))
    }

    /// Whether a URL may be called as far as its text tells; asks nobody.
    pub fn check_url(&self, url: &str) -> Result<Url, Refused> {
        Target::parse(url, &self.0.policy).map(|target| target.url)
    }

    /// Whether a URL may be called now, with the addresses its name has now. Connects to none.
    pub async fn check(&self, url: &str) -> Result<Url, Error> {
        let target = Target::parse(url, &self.0.policy)?;
        let within = self.0.policy.connect_timeout;
        let found = tokio::time::timeout(within, self.addresses(&target)).await;
        found.map_err(|_| timed_out(target.origin(), within, Stage::Name))??;
        Ok(target.url)
    }

    /// Makes one call. Nothing is repeated: whether it may be is for the caller to know.
    pub async fn send(&self, request: Request) -> Result<Response, Error> {
        let target = Target::parse(&request.url, &self.0.policy)?;
        let within = Duration::from_millis(request.timeout_ms);
        let progress = Progress::default();
        let call = async {
            let mut answer = self.call(&target, request, &progress).await?;
            let body = answer.body.read().await?;
            Ok(Response { status: answer.status, headers: answer.headers, body })
        };
        let in_time = tokio::time::timeout(within, call).await;
        in_time.map_err(|_| timed_out(target.origin(), within, progress.stage()))?
    }

    /// Makes one call whose answer is read as it comes, under the same guard and limits. `idle` is how long the other
    /// side may be silent once its answer has begun; the whole call has its time as well.
    pub async fn stream(&self, request: Request, idle: Duration) -> Result<Answer, Error> {
        let target = Target::parse(&request.url, &self.0.policy)?;
        let within = Duration::from_millis(request.timeout_ms);
        let until = Instant::now() + within;
        let progress = Progress::default();
        let in_time = tokio::time::timeout_at(until, self.call(&target, request, &progress)).await;
        let mut answer = in_time.map_err(|_| timed_out(target.origin(), within, progress.stage()))??;
        answer.body.patience = Some(Patience { until, within, idle });
        Ok(answer)
    }

    /// How many connections were begun so far.
    pub fn connects(&self) -> u64 {
        self.0.connects.load(Ordering::SeqCst)
    }

    async fn call(&self, target: &Target, request: Request, progress: &Progress) -> Result<Answer, Error> {
        let most = request.body_bytes_max;
        let prepared = exchange::prepare(target, request)?;
        let broken = |why: String| Error::Broken { origin: target.origin(), why };
        let turn = self.0.calls.clone().acquire_owned().await.map_err(|error| broken(error.to_string()))?;
        progress.at(Stage::Name);
        let addresses = self.addresses(target).await?;
        progress.at(Stage::Connection);
        let within = self.0.policy.connect_timeout;
        let by = (&self.0.policy.dialer, &self.0.connects);
        let tcp = connect::tcp(target, &addresses, within, by).await?;
        let mut answer = if target.tls() {
            progress.at(Stage::Handshake);
            let secured = self.0.tls.wrap(target, tcp, within).await?;
            exchange::carry_out(target, secured, prepared, most, progress).await?
        } else {
            exchange::carry_out(target, tcp, prepared, most, progress).await?
        };
        answer.body.turn = Some(turn);
        Ok(answer)
    }

    /// Every address of the target, each of them judged. One that is refused refuses all: a name that leads inside
    /// half of the time is not half as dangerous.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        let found = match &target.host {
            Named::Address(address) => vec![*address],
            Named::Name(name) => {
                let unresolvable = |why: String| Error::Unresolvable { host: name.clone(), why };
                let resolved = self.0.policy.resolver.resolve(name).await;
                let found = resolved.map_err(|error| unresolvable(error.to_string()))?;
                if found.is_empty() {
                    return Err(unresolvable("the answer is empty".to_owned()));
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

fn timed_out(origin: String, within: Duration, during: Stage) -> Error {
    let timeout_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    Error::TimedOut { origin, timeout_ms, during }
}
