//! Limits and timeouts of connections.

use std::time::Duration;

use clap::Args;

use super::retention;
use crate::transport::{ConnectionLimits, ConnectionTimeouts};

const HEADING: &str = "Connections";

#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// Maximum number of open connections. At the limit the server closes a connection without a complete request, or
    /// else an idle one, or else one whose client stalls. If all are busy, a new connection gets 503
    /// [default: 10000, or half of the limit of open files if that is less]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_CONNECTIONS_MAX", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    connections_max: Option<u64>,
    /// Maximum number of open connections from one address (IPv6: from one /64 network), by the same rule. 0 means no
    /// limit [default: 1000, or half of --connections-max if that is less]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_CONNECTIONS_PER_ADDRESS", value_name = "N")]
    connections_per_address: Option<u64>,
    /// Time for the complete head of a request, TLS handshake included: a number and s, m, h, d or w
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_HEADER_TIMEOUT", value_name = "TIME", value_parser = parse_timeout, default_value = "10s")]
    header_timeout: Duration,
    /// Time for the next request of a connection that is kept open. Streams and long polls are not idle
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_IDLE_TIMEOUT", value_name = "TIME", value_parser = parse_timeout, default_value = "75s")]
    idle_timeout: Duration,
    /// Time after which a client that does not read its response is disconnected
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WRITE_TIMEOUT", value_name = "TIME", value_parser = parse_timeout, default_value = "60s")]
    write_timeout: Duration,
}

impl ConnectionArgs {
    pub(super) fn into_settings(self) -> ConnectionLimits {
        let files_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let connections = self.connections_max.map_or_else(|| default_total(files_max), count);
        let per_address = match self.connections_per_address {
            // So that one address cannot use all connections.
            None => ConnectionLimits::default().per_address.map(|most| most.min(connections / 2).max(1)),
            Some(number) => (number > 0).then(|| count(number)),
        };
        let timeouts = ConnectionTimeouts {
            header: self.header_timeout,
            idle: self.idle_timeout,
            write: self.write_timeout,
        };
        ConnectionLimits { connections, per_address, timeouts }
    }
}

/// Returns the limit for a process that may open this many files. The other half is for the database and outgoing calls.
fn default_total(files_max: Option<u64>) -> usize {
    let default = ConnectionLimits::default().connections;
    files_max.map_or(default, |files| count(files / 2).clamp(1, default))
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    retention::parse(text)
        .and_then(|time| if time.is_zero() { Err("must be at least 1s".to_owned()) } else { Ok(time) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{load, load_with_file};

    #[test]
    fn half_of_the_files_are_for_connections() {
        let chosen = [None, Some(1), Some(256), Some(1024), Some(1_000_000)].map(default_total);
        assert_eq!(chosen, [10_000, 1, 128, 512, 10_000]);
    }

    #[test]
    fn defaults_are_those_of_the_transport() {
        let limits = load(&[]).unwrap().connections;
        assert_eq!((limits.per_address, limits.timeouts), (Some(1000), ConnectionLimits::default().timeouts));
        assert_eq!(load(&["--connections-per-address", "0"]).unwrap().connections.per_address, None);
    }

    #[test]
    fn a_limit_of_zero_connections_or_seconds_is_rejected_with_its_name() {
        let refused = load(&["--connections-max", "0"]).unwrap_err();
        assert!(refused.contains("--connections-max"), "{refused}");
        let refused = load_with_file(&[], "idle_timeout = \"0\"").unwrap_err();
        assert!(refused.contains("idle_timeout: must be at least 1s"), "{refused}");
    }
}
