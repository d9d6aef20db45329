//! The event stream of a thread. A client that does not read costs at most one page of memory.

use std::collections::VecDeque;

use bytes::Bytes;

use super::write;
use crate::error::ApiError;
use crate::openwop::log::{LogFrame, ThreadReader, UnreadFrames};
use crate::streams::{FrameQueue, FrameSource};
use crate::thread_cursor;

pub(super) struct ThreadEventStream {
    reader: ThreadReader,
    /// A page, and its frames that are not queued yet.
    page: Option<(UnreadFrames, VecDeque<LogFrame>)>,
}

impl ThreadEventStream {
    pub(super) fn new(reader: ThreadReader) -> Self {
        Self { reader, page: None }
    }

    fn next_frame(&mut self) -> Option<Bytes> {
        let (page, frames) = self.page.as_mut()?;
        let frame = frames.pop_front()?;
        let cursor = thread_cursor::cursor(page.run(), frame.sequence);
        let mut text = format!("id: {cursor}\nevent: {}\ndata: ", frame.kind).into_bytes();
        write(&mut text, &cursor, page, &frame);
        text.extend_from_slice(b"\n\n");
        Some(text.into())
    }
}

impl FrameSource for ThreadEventStream {
    async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        // One frame at a time, because a frame is a copy of a part of the page.
        if let Some(frame) = self.next_frame() {
            queue.push(frame);
            return Ok(());
        }
        self.page = None;
        match self.reader.next().await? {
            Some(page) => {
                let frames = page.frames().cloned().collect();
                self.page = Some((page, frames));
            }
            None => queue.close(),
        }
        Ok(())
    }

    fn read_failure(&self) -> &'static str {
        "cannot read a thread; its stream ends"
    }
}
