//! Reads the log of one run from a sequence to its end, and waits for new events. Keeps no page between two reads.

use std::sync::Arc;

use bytes::Bytes;
use holdpoint_core::{Run, RunId, RunRef};

use super::{FrameContent, LogCache, LogFrame, LogPage};
use crate::error::ApiError;
use crate::openwop::stream_modes::StreamModes;
use crate::streams::{LogWait, Wakeup};

/// A position in the log of a run.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Arc<LogCache>,
    of: RunRef,
    content: FrameContent,
    next: u64,
    /// The run right before the next event, if there are unread events.
    run: Option<Arc<Run>>,
    /// The number of events in the log, as far as the reader knows.
    known_length: u64,
    /// Set if the length of the log must be read again.
    recheck_length: bool,
    ended: bool,
    changes: LogWait,
}

/// The frames of a page that the reader has not returned before.
#[derive(Debug)]
pub(crate) struct UnreadFrames {
    page: Arc<LogPage>,
    from: u64,
}

impl LogReader {
    /// Opens a reader at the event `next`. Rejects an unknown run.
    pub(crate) async fn open(
        log: &Arc<LogCache>,
        of: RunRef,
        content: FrameContent,
        next: u64,
    ) -> Result<Self, ApiError> {
        // Subscribes before the query, so that no new event is missed.
        let changes = LogWait::new(log.engine.events().subscribe(&of), &log.stopping);
        let known_length = log.engine.events().count(&of).await?;
        // A client may know a longer log, for example from before a restored backup. It must get the next events too.
        let next = next.min(known_length);
        let mut reader = Self {
            log: log.clone(),
            of,
            content,
            next,
            run: None,
            known_length,
            recheck_length: false,
            ended: false,
            changes,
        };
        if reader.next >= reader.known_length {
            reader.check_end().await?;
        }
        Ok(reader)
    }

    /// Returns whether the run has ended and all its events were read.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns whether the log has events that were not read.
    pub(crate) fn has_unread(&self) -> bool {
        !self.ended && self.next < self.known_length
    }

    /// Waits for the next events. Returns None after the last event, or if the server shuts down. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<UnreadFrames>, ApiError> {
        loop {
            if self.recheck_length {
                self.known_length = self.known_length.max(self.log.engine.events().count(&self.of).await?);
                if self.next > self.known_length {
                    self.check_end().await?;
                }
                self.recheck_length = false;
            }
            if let Some(rest) = self.read().await? {
                return Ok(Some(rest));
            }
            if self.ended {
                return Ok(None);
            }
            match self.changes.next().await {
                Wakeup::Changed(announced) => {
                    // A notification of another process has no sequence.
                    self.recheck_length = announced <= self.known_length || announced <= self.next;
                    self.known_length = self.known_length.max(announced);
                }
                Wakeup::Poll => self.recheck_length = true,
                Wakeup::Stopping => return Ok(None),
            }
        }
    }

    /// Returns the next events that exist now, or None.
    pub(crate) async fn read(&mut self) -> Result<Option<UnreadFrames>, ApiError> {
        if !self.has_unread() {
            return Ok(None);
        }
        let Some(page) = self.log.page(&self.of, self.content, self.next, self.run.take()).await? else {
            self.known_length = self.next;
            return Ok(None);
        };
        let from = std::mem::replace(&mut self.next, page.next);
        self.known_length = self.known_length.max(self.next);
        // A finished run gets no further events.
        self.ended = page.end.finished();
        self.run = self.has_unread().then(|| page.end.clone());
        Ok(Some(UnreadFrames { page, from }))
    }

    /// Checks whether the run has ended. A reader that begins after the last event gets no event that states it.
    async fn check_end(&mut self) -> Result<(), ApiError> {
        let run = self.log.latest(&self.of, self.content).await?;
        self.ended = run.finished() && self.next >= run.seq;
        Ok(())
    }
}

impl UnreadFrames {
    /// Returns a range of the text of the page.
    pub(crate) fn text(&self, range: std::ops::Range<usize>) -> Bytes {
        self.page.text.slice(range)
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.page.end.id
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &LogFrame> {
        self.page.frames.iter().filter(|frame| frame.sequence >= self.from)
    }

    /// Returns the JSON of the events that the modes show.
    pub(crate) fn shown(&self, modes: StreamModes) -> impl Iterator<Item = &[u8]> {
        let shown = self.frames().filter(move |frame| frame.modes.overlaps(modes));
        shown.map(|frame| &self.page.text[frame.data.clone()])
    }
}
