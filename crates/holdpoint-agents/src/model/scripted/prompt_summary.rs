//! The parts of a prompt that a script can use: the last user message, the last tool result and the names of the calls.

use std::sync::Arc;

use holdpoint_core::agent::{Message, Role};
use serde_json::Value;

use super::super::ModelPrompt;

#[derive(Debug, Default)]
pub(super) struct PromptSummary {
    pub(super) user: String,
    /// The last tool result of this run in prompt order; empty if there is none.
    pub(super) last_result: String,
    /// The names of the tools that this run has called, in order.
    calls: String,
}

impl PromptSummary {
    pub(super) fn of(prompt: &ModelPrompt) -> Self {
        let last = |role| prompt.messages.iter().rev().find(move |message| message.role == role);
        let of_this_run = of_this_run(prompt);
        let results = of_this_run.iter().rev().filter(|message| message.role == Role::Tool);
        let calls = of_this_run.iter().flat_map(|message| &message.calls).map(|call| call.name.as_str());
        Self {
            user: last(Role::User).map(|message| message.text()).unwrap_or_default(),
            last_result: results.take(1).map(|message| text(&message.content)).collect(),
            calls: calls.collect::<Vec<_>>().join(", "),
        }
    }

    /// Replaces the placeholders of a text. Placeholders in inserted values are not replaced.
    pub(super) fn fill_placeholders(&self, text: &str) -> String {
        let values =
            [("{{lastResult}}", &self.last_result), ("{{user}}", &self.user), ("{{calls}}", &self.calls)];
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let found = values.iter().find(|(placeholder, _)| rest.starts_with(placeholder));
            let (value, taken) = found.map_or(("{{", 2), |(name, value)| (value.as_str(), name.len()));
            filled.push_str(value);
            rest = &rest[taken..];
        }
        filled + rest
    }

    /// Replaces the placeholders in each string of a value, but not in member names.
    pub(super) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_placeholders(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(members) => {
                let filled = members.iter().map(|(name, value)| (name.clone(), self.fill_value(value)));
                Value::Object(filled.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// Returns the messages from the first reply of this run on. The replies of this run are the last ones of the prompt.
fn of_this_run(prompt: &ModelPrompt) -> &[Arc<Message>] {
    let replies =
        prompt.messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::Assistant);
    let step = usize::try_from(prompt.step).unwrap_or(usize::MAX);
    let begins = replies.take(step).map(|(at, _)| at).last();
    begins.map_or(&[], |at| &prompt.messages[at..])
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
