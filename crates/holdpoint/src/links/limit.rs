//! How often links may be used and tried. They need no key: good ones are counted by what they are for, in whose name;
//! tokens that nobody has signed by address, and together, wherever they come from.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use super::token::Claims;
use crate::auth::{RateLimit, too_many};
use crate::error::ApiError;

#[derive(Debug)]
pub(crate) struct Limit {
    good: RateLimit,
    addresses: RateLimit,
    bad: RateLimit,
}

impl Limit {
    /// Requests that may come at once after a pause, in seconds' worth.
    const BURST: u32 = 5;

    /// So many requests a second to each question in each name, and so many bad tokens from each address and from
    /// everywhere.
    pub(crate) fn new(per_second: u32) -> Self {
        let bucket = || RateLimit::new(per_second, per_second.saturating_mul(Self::BURST));
        Self { good: bucket(), addresses: bucket(), bad: bucket() }
    }

    /// When a token was signed here. Nobody else is held up by it: not even others who are asked the same.
    pub(crate) fn admit(&self, claims: &Claims, now: Instant) -> Result<(), ApiError> {
        // Ids have no blanks in them, and the name comes last.
        let whose = format!("{} {} {} {}", claims.of.tenant, claims.of.run, claims.interrupt, claims.sub);
        match self.good.wait(&whose, now) {
            None => Ok(()),
            Some(wait) => Err(too_many(wait, "route", "this link is used more often than it may be")),
        }
    }

    /// When a token was none. Good ones are not held up by it.
    pub(crate) fn refuse(&self, from: Option<IpAddr>, now: Instant) -> Result<(), ApiError> {
        if let Some(wait) = self.addresses.wait(&whose(from), now) {
            return Err(too_many(wait, "route", "too many links are tried from this address that are none"));
        }
        match self.bad.wait("", now) {
            None => Ok(()),
            Some(wait) => Err(too_many(wait, "global", "too many links are tried that are none")),
        }
    }
}

/// Under what somebody is counted. Whoever has one address of IPv6 has the whole network behind it.
pub(crate) fn whose(from: Option<IpAddr>) -> String {
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
        let (limit, now) = (Limit::new(1), Instant::now());
        let refused_for = |from: &str| {
            let error = limit.refuse(Some(from.parse().unwrap()), now).err()?;
            Some(error.body()["details"]["scope"].clone())
        };
        for _ in 0..Limit::BURST {
            assert_eq!(refused_for("10.0.0.1"), None);
        }
        assert_eq!(refused_for("10.0.0.1").unwrap(), "route");
        assert_eq!(refused_for("::ffff:10.0.0.1").unwrap(), "route", "the same address in other words");
        for _ in 0..Limit::BURST {
            assert_eq!(refused_for("2001:db8::1").unwrap(), "global", "bad tokens are counted together");
        }
        assert_eq!(refused_for("2001:db8::ffff").unwrap(), "route", "the same network");
        assert_eq!(refused_for("2001:db8:0:1::1").unwrap(), "global");
        assert!(limit.refuse(Some("10.0.0.2".parse().unwrap()), now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn a_good_link_is_held_up_by_its_own_use_only() {
        let (limit, now) = (Limit::new(1), Instant::now());
        while limit.refuse(None, now).is_ok() {}
        let admit = |run: &str, sub: &str| limit.admit(&claims(run, sub), now).is_ok();
        for _ in 0..Limit::BURST {
            assert!(admit("r1", "ann"));
        }
        assert!(!admit("r1", "ann"));
        assert!(admit("r1", "bob") && admit("r2", "ann"));
        assert!(limit.admit(&claims("r1", "ann"), now + Duration::from_secs(1)).is_ok());
    }
}
