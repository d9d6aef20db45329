//! Costs of the measured work: metrics of the server and CPU time of its database.

use super::measure::{Metrics, RoundedNumber, format_known, format_number, ratio};
use super::{ReportFields, Target};

/// The counters of the server and the CPU time of the database at one moment.
pub(super) struct Readings {
    pub(super) metrics: Metrics,
    pub(super) database: Option<f64>,
}

impl Readings {
    pub(super) async fn take(target: &Target) -> Self {
        Self { metrics: target.driver.metrics().await, database: target.database.cpu_seconds() }
    }

    /// Returns the costs from these readings to now.
    pub(super) async fn costs(&self, target: &Target, done: usize) -> Costs {
        Costs::between(self, &Self::take(target).await, done)
    }
}

/// Costs in total or per operation. Unknown values are None.
pub(super) struct Costs {
    pub(super) commits: Option<f64>,
    pub(super) changes: Option<f64>,
    pub(super) commits_each: Option<f64>,
    rows_per_commit: Option<f64>,
    changes_per_commit: Option<f64>,
    pub(super) round_trips_each: Option<f64>,
    /// Seconds per thousand operations.
    pub(super) server_cpu: Option<f64>,
    pub(super) database_cpu: Option<f64>,
    pub(super) both_cpu: Option<f64>,
    memory: Option<f64>,
}

impl Costs {
    pub(super) fn between(before: &Readings, after: &Readings, done: usize) -> Self {
        let done = Some(done as f64);
        let grown = |name: &str| after.metrics.since(&before.metrics, name);
        let per_thousand = |seconds: Option<f64>| ratio(seconds.map(|seconds| seconds * 1000.0), done);
        let commits = grown("holdpoint_commits_total");
        let changes = grown("holdpoint_changes_total");
        // SQLite has no round trips.
        let round_trips = grown("holdpoint_database_round_trips_total").filter(|trips| *trips > 0.0);
        let server_cpu = per_thousand(grown("process_cpu_seconds_total"));
        let database_cpu =
            per_thousand(after.database.zip(before.database).map(|(after, before)| after - before));
        Self {
            commits,
            changes,
            commits_each: ratio(commits, done),
            rows_per_commit: ratio(grown("holdpoint_rows_written_total"), commits),
            changes_per_commit: ratio(changes, commits),
            round_trips_each: ratio(round_trips, done),
            server_cpu,
            database_cpu,
            both_cpu: server_cpu.zip(database_cpu).map(|(server, database)| server + database),
            memory: after.metrics.get("process_resident_memory_bytes"),
        }
    }

    /// Adds CPU time and memory. `many` is the name of the operations, such as `Cycles`.
    pub(super) fn cpu(&self, fields: ReportFields, many: &str) -> ReportFields {
        let lower = many.to_lowercase();
        fields
            .number(format!("serverCpuSecondsPer1000{many}"), self.server_cpu)
            .number(format!("databaseCpuSecondsPer1000{many}"), self.database_cpu)
            .number(format!("bothCpuSecondsPer1000{many}"), self.both_cpu)
            .line(format!("server CPU per 1000 {lower}"), format!("{} s", format_number(self.server_cpu, 3)))
            .line(format!("database CPU per 1000 {lower}"), format_known(self.database_cpu, 3, " s"))
            .line("CPU of both", format_known(self.both_cpu, 3, " s"))
            .memory("serverMemoryBytes", "server memory", self.memory)
    }

    /// Adds the sizes of commits, and the round trips. `one` is the name of an operation, such as `Cycle`; `changes` is
    /// the label for changes.
    pub(super) fn commit_sizes(&self, fields: ReportFields, one: &str, changes: &str) -> ReportFields {
        fields
            .field(
                "rowsPerCommit",
                RoundedNumber(self.rows_per_commit),
                "rows per commit",
                format_number(self.rows_per_commit, 1),
            )
            .number("changesPerCommit", self.changes_per_commit)
            .number(format!("roundTripsPer{one}"), self.round_trips_each)
            .line(format!("{changes} per commit"), format_number(self.changes_per_commit, 1))
            .line(
                format!("round trips per {}", one.to_lowercase()),
                format_known(self.round_trips_each, 2, ""),
            )
    }
}
