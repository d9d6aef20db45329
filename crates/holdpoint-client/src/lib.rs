//! Typed async client of the Holdpoint HTTP API.
//!
//! A method of a resource builds a [`Request`]; the request is sent when it is awaited. Bodies, queries and responses
//! are the types of [`api`].
//!
//! ```no_run
#![doc = include_str!("../examples/approval.rs")]
//! ```
//!
//! A hold is an interrupt without a workflow:
//!
//! ```no_run
#![doc = include_str!("../examples/hold.rs")]
//! ```
//!
//! # Errors, retries and idempotency
//!
//! The client retries a request after a transient error ([`RetryPolicy`]): the server cannot be reached, failed, is
//! overloaded or limits the rate. A retried POST has an idempotency key, so the server executes it once. Set your
//! own key with [`Request::idempotency_key`] if a restart of your program must not repeat the request. A refusal of the
//! server is [`Error::Refused`] with its stable code.
//!
//! The types belong to one version of the API. Members that a newer server adds are ignored. A value that this version
//! does not know, such as a new status, is [`Error::InvalidResponse`].
//!
//! # Layout
//! - [`Client`], [`ClientBuilder`]: the connection and its settings
//! - [`Request`], [`Reply`]: one call; idempotency keys, timeouts, retries with jitter ([`RetryPolicy`])
//! - [`EventStream`]: server-sent events; reconnects after a lost connection
//! - [`resources`]: one struct for each resource of the API
//! - [`webhook`]: verifies the signature of a webhook delivery
//! - [`Error`], [`Refusal`]: failed connections and refusals of the server

#![warn(missing_docs)]

mod builder;
mod error;
mod events;
mod pages;
mod request;
pub mod resources;
mod retry;
mod transport;
pub mod webhook;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::HeaderValue;

pub use builder::{ClientBuilder, is_loopback};
pub use error::{Error, Refusal};
pub use events::{EventStream, SseFrame};
pub use holdpoint_api as api;
pub use pages::ListPage;
pub use request::{Reply, Request};
pub use retry::RetryPolicy;
use transport::Transport;

/// A client of one server. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
}

struct Connection {
    transport: Transport,
    /// The URL of the server, without a slash at the end.
    server: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    retry: RetryPolicy,
}

impl Client {
    /// Returns a builder for a client of this server, such as `http://127.0.0.1:8484`.
    pub fn builder(server: &str) -> ClientBuilder {
        ClientBuilder::new(server)
    }

    /// Returns the URL of the server, without a slash at the end.
    pub fn server(&self) -> &str {
        &self.connection.server
    }

    /// Returns a GET request, for routes without a method in this crate.
    pub fn get<T>(&self, path: impl Into<String>) -> Request<T> {
        Request::new(self, Method::GET, path.into())
    }

    /// Returns a POST request without a body.
    pub fn post<T>(&self, path: impl Into<String>) -> Request<T> {
        Request::new(self, Method::POST, path.into())
    }

    /// Returns a PUT request without a body.
    pub fn put<T>(&self, path: impl Into<String>) -> Request<T> {
        Request::new(self, Method::PUT, path.into())
    }

    /// Returns a DELETE request.
    pub fn delete<T>(&self, path: impl Into<String>) -> Request<T> {
        Request::new(self, Method::DELETE, path.into())
    }

    fn timeout(&self) -> Duration {
        self.connection.timeout
    }

    fn retry(&self) -> &RetryPolicy {
        &self.connection.retry
    }

    fn timed_out(&self, limit: Duration) -> Error {
        Error::Timeout { server: self.server().to_owned(), limit }
    }

    fn broken(&self, reason: String) -> Error {
        Error::Connection { server: self.server().to_owned(), reason }
    }

    fn invalid(&self, reason: String) -> Error {
        Error::InvalidResponse { server: self.server().to_owned(), reason }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server()).finish_non_exhaustive()
    }
}

/// Returns the innermost error, which names the cause.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
