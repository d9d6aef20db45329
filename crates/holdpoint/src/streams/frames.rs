//! The frames of a stream: a protocol queues them, and one driver sends them and ends the stream.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;

use crate::error::ApiError;

/// Translates changes into the frames of one stream.
pub(crate) trait FrameSource: Send + Sized + 'static {
    /// Set if frames that are queued together are sent as one chunk. Otherwise each frame is a chunk.
    const JOINED: bool = false;

    /// Waits for changes and queues their frames. It is called again when the queue is empty, until the queue is closed
    /// or a read fails.
    fn fill(&mut self, queue: &mut FrameQueue) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Queues the last frames of the stream after a failed read.
    fn fail(&mut self, _queue: &mut FrameQueue) {}

    /// Returns the log message of a failed read.
    fn read_failure(&self) -> &'static str {
        "cannot read a run; its stream ends"
    }

    /// Returns the frames in chunks until the source closes the queue or a read fails.
    fn into_frames(self) -> impl Stream<Item = Bytes> + Send + 'static {
        unfold((self, FrameQueue::default()), |(mut source, mut queue)| async move {
            loop {
                let chunk = if Self::JOINED { queue.take_all() } else { queue.frames.pop_front() };
                if let Some(chunk) = chunk {
                    return Some((chunk, (source, queue)));
                }
                if queue.closed {
                    return None;
                }
                if let Err(error) = source.fill(&mut queue).await {
                    tracing::warn!(?error, "{}", source.read_failure());
                    source.fail(&mut queue);
                    queue.close();
                }
            }
        })
    }
}

/// Frames that are not sent yet.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    frames: VecDeque<Bytes>,
    closed: bool,
}

impl FrameQueue {
    pub(crate) fn push(&mut self, frame: impl Into<Bytes>) {
        self.frames.push_back(frame.into());
    }

    pub(crate) fn extend(&mut self, frames: impl IntoIterator<Item = Bytes>) {
        self.frames.extend(frames);
    }

    /// Ends the stream after the queued frames.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    fn take_all(&mut self) -> Option<Bytes> {
        let all: Vec<Bytes> = self.frames.drain(..).collect();
        if all.is_empty() { None } else { Some(all.concat().into()) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    /// The frames that each call of `fill` queues. None is a failed read; the end of the list closes the queue.
    type Fills = std::vec::IntoIter<Option<Vec<&'static str>>>;

    struct Separate(Fills);
    struct Joined(Fills);

    fn fill(fills: &mut Fills, queue: &mut FrameQueue) -> Result<(), ApiError> {
        match fills.next() {
            Some(Some(frames)) => queue.extend(frames.into_iter().map(Bytes::from)),
            Some(None) => return Err(ApiError::not_found("run")),
            None => queue.close(),
        }
        Ok(())
    }

    impl FrameSource for Separate {
        async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
            fill(&mut self.0, queue)
        }

        fn fail(&mut self, queue: &mut FrameQueue) {
            queue.push("failed");
        }
    }

    impl FrameSource for Joined {
        const JOINED: bool = true;

        async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
            fill(&mut self.0, queue)
        }
    }

    #[tokio::test]
    async fn frames_are_sent_in_order_as_separate_or_joined_chunks() {
        let fills = || vec![Some(vec!["a", "b"]), Some(vec![]), Some(vec!["c"])].into_iter();
        assert_eq!(Separate(fills()).into_frames().collect::<Vec<_>>().await, ["a", "b", "c"]);
        assert_eq!(Joined(fills()).into_frames().collect::<Vec<_>>().await, ["ab", "c"]);
    }

    #[tokio::test]
    async fn a_failed_read_ends_the_stream_after_the_last_frames_of_its_source() {
        let fills = || vec![Some(vec!["a"]), None, Some(vec!["b"])].into_iter();
        assert_eq!(Separate(fills()).into_frames().collect::<Vec<_>>().await, ["a", "failed"]);
        assert_eq!(Joined(fills()).into_frames().collect::<Vec<_>>().await, ["a"]);
    }
}
