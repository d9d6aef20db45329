//! Opening a connection to an address that was judged, with TLS where the URL says so.

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
use super::target::Target;
use super::trust::{self, Authorities};

/// How many of a name's addresses are tried.
const ADDRESSES_TRIED_MAX: usize = 8;

/// The first address that answers. Each gets its share of the time, so that a dead one does not use up all of it.
pub(super) async fn tcp(
    target: &Target,
    addresses: &[SocketAddr],
    within: Duration,
    (dialer, connects): (&Dialer, &AtomicU64),
) -> Result<TcpStream, Error> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let share = within / u32::try_from(tried.len().max(1)).unwrap_or(1);
    let mut why = "there is no address".to_owned();
    for address in tried {
        connects.fetch_add(1, Ordering::SeqCst);
        match tokio::time::timeout(share, dialer.dial(*address)).await {
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
    authorities: Authorities,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    pub(super) fn new(authorities: Authorities) -> Self {
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
            Ok(shaken) => shaken.map_err(|error| failed(trust::why(&error))),
            Err(_) => Err(failed(format!("no handshake within {} ms", within.as_millis()))),
        }
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let own = self.authorities.clone();
        let loading = tokio::task::spawn_blocking(move || trust::config(own));
        loading.await.map_err(|error| error.to_string())?
    }
}
