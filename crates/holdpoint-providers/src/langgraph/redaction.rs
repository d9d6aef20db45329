//! Removes the ids and the address of a server from the texts that its graphs write.

use serde_json::Value;

use crate::redaction::{TextRedaction, held_from};

const REMOVED: &str = "[…]";

/// The words that readers must not see: the ids of thread and run, and the address of the server.
#[derive(Debug, Default)]
pub(super) struct ServerRedaction {
    words: Vec<String>,
}

impl ServerRedaction {
    /// Returns the redaction for these words. A word that contains another one comes first.
    pub(super) fn new(words: impl IntoIterator<Item = String>) -> Self {
        let mut words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        Self { words }
    }

    /// Returns the value with redacted texts.
    pub(super) fn redact(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact_text(text)),
            Value::Array(items) => items.iter().map(|item| self.redact(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (self.redact_text(name), self.redact(member))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

impl TextRedaction for ServerRedaction {
    fn redact_text(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, word| text.replace(word, REMOVED))
    }

    fn held_from(&self, text: &str) -> usize {
        held_from(text, self.words.iter().map(String::as_str))
    }
}
