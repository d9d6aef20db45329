//! Builds the body of a messages request from a prompt. Roles alternate, so that consecutive entries of one role become
//! one message. Results of tools belong to the user.

use std::collections::HashMap;

use holdpoint_core::agent::{CallRequest, ReasoningPart};
use serde_json::{Map, Value, json};

use super::super::super::ModelPrompt;
use super::super::attachments::{ContentPart, MediaKind, MediaSource, only_text};
use super::super::conversation::{Entry, entries};
use super::super::options;
use super::super::settings::EndpointSettings;
use super::SIGNATURE;

/// Members of a request that options must not set.
pub(in super::super) const RESERVED: [&str; 7] =
    ["container", "mcp_servers", "messages", "model", "stream", "system", "tools"];
/// The media types that the API accepts.
pub(in super::super) const MEDIA_TYPES: [&str; 5] =
    ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];
/// The limit of a reply in tokens, which the API requires, if the definition sets none.
const TOKENS_MAX: u32 = 4096;
/// The text of a user message without content. The API rejects empty texts.
const EMPTY: &str = "(no text)";

pub(in super::super) fn body(settings: &EndpointSettings, prompt: &ModelPrompt) -> Map<String, Value> {
    let mut body = options::merge(settings, prompt);
    body.entry("max_tokens").or_insert_with(|| TOKENS_MAX.into());
    body.insert("model".to_owned(), settings.model.clone().into());
    let (mut system, mut messages, mut ids) = (Vec::new(), Messages::default(), CallIds::default());
    for entry in entries(settings, prompt) {
        match entry {
            Entry::System(text) => system.push(text),
            Entry::User(parts) => messages.add("user", parts.iter().filter_map(block)),
            Entry::Reply { text, calls, reasoning } => {
                let calls = calls.iter().map(|call| call_block(call, ids.add(&call.id)));
                let thinking = reasoning.into_iter().filter_map(thinking_block);
                messages.add("assistant", thinking.chain(text_block(&text)).chain(calls));
            }
            Entry::Result { call, parts } => {
                let content =
                    only_text(&parts).map_or_else(|| parts.iter().filter_map(block).collect(), Value::from);
                let block = json!({"type": "tool_result", "tool_use_id": ids.find(call), "content": content});
                messages.add("user", [block].into_iter());
            }
        }
    }
    system.retain(|text| !text.trim().is_empty());
    if !system.is_empty() {
        body.insert("system".to_owned(), system.join("\n\n").into());
    }
    body.insert("messages".to_owned(), messages.finish());
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| {
            let (name, description) = (&tool.name, &tool.description);
            json!({"name": name, "description": description, "input_schema": schema(&tool.parameters)})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if settings.stream {
        body.insert("stream".to_owned(), true.into());
    }
    body
}

/// The ids of the calls of a request. Calls are numbered: the API requires unique ids of few characters, while the ids
/// of a conversation have any characters and are only unique in a run and node.
#[derive(Default)]
struct CallIds<'a> {
    count: usize,
    /// The number of the last call with each id of the conversation.
    last: HashMap<&'a str, usize>,
}

impl<'a> CallIds<'a> {
    /// Returns the id of a new call.
    fn add(&mut self, id: &'a str) -> String {
        self.count += 1;
        self.last.insert(id, self.count);
        call_id(self.count)
    }

    /// Returns the id of the call that a result belongs to.
    fn find(&mut self, id: &'a str) -> String {
        match self.last.get(id) {
            Some(number) => call_id(*number),
            None => self.add(id),
        }
    }
}

fn call_id(number: usize) -> String {
    format!("call_{number}")
}

/// The messages of a request.
#[derive(Default)]
struct Messages(Vec<RoleBlocks>);

/// A message: its role and its blocks.
struct RoleBlocks {
    role: &'static str,
    blocks: Vec<Value>,
}

impl Messages {
    fn add(&mut self, role: &'static str, blocks: impl Iterator<Item = Value>) {
        let blocks: Vec<Value> = blocks.collect();
        match self.0.last_mut().filter(|last| last.role == role) {
            Some(last) => last.blocks.extend(blocks),
            // A reply without content is left out.
            None if role == "assistant" && blocks.is_empty() => {}
            None => self.0.push(RoleBlocks { role, blocks }),
        }
    }

    /// Returns the messages. The first one must be a message of the user, and every message must have content.
    fn finish(mut self) -> Value {
        if self.0.first().is_none_or(|first| first.role != "user") {
            self.0.insert(0, RoleBlocks { role: "user", blocks: Vec::new() });
        }
        let filled = self.0.into_iter().map(|RoleBlocks { role, mut blocks }| {
            if blocks.is_empty() {
                blocks.extend(text_block(EMPTY));
            }
            json!({"role": role, "content": blocks})
        });
        filled.collect()
    }
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Returns the block that the model sent. The API rejects a block whose text or signature differs.
fn thinking_block(part: &ReasoningPart) -> Option<Value> {
    if let Some(data) = part.encrypted() {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    let signature = part.data.get(SIGNATURE)?;
    Some(json!({"type": "thinking", "thinking": part.text, "signature": signature}))
}

fn call_block(call: &CallRequest, id: String) -> Value {
    let input = if call.arguments.is_object() { call.arguments.clone() } else { json!({}) };
    json!({"type": "tool_use", "id": id, "name": call.name, "input": input})
}

fn block(part: &ContentPart<'_>) -> Option<Value> {
    let attachment = match part {
        ContentPart::Text(text) => return text_block(text),
        ContentPart::Attachment(attachment) => attachment,
    };
    let source = match attachment.source {
        MediaSource::Url(url) => json!({"type": "url", "url": url}),
        MediaSource::Data(data) => {
            json!({"type": "base64", "media_type": attachment.media_type, "data": data})
        }
    };
    let kind = if attachment.kind == MediaKind::Document { "document" } else { "image" };
    Some(json!({"type": kind, "source": source}))
}

/// Returns the schema of a tool. The API requires the type of an object.
fn schema(parameters: &Value) -> Value {
    match parameters {
        Value::Object(members) if members.contains_key("type") => parameters.clone(),
        Value::Object(members) => {
            let mut members = members.clone();
            members.insert("type".to_owned(), "object".into());
            Value::Object(members)
        }
        _ => json!({"type": "object"}),
    }
}
