//! Paths from the root to the run of a pending row, and the rows whose path is not known.

use holdpoint_core::{Ancestor, Run, RunRef};

use crate::store::runs::reference;
use crate::store::{Database, Error, Row, Statement, params};

/// Marks a row whose path must be filled in: an earlier version did not store it, or not all ancestors of its run.
const UNKNOWN: &str = "";

const WITHOUT_PATH: &str = "SELECT DISTINCT tenant_id, run_id FROM pending
    WHERE path = '' AND (tenant_id > $1 OR (tenant_id = $1 AND run_id > $2)) ORDER BY tenant_id, run_id LIMIT $3";
const FILL: &str = "UPDATE pending SET path = $1 WHERE tenant_id = $2 AND run_id = $3 AND path = ''";

/// Returns the stored ancestors of a run; None for a run without a parent.
pub(super) fn stored(run: &Run) -> Option<String> {
    run.parent().map(|parent| parent.path().map_or_else(|| UNKNOWN.to_owned(), |path| text(&path)))
}

/// Reads the ancestors of the run of a row. They are empty if the run has no parent, or if they are not known.
pub(super) fn read(row: &Row) -> Result<Vec<Ancestor>, Error> {
    let text = row.optional_text("path")?.filter(|text| *text != UNKNOWN);
    text.map(super::json).transpose().map(Option::unwrap_or_default)
}

/// Returns runs with rows whose path is not known, in the order of their ids, beginning after a run.
pub(crate) async fn without_path(
    db: &Database,
    after: Option<&RunRef>,
    limit: u64,
) -> Result<Vec<RunRef>, Error> {
    let (tenant, run) = after.map_or(("", ""), |after| (after.tenant.as_str(), after.run.as_str()));
    db.query(WITHOUT_PATH, params![tenant, run, limit]).await?.iter().map(reference).collect()
}

/// Returns the statement that fills in the path of the rows of a run.
pub(crate) fn fill_path(of: &RunRef, path: &[Ancestor]) -> Statement {
    Statement::new(FILL, params![text(path), &of.tenant, &of.run])
}

fn text(path: &[Ancestor]) -> String {
    serde_json::json!(path).to_string()
}
