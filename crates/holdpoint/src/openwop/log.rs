//! A cache of run logs as pages of rendered text. The events of a commit are read from the store and rendered once; all
//! readers of the run share the page.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use holdpoint_core::{Run, RunRef};
use holdpoint_engine::Engine;
use tokio::sync::{OnceCell, watch};

use crate::error::ApiError;

mod page;
mod reader;
mod thread_reader;

pub(crate) use page::{FrameContent, LogFrame, LogPage, snapshot_frame};
pub(crate) use reader::{LogReader, UnreadFrames};
pub(crate) use thread_reader::ThreadReader;

/// Limit of the cached text and folded runs, in bytes. One page is cached even if it is larger.
pub(crate) const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Rendered log pages of the runs that are being read.
#[derive(Debug)]
pub(crate) struct LogCache {
    engine: Engine,
    /// Becomes true when the server shuts down; readers end then.
    stopping: watch::Receiver<bool>,
    cached: Mutex<CachedPages>,
    /// Number of reads from the store.
    reads: AtomicU64,
}

/// The end of a page that is rendered.
#[derive(Clone, Copy)]
enum PageEnd {
    /// For a caller that needs one event.
    FirstEvent,
    /// The last known event, or the one that fills the page.
    LastEvent,
}

/// The slot of a page. Concurrent callers wait on it while one of them renders the page.
type PageCell = Arc<OnceCell<Arc<LogPage>>>;

#[derive(Debug, Default)]
struct CachedPages {
    runs: HashMap<RunRef, BTreeMap<(u64, FrameContent), PageCell>>,
    /// Rendered pages, oldest first.
    order: VecDeque<(RunRef, u64, FrameContent)>,
    bytes: usize,
}

impl LogCache {
    pub(crate) fn new(engine: Engine, stopping: watch::Receiver<bool>) -> Arc<Self> {
        Arc::new(Self { engine, stopping, cached: Mutex::default(), reads: AtomicU64::new(0) })
    }

    /// Returns the stored run. Concurrent calls share one read.
    pub(crate) async fn latest(&self, of: &RunRef, content: FrameContent) -> Result<Arc<Run>, ApiError> {
        let last = self.engine.events().count(of).await?.saturating_sub(1);
        match self.page(of, content, last, None).await? {
            Some(page) => Ok(page.end.clone()),
            None => Ok(self.engine.runs().get(of).await?),
        }
    }

    /// Returns the name and the document of one event, as every reader sees it, and the run at that event or shortly
    /// after it. Returns None if the event does not exist.
    pub(crate) async fn document(
        &self,
        of: &RunRef,
        seq: u64,
    ) -> Result<Option<(Cow<'static, str>, Bytes, Arc<Run>)>, ApiError> {
        let page = self.page_of(of, FrameContent::Documents, seq, None, PageEnd::FirstEvent).await?;
        Ok(page.and_then(|page| {
            let frame = page.frames.iter().find(|frame| frame.sequence == seq)?;
            Some((frame.kind.clone(), page.text.slice(frame.data.clone()), page.end.clone()))
        }))
    }

    /// Returns the page that contains the event `from`, which need not be its first event. Returns None if the event
    /// does not exist yet. `known` is a state of the run before `from`, if the caller has one.
    async fn page(
        &self,
        of: &RunRef,
        content: FrameContent,
        from: u64,
        known: Option<Arc<Run>>,
    ) -> Result<Option<Arc<LogPage>>, ApiError> {
        self.page_of(of, content, from, known, PageEnd::LastEvent).await
    }

