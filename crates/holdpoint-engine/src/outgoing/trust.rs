//! TLS of outgoing calls: the trusted certificate authorities, the handshake, and the messages for failed handshakes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

use super::error::{Error, excerpt};
use super::target::OutgoingTarget;

/// Certificate authorities that are trusted in addition to those of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities(Vec<CertificateDer<'static>>);

/// Invalid certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAuthorities(String);

impl Authorities {
    /// Parses one or more certificates in PEM. One invalid certificate rejects the whole text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadAuthorities> {
        let bad = |number: usize, error: &dyn std::fmt::Display| {
            BadAuthorities(format!("certificate {number} cannot be used: {error}"))
        };
        let (mut found, mut roots) = (Vec::new(), RootCertStore::empty());
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let number = found.len() + 1;
            let certificate = certificate.map_err(|error| bad(number, &error))?;
            roots.add(certificate.clone()).map_err(|error| bad(number, &error))?;
            found.push(certificate);
        }
        if found.is_empty() {
            return Err(BadAuthorities(
                "no certificate found; the file must contain PEM certificates".to_owned(),
            ));
        }
        Ok(Self(found))
    }

    /// Returns the number of certificates.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no certificates.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the TLS configuration. Reads the certificates of the machine from files.
fn load_config(own: Authorities) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Skips unreadable certificates of the machine.
    roots.add_parsable_certificates(found.certs);
    for certificate in own.0 {
        roots.add(certificate).map_err(|error| format!("cannot use a certificate authority: {error}"))?;
    }
    if roots.is_empty() {
        return Err("this machine has no trusted certificates; install ca-certificates".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the reason of a failed handshake. Uses fixed texts for certificate errors, because the original text
/// contains the names in the certificate.
fn handshake_error(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(flaw)) = inner else { return excerpt(error) };
    let known = match flaw {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::UnknownIssuer => "its certificate is from an authority that is not trusted here",
        _ => return excerpt(error),
    };
    known.to_owned()
}

/// The TLS client configuration. It is loaded at the first call.
#[derive(Debug)]
pub(super) struct TlsClient {
    authorities: Authorities,
    config: OnceCell<Arc<ClientConfig>>,
}

impl TlsClient {
    pub(super) fn new(authorities: Authorities) -> Self {
        Self { authorities, config: OnceCell::new() }
    }

    /// Performs the handshake. The certificate must be valid for the host in the URL.
    pub(super) async fn handshake(
        &self,
        target: &OutgoingTarget,
        tcp: TcpStream,
        within: Duration,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let failed = |why: String| Error::Tls { origin: target.origin(), why };
        let config = self.config.get_or_try_init(|| self.load()).await.map_err(failed)?;
        let name = ServerName::try_from(target.host_text()).map_err(|error| failed(error.to_string()))?;
        let handshake = TlsConnector::from(config.clone()).connect(name, tcp);
        match tokio::time::timeout(within, handshake).await {
            Ok(result) => result.map_err(|error| failed(handshake_error(&error))),
            Err(_) => Err(failed(format!("no handshake within {} ms", within.as_millis()))),
        }
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let own = self.authorities.clone();
        let loading = tokio::task::spawn_blocking(move || load_config(own));
        loading.await.map_err(|error| error.to_string())?
    }
}
