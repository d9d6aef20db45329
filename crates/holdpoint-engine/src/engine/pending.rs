//! What waits for somebody, as people look for it. Chooses the walk whose index fits best, looks at its rows, and stops
//! after a bounded number of them: a page may be short and still not the last.

use std::collections::{BTreeMap, VecDeque};

use holdpoint_core::{Kind, Principal, TenantId, Timestamp};

use super::Engine;
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::pending::{Pending, PendingCursor, Stretch, Walk, in_order};

/// Rows that one question may read, by all of its walks together.
const LOOKED_AT_MAX: u64 = 10_000;
/// Rows that one walk reads at once, once the first few were not enough; fewer where there are many walks.
const BITE: u64 = 1000;
const BITE_MIN: u64 = 16;
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
    /// Wakes whoever watches what waits in a tenant when it may have changed.
    pub fn subscribe_waiting(&self, tenant: &TenantId) -> Subscription {
        self.0.bus.subscribe_waiting(tenant)
    }

    /// A page of what waits.
    pub async fn pending_page(
        &self,
        tenant: &TenantId,
        filter: &PendingFilter,
        limit: u64,
    ) -> Result<PendingPage, Error> {
        let (mut rows, mut last) = (Vec::new(), None);
        let mut search = Search::new(filter, limit + 1);
        loop {
            let row = match search.next(self, tenant).await? {
                Next::Row(row) => row,
                Next::End => return Ok(PendingPage { rows, next: None }),
                Next::Enough => return Ok(PendingPage { rows, next: last }),
            };
            let fits = filter.fits(&row);
            if fits && rows.len() as u64 == limit {
                return Ok(PendingPage { rows, next: last });
            }
            last = Some(filter.order.place(&row));
            rows.extend(fits.then_some(*row));
        }
    }

    /// How much waits. Reads 10,000 rows and then says that there are more.
    pub async fn pending_counts(
        &self,
        tenant: &TenantId,
        filter: &PendingFilter,
    ) -> Result<PendingCounts, Error> {
        let (now, mut counts) = (self.now(), PendingCounts::default());
        let mut search = Search::new(filter, BITE);
        loop {
            match search.next(self, tenant).await? {
                Next::Row(row) if filter.fits(&row) => counts.add(&row, now),
                Next::Row(_) => {}
                Next::End => {
                    counts.complete = true;
                    return Ok(counts);
                }
                Next::Enough => return Ok(counts),
            }
        }
    }

    /// How the database goes about the first page of a list. For tests.
    #[doc(hidden)]
    pub async fn pending_plans(
        &self,
        tenant: &TenantId,
        filter: &PendingFilter,
    ) -> Result<Vec<String>, Error> {
        let search = Search::new(filter, 51);
        let mut plans = Vec::new();
        for lane in &search.lanes {
            plans.push(lane.walk.plan(self.db(), tenant, search.stretch(lane, 51)).await?);
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
    lanes: Vec<Lane>,
    backwards: bool,
    until: Timestamp,
    order: PendingOrder,
    /// Rows that a lane reads next.
    bite: u64,
    /// Rows that were read so far.
    read: u64,
}

/// One of the walks of a question, and the rows of it that nobody has looked at yet.
struct Lane {
    walk: Walk,
    rows: VecDeque<Pending>,
    after: PendingCursor,
    ended: bool,
}

/// What a question finds next.
enum Next {
    Row(Box<Pending>),
    /// That was all.
    End,
    /// There may be more, and it has read as much as it may.
    Enough,
}

impl Search {
    fn new(filter: &PendingFilter, first_bite: u64) -> Self {
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
        let lane = |walk| Lane { walk, rows: VecDeque::new(), after: after.clone(), ended: false };
        let lanes = filter.walks().into_iter().map(lane).collect();
        Self { lanes, backwards, until, order, bite: first_bite, read: 0 }
    }

    /// The next row of all lanes together, in order. Each lane is asked for more when nothing of it is left, so that what
    /// is read is what is looked at and one bite of each.
    async fn next(&mut self, engine: &Engine, tenant: &TenantId) -> Result<Next, Error> {
        if self.lanes.iter().any(Lane::is_dry) {
            if self.read >= LOOKED_AT_MAX {
                return Ok(Next::Enough);
            }
            self.fill(engine, tenant).await?;
        }
        let fronts = self.lanes.iter().enumerate().filter_map(|(at, lane)| Some((lane.rows.front()?, at)));
        let found = match self.backwards {
            false => fronts.min_by(|(a, _), (b, _)| in_order(a, b)),
            true => fronts.max_by(|(a, _), (b, _)| in_order(a, b)),
        };
        let Some(at) = found.map(|(_, at)| at) else { return Ok(Next::End) };
        let Some(row) = self.lanes[at].rows.pop_front() else { return Ok(Next::End) };
        // What several walks lead to is still one row.
        for lane in &mut self.lanes {
            if lane.rows.front().is_some_and(|front| in_order(front, &row).is_eq()) {
                lane.rows.pop_front();
            }
        }
        Ok(Next::Row(Box::new(row)))
    }

    async fn fill(&mut self, engine: &Engine, tenant: &TenantId) -> Result<(), Error> {
        let share = (LOOKED_AT_MAX / self.lanes.len().max(1) as u64).max(BITE_MIN);
        let bite = self.bite.min(share);
        for at in 0..self.lanes.len() {
            if !self.lanes[at].is_dry() {
                continue;
            }
            let stretch = self.stretch(&self.lanes[at], bite);
            let rows = self.lanes[at].walk.rows(engine.db(), tenant, stretch).await?;
            let lane = &mut self.lanes[at];
            lane.ended = (rows.len() as u64) < bite;
            if let Some(last) = rows.last() {
                lane.after = self.order.place(last);
            }
            self.read += rows.len() as u64;
            lane.rows.extend(rows);
        }
        self.bite = BITE;
        Ok(())
    }

    fn stretch(&self, lane: &Lane, limit: u64) -> Stretch {
        Stretch { backwards: self.backwards, after: lane.after.clone(), until: self.until, limit }
    }
}

impl Lane {
    /// Whether it must be asked what comes next.
    fn is_dry(&self) -> bool {
        self.rows.is_empty() && !self.ended
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
        self.waiting_kinds().flat_map(|kind| [Walk::Kind(kind, false), Walk::Kind(kind, true)]).collect()
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
