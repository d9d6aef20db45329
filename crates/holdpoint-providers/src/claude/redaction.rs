//! Replaces folder paths, session ids and call ids with placeholders in texts that users see, and restores paths and
//! session ids in an edited input.

use std::path::Path;

use serde_json::Value;

use crate::redaction::{TextRedaction, held_from};

/// The maximum length of a quoted error text, in characters.
const WORDS_CHARS_MAX: usize = 300;
const CALL: &str = "toolu_";

pub(super) struct Redactor {
    /// Pairs of original value and placeholder. The working folder comes before its parent folder, whose path is a
    /// prefix of its path.
    pairs: Vec<(String, &'static str)>,
}

impl Redactor {
    pub(super) fn new(root: &Path, work: &Path, session: &str) -> Self {
        let pairs = vec![
            (work.to_string_lossy().into_owned(), "<workdir>"),
            (root.to_string_lossy().into_owned(), "<folder>"),
            (session.to_owned(), "<session>"),
        ];
        Self { pairs }
    }

    pub(super) fn redact(&self, value: &Value) -> Value {
        map_texts(value, &|text| self.redact_text(text))
    }

    /// Replaces placeholders with the original values.
    pub(super) fn restore(&self, value: &Value) -> Value {
        map_texts(value, &|text| {
            self.pairs.iter().fold(text.to_owned(), |text, (real, shown)| text.replace(shown, real))
        })
    }
}

impl TextRedaction for Redactor {
    fn redact_text(&self, text: &str) -> String {
        self.pairs.iter().fold(redact_call_ids(text), |text, (real, shown)| text.replace(real, shown))
    }

    fn held_from(&self, text: &str) -> usize {
        // The id of a call can continue at the end of the text.
        let is_of_id = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let open = text.rfind(CALL).filter(|at| text[at + CALL.len()..].chars().all(is_of_id));
        let words = self.pairs.iter().map(|(real, _)| real.as_str()).chain([CALL]);
        held_from(text, words).min(open.unwrap_or(text.len()))
    }
}

fn map_texts(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| map_texts(item, change)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (change(name), map_texts(member, change))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn redact_call_ids(text: &str) -> String {
    if !text.contains(CALL) {
        return text.to_owned();
    }
    let mut pieces = text.split(CALL);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |clean, piece| {
        clean + "<call>" + piece.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns a short form of an external error text, without words that could be ids, paths or addresses.
pub(super) fn scrubbed(text: &str) -> String {
    let words = text.split_whitespace().map(|word| if is_identifier(word) { "…" } else { word });
    let text: Vec<&str> = words.collect();
    text.join(" ").chars().take(WORDS_CHARS_MAX).collect()
}

fn is_identifier(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let prefixed = ["toolu_", "msg_", "req_", "sk-"].iter().any(|prefix| word.contains(prefix));
    prefixed || word.contains(['/', '\\', '@']) || (digits >= 4 && word.len() >= 16)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::redaction::StreamedText;

    #[test]
    fn redacted_values_can_be_restored() {
        let redactor = Redactor::new(Path::new("/data/ab"), Path::new("/data/ab/desk"), "0193-session");
        let input = json!({"file_path": "/data/ab/desk/x.txt", "of": ["/data/ab/config", "0193-session"]});
        let shown = redactor.redact(&input);
        assert_eq!(shown, json!({"file_path": "<workdir>/x.txt", "of": ["<folder>/config", "<session>"]}));
        assert_eq!(redactor.restore(&shown), input);
        assert_eq!(redactor.redact(&json!("see toolu_01AbC, then")), json!("see <call>, then"));
    }

    #[test]
    fn a_streamed_text_is_redacted_like_the_whole_text() {
        let redactor = Redactor::new(Path::new("/data/ab"), Path::new("/data/ab/desk"), "0193-session");
        let text = "/data/ab/desk/x and /data/ab, toolu_01AbC. 0193-session toolu_9";
        for size in 1..=text.len() {
            let mut streamed = StreamedText::default();
            let parts = text.as_bytes().chunks(size).map(|part| std::str::from_utf8(part).unwrap());
            let mut shown: String = parts.map(|part| streamed.push(part, &redactor)).collect();
            shown.push_str(&streamed.push(" ", &redactor));
            assert_eq!(shown, redactor.redact_text(text) + " ", "parts of {size} bytes");
        }
    }

    #[test]
    fn ids_and_paths_are_removed_from_error_texts() {
        let text =
            "Session ID 0193b2f0-aaaa-7bbb-8ccc-0123456789ab is already in use at /data/x (req_123) toolu_9";
        assert_eq!(scrubbed(text), "Session ID … is already in use at … … …");
    }
}
