//! A stretch of a log as text that is ready to be sent. Pure: from a state of a run and the events after it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint_core::Run;
use holdpoint_engine::Recorded;
use serde::Serialize;

use crate::openwop::documents::document;
use crate::openwop::mode::{Modes, is_urgent, modes_of};
use crate::openwop::snapshot::Snapshot;

/// A page ends with the event that fills it.
const PAGE_BYTES: usize = 256 * 1024;
/// About what the state of a node takes in memory.
const NODE_BYTES: usize = 256;

/// What is written of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// The event itself.
    Documents,
    /// The run right after it.
    Snapshots,
}

impl Shape {
    pub(super) const LAST: Self = Self::Snapshots;

    pub(crate) fn of(modes: Modes) -> Self {
        if modes.meets(Modes::VALUES) { Self::Snapshots } else { Self::Documents }
    }
}

#[derive(Debug)]
pub(crate) struct Page {
    /// The sequence number behind the last event.
    pub(crate) next: u64,
    /// In the order of the log.
    pub(crate) frames: Vec<Frame>,
    pub(crate) text: Bytes,
    /// The run after the last event.
    pub(crate) end: Arc<Run>,
}

/// One event in the text of a page, in the form of server-sent events.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) sequence: u64,
    pub(crate) modes: Modes,
    pub(crate) urgent: bool,
    /// From `id:` to the empty line.
    pub(crate) whole: Range<usize>,
    /// The JSON alone.
    pub(crate) data: Range<usize>,
}

impl Page {
    /// From the run right before the first of the events.
    pub(super) fn write(mut run: Run, shape: Shape, recorded: &[Recorded]) -> Self {
        let mut text = Vec::new();
        let mut frames = Vec::new();
        for one in recorded {
            run.apply(&one.event, one.at);
            let modes = modes_of(&one.event);
            let written = match shape {
                Shape::Documents => {
                    let document = document(&run, one);
                    Some(write_frame(&mut text, one.seq, document.kind, &document))
                }
                Shape::Snapshots => {
                    modes.meets(Modes::VALUES).then(|| write_snapshot(&mut text, one.seq, &run))
                }
            };
            if let Some((whole, data)) = written {
                let urgent = is_urgent(&one.event);
                frames.push(Frame { sequence: one.seq, modes, urgent, whole, data });
            }
            if text.len() >= PAGE_BYTES {
                break;
            }
        }
        text.shrink_to_fit();
        Self { next: run.seq, frames, text: text.into(), end: Arc::new(run) }
    }

    /// About what the page takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let frames = self.frames.len() * size_of::<Frame>();
        self.text.len() + frames + self.end.bytes + self.end.nodes.len() * NODE_BYTES
    }
}

/// The run as it is now, for a reader who comes back.
pub(crate) fn snapshot_frame(run: &Run) -> Bytes {
    let mut text = Vec::new();
    write_snapshot(&mut text, run.seq.saturating_sub(1), run);
    text.into()
}

fn write_snapshot(text: &mut Vec<u8>, sequence: u64, run: &Run) -> (Range<usize>, Range<usize>) {
    write_frame(text, sequence, "state.snapshot", &Snapshot::of(run))
}

fn write_frame(
    text: &mut Vec<u8>,
    sequence: u64,
    event: &str,
    data: &impl Serialize,
) -> (Range<usize>, Range<usize>) {
    let start = text.len();
    text.extend_from_slice(format!("id: {sequence}\nevent: {event}\ndata: ").as_bytes());
    let data_start = text.len();
    if let Err(error) = serde_json::to_writer(&mut *text, data) {
        // Our shapes have string keys only and a vector takes everything, so this does not happen.
        tracing::error!(%error, "an event could not be written");
    }
    let data = data_start..text.len();
    text.extend_from_slice(b"\n\n");
    (start..text.len(), data)
}
