//! How often links may be tried. They need no key, so it is counted by address; and tokens that nobody has signed are
//! counted together, wherever they come from.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use crate::auth::{RateLimit, too_many};
use crate::error::ApiError;

#[derive(Debug)]
pub(crate) struct Limit {
    addresses: RateLimit,
    bad: RateLimit,
}

impl Limit {
    /// Requests that may come at once after a pause, in seconds' worth.
    const BURST: u32 = 5;

    /// So many requests a second from each address, and so many bad tokens from everywhere.
    pub(crate) fn new(per_second: u32) -> Self {
        let bucket = || RateLimit::new(per_second, per_second.saturating_mul(Self::BURST));
        Self { addresses: bucket(), bad: bucket() }
    }

    /// Before a token is looked at.
    pub(crate) fn admit(&self, from: Option<IpAddr>, now: Instant) -> Result<(), ApiError> {
        match self.addresses.wait(&whose(from), now) {
            None => Ok(()),
            Some(wait) => {
                Err(too_many(wait, "route", "links are tried from this address more often than they may be"))
            }
        }
    }

    /// When a token was none. Good ones are not held up by it.
    pub(crate) fn refuse(&self, now: Instant) -> Result<(), ApiError> {
        match self.bad.wait("", now) {
            None => Ok(()),
            Some(wait) => Err(too_many(wait, "global", "too many links are tried that are none")),
        }
    }
}

/// Whoever has one address of IPv6 has the whole network behind it.
fn whose(from: Option<IpAddr>) -> String {
    match from.map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string()
        }
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_address_has_its_own_bucket_and_a_network_of_ipv6_has_one() {
        let limit = Limit::new(1);
        let now = Instant::now();
        let admit = |from: &str| limit.admit(Some(from.parse().unwrap()), now).is_ok();
        for from in ["10.0.0.1", "2001:db8::1"] {
            for _ in 0..Limit::BURST {
                assert!(admit(from));
            }
            assert!(!admit(from));
        }
        assert!(!admit("::ffff:10.0.0.1"), "the same address in other words");
        assert!(!admit("2001:db8::ffff"), "the same network");
        assert!(admit("10.0.0.2") && admit("2001:db8:0:1::1"));
        assert!(limit.admit(Some("10.0.0.1".parse().unwrap()), now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn bad_tokens_are_counted_together() {
        let limit = Limit::new(2);
        let now = Instant::now();
        for _ in 0..2 * Limit::BURST {
            assert!(limit.refuse(now).is_ok());
        }
        assert!(limit.refuse(now).is_err());
        assert!(limit.admit(None, now).is_ok(), "good ones are not held up");
        assert!(limit.refuse(now + Duration::from_millis(500)).is_ok());
    }
}
