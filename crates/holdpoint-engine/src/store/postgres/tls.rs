//! TLS to PostgreSQL, by rustls. Which certificates count is decided here; what went wrong is told in `trouble`.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

mod binding;
mod verifier;

use verifier::Verifier;

/// What the address says about TLS. The files are read for every connection, so renewed certificates are picked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) trust: Trust,
    pub(crate) identity: Option<Identity>,
}

/// Which certificates of the server are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Encrypted, but nobody knows to whom.
    Anything,
    /// Signed by this authority, whatever name it has.
    Authority(PathBuf),
    AuthorityAndName(PathBuf),
    /// Signed by an authority that this machine trusts, and with the name of the host.
    SystemAndName,
}

/// The certificate that says who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Makes TLS connections for the driver.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    begun: Arc<AtomicBool>,
}

impl Connector {
    /// Reads files. The error is a sentence that names the parameter and the path.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier(&settings.trust, provider)?));
        let mut config = match &settings.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates("sslcert", &identity.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&identity.key)
                    .map_err(|error| unreadable("sslkey", &identity.key, "private key", &error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    let (certificate, key) = (identity.certificate.display(), identity.key.display());
                    format!("{certificate} (sslcert) and {key} (sslkey) cannot be used together: {error}")
                })?
            }
        };
        // Newer servers insist on this name where TLS begins without their own greeting.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { config: Arc::new(config), begun: Arc::default() })
    }

    /// Whether the server agreed to TLS in the last attempt to connect.
    pub(crate) fn begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

fn verifier(trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Verifier, String> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Anything => return Ok(Verifier::anything(&provider)),
        Trust::Authority(file) | Trust::AuthorityAndName(file) => {
            for certificate in certificates("sslrootcert", file)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("{} (sslrootcert): {error}", file.display()))?;
            }
        }
        Trust::SystemAndName => {
            let found = rustls_native_certs::load_native_certs();
            // Systems carry odd certificates; one that cannot be read only trusts less.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(format!(
                    "this machine has no trusted certificates{why}; install ca-certificates, or name a file with \
                     `sslrootcert`"
                ));
            }
        }
    }
    Verifier::signed_by(roots, !matches!(trust, Trust::Authority(_)), provider)
}

fn certificates(parameter: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => {
            Err(unreadable(parameter, file, "certificate", &pem::Error::NoItemsFound))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(unreadable(parameter, file, "certificate", &error)),
    }
}

fn unreadable(parameter: &str, file: &Path, what: &str, error: &pem::Error) -> String {
    let file = file.display();
    match error {
        pem::Error::Io(error) => format!("cannot read {file} (parameter `{parameter}`): {error}"),
        pem::Error::NoItemsFound => format!("{file} (parameter `{parameter}`) holds no {what} in PEM"),
        // The other texts repeat lines of the file, which may hold a key.
        _ => format!("{file} (parameter `{parameter}`) is not PEM, or is cut off"),
    }
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, io::Error> {
        self.begun.store(false, Ordering::Relaxed);
        Ok(Handshake { connector: self.clone(), host: host.to_owned() })
    }
}

/// One handshake that may come, if the server agrees to it.
#[derive(Debug)]
pub(crate) struct Handshake {
    connector: Connector,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        self.connector.begun.store(true, Ordering::Relaxed);
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let connector = tokio_rustls::TlsConnector::from(self.connector.config);
            connector.connect(name, socket).await.map(Stream)
        })
    }
}

/// An encrypted connection.
#[derive(Debug)]
pub(crate) struct Stream(client::TlsStream<Socket>);

impl TlsStream for Stream {
    /// Ties the password to the server's certificate, so that nobody in between can pass it on.
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        match certificates.and_then(<[_]>::first).and_then(|certificate| binding::end_point(certificate)) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

/// The error of rustls inside an error of the connection, if TLS was the trouble.
pub(crate) fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::{Connector, Identity, Settings, Trust};

    fn refused(trust: Trust, identity: Option<Identity>) -> String {
        Connector::new(&Settings { trust, identity }).expect_err("these files are no good")
    }

    #[test]
    fn a_file_that_is_missing_is_named_with_its_parameter() {
        let said = refused(Trust::Authority("/nowhere/ca.pem".into()), None);
        assert!(said.starts_with("cannot read /nowhere/ca.pem (parameter `sslrootcert`): "), "{said}");
        let identity = Identity { certificate: "/nowhere/ann.pem".into(), key: "/nowhere/ann.key".into() };
        let said = refused(Trust::Anything, Some(identity));
        assert!(said.starts_with("cannot read /nowhere/ann.pem (parameter `sslcert`): "), "{said}");
    }

    #[test]
    fn a_file_without_certificates_is_refused_without_repeating_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("ca.pem");
        for (text, reason) in [
            ("secret", "holds no certificate in PEM"),
            ("-----BEGIN CERTIFICATE-----\nsecret\n", "is not PEM, or is cut off"),
        ] {
            std::fs::write(&file, text).expect("the file is written");
            let said = refused(Trust::AuthorityAndName(file.clone()), None);
            assert!(said.contains(reason) && !said.contains("secret"), "{said}");
        }
    }
}
