//! Lists and counts of pending interrupts. A query chooses the index scans that fit its filter best and reads a bounded
//! number of rows, so that a page can be short without being the last one.

use std::collections::{BTreeMap, VecDeque};

use holdpoint_core::{Kind, Principal, TenantId, Timestamp};

use super::{Engine, Interrupts};
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::pending::{
    AssigneeList, PendingCursor, PendingRow, PendingScan, ScanRange, compare_requested,
};

/// The maximum number of rows that one search reads in all of its scans.
const ROWS_READ_MAX: u64 = 10_000;
/// The number of rows in one batch of a scan after the first batch. Smaller if there are many scans.
const BATCH: u64 = 1000;
const BATCH_MIN: u64 = 16;
/// The time before the deadline from which on an interrupt is due soon.
const DUE_SOON_MS: u64 = 60 * 60 * 1000;
/// Sorts after every id.
const BEYOND_EVERY_ID: &str = "\u{10FFFF}";

/// A filter of pending interrupts. Empty members match all interrupts.
#[derive(Clone, Debug, Default)]
pub struct PendingFilter {
    /// The kinds.
    pub kinds: Vec<Kind>,
    /// The assignee.
    pub assignee: Option<Assignee>,
    /// The workflow of the run.
    pub workflow: Option<String>,
    /// A tag of the run.
    pub tag: Option<String>,
    /// The earliest time of the request.
    pub requested_from: Option<Timestamp>,
    /// The latest time of the request.
    pub requested_to: Option<Timestamp>,
    /// The time before which the interrupt expires.
    pub expires_before: Option<Timestamp>,
    /// The order.
    pub order: PendingOrder,
    /// The cursor of the last row of the previous page.
    pub after: Option<PendingCursor>,
}

/// A filter by assignee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignee {
    /// Interrupts that this principal may decide and has not voted on, including unrestricted ones.
    Principal(Principal),
    /// Interrupts whose list of assignees has this entry: a name, `role:x` or `group:y`.
    Entry(String),
}

/// The order of pending interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingOrder {
    /// By time of the request, oldest first.
    #[default]
    Oldest,
    /// By time of the request, newest first.
    Newest,
    /// By deadline, earliest first. Omits interrupts without a deadline.
    Deadline,
}

/// A page of pending interrupts.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingPage {
    /// The interrupts.
    pub rows: Vec<PendingRow>,
    /// The cursor of the next page. `None` on the last page.
    pub next: Option<PendingCursor>,
}

/// Counts of pending interrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCounts {
    /// All interrupts.
    pub total: u64,
    /// Interrupts by kind.
    pub by_kind: BTreeMap<String, u64>,
    /// Interrupts whose deadline has passed and whose timer has not fired yet.
    pub overdue: u64,
    /// Interrupts whose deadline passes within an hour.
    pub due_soon: u64,
    /// The time of the oldest request.
    pub oldest: Option<Timestamp>,
    /// True if the counts are exact. If false, they are lower bounds.
    pub complete: bool,
}

impl Interrupts<'_> {
    /// Subscribes to changes of the pending interrupts of a tenant.
    pub fn subscribe(self, tenant: &TenantId) -> Subscription {
        self.engine.0.bus.subscribe_pending(tenant)
    }

    /// Returns a page of pending interrupts.
    pub async fn page(
        self,
        tenant: &TenantId,
        filter: &PendingFilter,
        limit: u64,
    ) -> Result<PendingPage, Error> {
        let (mut rows, mut last) = (Vec::new(), None);
        let mut search = PendingSearch::new(filter, limit + 1);
        loop {
            let row = match search.next(self.engine, tenant).await? {
                SearchStep::Row(row) => row,
                SearchStep::End => return Ok(PendingPage { rows, next: None }),
                SearchStep::LimitReached => return Ok(PendingPage { rows, next: last }),
            };
            let fits = filter.fits(&row);
            if fits && rows.len() as u64 == limit {
                return Ok(PendingPage { rows, next: last });
            }
            last = Some(filter.order.cursor_of(&row));
            rows.extend(fits.then_some(*row));
        }
    }

    /// Counts pending interrupts. Reads at most 10,000 rows; `complete` is false if there are more.
    pub async fn counts(self, tenant: &TenantId, filter: &PendingFilter) -> Result<PendingCounts, Error> {
        let (now, mut counts) = (self.engine.now(), PendingCounts::default());
        let mut search = PendingSearch::new(filter, BATCH);
        loop {
            match search.next(self.engine, tenant).await? {
                SearchStep::Row(row) if filter.fits(&row) => counts.add(&row, now),
                SearchStep::Row(_) => {}
                SearchStep::End => {
                    counts.complete = true;
                    return Ok(counts);
                }
                SearchStep::LimitReached => return Ok(counts),
            }
        }
    }

    /// Returns the query plans of the first page. For tests.
    #[doc(hidden)]
    pub async fn plans(self, tenant: &TenantId, filter: &PendingFilter) -> Result<Vec<String>, Error> {
        let search = PendingSearch::new(filter, 51);
        let mut plans = Vec::new();
        for scan in &search.scans {
            plans.push(scan.source.plan(self.engine.db(), tenant, search.range(scan, 51)).await?);
        }
        Ok(plans)
    }
}

