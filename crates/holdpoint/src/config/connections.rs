//! Limits and timeouts of connections.

use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use clap::Args;

use super::retention;
use crate::transport::{Limits, Timeouts};

const HEADING: &str = "Connections";
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// Connections at a time. If there are more, those without a complete request are closed first, then idle ones, and
    /// new ones get 503 [default: 10000, or half of the limit of open files if that is less]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_CONNECTIONS_MAX", value_name = "N")]
    connections_max: Option<u64>,
    /// Connections at a time from one address (IPv6: from one /64 network), by the same rule. 0 means no limit
    /// [default: 1000]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_CONNECTIONS_PER_ADDRESS", value_name = "N")]
    connections_per_address: Option<u64>,
    /// Time for the complete head of a request, TLS handshake included: a number and s, m, h or d [default: 10s]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_HEADER_TIMEOUT", value_name = "TIME", value_parser = retention::parse)]
    header_timeout: Option<Duration>,
    /// Time for the next request of a connection that is kept open. Streams and long polls are not idle [default: 75s]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_IDLE_TIMEOUT", value_name = "TIME", value_parser = retention::parse)]
    idle_timeout: Option<Duration>,
    /// Time after which a client that takes nothing of a response is disconnected [default: 60s]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WRITE_TIMEOUT", value_name = "TIME", value_parser = retention::parse)]
    write_timeout: Option<Duration>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct ConnectionFile {
    pub connections_max: Option<u64>,
    pub connections_per_address: Option<u64>,
    pub header_timeout: Option<String>,
    pub idle_timeout: Option<String>,
    pub write_timeout: Option<String>,
}

impl ConnectionFile {
    pub(super) fn take(file: &mut super::File) -> Self {
        Self {
            connections_max: file.connections_max,
            connections_per_address: file.connections_per_address,
            header_timeout: file.header_timeout.take(),
            idle_timeout: file.idle_timeout.take(),
            write_timeout: file.write_timeout.take(),
        }
    }
}

impl ConnectionArgs {
    pub(super) fn or(self, file: ConnectionFile) -> anyhow::Result<Limits> {
        let files_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let total = self.connections_max.or(file.connections_max);
        if total == Some(0) {
            bail!("connections_max: must be at least 1");
        }
        let default = Limits::default();
        let Timeouts { header, idle, write } = default.timeouts;
        let connections = total.map_or_else(|| default_total(files_max), count);
        let per_address = match self.connections_per_address.or(file.connections_per_address) {
            // One address does not take all connections.
            None => default.per_address.map(|most| most.min(connections / 2).max(1)),
            Some(number) => (number > 0).then(|| count(number)),
        };
        Ok(Limits {
            connections,
            per_address,
            timeouts: Timeouts {
                header: choose(self.header_timeout, file.header_timeout, "header_timeout", header)?,
                idle: choose(self.idle_timeout, file.idle_timeout, "idle_timeout", idle)?,
                write: choose(self.write_timeout, file.write_timeout, "write_timeout", write)?,
            },
        })
    }
}

/// Returns the limit for a process that may open so many files. The other half is for the database and outgoing calls.
fn default_total(files_max: Option<u64>) -> usize {
    let default = Limits::default().connections;
    files_max.map_or(default, |files| count(files / 2).clamp(1, default))
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn choose(
    flag: Option<Duration>,
    file: Option<String>,
    name: &str,
    default: Duration,
) -> anyhow::Result<Duration> {
    let file = file.as_deref().map(retention::parse).transpose().map_err(|why| anyhow!("{name}: {why}"))?;
    let chosen = flag.or(file).unwrap_or(default);
    ensure!(!chosen.is_zero(), "{name}: must be at least 1s");
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ServeArgs};

    #[test]
    fn half_of_the_files_are_for_connections() {
        let chosen = [None, Some(1), Some(256), Some(1024), Some(1_000_000)].map(default_total);
        assert_eq!(chosen, [10_000, 1, 128, 512, 10_000]);
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let seconds =
            |timeouts: Timeouts| [timeouts.header, timeouts.idle, timeouts.write].map(|time| time.as_secs());
        let defaults = ConnectionArgs::default().or(ConnectionFile::default()).unwrap();
        assert_eq!((defaults.per_address, seconds(defaults.timeouts)), (Some(1000), [10, 75, 60]));
        let file = || ConnectionFile {
            connections_max: Some(7),
            connections_per_address: Some(0),
            header_timeout: Some("3s".to_owned()),
            idle_timeout: Some("2m".to_owned()),
            write_timeout: None,
        };
        let of_file = ConnectionArgs::default().or(file()).unwrap();
        assert_eq!((of_file.connections, of_file.per_address), (7, None));
        assert_eq!(seconds(of_file.timeouts), [3, 120, 60]);
        let args = ConnectionArgs {
            connections_max: Some(9),
            header_timeout: Some(Duration::from_secs(1)),
            ..ConnectionArgs::default()
        };
        let of_flags = args.or(file()).unwrap();
        assert_eq!((of_flags.connections, seconds(of_flags.timeouts)), (9, [1, 120, 60]));
    }

    #[test]
    fn the_file_has_the_settings_of_the_transport() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holdpoint.toml");
        let lines = [
            "connections_max = 7",
            "connections_per_address = 3",
            "idle_timeout = \"2m\"",
            "tls_cert = \"cert.pem\"",
            "tls_key = \"key.pem\"",
            "tls_client_ca = \"ca.pem\"",
            "metrics_listen = \"127.0.0.1:9464\"",
            "metrics_scope = \"runs:read\"",
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let args = ServeArgs { config: Some(path), ..ServeArgs::default() };
        let config = Config::load(args).unwrap();
        let limits = config.connections;
        assert_eq!((limits.connections, limits.per_address), (7, Some(3)));
        assert_eq!(limits.timeouts.idle, Duration::from_secs(120));
        assert_eq!(config.tls.unwrap().client_ca, Some("ca.pem".into()));
        assert_eq!((config.metrics.listen.unwrap().port(), config.metrics.scope), (9464, Some("runs:read")));
    }

    #[test]
    fn a_limit_of_zero_connections_or_seconds_is_refused_with_its_name() {
        let none = ConnectionArgs { connections_max: Some(0), ..ConnectionArgs::default() };
        assert!(none.or(ConnectionFile::default()).unwrap_err().to_string().contains("connections_max"));
        let file = ConnectionFile { idle_timeout: Some("0".to_owned()), ..ConnectionFile::default() };
        assert!(ConnectionArgs::default().or(file).unwrap_err().to_string().contains("idle_timeout"));
    }
}
