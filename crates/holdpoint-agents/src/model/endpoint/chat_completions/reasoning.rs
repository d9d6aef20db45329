//! Reasoning in the chat completions API. The API does not define it; servers use one of three members. A server gets
//! the reasoning of a turn back in the member in which it sent it.

use holdpoint_core::agent::ReasoningPart;
use serde_json::{Map, Value, json};

use super::super::super::DeltaHandler;
use super::super::assembly::ReplyAssembly;
use super::super::failure::AttemptFailure;
use super::wire::MessagePiece;

const CONTENT: &str = "reasoning_content";
const PLAIN: &str = "reasoning";
const DETAILS: &str = "reasoning_details";
/// The member of the data of a part that names the member with its text.
const MEMBER: &str = "member";
/// The members of a detail whose pieces are parts of one text.
const PIECES: [&str; 3] = ["text", "summary", "data"];

/// Adds the reasoning in a piece of a message. A reply has one part of reasoning.
pub(super) fn add(
    reply: &mut ReplyAssembly,
    piece: &MessagePiece,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    let content = piece.reasoning_content.as_deref().filter(|text| !text.is_empty());
    let plain = piece.reasoning.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty());
    // Some servers send the same text in both members.
    let text = content.map(|text| (CONTENT, text)).or(plain.map(|text| (PLAIN, text)));
    let details = piece.reasoning_details.as_deref().unwrap_or_default();
    if let Some((member, text)) = text {
        reply.add_reasoning(0, text, listener)?;
        reply.add_reasoning_data(0, 0, |data| {
            data.entry(MEMBER).or_insert_with(|| member.into());
        })?;
    }
    for detail in details {
        let bytes = PIECES.iter().filter_map(|name| detail.get(*name)?.as_str()).map(str::len).sum();
        reply.add_reasoning_data(0, bytes, |data| add_detail(data, detail))?;
        if text.is_none() {
            let text = ["text", "summary"].iter().find_map(|name| detail.get(*name)?.as_str());
            reply.add_reasoning(0, text.unwrap_or_default(), listener)?;
        }
    }
    Ok(())
}

/// Adds a piece of a detail to the detail with the same type and index.
fn add_detail(data: &mut Map<String, Value>, piece: &Map<String, Value>) {
    let Some(details) = data.entry(DETAILS).or_insert_with(|| json!([])).as_array_mut() else { return };
    let same = |known: &Value| ["type", "index"].iter().all(|name| known.get(*name) == piece.get(*name));
    let last = details.last_mut().filter(|known| same(known)).and_then(Value::as_object_mut);
    let Some(known) = last else {
        details.push(Value::Object(piece.clone()));
        return;
    };
    for (name, value) in piece.iter().filter(|(_, value)| !value.is_null()) {
        match (known.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more)) if PIECES.contains(&name.as_str()) => {
                text.push_str(more);
            }
            _ => {
                known.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Returns the members of a message that contain its reasoning.
pub(super) fn members(parts: &[&ReasoningPart]) -> Map<String, Value> {
    let mut members = Map::new();
    for part in parts {
        if let Some(details) = part.data.get(DETAILS) {
            members.insert(DETAILS.to_owned(), details.clone());
        } else if let Some(Value::String(member)) = part.data.get(MEMBER) {
            members.insert(member.clone(), part.text.clone().into());
        }
    }
    members
}
