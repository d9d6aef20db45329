//! What an operator allows: which networks may be called, and how much a call may take. Judges addresses; opens
//! nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::dialer::Dialer;
use super::error::Refused;
use super::network::Network;
use super::ranges::{embedded, is_loopback, special};
use super::resolver::Resolver;
use super::trust::Authorities;

#[derive(Clone, Debug)]
pub struct Policy {
    /// Refused before anything else is looked at.
    pub deny: Vec<Network>,
    /// May be called although they are special: the operator's own networks.
    pub allow: Vec<Network>,
    /// For development and tests: loopback may be called, by `http://` too. Nothing else is relaxed.
    pub allow_loopback: bool,
    /// May be called by `http://` too, as far as they may be called at all: where an operator's own services have no
    /// certificates.
    pub plain: Vec<Network>,
    pub connect_timeout: Duration,
    /// How many calls are under way at a time; others wait, and the wait counts as theirs.
    pub calls_max: usize,
    /// Authorities trusted beside those of the machine.
    pub authorities: Authorities,
    pub resolver: Resolver,
    pub dialer: Dialer,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deny: Vec::new(),
            allow: Vec::new(),
            allow_loopback: false,
            plain: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            calls_max: 256,
            authorities: Authorities::default(),
            resolver: Resolver::System,
            dialer: Dialer::System,
        }
    }
}

impl Policy {
    /// Opens networks of the operator's own, by `http://` too, and this machine's if they are among them. For calls to
    /// hosts that the operator names, never for those that workflows name.
    pub fn opening(networks: Vec<Network>) -> Self {
        Self { allow: networks.clone(), plain: networks, ..Self::default() }
    }

    /// Whether an address may be called without TLS.
    pub(super) fn plain_text(&self, address: IpAddr) -> bool {
        (self.allow_loopback && is_loopback(address)) || within(&self.plain, address)
    }

    /// Whether names that always mean this machine may be called.
    pub(super) fn names_this_machine(&self) -> bool {
        let opens = |address: IpAddr| within(&self.plain, address);
        self.allow_loopback || opens(Ipv4Addr::LOCALHOST.into()) || opens(Ipv6Addr::LOCALHOST.into())
    }

    /// An address is judged by itself and by every address that hides in it. A network that is allowed opens only
    /// itself: behind an allowed translator, what is translated is judged as well.
    pub(super) fn judge(&self, host: String, address: IpAddr) -> Result<(), Refused> {
        let hidden = embedded(address).into_iter().map(IpAddr::V4);
        let faces: Vec<IpAddr> = std::iter::once(address).chain(hidden).collect();
        if faces.iter().any(|face| within(&self.deny, *face)) {
            return Err(Refused::Denied { host });
        }
        if self.allow_loopback && is_loopback(address) {
            return Ok(());
        }
        let closed = faces.into_iter().filter(|face| !within(&self.allow, *face)).find_map(special);
        match closed {
            Some(special) => Err(Refused::Address { host, special }),
            None => Ok(()),
        }
    }
}

fn within(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}
