//! The open connections of a listener. Limits their number in total and for each address, and closes connections to make
//! room or because of a timeout.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::activity::{Activity, ConnectionTimeouts, Phase, PhaseSince};

/// If a limit is reached, connections whose client has read no data for this time may be closed.
const BLOCKED_MIN: Duration = Duration::from_secs(5);

/// The limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    pub connections: usize,
    /// The limit for one address; for IPv6, for one /64 network.
    pub per_address: Option<usize>,
    pub timeouts: ConnectionTimeouts,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let timeouts = ConnectionTimeouts { header: seconds(10), idle: seconds(75), write: seconds(60) };
        Self { connections: 10_000, per_address: Some(1000), timeouts }
    }
}

impl ConnectionLimits {
    /// Returns the interval at which connections are checked for timeouts.
    pub(super) fn check_interval(&self) -> Duration {
        let ConnectionTimeouts { header, idle, write } = self.timeouts;
        (header.min(idle).min(write) / 4).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }
}

#[derive(Debug)]
pub(super) struct Registry {
    limits: ConnectionLimits,
    started: Instant,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Connections in the order in which they were accepted.
    connections: BTreeMap<u64, Connection>,
    per_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    activity: Arc<Activity>,
    /// Set as soon as the task of the connection has started.
    task: Option<AbortHandle>,
}

/// The slot of a connection in the registry. When it is dropped, the slot is free again.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    registry: Arc<Registry>,
    id: u64,
    pub(super) activity: Arc<Activity>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.registry.open().remove(self.id);
    }
}

