//! Takes the place of TLS in a build without the feature `tls`. Calls to `https` addresses fail.

use std::time::Duration;

use tokio::net::TcpStream;

use super::error::Error;
use super::target::OutgoingTarget;

const MISSING: &str = "this program was built without TLS; enable the feature tls of holdpoint-engine";

/// Certificate authorities that are trusted in addition to those of the machine. There are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities(());

/// Invalid certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAuthorities(String);

impl Authorities {
    /// Fails, because this program was built without TLS.
    pub fn from_pem(_pem: &[u8]) -> Result<Self, BadAuthorities> {
        Err(BadAuthorities(MISSING.to_owned()))
    }

    /// Returns the number of certificates.
    pub fn len(&self) -> usize {
        0
    }

    /// Returns whether there are no certificates.
    pub fn is_empty(&self) -> bool {
        true
    }
}

#[derive(Debug)]
pub(super) struct TlsClient(());

impl TlsClient {
    pub(super) fn new(_authorities: Authorities) -> Self {
        Self(())
    }

    pub(super) async fn handshake(
        &self,
        target: &OutgoingTarget,
        _tcp: TcpStream,
        _within: Duration,
    ) -> Result<TcpStream, Error> {
        Err(Error::Tls { origin: target.origin(), why: MISSING.to_owned() })
    }
}
