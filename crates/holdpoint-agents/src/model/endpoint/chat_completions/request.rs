//! Builds the body of a chat completions request from a prompt.

use holdpoint_core::agent::{CallRequest, ReasoningPart};
use serde_json::{Map, Value, json};

use super::super::super::ModelPrompt;
use super::super::attachments::{Attachment, ContentPart, MediaKind, MediaSource, only_text};
use super::super::conversation::{Entry, entries};
use super::super::options;
use super::super::settings::EndpointSettings;
use super::reasoning;

/// Members of a request that options must not set.
pub(in super::super) const RESERVED: [&str; 10] = [
    "function_call",
    "functions",
    "messages",
    "model",
    "n",
    "store",
    "stream",
    "stream_options",
    "tools",
    "web_search_options",
];

/// The media types that the API accepts.
pub(in super::super) const MEDIA_TYPES: [&str; 8] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "audio/wav",
    "audio/mpeg",
    "audio/mp3",
];

pub(in super::super) fn body(settings: &EndpointSettings, prompt: &ModelPrompt) -> Map<String, Value> {
    let mut body = options::merge(settings, prompt);
    body.insert("model".to_owned(), settings.model.clone().into());
    body.insert("messages".to_owned(), entries(settings, prompt).into_iter().map(message).collect());
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| {
            let (name, description) = (&tool.name, &tool.description);
            json!({"type": "function", "function": {"name": name, "description": description, "parameters": tool.parameters}})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if settings.stream {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body
}

fn message(entry: Entry<'_>) -> Value {
    match entry {
        Entry::System(text) => json!({"role": "system", "content": text}),
        Entry::User(parts) => json!({"role": "user", "content": content(&parts)}),
        Entry::Reply { text, calls, reasoning } => reply(text, calls, &reasoning),
        Entry::Result { call, parts } => {
            json!({"role": "tool", "tool_call_id": call, "content": without_attachments(&parts)})
        }
    }
}

fn reply(text: String, calls: &[CallRequest], reasoning: &[&ReasoningPart]) -> Value {
    let mut message = Map::from_iter([("role".to_owned(), "assistant".into())]);
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    message.insert("content".to_owned(), content);
    message.extend(reasoning::members(reasoning));
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.iter().map(call).collect());
    }
    Value::Object(message)
}

fn call(call: &CallRequest) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    json!({"id": call.id, "type": "function", "function": function})
}

/// Returns the text of a result. The API accepts no attachments in results.
fn without_attachments(parts: &[ContentPart<'_>]) -> String {
    let texts = parts.iter().map(|part| match part {
        ContentPart::Text(text) => text.as_ref(),
        ContentPart::Attachment(_) => {
            "(An attachment was left out: this API accepts none in results of tools.)"
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the content. A text without attachments is a string, which every server accepts.
fn content(parts: &[ContentPart<'_>]) -> Value {
    only_text(parts).map_or_else(|| parts.iter().map(part).collect(), Value::from)
}

fn part(part: &ContentPart<'_>) -> Value {
    let attachment = match part {
        ContentPart::Text(text) => return json!({"type": "text", "text": text}),
        ContentPart::Attachment(attachment) => attachment,
    };
    let Attachment { kind, media_type, name, .. } = attachment;
    match (kind, attachment.source) {
        (MediaKind::Audio, MediaSource::Data(data)) => {
            let format = if *media_type == Some("audio/wav") { "wav" } else { "mp3" };
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
        (MediaKind::Document, _) => {
            let name = name.unwrap_or("document.pdf");
            json!({"type": "file", "file": {"filename": name, "file_data": attachment.to_url()}})
        }
        (MediaKind::Image | MediaKind::Audio, _) => {
            json!({"type": "image_url", "image_url": {"url": attachment.to_url()}})
        }
    }
}
