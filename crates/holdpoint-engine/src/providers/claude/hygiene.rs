//! Keeps names of the provider out of what anybody is shown: folders, sessions, calls. What is hidden in the input of a
//! call can be put back when somebody has edited it.

use std::path::Path;

use serde_json::Value;

/// The most characters of somebody else's words in ours.
const WORDS_CHARS_MAX: usize = 300;
const CALL: &str = "toolu_";

pub(super) struct Veil {
    /// What stands for what; longer ones first, so that the folder is not found in its own subfolder.
    pairs: Vec<(String, &'static str)>,
}

impl Veil {
    pub(super) fn new(root: &Path, work: &Path, session: &str) -> Self {
        let pairs = vec![
            (work.to_string_lossy().into_owned(), "<workdir>"),
            (root.to_string_lossy().into_owned(), "<folder>"),
            (session.to_owned(), "<session>"),
        ];
        Self { pairs }
    }

    pub(super) fn hide(&self, value: &Value) -> Value {
        mapped(value, &|text| {
            self.pairs.iter().fold(without_calls(text), |text, (real, shown)| text.replace(real, shown))
        })
    }

    /// The other way round.
    pub(super) fn show(&self, value: &Value) -> Value {
        mapped(value, &|text| {
            self.pairs.iter().fold(text.to_owned(), |text, (real, shown)| text.replace(shown, real))
        })
    }
}

fn mapped(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| mapped(item, change)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (change(name), mapped(member, change))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn without_calls(text: &str) -> String {
    if !text.contains(CALL) {
        return text.to_owned();
    }
    let mut pieces = text.split(CALL);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |clean, piece| {
        clean + "<call>" + piece.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Somebody else's complaint, short, and without words that could be names or places.
pub(super) fn scrubbed(text: &str) -> String {
    let words = text.split_whitespace().map(|word| if is_name(word) { "…" } else { word });
    let text: Vec<&str> = words.collect();
    text.join(" ").chars().take(WORDS_CHARS_MAX).collect()
}

fn is_name(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let prefixed = ["toolu_", "msg_", "req_", "sk-"].iter().any(|prefix| word.contains(prefix));
    prefixed || word.contains(['/', '\\', '@']) || (digits >= 4 && word.len() >= 16)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_hidden_can_be_put_back() {
        let veil = Veil::new(Path::new("/data/ab"), Path::new("/data/ab/desk"), "0193-session");
        let input = json!({"file_path": "/data/ab/desk/x.txt", "of": ["/data/ab/config", "0193-session"]});
        let shown = veil.hide(&input);
        assert_eq!(shown, json!({"file_path": "<workdir>/x.txt", "of": ["<folder>/config", "<session>"]}));
        assert_eq!(veil.show(&shown), input);
        assert_eq!(veil.hide(&json!("see toolu_01AbC, then")), json!("see <call>, then"));
    }

    #[test]
    fn complaints_lose_names_and_places() {
        let said =
            "Session ID 0193b2f0-aaaa-7bbb-8ccc-0123456789ab is already in use at /data/x (req_123) toolu_9";
        assert_eq!(scrubbed(said), "Session ID … is already in use at … … …");
    }
}
