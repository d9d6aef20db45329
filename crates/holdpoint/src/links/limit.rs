//! Rate limits of links, which need no API key. Valid tokens are counted by interrupt and principal, invalid tokens by
//! address and in total.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use super::token::Claims;
use crate::auth::{RateLimit, too_many};
use crate::error::ApiError;

#[derive(Debug)]
pub(crate) struct LinkLimit {
    valid: RateLimit,
    invalid_by_address: RateLimit,
    invalid: RateLimit,
}

impl LinkLimit {
    /// The size of a burst, in seconds of the rate.
    const BURST: u32 = 5;

    /// Allows this many requests per second over the links of one principal to one interrupt, and as many invalid tokens
    /// from one address and from all addresses.
    pub(crate) fn new(per_second: u32) -> Self {
        let bucket = || RateLimit::new(per_second, per_second.saturating_mul(Self::BURST));
        Self { valid: bucket(), invalid_by_address: bucket(), invalid: bucket() }
    }

    /// Counts a request with a valid token. It does not affect other principals, not even for the same interrupt.
    pub(crate) fn admit(&self, claims: &Claims, now: Instant) -> Result<(), ApiError> {
        // Unambiguous: ids have no spaces, and the name is last.
        let bucket = format!("{} {} {} {}", claims.of.tenant, claims.of.run, claims.interrupt, claims.sub);
        match self.valid.try_take(&bucket, now) {
            None => Ok(()),
            Some(wait) => Err(too_many(wait, "route", "the rate limit of this link is exceeded")),
        }
    }

    /// Counts a request with an invalid token. It does not affect valid tokens.
    pub(crate) fn count_invalid(&self, from: Option<IpAddr>, now: Instant) -> Result<(), ApiError> {
        if let Some(wait) = self.invalid_by_address.try_take(&address_key(from), now) {
            return Err(too_many(wait, "route", "too many invalid links from this address"));
        }
        match self.invalid.try_take("", now) {
            None => Ok(()),
            Some(wait) => Err(too_many(wait, "global", "too many invalid links")),
        }
    }
}

/// Returns the name under which an address is counted. IPv6 addresses are counted by their network (/64), all of which
/// belongs to one client.
pub(crate) fn address_key(from: Option<IpAddr>) -> String {
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

    use holdpoint_core::{NodeId, RunId, RunRef, TenantId, Timestamp};

    use holdpoint_api::links::Intent;

    fn claims(run: &str, sub: &str) -> Claims {
        Claims {
            of: RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse(run).unwrap() },
            node: NodeId::parse("gate").unwrap(),
            interrupt: "i1".to_owned(),
            expires_at: Timestamp(0),
            intent: Intent::Resolve,
            by: "maker".to_owned(),
            sub: sub.to_owned(),
            keys: Vec::new(),
        }
    }

    #[test]
    fn each_address_has_its_own_bucket_and_a_network_of_ipv6_has_one() {
        let (limit, now) = (LinkLimit::new(1), Instant::now());
        let refused_for = |from: &str| {
            let error = limit.count_invalid(Some(from.parse().unwrap()), now).err()?;
            Some(error.body()["details"]["scope"].clone())
        };
        for _ in 0..LinkLimit::BURST {
            assert_eq!(refused_for("10.0.0.1"), None);
        }
        assert_eq!(refused_for("10.0.0.1").unwrap(), "route");
        assert_eq!(refused_for("::ffff:10.0.0.1").unwrap(), "route", "the same address as IPv6");
        for _ in 0..LinkLimit::BURST {
            assert_eq!(refused_for("2001:db8::1").unwrap(), "global", "bad tokens are counted together");
        }
        assert_eq!(refused_for("2001:db8::ffff").unwrap(), "route", "the same network");
        assert_eq!(refused_for("2001:db8:0:1::1").unwrap(), "global");
        assert!(limit.count_invalid(Some("10.0.0.2".parse().unwrap()), now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn a_valid_link_is_limited_by_its_own_use_only() {
        let (limit, now) = (LinkLimit::new(1), Instant::now());
        while limit.count_invalid(None, now).is_ok() {}
        let admit = |run: &str, sub: &str| limit.admit(&claims(run, sub), now).is_ok();
        for _ in 0..LinkLimit::BURST {
            assert!(admit("r1", "ann"));
        }
        assert!(!admit("r1", "ann"));
        assert!(admit("r1", "bob") && admit("r2", "ann"));
        assert!(limit.admit(&claims("r1", "ann"), now + Duration::from_secs(1)).is_ok());
    }
}
