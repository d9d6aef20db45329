//! The builder of a client and its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::transport::{ProxyMode, Transport};
use crate::{Client, Connection};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    server: String,
    key: Option<String>,
    timeout: Duration,
    retry: RetryPolicy,
    authorities: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl ClientBuilder {
    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.trim_end_matches('/').to_owned(),
            key: None,
            timeout: TIMEOUT,
            retry: RetryPolicy::default(),
            authorities: None,
            identity: None,
        }
    }

    /// Sets the API key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the time within which a response must arrive. The default is 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the retries after a transient error. The default is 3 retries.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the trusted authorities for the certificate of an https server, as a PEM text. The default is the
    /// authorities of the system.
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Sets the client certificate for an https server, and its private key. Both are PEM texts.
    pub fn identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Builds the client. Does not connect.
    pub fn build(self) -> Result<Client, Error> {
        let url: reqwest::Url =
            self.server.parse().map_err(|error| invalid("server", format!("not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid("server", "must be an http or https URL".to_owned()));
        }
        let has_more = url.query().is_some() || url.fragment().is_some();
        if has_more || !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("server", "must have no user, no query and no fragment".to_owned()));
        }
        let transport = match is_loopback(&url) {
            true if url.scheme() == "http" => Transport::plain(),
            // A proxy on another machine cannot reach a server on this machine.
            true => Transport::full(self.tls()?, ProxyMode::Direct)?,
            false => Transport::full(self.tls()?, ProxyMode::FromEnvironment)?,
        };
        let authorization = self.key.as_deref().map(authorization).transpose()?;
        let connection = Connection {
            transport,
            server: self.server,
            authorization,
            timeout: self.timeout,
            retry: self.retry,
        };
        Ok(Client { connection: Arc::new(connection) })
    }

    fn tls(&self) -> Result<ClientConfig, Error> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid("TLS", error.to_string()))?
            .with_root_certificates(self.roots()?);
        let Some((certificate, key)) = &self.identity else { return Ok(config.with_no_client_auth()) };
        let chain = certificates("client certificate", certificate)?;
        // The error of the parser is not shown, because it may quote the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| invalid("client key", "is not a private key in PEM format".to_owned()))?;
        config
            .with_client_auth_cert(chain, key)
            .map_err(|error| invalid("client certificate", error.to_string()))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(pem) => {
                for certificate in certificates("authorities", pem)? {
                    roots.add(certificate).map_err(|error| invalid("authorities", error.to_string()))?;
                }
            }
            // Plain http does not need root certificates, and loading them takes time.
            None if self.server.starts_with("http://") => {}
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        Ok(roots)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Returns whether a URL names this machine.
pub fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn authorization(key: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_str(&format!("Bearer {key}"));
    let mut value = value.map_err(|_| {
        invalid("key", "contains characters that a header cannot have; copy it again".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(invalid(what, "has no certificate in PEM format".to_owned())),
    }
}

fn invalid(setting: &'static str, reason: String) -> Error {
    Error::InvalidSetting { setting, reason }
}
