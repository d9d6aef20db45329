//! Scans of the `pending` table, each in the order of an index, so that a page reads only its own rows. Conditions
//! without an index are checked by the reader of the rows.

use std::cmp::Ordering;

use holdpoint_core::{Kind, TenantId, Timestamp};

use super::{PendingCursor, PendingRow, read};
use crate::store::{Database, Error, Param, facets, params};

macro_rules! columns {
    () => {
        "p.requested_ms, p.run_id, p.interrupt_id, p.workflow_id, p.node_id, p.kind, p.key, p.title,
        p.expires_ms, p.digest, p.required, p.votes, p.open_asks, p.people, p.barred, p.tags, p.excerpt, p.path"
    };
}

/// The statements for both directions, from a position to a bound. `$of` is a condition with an index that is ordered
/// by `$at`, run and interrupt.
macro_rules! scan {
    ($of:literal, $at:literal) => {
        [scan!(@one $of, $at, ">", "<=", ""), scan!(@one $of, $at, "<", ">=", " DESC")]
    };
    (@one $of:literal, $at:literal, $beyond:literal, $within:literal, $order:literal) => {
        concat!(
            "SELECT ", columns!(), " FROM pending p WHERE ", $of, " AND (", $at, ", p.run_id, p.interrupt_id) ", $beyond,
            " ($2, $3, $4) AND ", $at, " ", $within, " $5
            ORDER BY ", $at, $order, ", p.run_id", $order, ", p.interrupt_id", $order, " LIMIT $6"
        )
    };
}

/// The statement for a scan of `pending_facets`, without an order of the result. The limit is in the subquery, so
/// that the planner knows how few rows are joined: with the limit outside, PostgreSQL would read and sort both tables
/// for a common facet. Both tables are written together, so that every row within the limit is found.
macro_rules! scan_facet {
    ($beyond:literal, $within:literal, $order:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM (SELECT f.tenant_id, f.requested_ms, f.run_id, f.interrupt_id
            FROM pending_facets f WHERE f.tenant_id = $1 AND f.facet = $2
            AND (f.requested_ms, f.run_id, f.interrupt_id) ",
            $beyond,
            " ($3, $4, $5) AND f.requested_ms ",
            $within,
            " $6
            ORDER BY f.requested_ms",
            $order,
            ", f.run_id",
            $order,
            ", f.interrupt_id",
            $order,
            " LIMIT $7) few
            JOIN pending p ON p.tenant_id = few.tenant_id AND p.requested_ms = few.requested_ms
            AND p.run_id = few.run_id AND p.interrupt_id = few.interrupt_id"
        )
    };
}

const ALL: [&str; 2] = scan!("p.tenant_id = $1", "p.requested_ms");
// The conditions repeat the expressions of the indexes; otherwise the planner would not use them.
const OF_KIND: [&str; 2] = scan!(
    "(p.tenant_id || CASE p.restricted WHEN 1 THEN '\n1\n' ELSE '\n0\n' END || p.kind) = $1",
    "p.requested_ms"
);
const OF_WORKFLOW: [&str; 2] = scan!("(p.tenant_id || '\n' || p.workflow_id) = $1", "p.requested_ms");
const OF_FACET: [&str; 2] = [scan_facet!(">", "<=", ""), scan_facet!("<", ">=", " DESC")];
const BY_DEADLINE: [&str; 2] = scan!("p.tenant_id = $1 AND p.expires_ms IS NOT NULL", "p.expires_ms");

/// The rows of a scan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PendingScan {
    All,
    /// Interrupts of a kind, with or without a list of assignees.
    Kind(Kind, AssigneeList),
    Workflow(String),
    /// Interrupts of an assignee: a name, `role:x` or `group:y`.
    Assignee(String),
    Tag(String),
    /// Interrupts with a deadline, in the order of deadlines.
    Deadline,
}

/// The presence of a list of assignees. Without one, every approver may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssigneeList {
    Present,
    Absent,
}

/// A part of a scan: the rows after a position, up to a time.
#[derive(Clone, Debug)]
pub(crate) struct ScanRange {
    pub backwards: bool,
    pub after: PendingCursor,
    pub until: Timestamp,
    pub limit: u64,
}

impl PendingScan {
    pub(crate) async fn rows(
        &self,
        db: &Database,
        tenant: &TenantId,
        range: ScanRange,
    ) -> Result<Vec<PendingRow>, Error> {
        let backwards = range.backwards;
        let (sql, values) = self.query(tenant, range);
        let rows = db.query(sql, values).await?;
        let mut rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if let Self::Assignee(_) | Self::Tag(_) = self {
            rows.sort_by(|a, b| if backwards { compare_requested(b, a) } else { compare_requested(a, b) });
        }
        Ok(rows)
    }

    /// Returns the query plan, for tests.
    pub(crate) async fn plan(
        &self,
        db: &Database,
        tenant: &TenantId,
        range: ScanRange,
    ) -> Result<String, Error> {
        let (sql, values) = self.query(tenant, range);
        db.plan(sql, values).await
    }

    fn query(&self, tenant: &TenantId, range: ScanRange) -> (&'static str, Vec<Param>) {
        let of_tenant = || tenant.as_str();
        let (statements, mut values) = match self {
            Self::All => (ALL, params![of_tenant()]),
            Self::Kind(kind, assignees) => (OF_KIND, params![kind_lane(tenant, *assignees, *kind)]),
            Self::Workflow(workflow) => (OF_WORKFLOW, params![workflow_lane(tenant, workflow)]),
            Self::Assignee(entry) => (OF_FACET, params![of_tenant(), facets::assignee(entry)]),
            Self::Tag(tag) => (OF_FACET, params![of_tenant(), facets::tag(tag)]),
            Self::Deadline => (BY_DEADLINE, params![of_tenant()]),
        };
        let ScanRange { backwards, after, until, limit } = range;
        values.extend(params![after.at_ms, after.run, after.interrupt, until, limit]);
        (statements[usize::from(backwards)], values)
    }
}

/// Compares two rows by the time at which they were opened.
pub(crate) fn compare_requested(a: &PendingRow, b: &PendingRow) -> Ordering {
    (a.requested_at, &a.run, a.id).cmp(&(b.requested_at, &b.run, b.id))
}

/// Returns the value in the index `pending_by_kind`. No id contains a line break, so that tenants cannot share a value.
fn kind_lane(tenant: &TenantId, assignees: AssigneeList, kind: Kind) -> String {
    let restricted = u8::from(assignees == AssigneeList::Present);
    format!("{tenant}\n{restricted}\n{}", kind.as_str())
}

/// Returns the value in the index `pending_by_workflow`. A filter can contain any text; one with a line break finds no
/// row.
fn workflow_lane(tenant: &TenantId, workflow: &str) -> String {
    format!("{tenant}\n{workflow}")
}
