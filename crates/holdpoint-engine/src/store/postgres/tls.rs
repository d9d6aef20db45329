//! TLS connections to PostgreSQL with rustls. The module `errors` has the messages for failed handshakes.

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

use verifier::{NameCheck, Verifier};

/// The TLS settings of an address. The files are read for every connection, so that renewed certificates are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) trust: ServerTrust,
    pub(crate) identity: Option<ClientCertificate>,
}

/// The certificates of the server that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerTrust {
    /// Any certificate: the connection is encrypted, and the server is not authenticated.
    Any,
    /// A certificate that this authority has signed, for any name.
    Authority(PathBuf),
    /// A certificate that this authority has signed, for the name of the host.
    AuthorityAndName(PathBuf),
    /// A certificate that an authority of the system has signed, for the name of the host.
    SystemAndName,
}

/// The files of the client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The response of a server to the offer to use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsOffer {
    Accepted,
    /// The server has no TLS, or the client has not offered it.
    Declined,
}

/// Makes TLS connections for the driver.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    agreed: Arc<AtomicBool>,
}

impl Connector {
    /// Reads the files. The error names the parameter and the path.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, String> {
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
        // Servers require this protocol name for direct TLS (`sslnegotiation=direct`).
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { config: Arc::new(config), agreed: Arc::default() })
    }

    /// Returns the response of the server in the last connection attempt.
    pub(crate) fn offer(&self) -> TlsOffer {
        if self.agreed.load(Ordering::Relaxed) { TlsOffer::Accepted } else { TlsOffer::Declined }
    }
}

fn verifier(trust: &ServerTrust, provider: Arc<CryptoProvider>) -> Result<Verifier, String> {
    let mut roots = RootCertStore::empty();
    match trust {
        ServerTrust::Any => return Ok(Verifier::accept_any(&provider)),
        ServerTrust::Authority(file) | ServerTrust::AuthorityAndName(file) => {
            for certificate in certificates("sslrootcert", file)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("{} (sslrootcert): {error}", file.display()))?;
            }
        }
        ServerTrust::SystemAndName => {
            let found = rustls_native_certs::load_native_certs();
            // A certificate of the system that cannot be parsed is skipped.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(format!(
                    "this machine has no trusted certificates{why}; install ca-certificates, or set \
                     `sslrootcert` to a file"
                ));
            }
        }
    }
    let names = match trust {
        ServerTrust::Any | ServerTrust::Authority(_) => NameCheck::Skipped,
        ServerTrust::AuthorityAndName(_) | ServerTrust::SystemAndName => NameCheck::Required,
    };
    Verifier::signed_by(roots, names, provider)
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
        pem::Error::NoItemsFound => format!("{file} (parameter `{parameter}`) contains no {what} in PEM"),
        // The other messages repeat lines of the file, which may contain a key.
        _ => format!("{file} (parameter `{parameter}`) is not valid PEM, or is truncated"),
    }
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, io::Error> {
        self.agreed.store(false, Ordering::Relaxed);
        Ok(Handshake { connector: self.clone(), host: host.to_owned() })
    }
}

/// A handshake that starts if the server agrees to TLS.
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
        self.connector.agreed.store(true, Ordering::Relaxed);
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
    /// Binds the authentication to the certificate of the server, so that a man in the middle cannot forward it.
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

/// Returns the TLS error inside an I/O error, if there is one.
pub(crate) fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::{ClientCertificate, Connector, ServerTrust, TlsSettings};

    fn refused(trust: ServerTrust, identity: Option<ClientCertificate>) -> String {
        Connector::new(&TlsSettings { trust, identity }).expect_err("the files are invalid")
    }

    #[test]
    fn the_error_for_a_missing_file_names_its_parameter() {
        let error = refused(ServerTrust::Authority("/nowhere/ca.pem".into()), None);
        assert!(error.starts_with("cannot read /nowhere/ca.pem (parameter `sslrootcert`): "), "{error}");
        let identity =
            ClientCertificate { certificate: "/nowhere/ann.pem".into(), key: "/nowhere/ann.key".into() };
        let error = refused(ServerTrust::Any, Some(identity));
        assert!(error.starts_with("cannot read /nowhere/ann.pem (parameter `sslcert`): "), "{error}");
    }

    #[test]
    fn the_error_for_an_invalid_file_does_not_repeat_its_content() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("ca.pem");
        for (text, reason) in [
            ("secret", "contains no certificate in PEM"),
            ("-----BEGIN CERTIFICATE-----\nsecret\n", "is not valid PEM, or is truncated"),
        ] {
            std::fs::write(&file, text).expect("the file is written");
            let error = refused(ServerTrust::AuthorityAndName(file.clone()), None);
            assert!(error.contains(reason) && !error.contains("secret"), "{error}");
        }
    }
}
