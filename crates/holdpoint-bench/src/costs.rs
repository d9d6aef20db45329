//! What a server and its database tell about themselves, and what something cost them meanwhile.

use super::driver::Driver;
use super::ground::Ground;
use super::measure::{Metrics, ratio};

/// What the server and the database tell about themselves at one moment.
pub(super) struct Readings {
    metrics: Metrics,
    database: Option<f64>,
}

impl Readings {
    pub(super) async fn take(driver: &Driver, ground: &Ground) -> Self {
        Self { metrics: driver.metrics().await, database: ground.cpu_seconds() }
    }
}

/// What so many of something cost, in all or each; what is unknown stays unknown.
pub(super) struct Costs {
    pub(super) commits: Option<f64>,
    pub(super) changes: Option<f64>,
    pub(super) commits_each: Option<f64>,
    pub(super) rows_per_commit: Option<f64>,
    pub(super) changes_per_commit: Option<f64>,
    pub(super) round_trips_each: Option<f64>,
    /// Seconds for a thousand.
    pub(super) server_cpu: Option<f64>,
    pub(super) database_cpu: Option<f64>,
    pub(super) both_cpu: Option<f64>,
    pub(super) memory: Option<f64>,
}

impl Costs {
    pub(super) fn between(before: &Readings, after: &Readings, done: f64) -> Self {
        let grown = |name: &str| after.metrics.since(&before.metrics, name);
        let per_thousand = |seconds: Option<f64>| ratio(seconds.map(|seconds| seconds * 1000.0), Some(done));
        let commits = grown("holdpoint_commits_total");
        let changes = grown("holdpoint_changes_total");
        // A file has no server to wait for.
        let round_trips = grown("holdpoint_database_round_trips_total").filter(|trips| *trips > 0.0);
        let server_cpu = per_thousand(grown("process_cpu_seconds_total"));
        let database_cpu =
            per_thousand(after.database.zip(before.database).map(|(after, before)| after - before));
        Self {
            commits,
            changes,
            commits_each: ratio(commits, Some(done)),
            rows_per_commit: ratio(grown("holdpoint_rows_written_total"), commits),
            changes_per_commit: ratio(changes, commits),
            round_trips_each: ratio(round_trips, Some(done)),
            server_cpu,
            database_cpu,
            both_cpu: server_cpu.zip(database_cpu).map(|(server, database)| server + database),
            memory: after.metrics.get("process_resident_memory_bytes"),
        }
    }
}
