//! Quotas of tenants: flags, and the table `[quotas]` of the file.

use clap::Args;
use holdpoint_engine::Quotas;

const HEADING: &str = "Quotas of each tenant (0: no limit; GET /v1/usage shows the usage)";

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct QuotaArgs {
    /// Runs that have not ended
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_OPEN_RUNS", value_name = "N", default_value_t = Quotas::default().open_runs)]
    quota_open_runs: u64,
    /// Bytes of the events of all runs. The default is 100 GiB
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_STORED_BYTES", value_name = "N", default_value_t = Quotas::default().stored_bytes)]
    quota_stored_bytes: u64,
    /// Stored revisions of workflows and agents
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_DEFINITIONS", value_name = "N", default_value_t = Quotas::default().definitions)]
    quota_definitions: u64,
    /// Unfinished durable deliveries of webhooks; new runs are rejected while the quota is used up
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_DELIVERIES", value_name = "N", default_value_t = Quotas::default().deliveries)]
    quota_deliveries: u64,
    /// Runs that one run starts, directly or through child runs
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_FAMILY_RUNS", value_name = "N", default_value_t = Quotas::default().family_runs)]
    quota_family_runs: u64,
    /// Bytes of the events of a run that is forked. The default is 64 MiB
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_FORK_BYTES", value_name = "N", default_value_t = Quotas::default().fork_bytes)]
    quota_fork_bytes: u64,
    /// Tokens that models use on one UTC day; agents fail with quota_exceeded before the next call of a model
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_TOKENS_PER_DAY", value_name = "N", default_value_t = Quotas::default().tokens_per_day)]
    quota_tokens_per_day: u64,
    /// Streams of events and long polls that are open at this node
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_QUOTA_STREAMS", value_name = "N", default_value_t = 10_000)]
    quota_streams: u64,
}

/// The quotas that the engine enforces, and the quota of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaSettings {
    pub engine: Quotas,
    pub streams: u64,
}

impl QuotaArgs {
    pub(super) fn into_settings(self) -> QuotaSettings {
        let engine = Quotas {
            open_runs: self.quota_open_runs,
            stored_bytes: self.quota_stored_bytes,
            definitions: self.quota_definitions,
            deliveries: self.quota_deliveries,
            family_runs: self.quota_family_runs,
            fork_bytes: self.quota_fork_bytes,
            tokens_per_day: self.quota_tokens_per_day,
        };
        QuotaSettings { engine, streams: self.quota_streams }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load_with_file;

    #[test]
    fn quotas_are_a_table_of_the_file() {
        let file = "[quotas]\nopen_runs = 5\nstreams = 0\ndefinitions = 7";
        let quotas = load_with_file(&["--quota-definitions", "9"], file).unwrap().quotas;
        assert_eq!((quotas.engine.open_runs, quotas.engine.definitions, quotas.streams), (5, 9, 0));
        assert_eq!(quotas.engine.fork_bytes, Quotas::default().fork_bytes);
        let refused = load_with_file(&[], "[quotas]\nopen_rnus = 5").unwrap_err();
        assert!(refused.contains("quota_open_rnus"), "{refused}");
    }
}
