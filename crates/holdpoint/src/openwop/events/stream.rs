//! The event stream of a run: one frame per event, or batches of events. A client that does not read costs at most one
//! page of memory.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::openwop::log::{LogReader, UnreadFrames};
use crate::openwop::stream_modes::StreamModes;
use crate::streams::{FrameQueue, FrameSource};

/// The minimum size of a full batch. A batch is sent with the event that reaches it.
const BATCH_BYTES: usize = 256 * 1024;

pub(super) struct RunEventStream {
    reader: LogReader,
    modes: StreamModes,
    /// The first frame, before those of the log.
    baseline: Option<Bytes>,
    /// Set if the client asked for batches.
    batch: Option<EventBatch>,
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
        Self { reader, modes, baseline, batch }
    }

    /// Queues the frames that the modes show, without a copy. Adjacent frames of a page are one chunk.
    fn push_frames(&self, rest: &UnreadFrames, queue: &mut FrameQueue) {
        let mut open: Option<std::ops::Range<usize>> = None;
        for frame in rest.frames().filter(|frame| frame.modes.overlaps(self.modes)) {
            match &mut open {
                Some(range) if range.end == frame.whole.start => range.end = frame.whole.end,
                _ => queue.extend(open.replace(frame.whole.clone()).map(|range| rest.text(range))),
            }
        }
        queue.extend(open.map(|range| rest.text(range)));
    }

    fn add_to_batch(&mut self, rest: &UnreadFrames, queue: &mut FrameQueue) {
        for frame in rest.frames() {
            let Some(batch) = &mut self.batch else { return };
            if frame.modes.overlaps(self.modes) {
                batch.add(frame.sequence, &rest.text(frame.data.clone()));
            }
            if frame.urgent || batch.documents.len() >= BATCH_BYTES {
                self.flush(queue);
            }
        }
    }

    fn flush(&mut self, queue: &mut FrameQueue) {
        queue.extend(self.batch.as_mut().into_iter().flat_map(EventBatch::take));
    }
}

impl FrameSource for RunEventStream {
    async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        if let Some(baseline) = self.baseline.take() {
            queue.push(baseline);
            return Ok(());
        }
        let due = self.batch.as_ref().and_then(|batch| batch.due);
        tokio::select! {
            rest = self.reader.next() => match rest? {
                Some(rest) if self.batch.is_some() => self.add_to_batch(&rest, queue),
                Some(rest) => self.push_frames(&rest, queue),
                None => {
                    self.flush(queue);
                    queue.close();
                }
            },
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.flush(queue),
        }
        Ok(())
    }

    fn fail(&mut self, queue: &mut FrameQueue) {
        self.flush(queue);
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
