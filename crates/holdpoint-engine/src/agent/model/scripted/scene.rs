//! What a script can see of a prompt: what the user said last, and what this run's calls came to.

use std::sync::Arc;

use holdpoint_core::agent::{Message, Role};
use serde_json::Value;

use super::super::Prompt;

#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) user: String,
    /// Of this run, in the order of the prompt; empty where there is none.
    pub(super) last_result: String,
    /// The names of what this run has called, in their order.
    calls: String,
}

impl Scene {
    pub(super) fn of(prompt: &Prompt) -> Self {
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

    /// Puts what is known in the places that are held for it. What is put in is not looked through again.
    pub(super) fn fill(&self, text: &str) -> String {
        let places =
            [("{{lastResult}}", &self.last_result), ("{{user}}", &self.user), ("{{calls}}", &self.calls)];
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let place = places.iter().find(|(place, _)| rest.starts_with(place));
            let (put, taken) = place.map_or(("{{", 2), |(place, with)| (with.as_str(), place.len()));
            filled.push_str(put);
            rest = &rest[taken..];
        }
        filled + rest
    }

    /// The same in every text of a value; names of members stay.
    pub(super) fn fill_all(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_all(item)).collect(),
            Value::Object(members) => {
                let filled = members.iter().map(|(name, value)| (name.clone(), self.fill_all(value)));
                Value::Object(filled.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// From this run's first reply on: its replies are the last ones of the conversation.
fn of_this_run(prompt: &Prompt) -> &[Arc<Message>] {
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
