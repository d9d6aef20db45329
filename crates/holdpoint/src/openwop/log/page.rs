//! Renders a part of a log as server-sent events, from a state of a run and the events after it. Pure.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint_core::Run;
use holdpoint_engine::RecordedEvent;
use serde::Serialize;

use crate::openwop::documents::document;
use crate::openwop::snapshot;
use crate::openwop::stream_modes::{StreamModes, is_urgent, modes_of};

/// The minimum size of a full page. A page ends with the event that reaches it.
const PAGE_BYTES: usize = 256 * 1024;
/// A very large commit is split into about this many pages at most, because each page reads the whole commit again.
const PAGES_MAX: usize = 8;
/// The estimated memory of the state of a node.
const NODE_BYTES: usize = 256;
const SNAPSHOT: &str = "state.snapshot";

/// The content of the frames of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FrameContent {
    /// The document of each event.
    Documents,
    /// The snapshot of the run right after each event.
    Snapshots,
}

impl FrameContent {
    pub(super) const LAST: Self = Self::Snapshots;

    pub(crate) fn of(modes: StreamModes) -> Self {
        if modes.overlaps(StreamModes::VALUES) { Self::Snapshots } else { Self::Documents }
    }
}

/// Consecutive events of a log as rendered text.
#[derive(Debug)]
pub(crate) struct LogPage {
    /// The sequence of the event after the last one.
    pub(crate) next: u64,
    /// In the order of the log.
    pub(crate) frames: Vec<LogFrame>,
    pub(crate) text: Bytes,
    /// The run after the last event.
    pub(crate) end: Arc<Run>,
}

/// One event in the text of a page, in the form of server-sent events.
#[derive(Clone, Debug)]
pub(crate) struct LogFrame {
    pub(crate) sequence: u64,
    /// The name of the event.
    pub(crate) kind: Cow<'static, str>,
    pub(crate) modes: StreamModes,
    pub(crate) urgent: bool,
    /// From `id:` to the empty line.
    pub(crate) whole: Range<usize>,
    /// The JSON alone.
    pub(crate) data: Range<usize>,
}

impl LogPage {
    /// Renders events. `run` is the run right before the first of them.
    pub(super) fn render(mut run: Run, content: FrameContent, recorded: &[RecordedEvent]) -> Self {
        let mut text = Vec::new();
        let mut frames = Vec::new();
        let mut full = PAGE_BYTES;
        let mut rest = recorded.iter();
        while let Some(one) = rest.next() {
            run.apply(&one.event, one.at);
            let modes = modes_of(&one.event);
            let written = match content {
                FrameContent::Documents => {
                    let document = document(&run, one);
                    let written = write_frame(&mut text, one.seq, &document.kind, &document);
                    Some((document.kind, written))
                }
                FrameContent::Snapshots => {
                    let shown = modes.overlaps(StreamModes::VALUES);
                    shown.then(|| (Cow::Borrowed(SNAPSHOT), write_snapshot(&mut text, one.seq, &run)))
                }
            };
            if let Some((kind, (whole, data))) = written {
                let urgent = is_urgent(&one.event);
                frames.push(LogFrame { sequence: one.seq, kind, modes, urgent, whole, data });
            }
            if text.len() >= full && full == PAGE_BYTES {
                full = PAGE_BYTES.max((text.len() + estimate_bytes(rest.as_slice())) / PAGES_MAX);
            }
            if text.len() >= full {
                break;
            }
        }
        text.shrink_to_fit();
        Self { next: run.seq, frames, text: text.into(), end: Arc::new(run) }
    }

    /// Returns the estimated memory of the page.
    pub(super) fn memory_bytes(&self) -> usize {
        let frames = self.frames.len() * size_of::<LogFrame>();
        self.text.len() + frames + self.end.bytes + self.end.nodes.len() * NODE_BYTES
    }
}

/// Returns the estimated size of the documents of events.
fn estimate_bytes(recorded: &[RecordedEvent]) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    for one in recorded {
        // Cannot fail: the counter accepts all bytes, and stored events are JSON.
        let _ = serde_json::to_writer(&mut count, &one.event);
    }
    count.0
}