impl PendingCounts {
    fn add(&mut self, row: &PendingRow, now: Timestamp) {
        self.total += 1;
        *self.by_kind.entry(row.kind.clone()).or_default() += 1;
        if let Some(at) = row.expires_at {
            self.overdue += u64::from(at <= now);
            self.due_soon += u64::from(at > now && at <= now.plus_ms(DUE_SOON_MS));
        }
        self.oldest = Some(self.oldest.map_or(row.requested_at, |oldest| oldest.min(row.requested_at)));
    }
}

/// A search that merges several scans in order.
struct PendingSearch {
    scans: Vec<BufferedScan>,
    backwards: bool,
    until: Timestamp,
    order: PendingOrder,
    /// The number of rows in the next batch of a scan.
    batch: u64,
    /// The number of rows read so far.
    read: u64,
}

/// A scan and the rows that were read from it but not returned yet.
struct BufferedScan {
    source: PendingScan,
    rows: VecDeque<PendingRow>,
    after: PendingCursor,
    ended: bool,
}

/// The next result of a search.
enum SearchStep {
    /// The next row in order.
    Row(Box<PendingRow>),
    /// All rows were returned.
    End,
    /// The search has read its maximum number of rows. There may be more.
    LimitReached,
}

impl PendingSearch {
    fn new(filter: &PendingFilter, first_batch: u64) -> Self {
        let (from, to) = (filter.requested_from, filter.requested_to);
        let order = filter.order;
        let (backwards, first, until) = match order {
            PendingOrder::Oldest => (false, cursor_before(from.unwrap_or(Timestamp(i64::MIN + 1))), to),
            PendingOrder::Newest => (true, cursor_after(to.unwrap_or(Timestamp(i64::MAX))), from),
            PendingOrder::Deadline => (false, PendingCursor::default(), filter.expires_before),
        };
        let until = until.unwrap_or(Timestamp(if backwards { i64::MIN } else { i64::MAX }));
        // Starts after the cursor, unless the time range begins later.
        let after = match filter.after.clone() {
            Some(after) if backwards => {
                if key(&after) < key(&first) {
                    after
                } else {
                    first
                }
            }
            Some(after) => {
                if key(&after) > key(&first) {
                    after
                } else {
                    first
                }
            }
            None => first,
        };
        let scan =
            |source| BufferedScan { source, rows: VecDeque::new(), after: after.clone(), ended: false };
        let scans = filter.scans().into_iter().map(scan).collect();
        Self { scans, backwards, until, order, batch: first_batch, read: 0 }
    }

    /// Returns the next row of all scans in order. Reads the next batch of a scan only when its buffer is empty, so
    /// that at most one batch per scan is read without use.
    async fn next(&mut self, engine: &Engine, tenant: &TenantId) -> Result<SearchStep, Error> {
        if self.scans.iter().any(BufferedScan::needs_rows) {
            if self.read >= ROWS_READ_MAX {
                return Ok(SearchStep::LimitReached);
            }
            self.fill(engine, tenant).await?;
        }
        let fronts = self.scans.iter().enumerate().filter_map(|(at, scan)| Some((scan.rows.front()?, at)));
        let found = match self.backwards {
            false => fronts.min_by(|(a, _), (b, _)| compare_requested(a, b)),
            true => fronts.max_by(|(a, _), (b, _)| compare_requested(a, b)),
        };
        let Some(at) = found.map(|(_, at)| at) else { return Ok(SearchStep::End) };
        let Some(row) = self.scans[at].rows.pop_front() else { return Ok(SearchStep::End) };
        // Several scans can return the same row.
        for scan in &mut self.scans {
            if scan.rows.front().is_some_and(|front| compare_requested(front, &row).is_eq()) {
                scan.rows.pop_front();
            }
        }
        Ok(SearchStep::Row(Box::new(row)))
    }

