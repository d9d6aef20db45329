//! What waits for somebody, as people look for it. Chooses the walk whose index fits best, looks at its rows, and stops
//! after a bounded number of them: a page may be short and still not the last.

use std::collections::BTreeMap;

use holdpoint_core::{Kind, Principal, TenantId, Timestamp};

use super::Engine;
use crate::error::Error;
use crate::store::pending::{Pending, PendingCursor, Stretch, Walk, in_order};

/// Rows that one question may look at.
const LOOKED_AT_MAX: u64 = 10_000;
/// Rows read at once, once the first few were not enough.
const BITE: u64 = 1000;
/// What ends within this is due soon.
const DUE_SOON_MS: u64 = 60 * 60 * 1000;
/// Sorts after every id there is.
const BEYOND_EVERY_ID: &str = "\u{10FFFF}";

/// Which interrupts a list is about. What is not said does not matter.
#[derive(Clone, Debug, Default)]
pub struct PendingFilter {
    /// Any of these.
    pub kinds: Vec<Kind>,
    pub assignee: Option<Assignee>,
    pub workflow: Option<String>,
    /// Of the run.
    pub tag: Option<String>,
    /// Not before.
    pub requested_from: Option<Timestamp>,
    /// Not after.
    pub requested_to: Option<Timestamp>,
    pub expires_before: Option<Timestamp>,
    pub order: PendingOrder,
    pub after: Option<PendingCursor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignee {
    /// What this principal may decide and has not voted on; also what anybody may decide.
    Whoever(Principal),
    /// What a gate lists: a name, `role:x`, `group:y`.
    Entry(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingOrder {
    #[default]
    Oldest,
    Newest,
    /// What ends first; only what ends at all.
    Deadline,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PendingPage {
    pub rows: Vec<Pending>,
    /// Where to go on; nothing when this is all.
    pub next: Option<PendingCursor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCounts {
    pub total: u64,
    pub by_kind: BTreeMap<String, u64>,
    /// Past their deadline, which is about to be noticed.
    pub overdue: u64,
    /// Within an hour of it.
    pub due_soon: u64,
    pub oldest: Option<Timestamp>,
    /// Whether that is all of them; else there are at least so many.
    pub complete: bool,
}

impl Engine {
    /// A page of what waits.
    pub async fn pending_page(
        &self,
        tenant: &TenantId,
        filter: &PendingFilter,
        limit: u64,
    ) -> Result<PendingPage, Error> {
        let (mut rows, mut last, mut looked_at) = (Vec::new(), None, 0);
        let mut search = Search::new(filter);
        let mut bite = limit + 1;
        while looked_at < LOOKED_AT_MAX {
            let found = search.next(self, tenant, bite).await?;
            let exhausted = (found.len() as u64) < bite;
            looked_at += found.len() as u64;
            for row in found {
                let fits = filter.fits(&row);
                if fits && rows.len() as u64 == limit {
                    return Ok(PendingPage { rows, next: last });
                }
                last = Some(filter.order.place(&row));
                rows.extend(fits.then_some(row));
            }
            if exhausted {
                return Ok(PendingPage { rows, next: None });
            }
            bite = BITE;
        }
        Ok(PendingPage { rows, next: last })
    }

    /// How much waits. Counts 10,000 rows and then says that there are more.
    pub async fn pending_counts(
        &self,
        tenant: &TenantId,
        filter: &PendingFilter,
    ) -> Result<PendingCounts, Error> {
        let (now, mut counts, mut looked_at) = (self.now(), PendingCounts::default(), 0);
        let mut search = Search::new(filter);
        while looked_at < LOOKED_AT_MAX {
            let found = search.next(self, tenant, BITE).await?;
            looked_at += found.len() as u64;
            found.iter().filter(|row| filter.fits(row)).for_each(|row| counts.add(row, now));
            if (found.len() as u64) < BITE {
                counts.complete = true;
                break;
            }
        }
        Ok(counts)
    }

    /// How the database goes about the first page of a list. For tests.
    #[doc(hidden)]
    pub async fn pending_plans(
        &self,
        tenant: &TenantId,
        filter: &PendingFilter,
    ) -> Result<Vec<String>, Error> {
        let search = Search::new(filter);
        let mut plans = Vec::new();
        for walk in &search.walks {
            plans.push(walk.plan(self.db(), tenant, search.stretch(51)).await?);
        }
        Ok(plans)
    }
}

impl PendingCounts {
    fn add(&mut self, row: &Pending, now: Timestamp) {
        self.total += 1;
        *self.by_kind.entry(row.kind.clone()).or_default() += 1;
        if let Some(at) = row.expires_at {
            self.overdue += u64::from(at <= now);
            self.due_soon += u64::from(at > now && at <= now.plus_ms(DUE_SOON_MS));
        }
        self.oldest = Some(self.oldest.map_or(row.requested_at, |oldest| oldest.min(row.requested_at)));
    }
}

/// One question on its way through the rows.
struct Search {
    walks: Vec<Walk>,
    backwards: bool,
    after: PendingCursor,
    until: Timestamp,
    order: PendingOrder,
}

impl Search {
    fn new(filter: &PendingFilter) -> Self {
        let (from, to) = (filter.requested_from, filter.requested_to);
        let order = filter.order;
        let (backwards, first, until) = match order {
            PendingOrder::Oldest => (false, before(from.unwrap_or(Timestamp(i64::MIN + 1))), to),
            PendingOrder::Newest => (true, behind(to.unwrap_or(Timestamp(i64::MAX))), from),
            PendingOrder::Deadline => (false, PendingCursor::default(), filter.expires_before),
        };
        let until = until.unwrap_or(Timestamp(if backwards { i64::MIN } else { i64::MAX }));
        // A page goes on behind the last one, unless the time in question has moved on beyond that.
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
        Self { walks: filter.walks(), backwards, after, until, order }
    }

    /// The next rows of all walks together, in order. The first so many of each are enough for the first so many of
    /// all.
    async fn next(&mut self, engine: &Engine, tenant: &TenantId, limit: u64) -> Result<Vec<Pending>, Error> {
        let mut rows = Vec::new();
        for walk in &self.walks {
            rows.extend(walk.rows(engine.db(), tenant, self.stretch(limit)).await?);
        }
        if self.walks.len() > 1 {
            in_order(&mut rows, self.backwards);
            rows.dedup_by(|a, b| (&a.run, a.id) == (&b.run, b.id));
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        if let Some(last) = rows.last() {
            self.after = self.order.place(last);
        }
        Ok(rows)
    }

    fn stretch(&self, limit: u64) -> Stretch {
        Stretch { backwards: self.backwards, after: self.after.clone(), until: self.until, limit }
    }
}

impl PendingOrder {
    /// Where a row stands in this order.
    pub fn place(self, row: &Pending) -> PendingCursor {
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

fn before(at: Timestamp) -> PendingCursor {
    PendingCursor { at_ms: at.0, run: String::new(), interrupt: 0 }
}

fn behind(at: Timestamp) -> PendingCursor {
    PendingCursor { at_ms: at.0, run: BEYOND_EVERY_ID.to_owned(), interrupt: i64::MAX }
}

impl PendingFilter {
    /// The walks that together find everything that fits, and little else.
    fn walks(&self) -> Vec<Walk> {
        if self.order == PendingOrder::Deadline {
            return vec![Walk::Deadline];
        }
        if let Some(Assignee::Entry(entry)) = &self.assignee {
            return vec![Walk::Assignee(entry.clone())];
        }
        if let Some(tag) = &self.tag {
            return vec![Walk::Tag(tag.clone())];
        }
        if let Some(workflow) = &self.workflow {
            return vec![Walk::Workflow(workflow.clone())];
        }
        if let Some(Assignee::Whoever(who)) = &self.assignee {
            let open = self.waiting_kinds().map(|kind| Walk::Kind(kind, false));
            let named = names_of(who).into_iter().map(Walk::Assignee);
            return open.chain(named).collect();
        }
        if self.kinds.is_empty() {
            return vec![Walk::All];
        }
        // Only approvals name people.
        let both = |kind| {
            [Some(Walk::Kind(kind, false)), (kind == Kind::Approval).then_some(Walk::Kind(kind, true))]
        };
        self.waiting_kinds().flat_map(both).flatten().collect()
    }

    /// The kinds that are asked for and that anybody ever waits in.
    fn waiting_kinds(&self) -> impl Iterator<Item = Kind> {
        let asked = |kind: &Kind| self.kinds.is_empty() || self.kinds.contains(kind);
        Kind::ALL.into_iter().filter(asked).filter(|kind| !kind.returns_at_once())
    }

    fn fits(&self, row: &Pending) -> bool {
        let assigned = match &self.assignee {
            None => true,
            Some(Assignee::Entry(entry)) => row.assignees.entries().contains(entry),
            Some(Assignee::Whoever(who)) => {
                let voted = row.votes.as_ref().is_some_and(|votes| votes.voters.contains(&who.name));
                !voted && row.assignees.admit(who)
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

/// Everything a list may call somebody. A name without a prefix may stand for a role or a group as well.
fn names_of(who: &Principal) -> Vec<String> {
    let mut names = vec![who.name.clone()];
    for (prefix, held) in [("role", &who.roles), ("group", &who.groups)] {
        names.extend(held.iter().flat_map(|name| [name.clone(), format!("{prefix}:{name}")]));
    }
    names.extend(who.scopes.iter().map(|scope| format!("scope:{scope}")));
    names.sort();
    names.dedup();
    names
}
