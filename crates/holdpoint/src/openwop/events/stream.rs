//! The event stream of a run: one frame per event, or batches of events. A client that does not read costs at most one
//! page of memory.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::openwop::log::{LogReader, UnreadFrames};
use crate::openwop::stream_modes::StreamModes;

/// The minimum size of a full batch. A batch is sent with the event that reaches it.
const BATCH_BYTES: usize = 256 * 1024;

pub(super) struct RunEventStream {
    reader: LogReader,
    modes: StreamModes,
    ready: VecDeque<Bytes>,
    /// Set if the client asked for batches.
    batch: Option<EventBatch>,
    closed: bool,
}

struct EventBatch {
    interval: Duration,
    /// A copy, because a slice of a page would keep the whole page in memory.
    documents: Vec<u8>,
    last_sequence: u64,
    /// The time at which the batch is sent.
    due: Option<Instant>,
}

impl RunEventStream {
    pub(super) fn new(
        reader: LogReader,
        modes: StreamModes,
        buffer: Option<Duration>,
        baseline: Option<Bytes>,
    ) -> Self {
        let batch = buffer.map(|interval| EventBatch {
            interval,
            documents: Vec::new(),
            last_sequence: 0,
            due: None,
        });
        Self { reader, modes, ready: baseline.into_iter().collect(), batch, closed: false }
    }

    pub(super) fn into_frames(self) -> impl futures_util::Stream<Item = Bytes> {
        unfold(self, |mut stream| async move { stream.next_chunk().await.map(|bytes| (bytes, stream)) })
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.closed {
                return None;
            }
            match self.batch.as_ref().and_then(|batch| batch.due) {
                Some(due) => tokio::select! {
                    rest = self.reader.next() => self.handle_read(rest),
                    () = tokio::time::sleep_until(due) => self.flush(),
                },
                None => {
                    let rest = self.reader.next().await;
                    self.handle_read(rest);
                }
            }
        }
    }

    fn handle_read(&mut self, rest: Result<Option<UnreadFrames>, ApiError>) {
        match rest {
            Ok(Some(rest)) if self.batch.is_some() => self.add_to_batch(&rest),
            Ok(Some(rest)) => self.push_frames(&rest),
            Ok(None) => {
                self.flush();
                self.closed = true;
            }
            Err(error) => {
                tracing::warn!(?error, "cannot read a run; its stream ends");
                self.flush();
                self.closed = true;
            }
        }
    }

    /// Queues the frames that the modes show, without a copy. Adjacent frames of a page are one chunk.
    fn push_frames(&mut self, rest: &UnreadFrames) {
        let mut open: Option<std::ops::Range<usize>> = None;
        for frame in rest.frames().filter(|frame| frame.modes.overlaps(self.modes)) {
            match &mut open {
                Some(range) if range.end == frame.whole.start => range.end = frame.whole.end,
                _ => self.ready.extend(open.replace(frame.whole.clone()).map(|range| rest.text(range))),
            }
        }
        self.ready.extend(open.map(|range| rest.text(range)));
    }

    fn add_to_batch(&mut self, rest: &UnreadFrames) {
        for frame in rest.frames() {
            let Some(batch) = &mut self.batch else { return };
            if frame.modes.overlaps(self.modes) {
                batch.add(frame.sequence, &rest.text(frame.data.clone()));
            }
            if frame.urgent || batch.documents.len() >= BATCH_BYTES {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.ready.extend(self.batch.as_mut().into_iter().flat_map(EventBatch::take));
    }
}

impl EventBatch {
    fn add(&mut self, sequence: u64, document: &[u8]) {
        self.due.get_or_insert_with(|| Instant::now() + self.interval);
        self.documents.push(if self.documents.is_empty() { b'[' } else { b',' });
        self.documents.extend_from_slice(document);
        self.last_sequence = sequence;
    }

    /// Takes the batch as a frame of two chunks, or returns an empty list if the batch is empty.
    fn take(&mut self) -> Vec<Bytes> {
        self.due = None;
        if self.documents.is_empty() {
            return Vec::new();
        }
        let mut documents = std::mem::take(&mut self.documents);
        documents.extend_from_slice(b"]\n\n");
        let head = format!("id: {}\nevent: batch\ndata: ", self.last_sequence);
        vec![head.into(), documents.into()]
    }
}
