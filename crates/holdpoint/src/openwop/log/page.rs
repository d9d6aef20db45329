//! A stretch of a log as text that is ready to be sent. Pure: from a state of a run and the events after it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint_core::Run;
use holdpoint_engine::Recorded;
use serde::Serialize;

use crate::openwop::documents::document;
use crate::openwop::mode::{Modes, is_urgent, modes_of};
use crate::openwop::snapshot;

/// A page ends with the event that fills it.
const PAGE_BYTES: usize = 256 * 1024;
/// Of a very large commit a page takes this part, because each page has to read the whole commit.
const PAGES_MAX: usize = 8;
/// About what the state of a node takes in memory.
const NODE_BYTES: usize = 256;
const SNAPSHOT: &str = "state.snapshot";

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
    /// What it is called.
    pub(crate) kind: Cow<'static, str>,
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
        let mut full = PAGE_BYTES;
        let mut rest = recorded.iter();
        while let Some(one) = rest.next() {
            run.apply(&one.event, one.at);
            let modes = modes_of(&one.event);
            let written = match shape {
                Shape::Documents => {
                    let document = document(&run, one);
                    let written = write_frame(&mut text, one.seq, &document.kind, &document);
                    Some((document.kind, written))
                }
                Shape::Snapshots => {
                    let shown = modes.meets(Modes::VALUES);
                    shown.then(|| (Cow::Borrowed(SNAPSHOT), write_snapshot(&mut text, one.seq, &run)))
                }
            };
            if let Some((kind, (whole, data))) = written {
                let urgent = is_urgent(&one.event);
                frames.push(Frame { sequence: one.seq, kind, modes, urgent, whole, data });
            }
            if text.len() >= full && full == PAGE_BYTES {
                full = PAGE_BYTES.max((text.len() + bytes_of(rest.as_slice())) / PAGES_MAX);
            }
            if text.len() >= full {
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

/// About how long the documents of events are.
fn bytes_of(recorded: &[Recorded]) -> usize {
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
        // Counting does not fail, and what was stored as JSON can be written as JSON.
        let _ = serde_json::to_writer(&mut count, &one.event);
    }
    count.0
}

/// The run as it is now, for a reader who comes back.
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
        // Our shapes have string keys only and a vector takes everything, so this does not happen.
        tracing::error!(%error, "an event could not be written");
    }
    let data = data_start..text.len();
    text.extend_from_slice(b"\n\n");
    (start..text.len(), data)
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{Event, NodeId, Owner, RunId, Started, TenantId, Timestamp, Workflow};
    use serde_json::{Map, json};

    use super::*;

    /// A node that says something in pieces.
    fn talk() -> (Run, Vec<Recorded>) {
        let node = json!({"id": "say", "typeId": "core.noop", "name": "say", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "talk", "name": "talk", "version": "1", "nodes": [node], "edges": [], "triggers": [],
            "variables": [], "metadata": {}, "settings": {},
        });
        let run = Run::unborn(RunId::parse("r").unwrap(), Arc::new(Workflow::parse(&flow, 1).unwrap()));
        let owner = json!({"tenant": TenantId::parse("t").unwrap(), "principal": "ann"});
        let owner: Owner = serde_json::from_value(owner).unwrap();
        let started = json!({"workflow": "talk", "revision": 1, "owner": owner});
        let started: Started = serde_json::from_value(started).unwrap();
        let node = NodeId::parse("say").unwrap();
        let chunk = |chunk: &str, last: bool| {
            let usage = json!({"finishReason": "stop"}).as_object().unwrap().clone();
            let meta = if last { usage } else { Map::new() };
            Event::MessageChunk { node: node.clone(), chunk: chunk.to_owned(), last, meta }
        };
        let events = [
            Event::RunStarted(Box::new(started)),
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
        let recorded = |(seq, event)| Recorded { seq, at: Timestamp(1_700_000_000_000 + seq as i64), event };
        (run, (0..).zip(events).map(recorded).collect())
    }

    fn shown(page: &Page, modes: Modes) -> String {
        let frames = page.frames.iter().filter(|frame| frame.modes.meets(modes));
        frames.map(|frame| std::str::from_utf8(&page.text[frame.whole.clone()]).unwrap()).collect()
    }

    #[test]
    fn messages_are_what_a_model_says_alone_or_among_updates() {
        let (run, recorded) = talk();
        let page = Page::write(run, Shape::Documents, &recorded);
        let messages = include_str!("../../../tests/golden/streams/messages.txt");
        assert_eq!(shown(&page, Modes::MESSAGES), messages);
        let among = include_str!("../../../tests/golden/streams/updates-and-messages.txt");
        assert_eq!(shown(&page, Modes::parse("messages,updates").unwrap()), among);
    }

    #[test]
    fn a_page_can_begin_anywhere_and_says_the_same() {
        for shape in [Shape::Documents, Shape::Snapshots] {
            let (mut run, recorded) = talk();
            let whole = Page::write(run.clone(), shape, &recorded);
            for from in 0..recorded.len() {
                let rest = Page::write(run.clone(), shape, &recorded[from..]);
                let begin = whole.frames.iter().find(|frame| frame.sequence >= from as u64).unwrap();
                assert_eq!(rest.text, whole.text[begin.whole.start..], "from {from}");
                assert_eq!((rest.next, &rest.end), (whole.next, &whole.end));
                run.apply(&recorded[from].event, recorded[from].at);
            }
        }
    }
}
