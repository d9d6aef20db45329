//! The `runs` table: one row for each run. Every change checks its sequence number, and lists are read from it.

use holdpoint_core::{Run, RunEnd, RunError, RunId, RunRef, Status, TenantId, Timestamp, WorkflowId};

use super::{Database, Error, Param, Row, Statement, params, unreadable};

const INSERT: &str = "INSERT INTO runs (tenant_id, run_id, seq, status, workflow_id, created_ms, updated_ms, \
    scope_id, parent_run_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const TAG: &str = "INSERT INTO run_tags (tenant_id, tag, run_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE runs SET seq = $1, status = $2, updated_ms = $3
    WHERE tenant_id = $4 AND run_id = $5 AND seq = $6";
/// Inserts a failed run, with its error code. Separate from [`INSERT`], because most runs do not fail.
const INSERT_FAILED: &str = "INSERT INTO runs (tenant_id, run_id, seq, status, workflow_id, created_ms, updated_ms, \
    scope_id, parent_run_id, error_code) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const UPDATE_FAILED: &str = "UPDATE runs SET seq = $1, status = $2, updated_ms = $3, error_code = $4
    WHERE tenant_id = $5 AND run_id = $6 AND seq = $7";
/// Selects the number of stored events of a run. Every change is checked against it.
pub(crate) const SEQUENCE: &str =
    "SELECT r.tenant_id, r.run_id, r.seq FROM runs r WHERE r.tenant_id = $1 AND r.run_id = $2";
/// The statement for a page of a list, with a condition that selects an index. Unused filters are empty.
macro_rules! page {
    ($found_by:literal) => {
        concat!(
            "SELECT run_id, workflow_id, status, created_ms, updated_ms, scope_id, parent_run_id, error_code FROM runs
            WHERE tenant_id = $1 AND run_id < $2 AND ($3 = '' OR status = $3) AND ($4 = '' OR workflow_id = $4)
            AND ($5 = '' OR scope_id = $5) AND ($6 = '' OR parent_run_id = $6)
            AND created_ms >= $7 AND created_ms < $8
            AND ($9 = '' OR run_id IN (SELECT g.run_id FROM run_tags g WHERE g.tenant_id = $1 AND g.tag = $9))",
            $found_by,
            " ORDER BY run_id DESC LIMIT $10"
        )
    };
}
const PAGE: &str = page!("");
const PAGE_OF_SCOPE: &str = page!(" AND scope_id = $5");
const PAGE_OF_PARENT: &str = page!(" AND parent_run_id = $6");
const PAGE_OF_TAG: &str =
    page!(" AND run_id IN (SELECT f.run_id FROM run_tags f WHERE f.tenant_id = $1 AND f.tag = $9)");

/// A text that sorts after every generated id.
const BEYOND_EVERY_ID: &str = "\u{10FFFF}";

/// Writes the row of `run` if the stored row has `before` events.
pub(crate) fn write(of: &RunRef, before: u64, run: &Run) -> Statement {
    let status = run.status().as_str();
    let failure = match &run.end {
        Some(RunEnd::Failed { error, .. }) => Some(stored_code(error)),
        Some(RunEnd::Completed { .. } | RunEnd::Cancelled { .. }) | None => None,
    };
    let (sql, values) = if before == 0 {
        let started = run.started.as_deref();
        let mut values = params![
            &of.tenant,
            &of.run,
            run.seq,
            Param::word(status),
            &run.workflow.id,
            run.created_at(),
            // A fork may copy an end that is older than the fork.
            run.updated_at.max(run.created_at()),
            started.and_then(|started| started.scope.as_deref()),
            started.and_then(|started| started.parent.as_ref()).map(|parent| parent.run.as_str())
        ];
        values.extend(failure.as_deref().map(Param::from));
        (if failure.is_some() { INSERT_FAILED } else { INSERT }, values)
    } else {
        let mut values = params![run.seq, Param::word(status), run.updated_at];
        values.extend(failure.as_deref().map(Param::from));
        values.extend(params![&of.tenant, &of.run, before]);
        (if failure.is_some() { UPDATE_FAILED } else { UPDATE }, values)
    };
    Statement::new(sql, values)
}

/// Inserts the tags of a new run.
pub(crate) fn tag<'r>(of: &'r RunRef, run: &'r Run) -> impl Iterator<Item = Statement> + use<'r> {
    let tags = run.started.as_deref().map(|started| started.tags.as_slice()).unwrap_or_default();
    let row = |tag: &String| Statement::new(TAG, params![&of.tenant, tag.as_str(), &of.run]);
    tags.iter().map(row)
}

/// Returns the number of stored events of each run.
pub(crate) async fn sequences(db: &Database, of: &[RunRef]) -> Result<Vec<(RunRef, u64)>, Error> {
    let sets = of.iter().map(|of| params![&of.tenant, &of.run]).collect();
    let rows = db.query_each(SEQUENCE, sets).await?;
    rows.iter().map(|row| Ok((reference(row)?, row.count("seq")?))).collect()
}

/// Reads the run of a row: the columns `tenant_id` and `run_id`.
pub(crate) fn reference(row: &Row) -> Result<RunRef, Error> {
    let tenant = TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("run", error))?;
    let run = RunId::parse(row.text("run_id")?).map_err(|error| unreadable("run", error))?;
    Ok(RunRef { tenant, run })
}

