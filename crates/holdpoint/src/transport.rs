//! Accepts connections and serves HTTP/1.1 on them. Limits and timeouts prevent slow clients from using up all
//! connections.

mod activity;
mod registry;
mod stream;
mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower_service::Service as _;

pub(crate) use activity::ConnectionTimeouts;
pub(crate) use registry::ConnectionLimits;
pub(crate) use tls::{ReloadableTls, TlsFiles};

use crate::links::Peer;
use crate::request_log::RequestLog;
use crate::response_headers::{self, PublicScheme};
use crate::routes::verbs::VerbRouter;
use activity::{Activity, Phase};
use registry::{ConnectionSlot, Registry};
use stream::{ObservedBody, ObservedRequestBody, ObservedStream};

/// Maximum size of a request head. It also bounds the memory of a connection without a complete head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The pause after an error of `accept` that concerns the process, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
const REFUSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 34\r\n\r\nthe server has no connection free\n";

/// A listener and the state that its connections share.
pub(crate) struct Server {
    pub listener: TcpListener,
    pub router: VerbRouter,
    pub limits: ConnectionLimits,
    /// TLS of the connections; None means plain http.
    pub tls: Option<Arc<ReloadableTls>>,
    pub public_scheme: PublicScheme,
    /// The request log; None means that requests are not logged.
    pub log: Option<RequestLog>,
    /// True once the server shuts down.
    pub stopping: watch::Receiver<bool>,
}

impl Server {
    /// Serves until the server shuts down and open requests have responses.
    pub(crate) async fn run(self) {
        let Self { listener, router, limits, tls, public_scheme, log, stopping } = self;
        let registry = Registry::new(limits);
        let shared = Arc::new(ListenerState { router, tls, public_scheme, log, stopping });
        // Every connection has a receiver, so that the sender is notified when the last one has ended.
        let (open, connection) = watch::channel(());
        let mut check = tokio::time::interval(limits.check_interval());
        let mut warnings = ConnectionWarnings::default();
        let mut stop = pin!(stopped(shared.stopping.clone()));
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = check.tick() => registry.close_overdue(),
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => match registry.admit(address.ip()) {
                        Some(slot) => {
                            let (shared, connection) = (shared.clone(), connection.clone());
                            let id = slot.id();
                            let task = tokio::spawn(async move {
                                shared.serve_connection(stream, address, slot).await;
                                drop(connection);
                            });
                            registry.started(id, task.abort_handle());
                        }
                        None => {
                            warnings.warn(&"all connections are busy; new connections are rejected");
                            if shared.tls.is_none() {
                                // Fails if the client has already disconnected.
                                let _ = stream.try_write(REFUSED);
                            }
                        }
                    },
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        warnings.warn(&error);
                        registry.make_room();
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop((listener, connection));
        loop {
            tokio::select! {
                () = open.closed() => break,
                _ = check.tick() => registry.close_overdue(),
            }
        }
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender was dropped, which also means a shutdown.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Returns true if an error of `accept` concerns one connection only.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Logs warnings about connections that are not accepted, at most one in ten seconds.
#[derive(Default)]
struct ConnectionWarnings(Option<Instant>);

impl ConnectionWarnings {
    fn warn(&mut self, why: &dyn std::fmt::Display) {
        if self.0.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL) {
            self.0 = Some(Instant::now());
            tracing::warn!(%why, "a connection was not accepted; see --connections-max and the limit of open files");
        }
    }
}

/// State shared by the connections of a listener.
struct ListenerState {
    router: VerbRouter,
    tls: Option<Arc<ReloadableTls>>,
    public_scheme: PublicScheme,
    log: Option<RequestLog>,
    stopping: watch::Receiver<bool>,
}

impl ListenerState {
    async fn serve_connection(self: Arc<Self>, stream: TcpStream, address: SocketAddr, slot: ConnectionSlot) {
        // Small responses are sent without delay.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "responses on this connection may be delayed");
        }
        match &self.tls {
            None => self.serve_http(stream, Peer(address), slot).await,
            Some(tls) => match tls.acceptor().accept(stream).await {
                Ok(stream) => self.serve_http(stream, Peer(address), slot).await,
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            },
        }
    }

    async fn serve_http<S>(self: Arc<Self>, stream: S, peer: Peer, slot: ConnectionSlot)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let activity = slot.activity.clone();
        let stream = TokioIo::new(ObservedStream { inner: stream, activity: activity.clone() });
        let mut stop = pin!(stopped(self.stopping.clone()));
        let service = service_fn(move |request| {
            let in_flight = activity.begin_request(phase(&request));
            let responding = self.clone().respond(request, peer, &activity);
            async move {
                let Some(in_flight) = in_flight else { return Err(ConnectionClosed) };
                let response = responding.await;
                Ok(response.map(|inner| ObservedBody { inner, _in_flight: in_flight }))
            }
        });
        let mut serving =
            pin!(http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).serve_connection(stream, service));
        let mut is_stopping = false;
        loop {
            tokio::select! {
                ended = serving.as_mut() => {
                    if let Err(error) = ended {
                        tracing::trace!(%error, "a connection ended");
                    }
                    break;
                }
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
        drop(slot);
    }

    fn respond(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: Peer,
        activity: &Arc<Activity>,
    ) -> impl Future<Output = Response<Body>> + use<> {
        let record = self.log.as_ref().map(|log| log.begin(&mut request));
        let public_scheme = self.public_scheme.of_request(request.headers());
        request.extensions_mut().insert(ConnectInfo(peer));
        let request = request.map(|body| ObservedRequestBody::wrap(body, activity));
        // The router is always ready.
        let responding = self.router.clone().call(request);
        async move {
            let result: Result<Response<Body>, Infallible> = responding.await;
            let Ok(mut response) = result;
            response_headers::complete(response.headers_mut(), public_scheme);
            if let Some(record) = record {
                record.finish(&mut response);
            }
            response
        }
    }
}

fn phase(request: &Request<Incoming>) -> Phase {
    if request.body().is_end_stream() { Phase::Busy } else { Phase::Body }
}

/// The error of a request that arrives after the registry has chosen its connection for closing.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed to make room for others")]
struct ConnectionClosed;