    /// Returns a page like [`LogCache::page`]. If it must be rendered, it ends at `end`.
    async fn page_of(
        &self,
        of: &RunRef,
        content: FrameContent,
        from: u64,
        known: Option<Arc<Run>>,
        end: PageEnd,
    ) -> Result<Option<Arc<LogPage>>, ApiError> {
        let (cell, base) = match self.cached().find(of, content, from) {
            PageLookup::Ready(page) => return Ok(Some(page)),
            PageLookup::Pending(cell, base) => (cell, known.or(base)),
        };
        let waiter = PageWaiter { log: self, of, from, content, cell };
        let made = waiter.cell.get_or_try_init(|| async {
            let page = self.render(of, content, from, base, end).await.map_err(Some)?.ok_or(None)?;
            self.cached().insert(of, content, from, &page);
            Ok(page)
        });
        match made.await {
            Ok(page) => Ok(Some(page.clone())),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// Reads and renders the page that begins with the event `from`. A document depends only on the state of the run
    /// right after its event, so every read returns the same text. `base` is a state of the run at or before `from`.
    async fn render(
        &self,
        of: &RunRef,
        content: FrameContent,
        from: u64,
        base: Option<Arc<Run>>,
        end: PageEnd,
    ) -> Result<Option<Arc<LogPage>>, ApiError> {
        let mut run = match base {
            Some(base) => Arc::unwrap_or_clone(base),
            None => {
                // Any state of the run at or before `from` is sufficient.
                let known = self.engine.events().cached_run(of).await?;
                if known.seq <= from {
                    Arc::unwrap_or_clone(known)
                } else {
                    Run::new(of.run.clone(), known.workflow.clone())
                }
            }
        };
        loop {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let recorded = self.engine.events().follow(of, run.seq).await?;
            if recorded.is_empty() {
                return Ok(None);
            }
            let before = recorded.iter().take_while(|one| one.seq < from).count();
            for one in &recorded[..before] {
                run.apply(&one.event, one.at);
            }
            if before < recorded.len() {
                let last = match end {
                    PageEnd::FirstEvent => before + 1,
                    PageEnd::LastEvent => recorded.len(),
                };
                return Ok(Some(Arc::new(LogPage::render(run, content, &recorded[before..last]))));
            }
        }
    }

    fn cached(&self) -> MutexGuard<'_, CachedPages> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for a page. If the page was not rendered, dropping the last waiter removes its empty slot.
struct PageWaiter<'a> {
    log: &'a LogCache,
    of: &'a RunRef,
    from: u64,
    content: FrameContent,
    cell: PageCell,
}

impl Drop for PageWaiter<'_> {
    fn drop(&mut self) {
        if self.cell.initialized() {
            return;
        }
        let mut cached = self.log.cached();
        // The map and this waiter hold the last two references. Other callers clone the cell under the same lock.
        if Arc::strong_count(&self.cell) == 2 {
            cached.remove(self.of, self.content, self.from);
        }
    }
}

enum PageLookup {
    Ready(Arc<LogPage>),
    /// The slot of a page that is not rendered yet, and a state of the run before it.
    Pending(PageCell, Option<Arc<Run>>),
}

impl CachedPages {
    fn find(&mut self, of: &RunRef, content: FrameContent, from: u64) -> PageLookup {
        if !self.runs.contains_key(of) {
            self.runs.insert(of.clone(), BTreeMap::new());
        }
        let Some(pages) = self.runs.get_mut(of) else {
            return PageLookup::Pending(PageCell::default(), None);
        };
        let mut base = None;
        for ((_, page_content), cell) in pages.range(..=(from, FrameContent::LAST)).rev() {
            let Some(page) = cell.get() else { continue };
            if page.next <= from {
                base.get_or_insert_with(|| page.end.clone());
            }
            if *page_content == content {
                if page.next > from {
                    return PageLookup::Ready(page.clone());
                }
                // All earlier pages end before this one.
                break;
            }
        }
        PageLookup::Pending(pages.entry((from, content)).or_default().clone(), base)
    }

    fn insert(&mut self, of: &RunRef, content: FrameContent, first: u64, page: &Arc<LogPage>) {
        self.bytes += page.memory_bytes();
        self.order.push_back((of.clone(), first, content));
        while self.bytes > BYTES_MAX && self.order.len() > 1 {
            if let Some((of, first, content)) = self.order.pop_front() {
                self.remove(&of, content, first);
            }
        }
    }

    fn remove(&mut self, of: &RunRef, content: FrameContent, first: u64) {
        let Some(pages) = self.runs.get_mut(of) else { return };
        let removed = pages.remove(&(first, content));
        if pages.is_empty() {
            self.runs.remove(of);
        }
        if let Some(page) = removed.as_ref().and_then(|cell| cell.get()) {
            self.bytes -= page.memory_bytes();
        }
    }
}

/// Counters for tests.
#[cfg(test)]
impl LogCache {
    /// Returns the number of reads from the store.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Returns the number of pages that are cached or being rendered.
    pub(crate) fn page_count(&self) -> usize {
        self.cached().runs.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn cached_bytes(&self) -> usize {
        self.cached().bytes
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{RunId, TenantId};
    use holdpoint_engine::{Location, Options};

    use super::*;

    #[tokio::test]
    async fn waiters_that_leave_before_a_page_is_rendered_leave_no_slot() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(Location::Sqlite(folder.path().join("holdpoint.db"))).manual_worker();
        let (_stop, stopping) = watch::channel(false);
        let log = LogCache::new(Engine::open(options).await.unwrap(), stopping);
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse("r").unwrap() };
        let wait = || match log.cached().find(&of, FrameContent::Documents, 3) {
            PageLookup::Pending(cell, None) => {
                PageWaiter { log: &log, of: &of, from: 3, content: FrameContent::Documents, cell }
            }
            PageLookup::Pending(..) | PageLookup::Ready(_) => panic!("no page is cached yet"),
        };
        let (one, two) = (wait(), wait());
        assert!(Arc::ptr_eq(&one.cell, &two.cell), "both wait for the same slot");
        drop(one);
        assert_eq!(log.page_count(), 1);
        drop(two);
        assert_eq!((log.page_count(), log.cached().runs.len()), (0, 0));
    }
}