impl Registry {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, started: Instant::now(), open: Mutex::default() })
    }

    /// Returns a slot for a new connection. If a limit is reached, another connection is closed: the oldest one without a
    /// complete request head, else an idle one, else one whose request body has not arrived, else one whose client does
    /// not read its response. Returns None if all of them are busy.
    pub(super) fn admit(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionSlot> {
        let address = counted_address(from);
        let mut open = self.open();
        let of_address = open.per_address.get(&address).copied().unwrap_or(0);
        let is_full = |count, limit: Option<usize>| limit.is_some_and(|limit| count >= limit);
        if is_full(of_address, self.limits.per_address) && !open.make_room(Some(address)) {
            return None;
        }
        if is_full(open.connections.len(), Some(self.limits.connections)) && !open.make_room(None) {
            return None;
        }
        let activity = Arc::new(Activity::new(self.started));
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, Connection { address, activity: activity.clone(), task: None });
        *open.per_address.entry(address).or_default() += 1;
        drop(open);
        Some(ConnectionSlot { registry: self.clone(), id, activity })
    }

    /// Sets the task to abort when the connection is closed.
    pub(super) fn started(&self, id: u64, task: AbortHandle) {
        // A task that has already ended has freed its slot.
        if let Some(connection) = self.open().connections.get_mut(&id) {
            connection.task = Some(task);
        }
    }

    /// Closes one connection that is not busy, if there is one.
    pub(super) fn make_room(&self) -> bool {
        self.open().make_room(None)
    }

    /// Closes the connections that exceed a timeout.
    pub(super) fn close_overdue(&self) {
        let mut open = self.open();
        let timeouts = &self.limits.timeouts;
        let overdue: Vec<u64> = open
            .connections
            .iter()
            .filter(|(_, connection)| {
                let seen = connection.activity.observe();
                connection.activity.is_overdue(seen, timeouts) && connection.activity.close(seen)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in overdue {
            open.end(id);
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl OpenConnections {
    fn make_room(&mut self, address: Option<IpAddr>) -> bool {
        let mut oldest: [Option<(u64, PhaseSince)>; 4] = [None; 4];
        let connections = self.connections.iter();
        for (id, connection) in connections.filter(|(_, one)| address.is_none_or(|from| one.address == from))
        {
            let seen = connection.activity.observe();
            let Some(rank) = rank(seen.phase(), &connection.activity) else { continue };
            oldest[rank].get_or_insert((*id, seen));
            if rank == 0 {
                break;
            }
        }
        // A connection that has received a request since then is not closed.
        let mut oldest = oldest.into_iter().flatten();
        let closed = oldest.find(|(id, seen)| {
            self.connections.get(id).is_some_and(|connection| connection.activity.close(*seen))
        });
        if let Some((id, _)) = closed {
            self.end(id);
        }
        closed.is_some()
    }

    fn end(&mut self, id: u64) {
        if let Some(task) = self.remove(id).and_then(|connection| connection.task) {
            task.abort();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Connection> {
        let removed = self.connections.remove(&id)?;
        if let Some(count) = self.per_address.get_mut(&removed.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&removed.address);
            }
        }
        Some(removed)
    }
}

/// Returns the rank of a connection in the order of closing, or None if it is not closed to make room.
fn rank(phase: Phase, activity: &Activity) -> Option<usize> {
    match phase {
        Phase::New | Phase::Head => Some(0),
        // The rest of a response may still be in transit.
        Phase::Idle if !activity.is_blocked(Duration::ZERO) => Some(1),
        Phase::Body => Some(2),
        Phase::Idle | Phase::Busy => activity.is_blocked(BLOCKED_MIN).then_some(3),
        Phase::Closed => None,
    }
}

/// Returns the address under which a client is counted. A client with one IPv6 address has the whole /64 network.
fn counted_address(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(connections: usize, per_address: Option<usize>) -> Arc<Registry> {
        let forever = Duration::from_secs(3600);
        let timeouts = ConnectionTimeouts { header: forever, idle: forever, write: forever };
        Registry::new(ConnectionLimits { connections, per_address, timeouts })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_full_registry_closes_connections_without_a_head_before_idle_ones_and_never_busy_ones() {
        let registry = registry(3, None);
        let busy = registry.admit(address(1)).unwrap();
        let _request = busy.activity.begin_request(Phase::Busy).unwrap();
        let idle = registry.admit(address(2)).unwrap();
        drop(idle.activity.begin_request(Phase::Busy));
        let new = registry.admit(address(3)).unwrap();
        let next = registry.admit(address(4)).unwrap();
        let phases = || [&busy, &idle, &new].map(|slot| slot.activity.observe().phase());
        assert_eq!(phases(), [Phase::Busy, Phase::Idle, Phase::Closed]);
        let _request = next.activity.begin_request(Phase::Busy).unwrap();
        let last = registry.admit(address(5)).unwrap();
        assert_eq!(phases(), [Phase::Busy, Phase::Closed, Phase::Closed]);
        let _request = last.activity.begin_request(Phase::Busy).unwrap();
        assert!(registry.admit(address(6)).is_none(), "all are busy");
        drop(last);
        let slow = registry.admit(address(6)).unwrap();
        let _body = slow.activity.begin_request(Phase::Body).unwrap();
        let _replacement = registry.admit(address(7)).unwrap();
        assert_eq!(slow.activity.observe().phase(), Phase::Closed, "the body has not arrived");
    }

    #[test]
    fn a_dropped_slot_is_free_again() {
        let registry = registry(1, None);
        let first = registry.admit(address(6)).unwrap();
        let _request = first.activity.begin_request(Phase::Busy).unwrap();
        assert!(registry.admit(address(6)).is_none());
        drop(first);
        assert!(registry.admit(address(6)).is_some());
    }

    #[test]
    fn the_limit_of_an_address_does_not_affect_other_addresses() {
        let registry = registry(100, Some(2));
        let other = registry.admit(address(2)).unwrap();
        let slots: Vec<ConnectionSlot> = (0..2).map(|_| registry.admit(address(1)).unwrap()).collect();
        let _first = slots[0].activity.begin_request(Phase::Busy).unwrap();
        let third = registry.admit(address(1)).unwrap();
        assert_eq!(slots[1].activity.observe().phase(), Phase::Closed);
        let _third = third.activity.begin_request(Phase::Busy).unwrap();
        assert!(registry.admit(address(1)).is_none());
        assert_eq!(other.activity.observe().phase(), Phase::New);
        assert!(registry.admit(address(2)).is_some());
        drop((slots, third, other));
        assert!(registry.open().connections.is_empty() && registry.open().per_address.is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let counted = |text: &str| counted_address(text.parse().unwrap()).to_string();
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(counted("::ffff:10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn connections_are_checked_several_times_within_their_shortest_timeout() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(75));
        let limits = |header| ConnectionLimits {
            timeouts: ConnectionTimeouts { header, idle: long, write: long },
            ..registry(1, None).limits
        };
        assert_eq!(limits(short).check_interval(), Duration::from_millis(250));
        assert_eq!(limits(long).check_interval(), Duration::from_secs(1));
    }
}
