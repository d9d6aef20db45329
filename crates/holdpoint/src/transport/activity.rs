//! The state of one connection: waiting for a request head, idle, or handling a request. The task of the connection, its
//! stream and its response body write the state; the registry reads it to enforce timeouts and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No complete request head has arrived yet, TLS handshake included.
    New,
    /// At least one response was sent, and a part of the next head has arrived.
    Head,
    /// At least one response was sent, and no byte of the next request has arrived.
    Idle,
    /// A request head has arrived, and its body has not arrived completely.
    Body,
    /// A request is handled, or its response is sent.
    Busy,
    /// The registry has chosen the connection for closing. It accepts no further request.
    Closed,
}

/// A phase and the time at which it began, in one number, so that they change atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhaseSince(u64);

impl PhaseSince {
    fn new(phase: Phase, since_ms: u64) -> Self {
        Self(since_ms << 3 | phase as u64)
    }

    pub(super) fn phase(self) -> Phase {
        use Phase::{Body, Busy, Closed, Head, Idle, New};
        let phases = [New, Head, Idle, Body, Busy, Closed];
        phases.into_iter().find(|phase| *phase as u64 == self.0 & 7).unwrap_or(Phase::Closed)
    }

    pub(super) fn since_ms(self) -> u64 {
        self.0 >> 3
    }
}

/// The timeouts of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionTimeouts {
    /// Timeout for a complete request head, TLS handshake included.
    pub header: Duration,
    /// Timeout for the next request of a keep-alive connection.
    pub idle: Duration,
    /// Timeout for a client that does not read its response.
    pub write: Duration,
}

#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    observed: AtomicU64,
    /// The time at which the client stopped reading, in milliseconds, plus one; 0 while the client reads.
    blocked: AtomicU64,
}

impl Activity {
    /// Returns the state of a new connection. Times are counted from `started`.
    pub(super) fn new(started: Instant) -> Self {
        let new = Self { started, observed: AtomicU64::new(0), blocked: AtomicU64::new(0) };
        new.observed.store(PhaseSince::new(Phase::New, new.now_ms()).0, Ordering::Relaxed);
        new
    }

    pub(super) fn observe(&self) -> PhaseSince {
        PhaseSince(self.observed.load(Ordering::Acquire))
    }

    /// Marks the connection as `Body` or `Busy` until the guard is dropped. Returns None if the registry closes it.
    pub(super) fn begin_request(self: &Arc<Self>, phase: Phase) -> Option<InFlight> {
        let mut seen = self.observe();
        while seen.phase() != Phase::Closed {
            match self.change(seen, phase) {
                Ok(()) => return Some(InFlight(self.clone())),
                Err(other) => seen = other,
            }
        }
        None
    }

    /// Records that bytes have arrived. Between two requests they begin the next head.
    pub(super) fn received(&self) {
        let seen = self.observe();
        if seen.phase() == Phase::Idle {
            // A failed change means that the registry closes the connection.
            let _ = self.change(seen, Phase::Head);
        }
    }

    /// Records that the body of the request is complete, or that the handler reads no more of it.
    pub(super) fn end_body(&self) {
        let seen = self.observe();
        if seen.phase() == Phase::Body {
            // A failed change means that the registry closes the connection.
            let _ = self.change(seen, Phase::Busy);
        }
    }

    /// Records that the client reads no data. The first of several calls counts.
    pub(super) fn blocked(&self) {
        if self.blocked.load(Ordering::Relaxed) == 0 {
            self.blocked.store(self.now_ms() + 1, Ordering::Relaxed);
        }
    }

    /// Records that the client has read data. The idle time begins after the last data.
    pub(super) fn sent(&self) {
        if self.blocked.load(Ordering::Relaxed) != 0 {
            self.blocked.store(0, Ordering::Relaxed);
            let seen = self.observe();
            if seen.phase() == Phase::Idle {
                // A failed change means that the registry closes the connection.
                let _ = self.change(seen, Phase::Idle);
            }
        }
    }

    /// Closes the connection unless its state has changed since it was observed.
    pub(super) fn close(&self, seen: PhaseSince) -> bool {
        self.change(seen, Phase::Closed).is_ok()
    }