    async fn fill(&mut self, engine: &Engine, tenant: &TenantId) -> Result<(), Error> {
        let share = (ROWS_READ_MAX / self.scans.len().max(1) as u64).max(BATCH_MIN);
        let batch = self.batch.min(share);
        for at in 0..self.scans.len() {
            if !self.scans[at].needs_rows() {
                continue;
            }
            let range = self.range(&self.scans[at], batch);
            let rows = self.scans[at].source.rows(engine.db(), tenant, range).await?;
            let scan = &mut self.scans[at];
            scan.ended = (rows.len() as u64) < batch;
            if let Some(last) = rows.last() {
                scan.after = self.order.cursor_of(last);
            }
            self.read += rows.len() as u64;
            scan.rows.extend(rows);
        }
        self.batch = BATCH;
        Ok(())
    }

    fn range(&self, scan: &BufferedScan, limit: u64) -> ScanRange {
        ScanRange { backwards: self.backwards, after: scan.after.clone(), until: self.until, limit }
    }
}

impl BufferedScan {
    /// Returns whether the buffer is empty and the scan has not ended.
    fn needs_rows(&self) -> bool {
        self.rows.is_empty() && !self.ended
    }
}

impl PendingOrder {
    /// Returns the cursor of a row in this order.
    pub fn cursor_of(self, row: &PendingRow) -> PendingCursor {
        let at = match self {
            Self::Oldest | Self::Newest => row.requested_at,
            Self::Deadline => row.expires_at.unwrap_or(row.requested_at),
        };
        PendingCursor { at_ms: at.0, run: row.run.to_string(), interrupt: i64::from(row.id.0) }
    }
}

fn key(place: &PendingCursor) -> (i64, &str, i64) {
    (place.at_ms, &place.run, place.interrupt)
}

fn cursor_before(at: Timestamp) -> PendingCursor {
    PendingCursor { at_ms: at.0, run: String::new(), interrupt: 0 }
}

fn cursor_after(at: Timestamp) -> PendingCursor {
    PendingCursor { at_ms: at.0, run: BEYOND_EVERY_ID.to_owned(), interrupt: i64::MAX }
}

impl PendingFilter {
    /// Returns the scans that together cover all matching rows with few others.
    fn scans(&self) -> Vec<PendingScan> {
        if self.order == PendingOrder::Deadline {
            return vec![PendingScan::Deadline];
        }
        if let Some(Assignee::Entry(entry)) = &self.assignee {
            return vec![PendingScan::Assignee(entry.clone())];
        }
        if let Some(tag) = &self.tag {
            return vec![PendingScan::Tag(tag.clone())];
        }
        if let Some(workflow) = &self.workflow {
            return vec![PendingScan::Workflow(workflow.clone())];
        }
        if let Some(Assignee::Principal(who)) = &self.assignee {
            let open = self.pending_kinds().map(|kind| PendingScan::Kind(kind, AssigneeList::Absent));
            let named = entries_of(who).into_iter().map(PendingScan::Assignee);
            return open.chain(named).collect();
        }
        if self.kinds.is_empty() {
            return vec![PendingScan::All];
        }
        let both = [AssigneeList::Absent, AssigneeList::Present];
        self.pending_kinds().flat_map(|kind| both.map(|list| PendingScan::Kind(kind, list))).collect()
    }

    /// Returns the kinds of the filter whose interrupts can be pending.
    fn pending_kinds(&self) -> impl Iterator<Item = Kind> {
        let asked = |kind: &Kind| self.kinds.is_empty() || self.kinds.contains(kind);
        Kind::ALL.into_iter().filter(asked).filter(|kind| !kind.returns_at_once())
    }

    fn fits(&self, row: &PendingRow) -> bool {
        let assigned = match &self.assignee {
            None => true,
            Some(Assignee::Entry(entry)) => row.assignees.entries().contains(entry),
            Some(Assignee::Principal(who)) => {
                let voted = row.votes.as_ref().is_some_and(|votes| votes.voters.contains(&who.name));
                !voted && row.assignees.admits(who)
            }
        };
        assigned
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.as_str() == row.kind))
            && self.workflow.as_ref().is_none_or(|workflow| workflow == row.workflow.as_str())
            && self.tag.as_ref().is_none_or(|tag| row.tags.contains(tag))
            && self.requested_from.is_none_or(|from| row.requested_at >= from)
            && self.requested_to.is_none_or(|to| row.requested_at <= to)
            && self.expires_before.is_none_or(|before| row.expires_at.is_some_and(|at| at < before))
    }
}

/// Returns all assignee entries that match a principal. An entry without a prefix can also name a role or a group.
fn entries_of(who: &Principal) -> Vec<String> {
    let mut names = vec![who.name.clone()];
    for (prefix, held) in [("role", &who.roles), ("group", &who.groups)] {
        names.extend(held.iter().flat_map(|name| [name.clone(), format!("{prefix}:{name}")]));
    }
    names.extend(who.scopes.iter().map(|scope| format!("scope:{scope}")));
    names.sort();
    names.dedup();
    names
}
