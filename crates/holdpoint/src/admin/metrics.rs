//! `/metrics` in Prometheus' text format: what the store wrote and what the process costs. No labels, no secrets.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::app::App;

pub(crate) async fn text(State(app): State<App>) -> impl IntoResponse {
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
    if let Some((cpu_seconds, resident_bytes)) = process() {
        put("process_cpu_seconds_total", "counter", "User and system CPU time.", cpu_seconds);
        put("process_resident_memory_bytes", "gauge", "Memory in use.", resident_bytes);
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// CPU seconds and resident bytes of this process, where the system tells (Linux).
fn process() -> Option<(f64, f64)> {
    /// The kernel's unit in /proc/self/stat; fixed at 100 on every architecture we build for.
    const TICKS_PER_SECOND: f64 = 100.0;
    const PAGE_BYTES: f64 = 4096.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some(((number(11)? + number(12)?) / TICKS_PER_SECOND, number(21)? * PAGE_BYTES))
}
