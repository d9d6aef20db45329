//! Decides what is kept of what a model says while it still speaks.

use serde_json::json;

use super::finish::room;
use crate::NodeId;
use crate::agent::{Piece, Told};
use crate::event::Event;
use crate::limits;
use crate::refusal::json_bytes;
use crate::run::Run;

/// What is left for the reply itself, and for what comes after it.
const RESERVE: usize = 2 * limits::STEP_RESULT_BYTES_MAX;

/// Nothing when the piece is on record, or would take the room that the reply needs. The last one is always told, without
/// its text if need be, and says that some is missing.
pub(super) fn told(run: &Run, node: &NodeId, piece: &Piece) -> Option<Event> {
    let known = run.node_state(node).and_then(|state| state.agent.as_ref()).and_then(|agent| agent.told);
    let known = known.unwrap_or(Told { attempt: piece.attempt, pieces: 0 });
    let next = if known.attempt < piece.attempt { 0 } else { known.pieces };
    // A commit that seemed to fail is tried again, and may have landed.
    if piece.attempt < known.attempt || piece.index < next {
        return None;
    }
    let (node, last, mut chunk, mut meta) =
        (node.clone(), piece.end.is_some(), piece.text.clone(), piece.meta());
    let fits = chunk.len() <= limits::STEP_RESULT_BYTES_MAX
        && chunk.len() + json_bytes(&meta) + RESERVE <= room(run);
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
