//! Events of a thread as they go out. A reader who does not read is not asked about, and costs one page at most.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::unfold;

use super::write;
use crate::error::ApiError;
use crate::openwop::log::{Follower, Frame, Rest};
use crate::places;

pub(super) struct Stream {
    follower: Follower,
    /// A page, and what is still to be sent of it.
    ready: Option<(Rest, VecDeque<Frame>)>,
    closed: bool,
}

impl Stream {
    pub(super) fn new(follower: Follower) -> Self {
        Self { follower, ready: None, closed: false }
    }

    pub(super) fn into_frames(self) -> impl futures_util::Stream<Item = Bytes> {
        unfold(self, |mut stream| async move { stream.chunk().await.map(|bytes| (bytes, stream)) })
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.pop() {
                return Some(bytes);
            }
            if self.closed {
                return None;
            }
            let rest = self.follower.next().await;
            self.take(rest);
        }
    }

    fn take(&mut self, rest: Result<Option<Rest>, ApiError>) {
        match rest {
            Ok(Some(rest)) => {
                let frames = rest.frames().cloned().collect();
                self.ready = Some((rest, frames));
            }
            Ok(None) => self.closed = true,
            Err(error) => {
                tracing::warn!(?error, "a stream ends because its thread could not be read");
                self.closed = true;
            }
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let (rest, frames) = self.ready.as_mut()?;
        let Some(frame) = frames.pop_front() else {
            self.ready = None;
            return None;
        };
        let cursor = places::cursor(rest.run(), frame.sequence);
        let mut text = format!("id: {cursor}\nevent: {}\ndata: ", frame.kind).into_bytes();
        write(&mut text, &cursor, rest, &frame);
        text.extend_from_slice(b"\n\n");
        Some(text.into())
    }
}
