//! Ways through the `pending` table, each in the order of an index: whatever is looked for, the first rows of a walk are
//! the first that are read. What an index cannot tell is for the reader of the rows.

use holdpoint_core::{Kind, TenantId, Timestamp};

use super::{Pending, PendingCursor, read};
use crate::store::{Database, Error, Param, facets, params};

/// One statement in both directions, from a place to a bound. `$from` says what is found by an index whose entries
/// are in the order of `$at`, run and interrupt.
macro_rules! walk {
    ($from:literal, $at:literal, $run:literal, $id:literal, $a:literal, $b:literal, $c:literal, $d:literal, $e:literal) => {
        [
            walk!(@one $from, $at, $run, $id, ">", "<=", "", $a, $b, $c, $d, $e),
            walk!(@one $from, $at, $run, $id, "<", ">=", " DESC", $a, $b, $c, $d, $e),
        ]
    };
    (@one $from:literal, $at:literal, $run:literal, $id:literal, $beyond:literal, $within:literal, $order:literal,
        $a:literal, $b:literal, $c:literal, $d:literal, $e:literal) => {
        concat!(
            "SELECT p.requested_ms, p.run_id, p.interrupt_id, p.workflow_id, p.node_id, p.kind, p.key, p.title,
            p.expires_ms, p.digest, p.required, p.votes, p.open_asks, p.people, p.barred, p.tags FROM ", $from,
            " AND (", $at, ", ", $run, ", ", $id, ") ", $beyond, " (", $a, ", ", $b, ", ", $c, ") AND ", $at, " ",
            $within, " ", $d, " ORDER BY ", $at, $order, ", ", $run, $order, ", ", $id, $order, " LIMIT ", $e
        )
    };
}

const ALL: [&str; 2] = walk!(
    "pending p WHERE p.tenant_id = $1",
    "p.requested_ms",
    "p.run_id",
    "p.interrupt_id",
    "$2",
    "$3",
    "$4",
    "$5",
    "$6"
);
const OF_KIND: [&str; 2] = walk!(
    "pending p WHERE p.tenant_id = $1 AND p.restricted = $2 AND p.kind = $3",
    "p.requested_ms",
    "p.run_id",
    "p.interrupt_id",
    "$4",
    "$5",
    "$6",
    "$7",
    "$8"
);
const OF_WORKFLOW: [&str; 2] = walk!(
    "pending p WHERE p.tenant_id = $1 AND p.workflow_id = $2",
    "p.requested_ms",
    "p.run_id",
    "p.interrupt_id",
    "$3",
    "$4",
    "$5",
    "$6",
    "$7"
);
const OF_FACET: [&str; 2] = walk!(
    "pending_facets f JOIN pending p ON p.tenant_id = f.tenant_id AND p.requested_ms = f.requested_ms
        AND p.run_id = f.run_id AND p.interrupt_id = f.interrupt_id WHERE f.tenant_id = $1 AND f.facet = $2",
    "f.requested_ms",
    "f.run_id",
    "f.interrupt_id",
    "$3",
    "$4",
    "$5",
    "$6",
    "$7"
);
const BY_DEADLINE: [&str; 2] = walk!(
    "pending p WHERE p.tenant_id = $1 AND p.expires_ms IS NOT NULL",
    "p.expires_ms",
    "p.run_id",
    "p.interrupt_id",
    "$2",
    "$3",
    "$4",
    "$5",
    "$6"
);

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
        let (sql, values) = self.query(tenant, stretch);
        db.query(sql, values).await?.iter().map(read).collect()
    }

    /// How the database goes about it. For tests.
    pub(crate) async fn plan(
        &self,
        db: &Database,
        tenant: &TenantId,
        stretch: Stretch,
    ) -> Result<String, Error> {
        let (sql, values) = self.query(tenant, stretch);
        let explain = if db.is_shared() { "EXPLAIN" } else { "EXPLAIN QUERY PLAN" };
        // Statements are constants everywhere else; a test makes a handful of these.
        let rows = db.query(format!("{explain} {sql}").leak(), values).await?;
        let line =
            |param: &Param| if let Param::Text(Some(text)) = param { Some(text.clone()) } else { None };
        let lines: Vec<String> = rows.iter().flat_map(|row| row.0.iter().filter_map(line)).collect();
        Ok(lines.join("\n"))
    }

    fn query(&self, tenant: &TenantId, stretch: Stretch) -> (&'static str, Vec<Param>) {
        let (statements, mut values) = match self {
            Self::All => (ALL, Vec::new()),
            Self::Kind(kind, restricted) => (OF_KIND, params![u64::from(*restricted), kind.as_str()]),
            Self::Workflow(workflow) => (OF_WORKFLOW, params![workflow.as_str()]),
            Self::Assignee(entry) => (OF_FACET, params![facets::assignee(entry)]),
            Self::Tag(tag) => (OF_FACET, params![facets::tag(tag)]),
            Self::Deadline => (BY_DEADLINE, Vec::new()),
        };
        values.insert(0, tenant.as_str().into());
        let Stretch { backwards, after, until, limit } = stretch;
        values.extend(params![after.at_ms, after.run, after.interrupt, until, limit]);
        (statements[usize::from(backwards)], values)
    }
}
