//! The `pending_facets` table: open interrupts by assignee and by tag of their run. Its rows are inserted and deleted
//! with those of `pending`. An interrupt without assignees in a run without tags has none.

use std::collections::BTreeSet;

use holdpoint_core::{Interrupt, RunRef, hex};
use sha2::{Digest, Sha256};

use super::{Statement, params};

const INSERT: &str = "INSERT INTO pending_facets (tenant_id, facet, requested_ms, run_id, interrupt_id)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM pending_facets
    WHERE tenant_id = $1 AND facet = $2 AND requested_ms = $3 AND run_id = $4 AND interrupt_id = $5";

/// The maximum length of a facet. It is part of the primary key, of which PostgreSQL allows 2704 bytes in all.
const FACET_BYTES_MAX: usize = 1100;

/// Returns the facet of an assignee: a name, `role:x` or `group:y`.
pub(crate) fn assignee(entry: &str) -> String {
    bounded("to:", entry)
}

pub(crate) fn tag(tag: &str) -> String {
    bounded("tag:", tag)
}

/// Replaces a long text by its digest, because entries can have any length. The reader of the rows compares the
/// whole text.
fn bounded(prefix: &str, text: &str) -> String {
    if text.len() <= FACET_BYTES_MAX {
        return format!("{prefix}{text}");
    }
    format!("{prefix}#{}", hex(&Sha256::digest(text)))
}

pub(super) fn insert(of: &RunRef, interrupt: &Interrupt, facets: BTreeSet<String>) -> Vec<Statement> {
    each(INSERT, of, interrupt, facets)
}

pub(super) fn delete(of: &RunRef, interrupt: &Interrupt, facets: BTreeSet<String>) -> Vec<Statement> {
    each(DELETE, of, interrupt, facets)
}

fn each(sql: &'static str, of: &RunRef, interrupt: &Interrupt, facets: BTreeSet<String>) -> Vec<Statement> {
    let row = |facet| {
        let id = u64::from(interrupt.id.0);
        params![&of.tenant, facet, interrupt.requested_at, &of.run, id]
    };
    facets.into_iter().map(|facet| Statement::new(sql, row(facet))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facet_of_a_long_entry_fits_into_a_key() {
        assert_eq!(assignee("role:lead"), "to:role:lead");
        let long = "ü".repeat(10_000);
        assert_eq!(assignee(&long).len(), 4 + 64);
        assert_ne!(assignee(&long), assignee(&long[2..]));
    }
}