/// Returns the current snapshot of a run as a frame, for a reader that reconnects.
pub(crate) fn snapshot_frame(run: &Run) -> Bytes {
    let mut text = Vec::new();
    write_snapshot(&mut text, run.seq.saturating_sub(1), run);
    text.into()
}

fn write_snapshot(text: &mut Vec<u8>, sequence: u64, run: &Run) -> (Range<usize>, Range<usize>) {
    write_frame(text, sequence, SNAPSHOT, &snapshot::describe(run))
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
        // Cannot happen: documents have string keys only, and a vector accepts all bytes.
        tracing::error!(%error, "cannot serialize an event");
    }
    let data = data_start..text.len();
    text.extend_from_slice(b"\n\n");
    (start..text.len(), data)
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{Event, NodeId, Owner, RunId, RunParameters, TenantId, Timestamp, Workflow};
    use serde_json::{Map, json};

    use super::*;

    /// Returns a run and its events: one node that streams a message in two chunks.
    fn streaming_run() -> (Run, Vec<RecordedEvent>) {
        let node = json!({"id": "say", "typeId": "core.noop", "name": "say", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "talk", "name": "talk", "version": "1", "nodes": [node], "edges": [], "triggers": [],
            "variables": [], "metadata": {}, "settings": {},
        });
        let run = Run::new(RunId::parse("r").unwrap(), Arc::new(Workflow::parse(&flow, 1).unwrap()));
        let owner = json!({"tenant": TenantId::parse("t").unwrap(), "principal": "ann"});
        let owner: Owner = serde_json::from_value(owner).unwrap();
        let started = json!({"workflow": "talk", "revision": 1, "owner": owner});
        let started: RunParameters = serde_json::from_value(started).unwrap();
        let node = NodeId::parse("say").unwrap();
        let chunk = |chunk: &str, last: bool| {
            let usage = json!({"finishReason": "stop"}).as_object().unwrap().clone();
            let meta = if last { usage } else { Map::new() };
            Event::MessageChunk { node: node.clone(), chunk: chunk.to_owned(), last, meta }
        };
        let events = [
            Event::RunStarted(std::sync::Arc::new(started)),
            Event::NodeStarted { node: node.clone(), uses: Vec::new() },
            chunk("Hel", false),
            chunk("lo\n", true),
            Event::NodeCompleted {
                node: node.clone(),
                outputs: Map::new(),
                branch: None,
                unmapped: Vec::new(),
            },
            Event::RunCompleted,
        ];
        let recorded =
            |(seq, event)| RecordedEvent { seq, at: Timestamp(1_700_000_000_000 + seq as i64), event };
        (run, (0..).zip(events).map(recorded).collect())
    }

    fn shown(page: &LogPage, modes: StreamModes) -> String {
        let frames = page.frames.iter().filter(|frame| frame.modes.overlaps(modes));
        frames.map(|frame| std::str::from_utf8(&page.text[frame.whole.clone()]).unwrap()).collect()
    }

    #[test]
    fn the_mode_messages_shows_chunks_alone_or_among_updates() {
        let (run, recorded) = streaming_run();
        let page = LogPage::render(run, FrameContent::Documents, &recorded);
        let messages = include_str!("../../../tests/golden/streams/messages.txt");
        assert_eq!(shown(&page, StreamModes::MESSAGES), messages);
        let among = include_str!("../../../tests/golden/streams/updates-and-messages.txt");
        assert_eq!(shown(&page, StreamModes::parse("messages,updates").unwrap()), among);
    }

    #[test]
    fn a_page_has_the_same_text_wherever_it_begins() {
        for content in [FrameContent::Documents, FrameContent::Snapshots] {
            let (mut run, recorded) = streaming_run();
            let whole = LogPage::render(run.clone(), content, &recorded);
            for from in 0..recorded.len() {
                let rest = LogPage::render(run.clone(), content, &recorded[from..]);
                let begin = whole.frames.iter().find(|frame| frame.sequence >= from as u64).unwrap();
                assert_eq!(rest.text, whole.text[begin.whole.start..], "from {from}");
                assert_eq!((rest.next, &rest.end), (whole.next, &whole.end));
                run.apply(&recorded[from].event, recorded[from].at);
            }
        }
    }
}
