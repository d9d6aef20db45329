//! The messages of a prompt in the form that all APIs share: every call has a result, and every content is a list of
//! parts that the model accepts.

use std::collections::BTreeSet;

use holdpoint_core::agent::{CallRequest, Message, ReasoningPart, Role, is_content_parts};
use serde_json::Value;

use super::super::ModelPrompt;
use super::attachments::{ContentPart, RequestAttachments};
use super::settings::EndpointSettings;

/// The text of a call without a result. Endpoints reject a conversation in which a call has no result.
const MISSING_RESULT: &str = "There is no result of this call.";

/// An entry of a conversation.
pub(super) enum Entry<'a> {
    System(String),
    User(Vec<ContentPart<'a>>),
    Reply { text: String, calls: &'a [CallRequest], reasoning: Vec<&'a ReasoningPart> },
    Result { call: &'a str, parts: Vec<ContentPart<'a>> },
}

pub(super) fn entries<'a>(settings: &'a EndpointSettings, prompt: &'a ModelPrompt) -> Vec<Entry<'a>> {
    let mut entries = Vec::with_capacity(prompt.messages.len() + 1);
    entries.extend(prompt.instructions.iter().map(|text| Entry::System(text.clone())));
    let attachments = RequestAttachments::new(&settings.attachments, &prompt.messages);
    let source = settings.source();
    // Models need their reasoning until the next message of the user.
    let turn = prompt.messages.iter().rposition(|message| message.role == Role::User).unwrap_or_default();
    // Calls of the last reply that have no result yet.
    let mut open: Vec<&CallRequest> = Vec::new();
    for (at, message) in prompt.messages.iter().enumerate() {
        if message.role == Role::Tool {
            open.retain(|call| Some(&call.id) != message.call_id.as_ref());
        } else {
            entries.extend(open.drain(..).map(missing_result));
        }
        entries.push(match message.role {
            Role::System => Entry::System(plain_text(message)),
            Role::User => Entry::User(attachments.parts(at, &message.content)),
            Role::Assistant => {
                let own = message.reasoning.iter().filter(|part| at > turn && part.source == source);
                Entry::Reply { text: message.text(), calls: &message.calls, reasoning: own.collect() }
            }
            Role::Tool => Entry::Result {
                call: message.call_id.as_deref().unwrap_or_default(),
                parts: match is_content_parts(&message.content) {
                    true => attachments.parts(at, &message.content),
                    false => vec![ContentPart::Text(plain(&message.content).into())],
                },
            },
        });
        let mut seen = BTreeSet::new();
        open.extend(message.calls.iter().filter(|call| seen.insert(&call.id)));
    }
    entries.extend(open.drain(..).map(missing_result));
    entries
}

fn missing_result(call: &CallRequest) -> Entry<'_> {
    Entry::Result { call: &call.id, parts: vec![ContentPart::Text(MISSING_RESULT.into())] }
}

fn plain_text(message: &Message) -> String {
    match &message.content {
        Value::Array(_) => message.text(),
        other => plain(other),
    }
}

/// Returns a string as it is, and other values as JSON.
pub(super) fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
