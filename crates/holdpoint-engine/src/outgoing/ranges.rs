//! Special-purpose networks: the IANA registries, and other networks that are not part of the public internet. The
//! policy decides whether they may be called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::network::Network;

/// A special-purpose network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialNetwork {
    /// The network.
    pub network: Network,
    /// Its purpose, for messages.
    pub purpose: &'static str,
}

/// Returns the special-purpose network of an address. Embedded addresses are checked separately, see
/// [`embedded_addresses`].
pub(super) fn find_special_network(address: IpAddr) -> Option<SpecialNetwork> {
    let table: &[(Network, &str)] = if address.is_ipv4() { &V4 } else { &V6 };
    let found = table.iter().find(|(network, _)| network.contains(address));
    if let Some((network, purpose)) = found {
        return Some(SpecialNetwork { network: *network, purpose });
    }
    // Only 2000::/3 is allocated for global unicast. Later allocations stay forbidden until they are added here.
    let unicast = address.is_ipv4() || GLOBAL_UNICAST.contains(address);
    (!unicast)
        .then_some(SpecialNetwork { network: Network::v6(0, 0, 0, 0, 0), purpose: "not global unicast" })
}

pub(super) fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
    }
}

/// Returns the IPv4 addresses that are embedded in an IPv6 address and reachable through a translator or a tunnel.
pub(super) fn embedded_addresses(address: IpAddr) -> Vec<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return Vec::new() };
    if address == Ipv6Addr::LOCALHOST {
        return Vec::new();
    }
    let bits = address.to_bits();
    // `from` is the offset of the IPv4 address from the highest bit.
    let at = |from: u32| Ipv4Addr::from_bits(u32::try_from((bits >> (96 - from)) & 0xffff_ffff).unwrap_or(0));
    let mut found = Vec::new();
    let inside = |networks: &[Network]| networks.iter().any(|network| network.contains(IpAddr::V6(address)));
    if inside(&LAST_32_BITS) {
        found.push(at(96));
    }
    if LOCAL_NAT64.contains(IpAddr::V6(address)) {
        // The prefix has 96 bits, or 48 bits with bits 64 to 71 left out. An unspecified address is not a valid
        // interpretation.
        let (high, low) = ((bits >> 64) & 0xffff, (bits >> 40) & 0xffff);
        let split = Ipv4Addr::from_bits(u32::try_from(high << 16 | low).unwrap_or(0));
        found.extend([at(96), split].into_iter().filter(|one| !one.is_unspecified()));
    }
    if SIX_TO_FOUR.contains(IpAddr::V6(address)) {
        found.push(at(16));
    }
    if TEREDO.contains(IpAddr::V6(address)) {
        // The server, and the client with inverted bits.
        found.push(at(32));
        found.push(Ipv4Addr::from_bits(!at(96).to_bits()));
    }
    // ISATAP has no prefix; it can occur in any network.
    if matches!((bits >> 32) & 0xffff_ffff, 0x0000_5efe | 0x0200_5efe) {
        found.push(at(96));
    }
    found
}

const GLOBAL_UNICAST: Network = Network::v6(0x2000, 0, 0, 0, 3);
const LOCAL_NAT64: Network = Network::v6(0x64, 0xff9b, 1, 0, 48);
const SIX_TO_FOUR: Network = Network::v6(0x2002, 0, 0, 0, 16);
const TEREDO: Network = Network::v6(0x2001, 0, 0, 0, 32);

/// Networks whose last 32 bits are an IPv4 address: compatible, mapped and translated addresses, and NAT64.
const LAST_32_BITS: [Network; 2] = [Network::v6(0, 0, 0, 0, 64), Network::v6(0x64, 0xff9b, 0, 0, 96)];

/// The first match is reported, so subnets come before the networks that contain them.
const V4: [(Network, &str); 21] = [
    (Network::v4(0, 0, 0, 0, 8), "this network"),
    (Network::v4(10, 0, 0, 0, 8), "private use"),
    (Network::v4(100, 64, 0, 0, 10), "shared address space of providers"),
    (Network::v4(127, 0, 0, 0, 8), "loopback"),
    (Network::v4(168, 63, 129, 16, 32), "host agent of a cloud"),
    (Network::v4(169, 254, 169, 254, 32), "instance metadata of clouds"),
    (Network::v4(169, 254, 0, 0, 16), "link local"),
    (Network::v4(172, 16, 0, 0, 12), "private use"),
    (Network::v4(192, 0, 0, 0, 24), "protocol assignments"),
    (Network::v4(192, 0, 2, 0, 24), "documentation"),
    (Network::v4(192, 31, 196, 0, 24), "AS112"),
    (Network::v4(192, 52, 193, 0, 24), "automatic multicast tunnelling"),
    (Network::v4(192, 88, 99, 0, 24), "6to4 relays"),
    (Network::v4(192, 168, 0, 0, 16), "private use"),
    (Network::v4(192, 175, 48, 0, 24), "AS112"),
    (Network::v4(198, 18, 0, 0, 15), "benchmarking"),
    (Network::v4(198, 51, 100, 0, 24), "documentation"),
    (Network::v4(203, 0, 113, 0, 24), "documentation"),
    (Network::v4(224, 0, 0, 0, 4), "multicast"),
    (Network::v4(255, 255, 255, 255, 32), "broadcast"),
    (Network::v4(240, 0, 0, 0, 4), "reserved"),
];

const V6: [(Network, &str); 24] = [
    (Network::v6(0, 0, 0, 0, 128), "unspecified"),
    (LOOPBACK, "loopback"),
    (Network::v6(0, 0, 0, 0, 64), "IPv4 in IPv6"),
    (Network::v6(0x64, 0xff9b, 0, 0, 96), "NAT64"),
    (LOCAL_NAT64, "local NAT64"),
    (Network::v6(0x100, 0, 0, 0, 64), "discarded"),
    (Network::v6(0x100, 0, 0, 1, 64), "dummy prefix"),
    (TEREDO, "Teredo"),
    (Network::v6(0x2001, 2, 0, 0, 48), "benchmarking"),
    (Network::v6(0x2001, 3, 0, 0, 32), "automatic multicast tunnelling"),
    (Network::v6(0x2001, 4, 0x112, 0, 48), "AS112"),
    (Network::v6(0x2001, 0x10, 0, 0, 28), "ORCHID"),
    (Network::v6(0x2001, 0x20, 0, 0, 28), "ORCHIDv2"),
    (Network::v6(0x2001, 0x30, 0, 0, 28), "drones"),
    (Network::v6(0x2001, 0, 0, 0, 23), "protocol assignments"),
    (Network::v6(0x2001, 0xdb8, 0, 0, 32), "documentation"),
    (SIX_TO_FOUR, "6to4"),
    (Network::v6(0x2620, 0x4f, 0x8000, 0, 48), "AS112"),
    (Network::v6(0x3fff, 0, 0, 0, 20), "documentation"),
    (Network::v6(0x5f00, 0, 0, 0, 16), "segment routing"),
    (Network::v6(0xfc00, 0, 0, 0, 7), "unique local"),
    (Network::v6(0xfe80, 0, 0, 0, 10), "link local"),
    (Network::v6(0xfec0, 0, 0, 0, 10), "site local"),
    (Network::v6(0xff00, 0, 0, 0, 8), "multicast"),
];

const LOOPBACK: Network = Network::v6_host(0, 0, 0, 1);
