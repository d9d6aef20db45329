//! `/metrics` in the text format of Prometheus: runs, nodes, interrupts, writes of the store, resources of the process.
//! Label values come from closed lists and never contain names of tenants, runs or principals.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use axum::extract::{FromRequestParts, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use holdpoint_engine::ProcessStats;

use crate::app::{App, unknown_path};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::telemetry::metrics;

/// Names and help texts, in the order of [`holdpoint_engine::EngineMetrics::delays`].
const DELAYS: [(&str, &str); 2] = [
    ("holdpoint_node_delays_total", "Nodes that began to wait for an unavailable server."),
    (
        "holdpoint_node_delays_given_up_total",
        "Nodes that wait for an operator because a server stayed unavailable.",
    ),
];

/// The right to read metrics. It needs no credential, unless the operator requires a scope.
#[derive(Debug)]
pub(crate) struct CanReadMetrics;

impl FromRequestParts<App> for CanReadMetrics {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if let Some(scope) = app.metrics.scope {
            Caller::authenticate(parts, app).await?.require_scope(scope)?;
        }
        Ok(Self)
    }
}

/// Serves `/metrics` on the main address, unless the operator gave metrics a separate address.
pub(crate) async fn main_address(
    State(app): State<App>,
    can: CanReadMetrics,
) -> Result<impl IntoResponse, ApiError> {
    match app.metrics.listen {
        None => Ok(text(State(app), can).await),
        Some(_) => Err(unknown_path()),
    }
}

pub(crate) async fn text(State(app): State<App>, _: CanReadMetrics) -> impl IntoResponse {
    let counters = app.engine.counters();
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: f64| {
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    #[allow(clippy::cast_precision_loss)]
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    put("holdpoint_commits_total", "counter", "Transactions committed.", count(&counters.commits));
    put("holdpoint_changes_total", "counter", "Changes written, many to a commit.", count(&counters.changes));
    put("holdpoint_rows_written_total", "counter", "Rows touched by changes.", count(&counters.rows));
    put("holdpoint_rows_read_total", "counter", "Rows read by queries.", count(&counters.rows_read));
    put(
        "holdpoint_database_round_trips_total",
        "counter",
        "Round trips to the database server.",
        count(&counters.round_trips),
    );
    for ((_, value), (name, help)) in app.engine.measures().delays.read().zip(DELAYS) {
        #[allow(clippy::cast_precision_loss)]
        put(name, "counter", help, value as f64);
    }
    if let Some(process) = ProcessStats::read("self") {
        put("process_cpu_seconds_total", "counter", "User and system CPU time.", process.cpu_seconds);
        put("process_resident_memory_bytes", "gauge", "Memory in use.", process.resident_bytes);
    }
    if let Some(losses) = &app.telemetry {
        let name = "holdpoint_telemetry_dropped_total";
        let (commits, spans) = (app.engine.dropped_commits(), losses.spans());
        let _ = write!(
            text,
            "# HELP {name} Commits and spans that were not exported.\n# TYPE {name} counter\n\
             {name}{{what=\"commits\"}} {commits}\n{name}{{what=\"spans\"}} {spans}\n"
        );
    }
    metrics::write_prometheus(&app.engine, &mut text);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
