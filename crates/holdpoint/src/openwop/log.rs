//! The logs that are being read, as pages of finished text. However many read a run, what a commit added to it is read
//! from the store and written as text once; the readers share the result.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use holdpoint_core::{Run, RunRef};
use holdpoint_engine::Engine;
use tokio::sync::{OnceCell, watch};

use crate::error::ApiError;

mod follower;
mod page;
mod reader;

pub(crate) use follower::Follower;
pub(crate) use page::{Frame, Page, Shape, snapshot_frame};
pub(crate) use reader::{Reader, Rest};

/// Text and folds that are kept, in bytes; one page is kept however large it is.
pub(crate) const BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Log {
    engine: Engine,
    /// Turns true when the server is going down; readers end then.
    stopping: watch::Receiver<bool>,
    kept: Mutex<Kept>,
    /// How often a log was read from the store.
    reads: AtomicU64,
}

/// A page, or those who wait for one of them to make it.
type Cell = Arc<OnceCell<Arc<Page>>>;

#[derive(Debug, Default)]
struct Kept {
    runs: HashMap<RunRef, BTreeMap<(u64, Shape), Cell>>,
    /// Finished pages, oldest first.
    order: VecDeque<(RunRef, u64, Shape)>,
    bytes: usize,
}

impl Log {
    pub(crate) fn new(engine: Engine, stopping: watch::Receiver<bool>) -> Arc<Self> {
        Arc::new(Self { engine, stopping, kept: Mutex::default(), reads: AtomicU64::new(0) })
    }

    /// The run as it is stored. Shared like everything here, so that it does not matter how many ask at once.
    pub(crate) async fn latest(&self, of: &RunRef, shape: Shape) -> Result<Arc<Run>, ApiError> {
        let last = self.engine.length(of).await?.saturating_sub(1);
        match self.page(of, shape, last, None).await? {
            Some(page) => Ok(page.end.clone()),
            None => Ok(self.engine.run(of).await?),
        }
    }

    /// Returns the name and the document of one event, as every reader sees it, and the run at that time or shortly
    /// after. None when there is no such event.
    pub(crate) async fn document(
        &self,
        of: &RunRef,
        seq: u64,
    ) -> Result<Option<(Cow<'static, str>, Bytes, Arc<Run>)>, ApiError> {
        let page = self.page(of, Shape::Documents, seq, None).await?;
        Ok(page.and_then(|page| {
            let frame = page.frames.iter().find(|frame| frame.sequence == seq)?;
            Some((frame.kind.clone(), page.text.slice(frame.data.clone()), page.end.clone()))
        }))
    }