    pub(super) fn is_overdue(&self, seen: PhaseSince, timeouts: &ConnectionTimeouts) -> bool {
        let in_phase = self.passed(seen.since_ms());
        self.is_blocked(timeouts.write)
            || match seen.phase() {
                Phase::New | Phase::Head => in_phase >= timeouts.header,
                Phase::Idle => in_phase >= timeouts.idle && !self.is_blocked(Duration::ZERO),
                Phase::Body | Phase::Busy | Phase::Closed => false,
            }
    }

    /// Returns true if data is available and the client has not read any for at least this time.
    pub(super) fn is_blocked(&self, time: Duration) -> bool {
        let blocked = self.blocked.load(Ordering::Relaxed);
        blocked != 0 && self.passed(blocked - 1) >= time
    }

    fn passed(&self, since_ms: u64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(since_ms))
    }

    fn change(&self, seen: PhaseSince, phase: Phase) -> Result<(), PhaseSince> {
        let next = PhaseSince::new(phase, self.now_ms()).0;
        self.observed
            .compare_exchange(seen.0, next, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(PhaseSince)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX >> 4)
    }
}

/// A request in progress. When it is dropped, the connection is idle.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let seen = self.0.observe();
        if matches!(seen.phase(), Phase::Body | Phase::Busy) {
            // A failed change means that the registry closes the connection.
            let _ = self.0.change(seen, Phase::Idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
        header: Duration::from_secs(600),
        idle: Duration::from_secs(600),
        write: Duration::from_secs(600),
    };

    #[test]
    fn a_connection_is_busy_from_its_head_to_the_end_of_its_response() {
        let activity = Arc::new(Activity::new(Instant::now()));
        assert_eq!(activity.observe().phase(), Phase::New);
        activity.received();
        assert_eq!(
            activity.observe().phase(),
            Phase::New,
            "a part of the first head does not change the phase"
        );
        let in_flight = activity.begin_request(Phase::Body).unwrap();
        activity.received();
        assert_eq!(activity.observe().phase(), Phase::Body, "a body is part of its request");
        activity.end_body();
        assert_eq!(activity.observe().phase(), Phase::Busy);
        drop(in_flight);
        assert_eq!(activity.observe().phase(), Phase::Idle);
        activity.received();
        assert_eq!(activity.observe().phase(), Phase::Head);
        assert!(activity.begin_request(Phase::Busy).is_some());
    }

    #[test]
    fn a_closed_connection_accepts_no_request_and_a_busy_one_is_not_closed_by_an_old_observation() {
        let activity = Arc::new(Activity::new(Instant::now()));
        let new = activity.observe();
        let in_flight = activity.begin_request(Phase::Busy).unwrap();
        assert!(!activity.close(new));
        drop(in_flight);
        assert!(activity.close(activity.observe()));
        assert!(activity.begin_request(Phase::Busy).is_none());
        activity.received();
        assert_eq!(activity.observe().phase(), Phase::Closed);
    }

    #[test]
    fn each_phase_has_its_own_timeout_and_a_busy_connection_has_none_while_its_client_reads() {
        let with_change = |change: fn(&mut ConnectionTimeouts)| {
            let mut timeouts = LONG_TIMEOUTS;
            change(&mut timeouts);
            timeouts
        };
        let header = with_change(|timeouts| timeouts.header = Duration::ZERO);
        let idle = with_change(|timeouts| timeouts.idle = Duration::ZERO);
        let write = with_change(|timeouts| timeouts.write = Duration::ZERO);
        let activity = Arc::new(Activity::new(Instant::now()));
        let overdue = || {
            let seen = activity.observe();
            [&LONG_TIMEOUTS, &header, &idle, &write].map(|timeouts| activity.is_overdue(seen, timeouts))
        };
        assert_eq!(overdue(), [false, true, false, false]);
        let in_flight = activity.begin_request(Phase::Busy).unwrap();
        assert_eq!(overdue(), [false; 4]);
        activity.blocked();
        assert_eq!(overdue(), [false, false, false, true]);
        activity.sent();
        assert_eq!(overdue(), [false; 4]);
        drop(in_flight);
        assert_eq!(overdue(), [false, false, true, false]);
        activity.blocked();
        assert_eq!(overdue(), [false, false, false, true], "the rest of the response is being sent");
        activity.sent();
        assert_eq!(overdue(), [false, false, true, false]);
        activity.received();
        assert_eq!(overdue(), [false, true, false, false]);
    }
}
