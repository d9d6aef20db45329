//! Limits how many unknown credentials one address may try: API keys, sessions and sign-in links. The limit is checked
//! before the store is read.
//!
//! Only failures are counted, so that any number of valid clients can share one address, such as that of a proxy. While
//! an address is over the limit, credentials that this node has accepted since it started still pass; all others from
//! that address are refused without a query, valid or not.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use axum::extract::ConnectInfo;
use axum::http::request::Parts;

use super::rate::{RateLimit, too_many};
use crate::error::ApiError;
use crate::links::{Peer, address_key};

/// The address that a request comes from. Addresses of one IPv6 network (/64) count as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(Option<IpAddr>);

impl Origin {
    pub(crate) fn of(parts: &Parts) -> Self {
        let peer = parts.extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer.0.ip());
        Self(peer)
    }
}

impl From<Option<IpAddr>> for Origin {
    fn from(address: Option<IpAddr>) -> Self {
        Self(address)
    }
}

/// Limits the failed authentications of each address.
#[derive(Debug)]
pub(crate) struct FailureLimit(Option<RateLimit>);

impl FailureLimit {
    pub(crate) const PER_MINUTE_DEFAULT: u32 = 100;
    /// Maximum time until an address may fail as often as at first again. Concurrent requests are all looked up before
    /// the first failure is counted, so an address can exceed its limit; it then waits longer, up to this time.
    const DEBT_MAX: Duration = Duration::from_secs(600);

    /// Allows this many failures at once and per minute; None means no limit.
    pub(crate) fn new(per_minute: Option<NonZeroU32>) -> Self {
        Self(per_minute.map(|count| RateLimit::every(Duration::from_secs(60) / count.get(), count.get())))
    }

    fn check(&self, from: &Origin, now: Instant) -> Result<(), ApiError> {
        match self.0.as_ref().and_then(|limit| limit.peek(&address_key(from.0), now)) {
            None => Ok(()),
            Some(wait) => {
                let what = "too many invalid API keys, sessions or sign-in links from this address";
                Err(too_many(wait, "address", what))
            }
        }
    }

    fn count(&self, from: &Origin, now: Instant) {
        if let Some(limit) = &self.0 {
            limit.charge(&address_key(from.0), now, Self::DEBT_MAX);
        }
    }
}

/// The failure limit, applied to the address of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureGuard<'a> {
    pub limit: &'a FailureLimit,
    pub from: &'a Origin,
}

impl FailureGuard<'_> {
    /// Refuses a credential that this node does not know yet if its address is over the limit.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        self.limit.check(self.from, Instant::now())
    }

    /// Counts a credential that was not valid.
    pub(crate) fn count(&self) {
        self.limit.count(self.from, Instant::now());
    }
}

impl Default for FailureLimit {
    fn default() -> Self {
        Self::new(NonZeroU32::new(Self::PER_MINUTE_DEFAULT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Origin {
        Origin::from(Some(address.parse().unwrap()))
    }

    fn limit(per_minute: u32) -> FailureLimit {
        FailureLimit::new(NonZeroU32::new(per_minute))
    }

    #[test]
    fn failures_are_counted_by_address_and_refill_over_a_minute() {
        let (limit, start) = (limit(60), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        for _ in 0..60 {
            assert!(limit.check(&from("10.0.0.1"), start).is_ok());
            limit.count(&from("10.0.0.1"), start);
        }
        let refused = limit.check(&from("10.0.0.1"), start).unwrap_err().body();
        assert_eq!(
            (&refused["error"], &refused["details"]["scope"]),
            (&"rate_limited".into(), &"address".into())
        );
        assert!(limit.check(&from("10.0.0.2"), start).is_ok(), "other addresses are not affected");
        assert!(limit.check(&from("10.0.0.1"), at(999)).is_err());
        assert!(limit.check(&from("10.0.0.1"), at(1000)).is_ok());
        assert!(limit.check(&from("10.0.0.1"), at(1000)).is_ok(), "a check alone is not counted");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let (limit, now) = (limit(1), Instant::now());
        limit.count(&from("2001:db8::1"), now);
        assert!(limit.check(&from("2001:db8::ffff:1"), now).is_err());
        assert!(limit.check(&from("2001:db8:0:1::1"), now).is_ok());
    }

    #[test]
    fn failures_that_arrive_at_once_are_all_counted_up_to_ten_minutes() {
        let (limit, now) = (limit(60), Instant::now());
        for _ in 0..120 {
            limit.count(&from("10.0.0.1"), now);
        }
        assert!(limit.check(&from("10.0.0.1"), now + Duration::from_secs(60)).is_err());
        assert!(limit.check(&from("10.0.0.1"), now + Duration::from_secs(61)).is_ok());
        for _ in 0..100_000 {
            limit.count(&from("10.0.0.2"), now);
        }
        assert!(limit.check(&from("10.0.0.2"), now + FailureLimit::DEBT_MAX).is_ok());
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let (limit, now) = (limit(1), Instant::now());
        for number in 0..20_000_u32 {
            limit.count(&Origin::from(Some(IpAddr::from(number.to_be_bytes()))), now);
        }
        assert!(limit.0.as_ref().unwrap().len() <= RateLimit::BUCKETS_MAX + 1);
        assert!(limit.check(&from("255.0.0.1"), now).is_err(), "addresses without room share one bucket");
    }

    #[test]
    fn the_limit_can_be_turned_off() {
        let (limit, now) = (limit(0), Instant::now());
        (0..1000).for_each(|_| limit.count(&from("10.0.0.1"), now));
        assert!(limit.check(&from("10.0.0.1"), now).is_ok());
    }
}
