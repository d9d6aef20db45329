//! Quotas of tenants: flags, and the table `[quotas]` of the file.

use clap::Args;
use holdpoint_engine::Quotas;
use serde::Deserialize;

const HEADING: &str = "Quotas of each tenant (0: no limit; GET /v1/usage shows the usage)";
/// Streams of a tenant that one node keeps open.
const STREAMS: u64 = 10_000;

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QuotaArgs {
    /// Runs that have not ended [default: 2000000]
    #[arg(long = "quota-open-runs", help_heading = HEADING, env = "HOLDPOINT_QUOTA_OPEN_RUNS", value_name = "N")]
    open_runs: Option<u64>,
    /// Bytes of the events of all runs [default: 107374182400, 100 GiB]
    #[arg(long = "quota-stored-bytes", help_heading = HEADING, env = "HOLDPOINT_QUOTA_STORED_BYTES", value_name = "N")]
    stored_bytes: Option<u64>,
    /// Stored revisions of workflows and agents [default: 50000]
    #[arg(long = "quota-definitions", help_heading = HEADING, env = "HOLDPOINT_QUOTA_DEFINITIONS", value_name = "N")]
    definitions: Option<u64>,
    /// Durable deliveries of webhooks that are not over; new runs are rejected while there are as many [default: 5000000]
    #[arg(long = "quota-deliveries", help_heading = HEADING, env = "HOLDPOINT_QUOTA_DELIVERIES", value_name = "N")]
    deliveries: Option<u64>,
    /// Runs that one run starts, directly or through others [default: 10000]
    #[arg(long = "quota-family-runs", help_heading = HEADING, env = "HOLDPOINT_QUOTA_FAMILY_RUNS", value_name = "N")]
    family_runs: Option<u64>,
    /// Bytes of the events of a run that is forked [default: 67108864, 64 MiB]
    #[arg(long = "quota-fork-bytes", help_heading = HEADING, env = "HOLDPOINT_QUOTA_FORK_BYTES", value_name = "N")]
    fork_bytes: Option<u64>,
    /// Streams of events and long polls that are open at this node [default: 10000]
    #[arg(long = "quota-streams", help_heading = HEADING, env = "HOLDPOINT_QUOTA_STREAMS", value_name = "N")]
    streams: Option<u64>,
}

/// The quotas that the engine enforces, and the one of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaSettings {
    pub engine: Quotas,
    pub streams: u64,
}

impl QuotaArgs {
    /// Returns the quotas: flags first, then the file, then defaults.
    pub(super) fn or(self, file: Option<Self>) -> QuotaSettings {
        let (file, default) = (file.unwrap_or_default(), Quotas::default());
        let engine = Quotas {
            open_runs: self.open_runs.or(file.open_runs).unwrap_or(default.open_runs),
            stored_bytes: self.stored_bytes.or(file.stored_bytes).unwrap_or(default.stored_bytes),
            definitions: self.definitions.or(file.definitions).unwrap_or(default.definitions),
            deliveries: self.deliveries.or(file.deliveries).unwrap_or(default.deliveries),
            family_runs: self.family_runs.or(file.family_runs).unwrap_or(default.family_runs),
            fork_bytes: self.fork_bytes.or(file.fork_bytes).unwrap_or(default.fork_bytes),
        };
        QuotaSettings { engine, streams: self.streams.or(file.streams).unwrap_or(STREAMS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file: QuotaArgs = toml::from_str("open_runs = 5\nstreams = 0\ndefinitions = 7").unwrap();
        let flags = QuotaArgs { definitions: Some(9), ..QuotaArgs::default() };
        let quotas = flags.or(Some(file));
        assert_eq!((quotas.engine.open_runs, quotas.engine.definitions, quotas.streams), (5, 9, 0));
        assert_eq!(quotas.engine.fork_bytes, Quotas::default().fork_bytes);
        assert!(toml::from_str::<QuotaArgs>("open_rnus = 5").is_err());
    }
}
