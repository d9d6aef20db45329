//! Adds the `conversationId` and the `turnIndex` to the data of interrupts that belong to a conversation.

use serde_json::{Value, json};

use crate::interrupt::{BadRequest, Interrupt, InterruptRequest, Kind};
use crate::limits;
use crate::run::{Conversation, Run};

/// Returns the data of a request with the unique `conversationId` and, for an exchange, the `turnIndex`.
pub(super) fn with_conversation(run: &Run, request: &InterruptRequest) -> Result<Value, BadRequest> {
    let mut data = request.data.clone();
    let named = request.data.get("conversationId").and_then(Value::as_str);
    match request.kind {
        Kind::ConversationStart => data["conversationId"] = json!(new_id(run, named)?),
        Kind::ConversationExchange => {
            let known = open(run, named)?;
            data["conversationId"] = json!(known.id);
            if data.get("turnIndex").is_none() {
                data["turnIndex"] = json!(known.turns);
            }
        }
        Kind::ConversationClose => {
            let known = open(run, named)?;
            let about = |asked: &&Interrupt| asked.kind == Kind::ConversationExchange && about(asked, known);
            if run.open_interrupts().any(|asked| about(&asked)) {
                return Err(bad("an exchange of the conversation is still open; resolve it first"));
            }
            data["conversationId"] = json!(known.id);
        }
        Kind::Approval | Kind::Clarification | Kind::ExternalEvent | Kind::Custom | Kind::LowConfidence => {}
    }
    Ok(data)
}

fn about(asked: &Interrupt, known: &Conversation) -> bool {
    asked.data.get("conversationId").and_then(Value::as_str) == Some(known.id.as_str())
}

/// Returns the id of a new conversation. An id is never reused, not even after its conversation was closed.
fn new_id(run: &Run, named: Option<&str>) -> Result<String, BadRequest> {
    if run.conversations.len() >= limits::CONVERSATIONS_MAX {
        return Err(bad(&format!("a run may have at most {} conversations", limits::CONVERSATIONS_MAX)));
    }
    let id = match named {
        Some(name) => run.conversation_name(name),
        None => run.conversation_name(run.conversations.len() + 1),
    };
    let taken =
        [Some(id.as_str()), named].into_iter().flatten().any(|id| run.conversation(Some(id)).is_some());
    if taken { Err(bad("was already used in this run; use another id")) } else { Ok(id) }
}

fn open<'a>(run: &'a Run, named: Option<&str>) -> Result<&'a Conversation, BadRequest> {
    run.conversation(named)
        .filter(|known| known.closed_by.is_none())
        .ok_or_else(|| bad("does not name an open conversation of this run"))
}

fn bad(message: &str) -> BadRequest {
    BadRequest::new("data.conversationId", message)
}
