//! HTTP connections: hyper for plain http on this machine, because it needs less CPU time for each request, and reqwest
//! for TLS and proxies.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio_rustls::rustls::ClientConfig;

use crate::error::Error;
use crate::{Client, root_cause};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) enum Transport {
    Plain(legacy::Client<HttpConnector, Full<Bytes>>),
    Full(reqwest::Client),
}

/// The proxies of a connection.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ProxyMode {
    /// Connects without a proxy.
    Direct,
    /// Uses the proxies that the environment names.
    FromEnvironment,
}

pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

impl Transport {
    pub(crate) fn plain() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Self::Plain(legacy::Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Returns a transport with TLS and proxies.
    pub(crate) fn full(tls: ClientConfig, proxy: ProxyMode) -> Result<Self, Error> {
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // `Request` has its own retries.
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none());
        if proxy == ProxyMode::Direct {
            http = http.no_proxy();
        }
        let http = http.tls_backend_preconfigured(tls).build();
        http.map(Self::Full)
            .map_err(|error| Error::InvalidSetting { setting: "HTTP client", reason: root_cause(&error) })
    }
}

impl Client {
    pub(crate) async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, Error> {
        match &self.connection.transport {
            Transport::Plain(http) => {
                let sent = http.request(request.map(Full::new)).await;
                let response = sent.map_err(|error| match error.is_connect() {
                    true => self.connect_failure(&error),
                    false => self.connection_failure(&error),
                })?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Transport::Full(http) => {
                let request = reqwest::Request::try_from(request)
                    .map_err(|error| Error::InvalidRequest(root_cause(&error)))?;
                let sent = http.execute(request).await;
                let response = sent.map_err(|error| match error.is_connect() {
                    true => self.connect_failure(&error),
                    false => self.connection_failure(&error),
                })?;
                let response = http::Response::<reqwest::Body>::from(response);
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }

    fn connect_failure(&self, error: &dyn std::error::Error) -> Error {
        Error::Connect { server: self.server().to_owned(), reason: root_cause(error) }
    }

    fn connection_failure(&self, error: &dyn std::error::Error) -> Error {
        Error::Connection { server: self.server().to_owned(), reason: root_cause(error) }
    }
}

/// Returns the next data of a body, or the cause of its failure.
pub(crate) async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, String> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| root_cause(&*error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
