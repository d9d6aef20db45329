//! Networks in CIDR notation, such as `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network in CIDR notation. A single address is a network of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

/// An invalid network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a network such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7: {why}")]
pub struct BadNetwork {
    text: String,
    why: &'static str,
}

impl Network {
    pub(super) const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// Returns a network from the first four groups. The other groups are zero.
    pub(super) const fn v6(a: u16, b: u16, c: u16, d: u16, prefix: u8) -> Self {
        Self { base: IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)), prefix }
    }

    /// Returns a network of one address from its last four groups. The first four are zero.
    pub(super) const fn v6_host(e: u16, f: u16, g: u16, h: u16) -> Self {
        Self { base: IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, e, f, g, h)), prefix: 128 }
    }

    /// Returns whether the network contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let bits = 32 - u32::from(self.prefix);
                base.to_bits().checked_shr(bits) == address.to_bits().checked_shr(bits)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let bits = 128 - u32::from(self.prefix);
                base.to_bits().checked_shr(bits) == address.to_bits().checked_shr(bits)
            }
            // The caller extracts IPv4 addresses embedded in IPv6 addresses.
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = |why| BadNetwork { text: text.to_owned(), why };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| bad("not an IP address"))?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| bad("the prefix length is not a number"))?
            }
            Some(_) => return Err(bad("the prefix length is not a number")),
        };
        if prefix > longest {
            return Err(bad("the prefix is longer than the address"));
        }
        let network = Self { base, prefix };
        // Rejects 10.0.0.1/8, which is usually a mistake.
        if network.first() == base { Ok(network) } else { Err(bad("address bits are set after the prefix")) }
    }
}

impl Network {
    fn first(&self) -> IpAddr {
        match self.base {
            IpAddr::V4(base) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() & mask))
            }
            IpAddr::V6(base) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() & mask))
            }
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
