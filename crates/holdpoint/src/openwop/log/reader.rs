//! Follows one run's log from a sequence number to its end. Between two pages it holds nothing but its place.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdpoint_core::{Run, RunId, RunRef};
use holdpoint_engine::Subscription;
use tokio::sync::watch;

use super::{Frame, Log, Page, Shape};
use crate::error::ApiError;
use crate::openwop::mode::Modes;

/// Looks again this often even if nobody said that there is something new.
const BACKSTOP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Reader {
    log: Arc<Log>,
    of: RunRef,
    shape: Shape,
    next: u64,
    /// The run right before the next event, as long as there is something to read.
    run: Option<Arc<Run>>,
    /// How many events the log is known to have.
    known: u64,
    /// Whether it should be asked how many there are.
    look: bool,
    ended: bool,
    news: Subscription,
    stopping: watch::Receiver<bool>,
}

/// What a reader has not seen of a page.
#[derive(Debug)]
pub(crate) struct Rest {
    page: Arc<Page>,
    from: u64,
}

impl Reader {
    /// Refused when there is no such run.
    pub(crate) async fn open(log: &Arc<Log>, of: RunRef, shape: Shape, next: u64) -> Result<Self, ApiError> {
        // What comes after this is heard of, what came before it is counted.
        let news = log.engine.subscribe(&of);
        let known = log.engine.length(&of).await?;
        // A reader of another log, of one before a restored backup for example, must not miss what comes next.
        let next = next.min(known);
        let (log, stopping) = (log.clone(), log.stopping.clone());
        let mut reader =
            Self { log, of, shape, next, run: None, known, look: false, ended: false, news, stopping };
        if reader.next >= reader.known {
            reader.find_end().await?;
        }
        Ok(reader)
    }

    /// Whether everything was read, and nothing will come.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Whether there is something that was not read yet.
    pub(crate) fn behind(&self) -> bool {
        !self.ended && self.next < self.known
    }

    /// The next events; nothing after the last, or when the server goes down. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Rest>, ApiError> {
        loop {
            if self.look {
                self.known = self.known.max(self.log.engine.length(&self.of).await?);
                if self.next > self.known {
                    self.find_end().await?;
                }
                self.look = false;
            }
            if let Some(rest) = self.read().await? {
                return Ok(Some(rest));
            }
            if self.ended || *self.stopping.borrow() {
                return Ok(None);
            }
            tokio::select! {
                () = self.news.changed() => {
                    let told = self.news.seq();
                    // A hint without a number: another node has seen something.
                    self.look = told <= self.known || told <= self.next;
                    self.known = self.known.max(told);
                }
                () = tokio::time::sleep(BACKSTOP) => self.look = true,
                _ = self.stopping.changed() => return Ok(None),
            }
        }
    }

    /// What is there to be read now.
    pub(crate) async fn read(&mut self) -> Result<Option<Rest>, ApiError> {
        if !self.behind() {
            return Ok(None);
        }
        let Some(page) = self.log.page(&self.of, self.shape, self.next, self.run.take()).await? else {
            self.known = self.next;
            return Ok(None);
        };
        let from = std::mem::replace(&mut self.next, page.next);
        self.known = self.known.max(self.next);
        // The end of a run is the end of its log.
        self.ended = page.end.finished();
        self.run = self.behind().then(|| page.end.clone());
        Ok(Some(Rest { page, from }))
    }

    /// Who begins at the end or behind it sees no event that says so.
    async fn find_end(&mut self) -> Result<(), ApiError> {
        let run = self.log.latest(&self.of, self.shape).await?;
        self.ended = run.finished() && self.next >= run.seq;
        Ok(())
    }
}

impl Rest {
    /// The text between two places in the page.
    pub(crate) fn text(&self, range: std::ops::Range<usize>) -> Bytes {
        self.page.text.slice(range)
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.page.end.id
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.page.frames.iter().filter(|frame| frame.sequence >= self.from)
    }

    /// The JSON of what the modes show.
    pub(crate) fn shown(&self, modes: Modes) -> impl Iterator<Item = &[u8]> {
        let shown = self.frames().filter(move |frame| frame.modes.meets(modes));
        shown.map(|frame| &self.page.text[frame.data.clone()])
    }
}
