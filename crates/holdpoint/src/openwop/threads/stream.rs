//! The event stream of a thread. A client that does not read costs at most one page of memory.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::unfold;

use super::write;
use crate::error::ApiError;
use crate::openwop::log::{LogFrame, ThreadReader, UnreadFrames};
use crate::thread_cursor;

pub(super) struct ThreadEventStream {
    reader: ThreadReader,
    /// A page, and its frames that are not sent yet.
    ready: Option<(UnreadFrames, VecDeque<LogFrame>)>,
    closed: bool,
}

impl ThreadEventStream {
    pub(super) fn new(reader: ThreadReader) -> Self {
        Self { reader, ready: None, closed: false }
    }

    pub(super) fn into_frames(self) -> impl futures_util::Stream<Item = Bytes> {
        unfold(self, |mut stream| async move { stream.next_chunk().await.map(|bytes| (bytes, stream)) })
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.pop_frame() {
                return Some(bytes);
            }
            if self.closed {
                return None;
            }
            let rest = self.reader.next().await;
            self.handle_read(rest);
        }
    }

    fn handle_read(&mut self, rest: Result<Option<UnreadFrames>, ApiError>) {
        match rest {
            Ok(Some(rest)) => {
                let frames = rest.frames().cloned().collect();
                self.ready = Some((rest, frames));
            }
            Ok(None) => self.closed = true,
            Err(error) => {
                tracing::warn!(?error, "cannot read a thread; its stream ends");
                self.closed = true;
            }
        }
    }

    fn pop_frame(&mut self) -> Option<Bytes> {
        let (rest, frames) = self.ready.as_mut()?;
        let Some(frame) = frames.pop_front() else {
            self.ready = None;
            return None;
        };
        let cursor = thread_cursor::cursor(rest.run(), frame.sequence);
        let mut text = format!("id: {cursor}\nevent: {}\ndata: ", frame.kind).into_bytes();
        write(&mut text, &cursor, rest, &frame);
        text.extend_from_slice(b"\n\n");
        Some(text.into())
    }
}