/// Suffix of the stored code of an error that was caused by a deadline.
const OF_TIMEOUT: &str = "\ntimeout";

/// Returns the value of the column `error_code`: the code, with a suffix if a deadline caused the error.
fn stored_code(error: &RunError) -> String {
    let mark = if error.is_timeout() { OF_TIMEOUT } else { "" };
    // A node can choose any code. Without line breaks, the code cannot contain the suffix.
    format!("{}{mark}", error.code.replace('\n', " "))
}

/// A run as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The id of the run.
    pub run: RunId,
    /// The workflow of the run.
    pub workflow: WorkflowId,
    /// The status of the run.
    pub status: Status,
    /// The time of its start.
    pub created_at: Timestamp,
    /// The time of its last event.
    pub updated_at: Timestamp,
    /// The exclusive scope of the run.
    pub scope: Option<String>,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// The error code of a failed run.
    pub error_code: Option<String>,
    /// The run failed because a deadline passed without an answer.
    pub timed_out: bool,
}

/// The filter of a list of runs.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Only runs with this status.
    pub status: Option<String>,
    /// Only runs of this workflow.
    pub workflow: Option<String>,
    /// Only runs of this scope.
    pub scope: Option<String>,
    /// Only child runs of this run.
    pub parent: Option<String>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs created at this time or later.
    pub created_from: Option<Timestamp>,
    /// Only runs created before this time.
    pub created_to: Option<Timestamp>,
    /// The last run of the previous page.
    pub before: Option<String>,
    /// The maximum number of runs.
    pub limit: u64,
}

/// Returns a page of runs, the newest first: generated run ids sort by time.
pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    filter: RunFilter,
) -> Result<Vec<RunSummary>, Error> {
    let sql = match &filter {
        RunFilter { parent: Some(_), .. } => PAGE_OF_PARENT,
        RunFilter { scope: Some(_), .. } => PAGE_OF_SCOPE,
        RunFilter { tag: Some(_), .. } => PAGE_OF_TAG,
        _ => PAGE,
    };
    let before = filter.before.unwrap_or_else(|| BEYOND_EVERY_ID.to_owned());
    let values: Vec<Param> = params![
        tenant,
        before,
        filter.status.unwrap_or_default(),
        filter.workflow.unwrap_or_default(),
        filter.scope.unwrap_or_default(),
        filter.parent.unwrap_or_default(),
        filter.created_from.unwrap_or(Timestamp(i64::MIN)),
        filter.created_to.unwrap_or(Timestamp(i64::MAX)),
        filter.tag.unwrap_or_default(),
        filter.limit
    ];
    db.query(sql, values).await?.iter().map(summary).collect()
}

fn summary(row: &Row) -> Result<RunSummary, Error> {
    let stored = row.optional_text("error_code")?;
    let code = stored.map(|stored| stored.strip_suffix(OF_TIMEOUT).unwrap_or(stored));
    let run = |text: &str| RunId::parse(text).map_err(|error| unreadable("run", error));
    Ok(RunSummary {
        run: run(row.text("run_id")?)?,
        workflow: WorkflowId::parse(row.text("workflow_id")?).map_err(|error| unreadable("run", error))?,
        status: Status::parse(row.text("status")?).ok_or_else(|| unreadable("run", "unknown status"))?,
        created_at: Timestamp(row.int("created_ms")?),
        updated_at: Timestamp(row.int("updated_ms")?),
        scope: row.optional_text("scope_id")?.map(str::to_owned),
        parent: row.optional_text("parent_run_id")?.map(run).transpose()?,
        error_code: code.map(str::to_owned),
        timed_out: code != stored,
    })
}