    /// The page with the event `from`, which need not be its first. Nothing when there is no such event yet. `known` is
    /// a state of the run before it, if the caller has one.
    async fn page(
        &self,
        of: &RunRef,
        shape: Shape,
        from: u64,
        known: Option<Arc<Run>>,
    ) -> Result<Option<Arc<Page>>, ApiError> {
        let (cell, base) = match self.kept().find(of, shape, from) {
            Found::Page(page) => return Ok(Some(page)),
            Found::Cell(cell, base) => (cell, known.or(base)),
        };
        let asking = Asking { log: self, of, at: (from, shape), cell };
        let made = asking.cell.get_or_try_init(|| async {
            let page = self.make(of, shape, from, base).await.map_err(Some)?.ok_or(None)?;
            self.kept().keep(of, shape, from, &page);
            Ok(page)
        });
        match made.await {
            Ok(page) => Ok(Some(page.clone())),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// Documents depend on the state of the run right after each event and on nothing later, so that they are the same
    /// on every read. `base` is a state from which `from` can be reached.
    async fn make(
        &self,
        of: &RunRef,
        shape: Shape,
        from: u64,
        base: Option<Arc<Run>>,
    ) -> Result<Option<Arc<Page>>, ApiError> {
        let mut run = match base {
            Some(base) => Arc::unwrap_or_clone(base),
            None => {
                // Any state before `from` will do, however old it is.
                let known = self.engine.known(of).await?;
                if known.seq <= from {
                    Arc::unwrap_or_clone(known)
                } else {
                    Run::unborn(of.run.clone(), known.workflow.clone())
                }
            }
        };
        loop {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let recorded = self.engine.follow(of, run.seq).await?;
            if recorded.is_empty() {
                return Ok(None);
            }
            let before = recorded.iter().take_while(|one| one.seq < from).count();
            for one in &recorded[..before] {
                run.apply(&one.event, one.at);
            }
            if before < recorded.len() {
                return Ok(Some(Arc::new(Page::write(run, shape, &recorded[before..]))));
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for a page. The last one to leave without it takes the empty place away.
struct Asking<'a> {
    log: &'a Log,
    of: &'a RunRef,
    at: (u64, Shape),
    cell: Cell,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.cell.initialized() {
            return;
        }
        let mut kept = self.log.kept();
        // Counted under the lock under which others come to share it.
        if Arc::strong_count(&self.cell) == 2 {
            kept.remove(self.of, self.at);
        }
    }
}

enum Found {
    Page(Arc<Page>),
    /// Where the page will be, and a state of the run before it.
    Cell(Cell, Option<Arc<Run>>),
}

impl Kept {
    fn find(&mut self, of: &RunRef, shape: Shape, from: u64) -> Found {
        if !self.runs.contains_key(of) {
            self.runs.insert(of.clone(), BTreeMap::new());
        }
        let Some(pages) = self.runs.get_mut(of) else { return Found::Cell(Cell::default(), None) };
        let mut base = None;
        for ((_, shaped), cell) in pages.range(..=(from, Shape::LAST)).rev() {
            let Some(page) = cell.get() else { continue };
            if page.next <= from {
                base.get_or_insert_with(|| page.end.clone());
            }
            if *shaped == shape {
                if page.next > from {
                    return Found::Page(page.clone());
                }
                // Whatever comes before this ends before it, too.
                break;
            }
        }
        Found::Cell(pages.entry((from, shape)).or_default().clone(), base)
    }

    fn keep(&mut self, of: &RunRef, shape: Shape, first: u64, page: &Arc<Page>) {
        self.bytes += page.bytes();
        self.order.push_back((of.clone(), first, shape));
        while self.bytes > BYTES_MAX && self.order.len() > 1 {
            if let Some((of, first, shape)) = self.order.pop_front() {
                self.remove(&of, (first, shape));
            }
        }
    }

    fn remove(&mut self, of: &RunRef, at: (u64, Shape)) {
        let Some(pages) = self.runs.get_mut(of) else { return };
        let removed = pages.remove(&at);
        if pages.is_empty() {
            self.runs.remove(of);
        }
        if let Some(page) = removed.as_ref().and_then(|cell| cell.get()) {
            self.bytes -= page.bytes();
        }
    }
}

/// For tests of what readers cost.
#[cfg(test)]
impl Log {
    /// How often a log was read from the store so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Pages that are kept or being made.
    pub(crate) fn places(&self) -> usize {
        self.kept().runs.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept().bytes
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{RunId, TenantId};
    use holdpoint_engine::{Location, Options};

    use super::*;

    #[tokio::test]
    async fn those_who_leave_before_a_page_is_made_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(Location::Sqlite(folder.path().join("holdpoint.db")));
        let (_stop, stopping) = watch::channel(false);
        let log = Log::new(Engine::open(options).await.unwrap(), stopping);
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse("r").unwrap() };
        let ask = || match log.kept().find(&of, Shape::Documents, 3) {
            Found::Cell(cell, None) => Asking { log: &log, of: &of, at: (3, Shape::Documents), cell },
            Found::Cell(..) | Found::Page(_) => panic!("there is nothing yet"),
        };
        let (one, two) = (ask(), ask());
        assert!(Arc::ptr_eq(&one.cell, &two.cell), "they wait for the same");
        drop(one);
        assert_eq!(log.places(), 1);
        drop(two);
        assert_eq!((log.places(), log.kept().runs.len()), (0, 0));
    }
}
