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
pub(super) const RESERVE: usize = 2 * limits::STEP_RESULT_BYTES_MAX;

/// Returns the event of a chunk. Returns None if the chunk is already recorded, or if it would use the bytes that are
/// reserved for the reply. The last chunk of a text is always recorded; if its text does not fit, it is empty and
/// marked as incomplete.
pub(super) fn chunk_event(run: &Run, node: &NodeId, piece: &ReplyChunk) -> Option<Event> {
    let known = run.node_state(node).and_then(|state| state.streamed);
    let known = known.unwrap_or(StreamProgress { attempt: piece.attempt, chunks: 0 });
    let next = if known.attempt < piece.attempt { 0 } else { known.chunks };
    // The engine repeats a commit whose outcome is unknown, so the chunk may already be recorded.
    if piece.attempt < known.attempt || piece.index < next {
        return None;
    }
    let (mut piece, mut meta) = (piece.clone(), piece.meta());
    let text = piece.content.text();
    let fits = text.len() <= limits::STEP_RESULT_BYTES_MAX
        && text.len() + json_bytes(&meta) + RESERVE <= remaining_bytes(run);
    if !fits && !piece.content.is_last() {
        return None;
    }
    if !fits {
        piece.content.clear();
    }
    if !fits || piece.index > next {
        meta.insert("incomplete".to_owned(), json!(true));
    }
    Some(piece.into_event(node.clone(), meta))
}
