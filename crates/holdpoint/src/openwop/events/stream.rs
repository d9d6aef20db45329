//! Frames of a stream as they go out: each event by itself, or several gathered for a while. A reader who does not read
//! is not asked about, and costs one page at most.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::openwop::log::{Reader, Rest};
use crate::openwop::mode::Modes;

/// A batch goes out with the event that fills it.
const BATCH_BYTES: usize = 256 * 1024;

pub(super) struct Stream {
    reader: Reader,
    modes: Modes,
    ready: VecDeque<Bytes>,
    /// Where events are gathered by readers who want that.
    batch: Option<Batch>,
    closed: bool,
}

struct Batch {
    time: Duration,
    /// Copied, because a piece of a page keeps the whole page in memory.
    documents: Vec<u8>,
    highest: u64,
    /// When what is there goes out.
    due: Option<Instant>,
}

impl Stream {
    pub(super) fn new(
        reader: Reader,
        modes: Modes,
        buffer: Option<Duration>,
        baseline: Option<Bytes>,
    ) -> Self {
        let batch = buffer.map(|time| Batch { time, documents: Vec::new(), highest: 0, due: None });
        Self { reader, modes, ready: baseline.into_iter().collect(), batch, closed: false }
    }

    pub(super) fn into_frames(self) -> impl futures_util::Stream<Item = Bytes> {
        unfold(self, |mut stream| async move { stream.chunk().await.map(|bytes| (bytes, stream)) })
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.closed {
                return None;
            }
            match self.batch.as_ref().and_then(|batch| batch.due) {
                Some(due) => tokio::select! {
                    rest = self.reader.next() => self.take(rest),
                    () = tokio::time::sleep_until(due) => self.flush(),
                },
                None => {
                    let rest = self.reader.next().await;
                    self.take(rest);
                }
            }
        }
    }

    fn take(&mut self, rest: Result<Option<Rest>, ApiError>) {
        match rest {
            Ok(Some(rest)) if self.batch.is_some() => self.gather(&rest),
            Ok(Some(rest)) => self.pass_on(&rest),
            Ok(None) => {
                self.flush();
                self.closed = true;
            }
            Err(error) => {
                tracing::warn!(?error, "a stream ends because its run could not be read");
                self.flush();
                self.closed = true;
            }
        }
    }

    /// What is shown, without a copy: neighbours on the page go out together.
    fn pass_on(&mut self, rest: &Rest) {
        let mut open: Option<std::ops::Range<usize>> = None;
        for frame in rest.frames().filter(|frame| frame.modes.meets(self.modes)) {
            match &mut open {
                Some(range) if range.end == frame.whole.start => range.end = frame.whole.end,
                _ => self.ready.extend(open.replace(frame.whole.clone()).map(|range| rest.text(range))),
            }
        }
        self.ready.extend(open.map(|range| rest.text(range)));
    }

    fn gather(&mut self, rest: &Rest) {
        for frame in rest.frames() {
            let Some(batch) = &mut self.batch else { return };
            if frame.modes.meets(self.modes) {
                batch.add(frame.sequence, &rest.text(frame.data.clone()));
            }
            if frame.urgent || batch.documents.len() >= BATCH_BYTES {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.ready.extend(self.batch.as_mut().into_iter().flat_map(Batch::take));
    }
}

impl Batch {
    fn add(&mut self, sequence: u64, document: &[u8]) {
        self.due.get_or_insert_with(|| Instant::now() + self.time);
        self.documents.push(if self.documents.is_empty() { b'[' } else { b',' });
        self.documents.extend_from_slice(document);
        self.highest = sequence;
    }

    /// The frame in two pieces, if there is anything in it.
    fn take(&mut self) -> Vec<Bytes> {
        self.due = None;
        if self.documents.is_empty() {
            return Vec::new();
        }
        let mut documents = std::mem::take(&mut self.documents);
        documents.extend_from_slice(b"]\n\n");
        let head = format!("id: {}\nevent: batch\ndata: ", self.highest);
        vec![head.into(), documents.into()]
    }
}
