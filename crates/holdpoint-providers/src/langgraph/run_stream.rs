//! The stream of a server run. It carries the whole text of a message with every token, so that a reader that joins late
//! or again continues where it was. The stream is for readers only: the outcome is read from the state of the thread.

use std::collections::HashMap;

use serde_json::Value;
use tokio::time::Instant;

use super::messages;
use super::redaction::ServerRedaction;
use crate::redaction::StreamedText;
use crate::{LockedHandle, ProviderProgress};

/// The progress of the messages of a run.
pub(super) struct RunStream<'a> {
    handle: &'a LockedHandle,
    redaction: ServerRedaction,
    texts: HashMap<String, MessageText>,
    reasonings: HashMap<String, MessageText>,
    last_event: Option<Instant>,
}

#[derive(Default)]
struct MessageText {
    /// The length of the text that was reported or is held back.
    length: usize,
    streamed: StreamedText,
}

impl<'a> RunStream<'a> {
    pub(super) fn new(handle: &'a LockedHandle, redaction: ServerRedaction) -> Self {
        Self { handle, redaction, texts: HashMap::new(), reasonings: HashMap::new(), last_event: None }
    }

    /// Returns the instant of the last event.
    pub(super) fn last_event(&self) -> Option<Instant> {
        self.last_event
    }

    /// Reports an event of the stream. Unknown events are ignored. Events of subgraphs have their place in the name.
    pub(super) fn handle_event(&mut self, name: &str, data: &str) {
        self.last_event = Some(Instant::now());
        let kind = name.split('|').next().unwrap_or_default();
        if !["messages/partial", "messages/complete", "updates"].contains(&kind) {
            return;
        }
        let Ok(data) = serde_json::from_str::<Value>(data) else { return };
        match kind {
            "updates" => messages::in_update(&data).for_each(|message| self.report_complete(message)),
            "messages/complete" => {
                data.as_array().into_iter().flatten().for_each(|message| self.report_complete(message));
            }
            _ => data.as_array().into_iter().flatten().for_each(|message| self.report_partial(message)),
        }
    }

    /// Reports the messages of a state that the stream did not report.
    pub(super) fn report_state(&self, values: &Value) {
        messages::of_last_turn(values).for_each(|message| self.report_complete(message));
    }

    fn report_complete(&self, message: &Value) {
        if let Some(progress) = messages::complete(message, &self.redaction) {
            self.handle.report(progress);
        }
    }

    fn report_partial(&mut self, message: &Value) {
        let is_model = matches!(message.get("type").and_then(Value::as_str), Some("ai" | "AIMessageChunk"));
        let Some(id) = message.get("id").and_then(Value::as_str).filter(|_| is_model) else { return };
        let reasoning = self.reasonings.entry(id.to_owned()).or_default();
        if let Some(delta) = reasoning.advance(&messages::reasoning(message), &self.redaction) {
            self.handle.report(ProviderProgress::Reasoning { message: id.to_owned(), delta });
        }
        let text = self.texts.entry(id.to_owned()).or_default();
        if let Some(delta) = text.advance(&messages::text(message), &self.redaction) {
            self.handle.report(ProviderProgress::Text { message: id.to_owned(), delta });
        }
    }
}

impl MessageText {
    /// Returns the next part of the text that can be shown.
    fn advance(&mut self, whole: &str, redaction: &ServerRedaction) -> Option<String> {
        let delta = whole.get(self.length..).filter(|delta| !delta.is_empty())?;
        self.length = whole.len();
        Some(self.streamed.push(delta, redaction)).filter(|shown| !shown.is_empty())
    }
}
