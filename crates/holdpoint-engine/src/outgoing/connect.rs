//! Opening a connection to an address that was judged, with TLS where the URL says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::error::Error;
use super::target::Target;

/// How many of a name's addresses are tried.
const ADDRESSES_TRIED_MAX: usize = 8;

/// The first address that answers. Each gets its share of the time, so that a dead one does not use up all of it.
pub(super) async fn tcp(
    target: &Target,
    addresses: &[SocketAddr],
    within: Duration,
    connects: &AtomicU64,
) -> Result<TcpStream, Error> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let share = within / u32::try_from(tried.len().max(1)).unwrap_or(1);
    let mut why = "there is no address".to_owned();
    for address in tried {
        connects.fetch_add(1, Ordering::SeqCst);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Only a matter of speed.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no answer within {} ms", share.as_millis()),
        }
    }
    Err(Error::ConnectFailed { origin: target.origin(), why })
}

/// What is trusted, read when the first call needs it.
#[derive(Debug)]
pub(super) struct Tls {
    authorities: Vec<u8>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    pub(super) fn new(authorities: Vec<u8>) -> Self {
        Self { authorities, config: OnceCell::new() }
    }

    /// The name that is checked is the one in the URL, whichever of its addresses was called.
    pub(super) async fn wrap(
        &self,
        target: &Target,
        tcp: TcpStream,
        within: Duration,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let failed = |why: String| Error::Tls { origin: target.origin(), why };
        let config = self.config.get_or_try_init(|| self.load()).await.map_err(failed)?;
        let name = ServerName::try_from(target.host_text()).map_err(|error| failed(error.to_string()))?;
        let shaking = TlsConnector::from(config.clone()).connect(name, tcp);
        match tokio::time::timeout(within, shaking).await {
            Ok(shaken) => shaken.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("no handshake within {} ms", within.as_millis()))),
        }
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let own = self.authorities.clone();
        // Reads files.
        let loading = tokio::task::spawn_blocking(move || config(&own));
        loading.await.map_err(|error| error.to_string())?
    }
}

fn config(own: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Systems carry odd certificates; one that cannot be read only trusts less.
    roots.add_parsable_certificates(found.certs);
    for certificate in CertificateDer::pem_slice_iter(own) {
        let certificate = certificate.map_err(|error| format!("an authority cannot be read: {error}"))?;
        roots.add(certificate).map_err(|error| format!("an authority cannot be used: {error}"))?;
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
