//! From a judged address to a connection: the only place of this room where a socket is opened.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;

/// Who opens connections.
#[derive(Clone, Debug)]
pub enum Dialer {
    /// This machine's network.
    System,
    /// A test that counts, and that stands in for hosts of the internet.
    Switched(Switchboard),
}

impl Dialer {
    pub(super) async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        match self {
            Self::System => TcpStream::connect(address).await,
            Self::Switched(board) => {
                let to = board.dialled(address).ok_or(io::ErrorKind::ConnectionRefused)?;
                TcpStream::connect(to).await
            }
        }
    }
}

/// Writes down every address that a connection is wanted to. Leads to those that a test names, and to nothing else.
#[derive(Clone, Debug, Default)]
pub struct Switchboard(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    routes: HashMap<IpAddr, SocketAddr>,
    dials: Vec<SocketAddr>,
}

impl Switchboard {
    /// Whoever wants this address gets to that one, whichever port was meant.
    #[must_use]
    pub fn route(self, from: IpAddr, to: SocketAddr) -> Self {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).routes.insert(from, to);
        self
    }

    /// Every address that was dialled, also in vain.
    pub fn dials(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).dials.clone()
    }

    fn dialled(&self, address: SocketAddr) -> Option<SocketAddr> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.dials.push(address);
        lines.routes.get(&address.ip()).copied()
    }
}
