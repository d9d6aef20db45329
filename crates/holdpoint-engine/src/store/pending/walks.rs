//! Ways through the `pending` table, each in the order of an index: whatever is looked for, the first rows of a walk are
//! the first that are read. What an index cannot tell is for the reader of the rows.

use std::cmp::Ordering;

use holdpoint_core::{Kind, TenantId, Timestamp};

use super::{Pending, PendingCursor, read};
use crate::store::{Database, Error, Param, facets, params};

macro_rules! columns {
    () => {
        "p.requested_ms, p.run_id, p.interrupt_id, p.workflow_id, p.node_id, p.kind, p.key, p.title,
        p.expires_ms, p.digest, p.required, p.votes, p.open_asks, p.people, p.barred, p.tags, p.excerpt"
    };
}

/// One statement in both directions, from a place to a bound. `$of` says what is found by an index whose entries are in
/// the order of `$at`, run and interrupt.
macro_rules! walk {
    ($of:literal, $at:literal) => {
        [walk!(@one $of, $at, ">", "<=", ""), walk!(@one $of, $at, "<", ">=", " DESC")]
    };
    (@one $of:literal, $at:literal, $beyond:literal, $within:literal, $order:literal) => {
        concat!(
            "SELECT ", columns!(), " FROM pending p WHERE ", $of, " AND (", $at, ", p.run_id, p.interrupt_id) ", $beyond,
            " ($2, $3, $4) AND ", $at, " ", $within, " $5
            ORDER BY ", $at, $order, ", p.run_id", $order, ", p.interrupt_id", $order, " LIMIT $6"
        )
    };
}

/// The same by way of `pending_facets`, in no order. The limit is inside, so that whoever plans this knows how few rows
/// are joined: PostgreSQL would read and sort both tables for a join before the limit, where a facet is common.
/// Rows of both tables come and go together: what is within the limit is all found, and fewer rows are the last.
macro_rules! walk_facet {
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

const ALL: [&str; 2] = walk!("p.tenant_id = $1", "p.requested_ms");
const OF_KIND: [&str; 2] = walk!("p.kind_lane = $1", "p.requested_ms");
const OF_WORKFLOW: [&str; 2] = walk!("p.workflow_lane = $1", "p.requested_ms");
const OF_FACET: [&str; 2] = [walk_facet!(">", "<=", ""), walk_facet!("<", ">=", " DESC")];
const BY_DEADLINE: [&str; 2] = walk!("p.tenant_id = $1 AND p.expires_ms IS NOT NULL", "p.expires_ms");

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Walk {
    All,
    /// Of a kind: what is open to anybody, or what names people.
    Kind(Kind, bool),
    Workflow(String),
    /// For somebody: a name, `role:x`, `group:y`.
    Assignee(String),
    Tag(String),
    /// What has a deadline, in that order.
    Deadline,
}

/// A piece of a walk: the rows behind a place, and not beyond an instant.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub backwards: bool,
    pub after: PendingCursor,
    pub until: Timestamp,
    pub limit: u64,
}

impl Walk {
    pub(crate) async fn rows(
        &self,
        db: &Database,
        tenant: &TenantId,
        stretch: Stretch,
    ) -> Result<Vec<Pending>, Error> {
        let backwards = stretch.backwards;
        let (sql, values) = self.query(tenant, stretch);
        let rows = db.query(sql, values).await?;
        let mut rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if let Self::Assignee(_) | Self::Tag(_) = self {
            rows.sort_by(|a, b| if backwards { in_order(b, a) } else { in_order(a, b) });
        }
        Ok(rows)
    }

    /// How the database goes about it. For tests.
    pub(crate) async fn plan(
        &self,
        db: &Database,
        tenant: &TenantId,
        stretch: Stretch,
    ) -> Result<String, Error> {
        let (sql, values) = self.query(tenant, stretch);
        db.plan(sql, values).await
    }

    fn query(&self, tenant: &TenantId, stretch: Stretch) -> (&'static str, Vec<Param>) {
        let of_tenant = || tenant.as_str();
        let (statements, mut values) = match self {
            Self::All => (ALL, params![of_tenant()]),
            Self::Kind(kind, restricted) => (OF_KIND, params![kind_lane(tenant, *restricted, *kind)]),
            Self::Workflow(workflow) => (OF_WORKFLOW, params![workflow_lane(tenant, workflow)]),
            Self::Assignee(entry) => (OF_FACET, params![of_tenant(), facets::assignee(entry)]),
            Self::Tag(tag) => (OF_FACET, params![of_tenant(), facets::tag(tag)]),
            Self::Deadline => (BY_DEADLINE, params![of_tenant()]),
        };
        let Stretch { backwards, after, until, limit } = stretch;
        values.extend(params![after.at_ms, after.run, after.interrupt, until, limit]);
        (statements[usize::from(backwards)], values)
    }
}

/// Which of two rows was requested first.
pub(crate) fn in_order(a: &Pending, b: &Pending) -> Ordering {
    (a.requested_at, &a.run, a.id).cmp(&(b.requested_at, &b.run, b.id))
}

/// A line break stands in no id, so that no tenant can name another's lane.
pub(super) fn kind_lane(tenant: &TenantId, restricted: bool, kind: Kind) -> String {
    format!("{tenant}\n{}\n{}", u8::from(restricted), kind.as_str())
}

/// A caller may ask for any workflow; one with a line break is nobody's.
pub(super) fn workflow_lane(tenant: &TenantId, workflow: &str) -> String {
    format!("{tenant}\n{workflow}")
}
