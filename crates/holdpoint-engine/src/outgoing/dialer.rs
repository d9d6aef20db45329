//! Opens TCP connections to checked addresses. No other code of this module opens sockets.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;

/// Opens connections.
#[derive(Clone, Debug)]
pub enum Dialer {
    /// The network of this machine.
    System,
    /// For tests: redirects connections to local servers and records them.
    Switched(Switchboard),
}

impl Dialer {
    pub(super) async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        match self {
            Self::System => TcpStream::connect(address).await,
            Self::Switched(board) => {
                let to = board.record_dial(address).ok_or(io::ErrorKind::ConnectionRefused)?;
                TcpStream::connect(to).await
            }
        }
    }
}

/// Records every dialled address and connects only to the addresses that a test routed.
#[derive(Clone, Debug, Default)]
pub struct Switchboard(Arc<Mutex<SwitchboardState>>);

#[derive(Debug, Default)]
struct SwitchboardState {
    routes: HashMap<IpAddr, SocketAddr>,
    dials: Vec<SocketAddr>,
}

impl Switchboard {
    /// Routes connections to the address `from`, with any port, to `to`.
    #[must_use]
    pub fn route(self, from: IpAddr, to: SocketAddr) -> Self {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).routes.insert(from, to);
        self
    }

    /// Returns every dialled address, including failed attempts.
    pub fn dials(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).dials.clone()
    }

    fn record_dial(&self, address: SocketAddr) -> Option<SocketAddr> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.dials.push(address);
        state.routes.get(&address.ip()).copied()
    }
}
