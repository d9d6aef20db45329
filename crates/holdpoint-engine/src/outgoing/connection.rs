//! An HTTP/1.1 connection, and the idle connections that are kept for further calls.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::limited_stream::{LimitedStream, ReadLimit};
use super::target::OutgoingTarget;

/// The maximum size of a response head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of bytes before the body: the response head and interim responses.
const BEFORE_BODY_BYTES_MAX: usize = 4 * HEAD_BYTES_MAX;
/// The time that an idle connection is kept. Shorter than the usual limits of servers, so that few requests meet the end
/// of their connection.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// The maximum number of idle connections.
const IDLE_COUNT_MAX: usize = 64;

pub(super) type Request = hyper::Request<Full<Bytes>>;

/// The future that drives a connection. It never completes; the reader of the response notices the end of the
/// connection.
type ConnectionDriver = Pin<Box<dyn Future<Output = Infallible> + Send>>;

/// An open connection. Dropping it closes the socket.
pub(super) struct HttpConnection {
    /// hyper closes the connection when the sender is dropped.
    sender: SendRequest<Full<Bytes>>,
    driver: ConnectionDriver,
    read_limit: ReadLimit,
}

/// A request that got no response.
pub(super) struct SendFailure {
    pub error: hyper::Error,
    /// True if no part of the response was received.
    pub is_silent: bool,
}

impl HttpConnection {
    pub(super) async fn open<S>(stream: S) -> Result<Self, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let (stream, read_limit) = LimitedStream::new(stream);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let driver = Box::pin(async move {
            // The reader of the response gets the error of the connection; bytes may remain to be read.
            let _ = connection.await;
            std::future::pending::<Infallible>().await
        });
        Ok(Self { sender, driver, read_limit })
    }

    /// Sends a request and returns the response, whose body is not yet read.
    pub(super) async fn send(&mut self, request: Request) -> Result<hyper::Response<Incoming>, SendFailure> {
        self.read_limit.set(BEFORE_BODY_BYTES_MAX);
        let response = tokio::select! {
            response = self.sender.send_request(request) => response,
            never = &mut self.driver => match never {},
        };
        let is_silent = self.read_limit.is_left(BEFORE_BODY_BYTES_MAX);
        self.read_limit.lift();
        response.map_err(|error| SendFailure { error, is_silent })
    }

    /// Waits for `next` and drives the connection meanwhile.
    pub(super) async fn drive<T>(&mut self, next: impl Future<Output = T>) -> T {
        tokio::select! {
            next = next => next,
            never = &mut self.driver => match never {},
        }
    }

    /// Returns whether the connection can be used for another request: the last response is complete, and the server has
    /// neither closed the connection nor sent anything else.
    pub(super) fn is_reusable(&mut self) -> bool {
        self.read_limit.set(BEFORE_BODY_BYTES_MAX);
        let _ = (&mut self.driver).now_or_never();
        self.sender.is_ready()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// The server of a connection: two calls share connections only if they have the same scheme, host and port, and the
/// address of the connection is one that the host has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    origin: String,
    address: SocketAddr,
}

impl ConnectionKey {
    pub(super) fn new(target: &OutgoingTarget, address: SocketAddr) -> Self {
        Self { origin: target.origin(), address }
    }
}

/// Connections that wait for a further call.
#[derive(Default)]
pub(super) struct IdleConnections {
    connections: Mutex<Vec<IdleConnection>>,
    /// True while a task closes old connections.
    has_cleaner: AtomicBool,
}

struct IdleConnection {
    key: ConnectionKey,
    connection: HttpConnection,
    since: Instant,
}

impl fmt::Debug for IdleConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleConnections").field("count", &self.lock().len()).finish_non_exhaustive()
    }
}

impl IdleConnections {
    /// Returns an idle connection to one of the checked addresses of a host.
    pub(super) fn take(
        &self,
        target: &OutgoingTarget,
        addresses: &[SocketAddr],
    ) -> Option<(ConnectionKey, HttpConnection)> {
        let origin = target.origin();
        let fits = |idle: &IdleConnection| {
            idle.key.origin == origin
                && addresses.contains(&idle.key.address)
                && idle.since.elapsed() < IDLE_MAX
        };
        loop {
            let IdleConnection { key, mut connection, .. } = {
                let mut connections = self.lock();
                let at = connections.iter().rposition(fits)?;
                connections.swap_remove(at)
            };
            if connection.is_reusable() {
                return Some((key, connection));
            }
        }
    }

    /// Keeps a connection for a moment, if it can be used for another request.
    pub(super) fn put(self: &Arc<Self>, key: ConnectionKey, mut connection: HttpConnection) {
        if !connection.is_reusable() {
            return;
        }
        let mut connections = self.lock();
        if connections.len() < IDLE_COUNT_MAX {
            connections.push(IdleConnection { key, connection, since: Instant::now() });
        }
        drop(connections);
        if !self.has_cleaner.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.clone().close_old());
        }
    }

    /// Closes connections that are too old, until there are none.
    async fn close_old(self: Arc<Self>) {
        loop {
            tokio::time::sleep(IDLE_MAX).await;
            let mut connections = self.lock();
            connections.retain(|idle| idle.since.elapsed() < IDLE_MAX);
            if connections.is_empty() {
                // Under the lock: a connection that is put after this starts a new task.
                self.has_cleaner.store(false, Ordering::SeqCst);
                return;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<IdleConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
