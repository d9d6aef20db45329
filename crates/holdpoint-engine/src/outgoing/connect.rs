//! Opens a connection to a checked address.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;

use super::dialer::Dialer;
use super::error::Error;
use super::target::OutgoingTarget;

/// The maximum number of addresses of a host that are tried.
const ADDRESSES_TRIED_MAX: usize = 8;

/// Connects to the first address that accepts, and returns it. The time limit is divided among the addresses, so that an unreachable
/// one does not use all of it.
pub(super) async fn connect_tcp(
    target: &OutgoingTarget,
    addresses: &[SocketAddr],
    within: Duration,
    dialer: &Dialer,
    connects: &AtomicU64,
) -> Result<(SocketAddr, TcpStream), Error> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let share = within / u32::try_from(tried.len().max(1)).unwrap_or(1);
    let mut why = "the host has no address".to_owned();
    for address in tried {
        connects.fetch_add(1, Ordering::SeqCst);
        match tokio::time::timeout(share, dialer.dial(*address)).await {
            Ok(Ok(stream)) => {
                // Optional: affects latency only.
                let _ = stream.set_nodelay(true);
                return Ok((*address, stream));
            }
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no connection within {} ms", share.as_millis()),
        }
    }
    Err(Error::ConnectFailed { origin: target.origin(), why })
}
