//! Opens a connection to a checked address, with TLS for `https`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::dialer::Dialer;
use super::error::Error;
use super::target::OutgoingTarget;
use super::trust::{self, Authorities};

/// The maximum number of addresses of a host that are tried.
const ADDRESSES_TRIED_MAX: usize = 8;

/// Connects to the first address that accepts. The time limit is divided among the addresses, so that an unreachable
/// one does not use all of it.
pub(super) async fn connect_tcp(
    target: &OutgoingTarget,
    addresses: &[SocketAddr],
    within: Duration,
    (dialer, connects): (&Dialer, &AtomicU64),
) -> Result<TcpStream, Error> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let share = within / u32::try_from(tried.len().max(1)).unwrap_or(1);
    let mut why = "the host has no address".to_owned();
    for address in tried {
        connects.fetch_add(1, Ordering::SeqCst);
        match tokio::time::timeout(share, dialer.dial(*address)).await {
            Ok(Ok(stream)) => {
                // Optional: affects latency only.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no connection within {} ms", share.as_millis()),
        }
    }
    Err(Error::ConnectFailed { origin: target.origin(), why })
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
            Ok(result) => result.map_err(|error| failed(trust::handshake_error(&error))),
            Err(_) => Err(failed(format!("no handshake within {} ms", within.as_millis()))),
        }
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let own = self.authorities.clone();
        let loading = tokio::task::spawn_blocking(move || trust::load_config(own));
        loading.await.map_err(|error| error.to_string())?
    }
}
