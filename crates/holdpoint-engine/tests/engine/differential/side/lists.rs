//! Lists in pages, and the tables of an engine. Results without a guaranteed order are sorted.

use std::collections::BTreeSet;

use holdpoint_engine::core::mailbox::RunDispatch;
use holdpoint_engine::core::{InterruptId, Kind, Timestamp};
use holdpoint_engine::{PendingCursor, RunFilter};

use super::{Side, describe, name, reference};
use crate::test_database::Texts;

const TABLES: [&str; 10] = [
    "tenants",
    "keys",
    "workflows",
    "runs",
    "events",
    "pending",
    "pending_facets",
    "timers",
    "threads",
    "dispatches",
];

impl Side {
    pub(crate) async fn log(&self, tenant: usize, run: &str) -> String {
        format!("{:?}", self.engine.events().list(&reference(tenant, run), 0).await.unwrap())
    }

    /// Returns the rows of a thread, read page by page, without their position in the table.
    pub(crate) async fn thread(&mut self, tenant: usize, thread: &str, limit: usize) -> String {
        let mail = self.mail(tenant);
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = mail.page(thread, None, after, limit).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            rows.extend(page.into_iter().map(|(_, row)| row));
        }
        self.remember(&rows);
        format!("{rows:?} epoch {:?}", mail.current_dispatch_epoch(thread).await)
    }

    /// Returns true if rows of two threads can be claimed in either order. Runs that were woken at the same time are
    /// queued in the order of the writes, and that order is not guaranteed.
    pub(crate) async fn has_ties(&self) -> bool {
        let ties = "SELECT 1 FROM dispatches WHERE status = 'queued' GROUP BY priority, created_ms HAVING COUNT(*) > 1";
        !self.database.read(ties).await.is_empty()
    }

    pub(super) async fn claim_ready(&mut self, lease_ms: u64, now: i64, all: bool) -> String {
        let limit = if all { 1000 } else { 2 };
        let claimed = self.mail(0).claims().claim_ready("raw", lease_ms, Timestamp(now), limit).await;
        let order: Vec<_> = claimed.iter().flatten().map(|row| (row.priority, row.created_at)).collect();
        assert!(order.is_sorted(), "{order:?}");
        self.rows(claimed.map(by_thread))
    }

    /// Reclaims all expired leases in batches. The order of rows with the same lease is not guaranteed.
    pub(super) async fn reclaim(&mut self, now: Timestamp, batch: usize) -> String {
        let (mut counts, mut all) = (Vec::new(), Vec::new());
        loop {
            let mut rows = self.mail(0).reclaim_expired_leases(now, batch).await.unwrap();
            counts.push(rows.len());
            all.append(&mut rows);
            // Rows that an interrupt superseded are closed and not returned, so an empty batch may not be the last.
            let left =
                format!("SELECT 1 FROM dispatches WHERE status = 'claimed' AND lease_until_ms < {}", now.0);
            if self.database.read(&left).await.is_empty() {
                break;
            }
        }
        format!("{} {}", counts.len(), self.rows(Ok(by_thread(all))))
    }

    pub(super) async fn purge(&mut self, before: Timestamp, batch: usize) -> String {
        let mut counts = Vec::new();
        while counts.last() != Some(&0) {
            counts.push(self.mail(0).purge_terminal(before, batch).await.unwrap());
        }
        format!("{counts:?}")
    }

    pub(crate) async fn pending(&self, tenant: usize, limit: u64) -> String {
        let (mut all, mut after) = (Vec::new(), PendingCursor::default());
        loop {
            let page = self.engine.interrupts().open(&name(tenant), after, limit).await.unwrap();
            let Some(last) = page.last() else { return format!("{all:?}") };
            after = PendingCursor {
                at_ms: last.requested_at.0,
                run: last.run.to_string(),
                interrupt: i64::from(last.id.0),
            };
            all.extend(page);
        }
    }

    pub(crate) async fn runs(&self, tenant: usize, limit: u64) -> String {
        let (mut all, mut before) = (Vec::new(), None);
        loop {
            let filter = RunFilter { before, limit, ..RunFilter::default() };
            let page = self.engine.runs().list(&name(tenant), filter).await.unwrap();
            let Some(last) = page.last() else { return format!("{all:?}") };
            before = Some(last.run.to_string());
            all.extend(page);
        }
    }

    /// Returns counts, threads, keys and definitions of a tenant.
    pub(crate) async fn overview(&self, tenant: usize) -> String {
        let (mail, name) = (self.mail(tenant), name(tenant));
        let unreconciled = mail.list_terminal_unreconciled(1000).await.map(by_thread);
        let parts = [
            describe(mail.count_by_status().await),
            describe(mail.queued_thread_ids().await),
            describe(mail.next_wakeup(self.clock.now()).await),
            describe(unreconciled),
            describe(self.engine.keys().list(&name, 100).await),
            describe(self.engine.workflows().list(&name, 100).await),
        ];
        parts.join("\n")
    }

    /// Returns the statuses of all runs and dispatches.
    pub(crate) async fn statuses(&self) -> BTreeSet<String> {
        let rows = self.database.read("SELECT status FROM dispatches UNION SELECT status FROM runs").await;
        rows.into_iter().flatten().filter_map(|(_, status)| status).collect()
    }

    pub(crate) async fn waiting(&self, tenant: usize) -> Vec<(String, InterruptId, Kind)> {
        let start = PendingCursor::default();
        let rows = self.engine.interrupts().open(&name(tenant), start, 100).await.unwrap();
        rows.into_iter().map(|row| (row.run.to_string(), row.id, Kind::parse(&row.kind).unwrap())).collect()
    }

    /// Returns the rows of all tables, sorted. The dispatches of a thread stay in the order of insertion.
    pub(crate) async fn tables(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        for table in TABLES {
            let order = if table == "dispatches" { "seq" } else { "1" };
            let mut rows = self.database.read(&format!("SELECT * FROM {table} ORDER BY {order}")).await;
            let value = |row: &Texts, wanted: &str| {
                row.iter().find(|(name, _)| name == wanted).and_then(|(_, value)| value.clone())
            };
            match table {
                "dispatches" => rows.sort_by_key(|row| (value(row, "tenant_id"), value(row, "thread_id"))),
                _ => rows.sort(),
            }
            for row in &mut rows {
                row.retain(|(name, _)| name != "seq" || table != "dispatches");
                texts.push(self.random_ids.normalize(&format!("{table}: {row:?}")));
            }
        }
        texts
    }
}

/// Sorts rows by thread. The rows of one thread keep their order.
fn by_thread(mut rows: Vec<RunDispatch>) -> Vec<RunDispatch> {
    rows.sort_by_key(|row| (row.tenant.clone(), row.thread_id.clone()));
    rows
}
