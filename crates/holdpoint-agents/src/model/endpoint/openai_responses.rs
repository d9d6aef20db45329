//! The responses API of OpenAI. It is used without state: every request contains the whole conversation, and the server
//! stores no response.

use holdpoint_core::agent::{CallRequest, ReasoningPart};
use serde_json::{Map, Value, json};

use super::super::{DeltaHandler, ModelPrompt};
use super::assembly::{CallPiece, FILTERED, ReplyAssembly, ReplyEnd};
use super::attachments::{Attachment, ContentPart, MediaKind, MediaSource, only_text};
use super::conversation::{Entry, entries};
use super::failure::{AttemptFailure, HiddenSecrets};
use super::options;
use super::settings::EndpointSettings;

/// Members of a request that options must not set.
pub(super) const RESERVED: [&str; 11] = [
    "background",
    "conversation",
    "input",
    "instructions",
    "model",
    "previous_response_id",
    "prompt",
    "store",
    "stream",
    "stream_options",
    "tools",
];

/// The member of the data of reasoning that contains the item to send back.
const ITEM: &str = "item";
const ENCRYPTED_CONTENT: &str = "encrypted_content";

/// The media types that the API accepts.
pub(super) const MEDIA_TYPES: [&str; 5] =
    ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];

pub(super) fn body(settings: &EndpointSettings, prompt: &ModelPrompt) -> Map<String, Value> {
    let mut body = options::merge(settings, prompt);
    if let Some(tokens) = body.shift_remove("max_tokens") {
        body.insert("max_output_tokens".to_owned(), tokens);
    }
    if body.get("reasoning").is_some_and(Value::is_object) {
        // The server stores no response, so that it needs its reasoning back in encrypted form.
        body.entry("include").or_insert_with(|| json!(["reasoning.encrypted_content"]));
    }
    body.insert("model".to_owned(), settings.model.clone().into());
    body.insert("store".to_owned(), false.into());
    body.insert("input".to_owned(), entries(settings, prompt).into_iter().flat_map(items).collect());
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| {
            let (name, description) = (&tool.name, &tool.description);
            json!({"type": "function", "name": name, "description": description, "parameters": tool.parameters, "strict": false})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if settings.stream {
        body.insert("stream".to_owned(), true.into());
    }
    body
}

fn items(entry: Entry<'_>) -> Vec<Value> {
    match entry {
        Entry::System(text) => vec![json!({"role": "system", "content": text})],
        Entry::User(parts) => vec![json!({"role": "user", "content": content(&parts)})],
        Entry::Reply { text, calls, reasoning } => {
            let reasoning = reasoning.into_iter().filter_map(reasoning_item);
            let text = (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}));
            reasoning.chain(text).chain(calls.iter().map(call)).collect()
        }
        Entry::Result { call, parts } => {
            vec![json!({"type": "function_call_output", "call_id": call, "output": content(&parts)})]
        }
    }
}

/// Returns the item that the model sent.
fn reasoning_item(part: &ReasoningPart) -> Option<Value> {
    let mut item = part.data.get(ITEM)?.clone();
    item.as_object_mut()?.insert(ENCRYPTED_CONTENT.to_owned(), part.encrypted()?.into());
    Some(item)
}

fn call(call: &CallRequest) -> Value {
    let arguments = call.arguments.to_string();
    json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
}

/// Returns the content. A text without attachments is a string.
fn content(parts: &[ContentPart<'_>]) -> Value {
    only_text(parts).map_or_else(|| parts.iter().map(part).collect(), Value::from)
}

fn part(part: &ContentPart<'_>) -> Value {
    let attachment = match part {
        ContentPart::Text(text) => return json!({"type": "input_text", "text": text}),
        ContentPart::Attachment(attachment) => attachment,
    };
    let Attachment { kind, source, name, .. } = attachment;
    match (kind, source) {
        (MediaKind::Document, MediaSource::Url(url)) => json!({"type": "input_file", "file_url": url}),
        (MediaKind::Document, MediaSource::Data(_)) => {
            let name = name.unwrap_or("document.pdf");
            json!({"type": "input_file", "filename": name, "file_data": attachment.to_url()})
        }
        (MediaKind::Image | MediaKind::Audio, _) => {
            json!({"type": "input_image", "image_url": attachment.to_url()})
        }
    }
}

/// Adds an event of a stream.
pub(super) fn add_event(
    reply: &mut ReplyAssembly,
    event: &Value,
    hidden: &HiddenSecrets,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let index = event.get("output_index").and_then(Value::as_u64);
    match text("type") {
        "response.output_text.delta" => reply.add_text(text("delta").to_owned(), listener),
        "response.refusal.delta" => reply.add_refusal(text("delta")),
        "response.function_call_arguments.delta" => {
            let arguments = text("delta").to_owned();
            reply.add_call(CallPiece { index, arguments, ..CallPiece::default() }, listener)
        }
        "response.function_call_arguments.done" => {
            let arguments = event.get("arguments").and_then(Value::as_str);
            complete_call(reply, CallPiece { index, ..CallPiece::default() }, arguments, listener)
        }
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            reply.add_reasoning(index.unwrap_or_default(), text("delta"), listener)
        }
        "response.reasoning_summary_part.added" => {
            let index = index.unwrap_or_default();
            let separator = if reply.has_reasoning(index) { "\n\n" } else { "" };
            reply.add_reasoning(index, separator, listener)
        }
        "response.output_item.added" | "response.output_item.done" => match event.get("item") {
            Some(item) if kind_of(item) == "function_call" => add_call(reply, index, item, listener),
            Some(item) if kind_of(item) == "reasoning" && text("type").ends_with("done") => {
                add_reasoning(reply, index.unwrap_or_default(), item, listener)
            }
            Some(_) | None => Ok(()),
        },
        "response.created" => {
            reply.set_model(event.pointer("/response/model").and_then(Value::as_str).map(str::to_owned));
            Ok(())
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            let response = event.get("response").unwrap_or(&Value::Null);
            add_document(reply, response, hidden, listener)?;
            reply.set_done();
            Ok(())
        }
        "error" => {
            let error = event.get("error").filter(|error| !error.is_null()).unwrap_or(event);
            Err(AttemptFailure::of_reported(error, hidden))
        }
        _ => Ok(()),
    }
}

