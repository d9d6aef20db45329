//! Rate limits. Each node counts its own requests in memory: a limit protects the node and is not exact over several
//! nodes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdpoint_api::{ErrorCode, ErrorDetails};

use crate::error::ApiError;

/// A token bucket for each id: it holds `burst` requests and refills at `per_second`. Only the instant at which a
/// bucket is full again is stored, so a full bucket needs no entry.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// Time after which a bucket gets one more request.
    interval: Duration,
    /// A bucket holds at least one request while the time until it is full is at most this.
    slack: Duration,
    full_at: Mutex<HashMap<String, Instant>>,
}

impl RateLimit {
    /// Maximum number of buckets. At this number, full buckets are removed; if none is full, new ids share one bucket.
    pub(super) const BUCKETS_MAX: usize = 10_000;
    const SHARED: &str = "";

    /// Returns a limit of `per_second` requests with bursts of `burst`. Both are at least 1.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self::every(Duration::from_secs(1) / per_second.max(1), burst)
    }

    /// Returns a limit whose buckets hold `burst` requests and get another one after each `interval`.
    pub(crate) fn every(interval: Duration, burst: u32) -> Self {
        let slack = interval * (burst.max(1) - 1);
        Self { interval, slack, full_at: Mutex::default() }
    }

    /// Takes one request out of the key's bucket, or returns an error with the time to wait.
    pub(super) fn take(&self, key_id: &str, now: Instant) -> Result<(), ApiError> {
        match self.try_take(key_id, now) {
            None => Ok(()),
            Some(wait) => Err(too_many(wait, "key", "the rate limit of this key is exceeded")),
        }
    }

    /// Takes one request out of a bucket, or returns the time until the bucket has one.
    pub(crate) fn try_take(&self, id: &str, now: Instant) -> Option<Duration> {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Self::bucket(&mut full_at, id, now);
        let wait = self.left(&full_at, id, now);
        if wait.is_none() {
            self.add(&mut full_at, id, now, Duration::MAX);
        }
        wait
    }

    /// Returns the time until the bucket holds a request, without taking one.
    pub(super) fn peek(&self, id: &str, now: Instant) -> Option<Duration> {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Self::bucket(&mut full_at, id, now);
        self.left(&full_at, id, now)
    }

    /// Takes one request out of a bucket even if it is empty. It is full again after `debt_max` at the latest.
    pub(super) fn charge(&self, id: &str, now: Instant, debt_max: Duration) {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Self::bucket(&mut full_at, id, now);
        self.add(&mut full_at, id, now, debt_max);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the name of the bucket that counts `id`: its own, or the shared one if there is no room for another.
    fn bucket<'a>(full_at: &mut HashMap<String, Instant>, id: &'a str, now: Instant) -> &'a str {
        if full_at.len() >= Self::BUCKETS_MAX && !full_at.contains_key(id) {
            full_at.retain(|_, at| *at > now);
        }
        let crowded = full_at.len() >= Self::BUCKETS_MAX && !full_at.contains_key(id);
        if crowded { Self::SHARED } else { id }
    }

    fn left(&self, full_at: &HashMap<String, Instant>, id: &str, now: Instant) -> Option<Duration> {
        let at = full_at.get(id).copied().unwrap_or(now).max(now);
        Some(at.duration_since(now).saturating_sub(self.slack)).filter(|wait| !wait.is_zero())
    }

    fn add(&self, full_at: &mut HashMap<String, Instant>, id: &str, now: Instant, debt_max: Duration) {
        let owed = full_at.get(id).map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let at = now + owed.saturating_add(self.interval).min(debt_max);
        match full_at.get_mut(id) {
            Some(known) => *known = at,
            None => drop(full_at.insert(id.to_owned(), at)),
        }
    }
}

/// Returns the error of a rate limit. `scope` names the counted unit: a key, an address, a route, or all requests.
pub(crate) fn too_many(wait: Duration, scope: &str, what: &str) -> ApiError {
    let wait_ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let message = format!("{what}; try again in {wait_ms} ms");
    let (retry_after_ms, scope) = (Some(wait_ms), Some(scope.to_owned()));
    let details = ErrorDetails { retry_after_ms, scope, ..Default::default() };
    ApiError::new(ErrorCode::RateLimited, message).with(details).retry_after_s(wait_ms.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    #[test]
    fn a_burst_is_accepted_then_one_request_per_interval() {
        let limit = RateLimit::new(10, 3);
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        for _ in 0..3 {
            assert!(limit.take("a", at(0)).is_ok());
        }
        assert!(limit.take("a", at(0)).is_err());
        assert!(limit.take("b", at(0)).is_ok(), "each key has its own bucket");
        assert!(limit.take("a", at(99)).is_err());
        assert!(limit.take("a", at(100)).is_ok());
        assert!(limit.take("a", at(100)).is_err(), "accepted requests count, rejected ones do not");
        for _ in 0..3 {
            assert!(limit.take("a", at(60_000)).is_ok(), "a bucket holds no more than a burst");
        }
        assert!(limit.take("a", at(60_000)).is_err());
    }

    #[test]
    fn a_request_after_the_given_wait_is_accepted() {
        let limit = RateLimit::new(3, 1);
        let start = Instant::now();
        assert!(limit.take("a", start).is_ok());
        let refused = limit.take("a", start).unwrap_err().into_response();
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()["retry-after"], "1", "whole seconds, rounded up");
        assert!(limit.take("a", start + Duration::from_millis(333)).is_err());
        assert!(limit.take("a", start + Duration::from_millis(334)).is_ok());
    }

    #[test]
    fn full_buckets_are_removed_when_there_are_many() {
        let limit = RateLimit::new(1, 1);
        let start = Instant::now();
        for number in 0..RateLimit::BUCKETS_MAX {
            limit.take(&number.to_string(), start).unwrap();
        }
        limit.take("late", start + Duration::from_secs(2)).unwrap();
        assert_eq!(limit.full_at.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let limit = RateLimit::new(1, 1);
        let start = Instant::now();
        for number in 0..RateLimit::BUCKETS_MAX {
            limit.take(&number.to_string(), start).unwrap();
        }
        assert!(limit.take("late", start).is_ok());
        assert!(limit.take("later", start).is_err(), "keys without a bucket share one");
        assert!(limit.take("0", start).is_err(), "the others keep their own");
        assert_eq!(limit.full_at.lock().unwrap().len(), RateLimit::BUCKETS_MAX + 1);
    }
}
