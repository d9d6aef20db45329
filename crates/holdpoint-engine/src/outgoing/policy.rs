//! The outgoing policy: the networks that may be called, and the limits of calls.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::dialer::Dialer;
use super::error::OutgoingRefusal;
use super::network::Network;
use super::ranges::{embedded_addresses, find_special_network, is_loopback};
use super::resolver::Resolver;
use super::trust::Authorities;

/// The rules and limits for outgoing calls.
#[derive(Clone, Debug)]
pub struct OutgoingPolicy {
    /// Networks that are always refused.
    pub deny: Vec<Network>,
    /// Special-purpose networks that may be called: the operator's own networks.
    pub allow: Vec<Network>,
    /// For development and tests: allows loopback addresses, with `http://` too.
    pub allow_loopback: bool,
    /// Networks that may be called with `http://` too, if they may be called at all: services of the operator without
    /// certificates.
    pub plain: Vec<Network>,
    /// Time limit for the connection, and for the TLS handshake.
    pub connect_timeout: Duration,
    /// The maximum number of concurrent calls. Further calls wait; the wait counts toward their time limit.
    pub calls_max: usize,
    /// Certificate authorities that are trusted in addition to those of the machine.
    pub authorities: Authorities,
    /// Resolves host names.
    pub resolver: Resolver,
    /// Opens connections.
    pub dialer: Dialer,
}

impl Default for OutgoingPolicy {
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

impl OutgoingPolicy {
    /// Returns a policy that allows the given networks, with `http://` too. For hosts that the operator configures,
    /// never for hosts that workflows name.
    pub fn for_operator_networks(networks: Vec<Network>) -> Self {
        Self { allow: networks.clone(), plain: networks, ..Self::default() }
    }

    /// Returns whether the address may be called without TLS.
    pub(super) fn allows_plain_http(&self, address: IpAddr) -> bool {
        (self.allow_loopback && is_loopback(address)) || within(&self.plain, address)
    }

    /// Returns whether host names of this machine, such as `localhost`, may be called.
    pub(super) fn allows_local_names(&self) -> bool {
        let opens = |address: IpAddr| within(&self.plain, address);
        self.allow_loopback || opens(Ipv4Addr::LOCALHOST.into()) || opens(Ipv6Addr::LOCALHOST.into())
    }

    /// Checks an address and the IPv4 addresses embedded in it. An allowed network covers only its own addresses: an
    /// address behind an allowed translator is checked as well.
    pub(super) fn check_address(&self, host: String, address: IpAddr) -> Result<(), OutgoingRefusal> {
        let embedded = embedded_addresses(address).into_iter().map(IpAddr::V4);
        let all: Vec<IpAddr> = std::iter::once(address).chain(embedded).collect();
        if all.iter().any(|one| within(&self.deny, *one)) {
            return Err(OutgoingRefusal::Denied { host });
        }
        if self.allow_loopback && is_loopback(address) {
            return Ok(());
        }
        let special = all.into_iter().filter(|one| !within(&self.allow, *one)).find_map(find_special_network);
        match special {
            Some(special) => Err(OutgoingRefusal::Address { host, special }),
            None => Ok(()),
        }
    }
}

fn within(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}
