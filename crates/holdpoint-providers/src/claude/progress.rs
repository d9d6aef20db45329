//! Reports the messages of the agent from the lines that its program prints, and from those of its transcript. With
//! partial messages, each line is an event of the model API. Messages of subagents are not reported.

use std::collections::BTreeSet;

use holdpoint_core::agent::Usage;
use serde_json::Value;

use super::super::{LockedHandle, ProviderCall, ProviderMessage, ProviderProgress};
use super::redaction::Redactor;
use crate::redaction::{StreamedText, TextRedaction};

/// The model of messages that the program writes itself, such as errors of the API.
const SYNTHETIC: &str = "<synthetic>";

/// The progress of a program, or of a transcript.
pub(super) struct AgentProgress<'a> {
    handle: &'a LockedHandle,
    redactor: Redactor,
    /// The message that is being written.
    message: Option<MessageParts>,
    /// The ids of messages whose events were read. Their lines repeat them.
    streamed: BTreeSet<String>,
}

/// The parts of a message so far.
#[derive(Default)]
struct MessageParts {
    id: String,
    model: String,
    text: String,
    calls: Vec<CallParts>,
    usage: Usage,
    shown_text: StreamedText,
    shown_reasoning: StreamedText,
}

struct CallParts {
    /// The index of the block in the message.
    index: Option<u64>,
    id: String,
    name: String,
    input: Value,
    /// The JSON text of the input, in parts.
    json: String,
}

impl<'a> AgentProgress<'a> {
    pub(super) fn new(handle: &'a LockedHandle, redactor: Redactor) -> Self {
        Self { handle, redactor, message: None, streamed: BTreeSet::new() }
    }

    /// Reports the messages of a transcript.
    pub(super) fn report_transcript(mut self, content: &[u8]) {
        let lines = content.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(|line| self.handle_line(&line));
        self.complete();
    }

    /// Reports a line. Unknown lines are ignored.
    pub(super) fn handle_line(&mut self, line: &Value) {
        let is_of_subagent = !line["parent_tool_use_id"].is_null() || line["isSidechain"] == true;
        if is_of_subagent {
            return;
        }
        match line["type"].as_str() {
            Some("stream_event") => self.handle_event(&line["event"]),
            Some("assistant") if line["isApiErrorMessage"] != true => self.add_blocks(&line["message"]),
            Some("user") => {
                self.complete();
                self.report_results(&line["message"]["content"]);
            }
            Some("result") => self.complete(),
            _ => {}
        }
    }

    fn handle_event(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "message_start" {
            self.complete();
            let begun = MessageParts::begin(&event["message"]);
            self.streamed.insert(begun.id.clone());
            self.message = Some(begun);
        }
        if kind == "message_stop" {
            self.complete();
        }
        let Some(message) = &mut self.message else { return };
        match kind {
            "content_block_start" => message.add_block(&event["content_block"], event["index"].as_u64()),
            "content_block_delta" => message.add_delta(event, self.handle, &self.redactor),
            "message_delta" => message.count(&event["usage"]),
            _ => {}
        }
    }

    /// Adds the blocks of a line with a message. A message can have several lines.
    fn add_blocks(&mut self, line: &Value) {
        let id = line["id"].as_str().unwrap_or_default();
        if id.is_empty() || line["model"] == SYNTHETIC || self.streamed.contains(id) {
            return;
        }
        if self.message.as_ref().is_none_or(|message| message.id != id) {
            self.complete();
        }
        let message = self.message.get_or_insert_with(|| MessageParts::begin(line));
        message.count(&line["usage"]);
        for block in line["content"].as_array().into_iter().flatten() {
            message.add_block(block, None);
        }
    }

    fn report_results(&self, content: &Value) {
        for block in content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result") {
            let Some(call) = block["tool_use_id"].as_str().map(str::to_owned) else { continue };
            let content = self.redactor.redact(&block["content"]);
            let is_error = block["is_error"] == true;
            self.handle.report(ProviderProgress::Result { call, content, is_error });
        }
    }

    /// Reports the message as complete.
    fn complete(&mut self) {
        let Some(message) = self.message.take() else { return };
        let calls = message.calls.into_iter().map(|call| {
            let parsed = || serde_json::from_str(&call.json).unwrap_or_default();
            let input = if call.json.is_empty() { call.input.clone() } else { parsed() };
            ProviderCall { arguments: self.redactor.redact(&input), id: call.id, name: call.name }
        });
        self.handle.report(ProviderProgress::Message(ProviderMessage {
            id: message.id,
            text: self.redactor.redact_text(&message.text),
            calls: calls.collect(),
            usage: message.usage,
            model: message.model,
        }));
    }
}

impl MessageParts {
    fn begin(message: &Value) -> Self {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let mut begun = Self { id: text("id"), model: text("model"), ..Self::default() };
        begun.count(&message["usage"]);
        begun
    }

    fn count(&mut self, usage: &Value) {
        let count = |name: &str| usage[name].as_u64();
        self.usage.input_tokens = count("input_tokens").unwrap_or(0).max(self.usage.input_tokens);
        self.usage.output_tokens = count("output_tokens").unwrap_or(0).max(self.usage.output_tokens);
    }

    fn add_block(&mut self, block: &Value, index: Option<u64>) {
        match block["type"].as_str() {
            Some("text") => self.text.push_str(block["text"].as_str().unwrap_or_default()),
            Some("tool_use") => {
                let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                let (id, name, input) = (text("id"), text("name"), block["input"].clone());
                self.calls.push(CallParts { index, id, name, input, json: String::new() });
            }
            _ => {}
        }
    }

    fn add_delta(&mut self, event: &Value, handle: &LockedHandle, redactor: &Redactor) {
        let delta = &event["delta"];
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        let message = self.id.clone();
        match delta["type"].as_str() {
            Some("text_delta") => {
                self.text.push_str(text("text"));
                let delta = self.shown_text.push(text("text"), redactor);
                handle.report(ProviderProgress::Text { message, delta });
            }
            Some("thinking_delta") => {
                let delta = self.shown_reasoning.push(text("thinking"), redactor);
                handle.report(ProviderProgress::Reasoning { message, delta });
            }
            Some("input_json_delta") => {
                let index = event["index"].as_u64();
                if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
                    call.json.push_str(text("partial_json"));
                }
            }
            _ => {}
        }
    }
}
