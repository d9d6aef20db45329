//! Events of a thread as they go out, and a sign of life when there is nothing to say. A reader who does not read is not
//! asked about, and costs one page at most.

use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::time::Instant;

use super::write;
use crate::error::ApiError;
use crate::openwop::events::{KEEP_ALIVE, SIGN_OF_LIFE};
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

    pub(super) fn into_frames(self) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut stream| async move { stream.chunk().await.map(|bytes| (Ok(bytes), stream)) })
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        let silent = Instant::now() + KEEP_ALIVE;
        loop {
            if let Some(bytes) = self.pop() {
                return Some(bytes);
            }
            if self.closed {
                return None;
            }
            tokio::select! {
                rest = self.follower.next() => self.take(rest),
                () = tokio::time::sleep_until(silent) => return Some(Bytes::from_static(SIGN_OF_LIFE)),
            }
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