/// Adds a response that is one document. In a stream it is the last event; its output is used only if the events before
/// it had no content.
pub(super) fn add_document(
    reply: &mut ReplyAssembly,
    response: &Value,
    hidden: &HiddenSecrets,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        return Err(AttemptFailure::of_reported(error, hidden));
    }
    reply.set_model(response.get("model").and_then(Value::as_str).map(str::to_owned));
    let tokens = |name: &str| response.get("usage")?.get(name)?.as_u64();
    reply.usage.input_tokens = tokens("input_tokens").unwrap_or_default();
    reply.usage.output_tokens = tokens("output_tokens").unwrap_or_default();
    let reasoning = response.pointer("/usage/output_tokens_details/reasoning_tokens").and_then(Value::as_u64);
    reply.usage.reasoning_tokens = reasoning.unwrap_or_default();
    if reply.is_empty() {
        let output = response.get("output").and_then(Value::as_array);
        for (item, index) in output.into_iter().flatten().zip(0..) {
            match kind_of(item) {
                "function_call" => add_call(reply, Some(index), item, listener)?,
                "message" => add_message(reply, item, listener)?,
                "reasoning" => add_reasoning(reply, index, item, listener)?,
                _ => {}
            }
        }
    }
    let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
    reply.set_end(match (response.get("status").and_then(Value::as_str), reason) {
        (Some("completed"), _) => ReplyEnd::Complete,
        (Some("incomplete"), Some("content_filter")) => FILTERED,
        (Some("incomplete"), _) => ReplyEnd::Length,
        (Some("failed" | "cancelled"), _) => ReplyEnd::Failed,
        _ => return Err(AttemptFailure::bad_reply("the response has no final status")),
    });
    Ok(())
}

fn add_message(
    reply: &mut ReplyAssembly,
    item: &Value,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        match kind_of(part) {
            "output_text" => reply.add_text(text("text").to_owned(), listener)?,
            "refusal" => reply.add_refusal(text("refusal"))?,
            _ => {}
        }
    }
    Ok(())
}

/// Adds a complete item of reasoning. Its text is used only if no pieces of it have arrived. An item without encrypted
/// content is not sent back, because the server has not stored it.
fn add_reasoning(
    reply: &mut ReplyAssembly,
    index: u64,
    item: &Value,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    if !reply.has_reasoning(index) {
        let parts = |name: &str| item.get(name).and_then(Value::as_array).into_iter().flatten();
        let texts = parts("summary").chain(parts("content")).filter_map(|part| part.get("text")?.as_str());
        reply.add_reasoning(index, &texts.collect::<Vec<_>>().join("\n\n"), listener)?;
    }
    let Some(encrypted) = item.get(ENCRYPTED_CONTENT) else { return Ok(()) };
    let bytes = encrypted.as_str().map_or(0, str::len);
    reply.add_reasoning_data(index, bytes, |data| {
        let members = item.as_object().into_iter().flatten().filter(|(name, _)| *name != ENCRYPTED_CONTENT);
        let rest = members.map(|(name, value)| (name.clone(), value.clone())).collect();
        data.insert(ITEM.to_owned(), Value::Object(rest));
        data.insert(ReasoningPart::ENCRYPTED.to_owned(), encrypted.clone());
    })
}

/// Adds the item of a call: at its begin without arguments, at its end with all of them.
fn add_call(
    reply: &mut ReplyAssembly,
    index: Option<u64>,
    item: &Value,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
    let piece = CallPiece { index, id: text("call_id"), name: text("name"), arguments: String::new() };
    complete_call(reply, piece, item.get("arguments").and_then(Value::as_str), listener)
}

/// Adds the complete arguments of a call, unless their pieces have arrived before.
fn complete_call(
    reply: &mut ReplyAssembly,
    piece: CallPiece,
    arguments: Option<&str>,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    let arguments = arguments.filter(|_| !reply.has_arguments(piece.index)).unwrap_or_default().to_owned();
    reply.add_call(CallPiece { arguments, ..piece }, listener)
}

fn kind_of(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}
