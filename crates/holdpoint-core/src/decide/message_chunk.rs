//! Decides which chunks of a streamed model reply are recorded.

use serde_json::json;

use super::finish::remaining_bytes;
use crate::NodeId;
use crate::agent::{ReplyChunk, StreamProgress};
use crate::event::Event;
use crate::limits;
use crate::refusal::json_bytes;
use crate::run::Run;

/// The bytes that are reserved for the complete reply and the events after it.
const RESERVE: usize = 2 * limits::STEP_RESULT_BYTES_MAX;

/// Returns the event of a chunk. Returns None if the chunk is already recorded, or if it would use the bytes that are
/// reserved for the reply. The last chunk is always recorded; if its text does not fit, it is empty and marked as
/// incomplete.
pub(super) fn chunk_event(run: &Run, node: &NodeId, piece: &ReplyChunk) -> Option<Event> {
    let known = run.node_state(node).and_then(|state| state.agent.as_ref()).and_then(|agent| agent.streamed);
    let known = known.unwrap_or(StreamProgress { attempt: piece.attempt, chunks: 0 });
    let next = if known.attempt < piece.attempt { 0 } else { known.chunks };
    // The engine repeats a commit whose outcome is unknown, so the chunk may already be recorded.
    if piece.attempt < known.attempt || piece.index < next {
        return None;
    }
    let (node, last, mut chunk, mut meta) =
        (node.clone(), piece.end.is_some(), piece.text.clone(), piece.meta());
    let fits = chunk.len() <= limits::STEP_RESULT_BYTES_MAX
        && chunk.len() + json_bytes(&meta) + RESERVE <= remaining_bytes(run);
    if !fits && !last {
        return None;
    }
    if !fits {
        chunk.clear();
    }
    if !fits || piece.index > next {
        meta.insert("incomplete".to_owned(), json!(true));
    }
    Some(Event::MessageChunk { node, chunk, last, meta })
}
