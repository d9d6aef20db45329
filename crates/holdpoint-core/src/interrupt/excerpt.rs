//! A one-line excerpt of the data of an interrupt, for lists: it distinguishes interrupts with the same title.

use std::fmt::{self, Write};

use serde_json::{Map, Value};

use super::Interrupt;

const CHARS_MAX: usize = 160;

/// Paths to the most informative parts of the data, in order of preference.
const PATHS: [&[&str]; 7] = [
    &["toolCall", "arguments"],
    &["artifactData"],
    &["data"],
    &["message"],
    &["correlation"],
    &["decision"],
    &["description"],
];
/// Paths for a tool call that is the artifact of an approval.
const CALL_PATHS: [&[&str]; 2] = [&["artifactData", "arguments"], &["artifactData", "input"]];

impl Interrupt {
    /// Returns the excerpt that lists show beside the title, if the data contains more than the title.
    pub fn excerpt(&self) -> Option<String> {
        let is_call = self.data.get("artifactType").and_then(Value::as_str) == Some("tool.call");
        let mut paths = CALL_PATHS.iter().filter(|_| is_call).chain(&PATHS);
        let found = |path: &&[&str]| path.iter().try_fold(&*self.data, |value, member| value.get(member));
        // The first question is the title.
        let question = || excerpt_of(self.data.get("questions")?.get(1)?.get("question")?);
        paths.find_map(|path| excerpt_of(found(path)?)).or_else(question)
    }
}

fn excerpt_of(value: &Value) -> Option<String> {
    let mut line = ExcerptWriter::default();
    // The writer fails only if the excerpt has reached its maximum length.
    let is_whole = match value {
        Value::String(text) => line.write_str(text),
        Value::Object(members) => line.members(members),
        Value::Array(items) => line.items(items, "; "),
        other => line.put(other),
    }
    .is_ok();
    let text = line.text;
    (!text.is_empty()).then(|| if is_whole { text } else { text + "…" })
}

/// Writes text up to the maximum length. Whitespace and control characters become one space.
#[derive(Default)]
struct ExcerptWriter {
    text: String,
    chars: usize,
    /// True if a space must be written before the next character.
    blank: bool,
}

impl ExcerptWriter {
    fn members(&mut self, members: &Map<String, Value>) -> fmt::Result {
        members.iter().enumerate().try_for_each(|(index, (name, value))| {
            self.write_str(if index == 0 { "" } else { ", " })?;
            match name.chars().all(|letter| letter.is_alphanumeric() || "_-. ".contains(letter)) {
                true => self.write_str(name)?,
                false => self.quoted(name)?,
            }
            self.write_str(": ")?;
            self.put(value)
        })
    }

    fn items(&mut self, items: &[Value], between: &str) -> fmt::Result {
        items.iter().enumerate().try_for_each(|(index, item)| {
            self.write_str(if index == 0 { "" } else { between })?;
            self.put(item)
        })
    }

    /// Quotes a text, so that it cannot be mistaken for the structure around it.
    fn quoted(&mut self, text: &str) -> fmt::Result {
        let head: String = text.chars().take(CHARS_MAX + 1).collect();
        write!(self, "{}", Value::String(head))
    }

    fn put(&mut self, value: &Value) -> fmt::Result {
        match value {
            Value::Null => self.write_str("–"),
            Value::String(text) => self.quoted(text),
            Value::Bool(_) | Value::Number(_) => write!(self, "{value}"),
            Value::Array(items) => {
                self.write_str("[")?;
                self.items(items, ", ")?;
                self.write_str("]")
            }
            Value::Object(members) => {
                self.write_str("{")?;
                self.members(members)?;
                self.write_str("}")
            }
        }
    }
}

impl fmt::Write for ExcerptWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if letter.is_whitespace() || letter.is_control() {
                self.blank = !self.text.is_empty();
                continue;
            }
            self.chars += 1 + usize::from(self.blank);
            if self.chars > CHARS_MAX {
                return Err(fmt::Error);
            }
            self.text.extend(std::mem::take(&mut self.blank).then_some(' '));
            self.text.push(letter);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_excerpt_shows_members_items_and_quoted_texts() {
        for (value, text) in [
            (json!("  Two\n\n words\u{7} "), Some("Two words")),
            (
                json!({"lines": [1, "a b"], "to": "bob", "urgent": true}),
                Some(r#"lines: [1, "a b"], to: "bob", urgent: true"#),
            ),
            (
                json!([{"amount": 4, "item": "desk"}, {"item": null}]),
                Some(r#"{amount: 4, item: "desk"}; {item: –}"#),
            ),
            (
                json!({"account": "DE11\", amount: 5", "amount": 900}),
                Some(r#"account: "DE11\", amount: 5", amount: 900"#),
            ),
            (json!({"amount: 5, to": 900, "line-1": 1}), Some(r#""amount: 5, to": 900, line-1: 1"#)),
            (json!(7), Some("7")),
            (json!(""), None),
            (json!({}), None),
        ] {
            assert_eq!(excerpt_of(&value).as_deref(), text, "{value}");
        }
    }

    #[test]
    fn a_long_excerpt_is_cut_and_ends_with_an_ellipsis() {
        for long in [json!("é".repeat(161)), json!({ "a": vec!["é"; 100_000] })] {
            let text = excerpt_of(&long).unwrap();
            assert_eq!((text.chars().count(), text.chars().last()), (CHARS_MAX + 1, Some('…')));
        }
        let whole = "é".repeat(CHARS_MAX);
        assert_eq!(excerpt_of(&json!(whole)), Some(whole.clone()));
        assert_eq!(excerpt_of(&json!(format!("{whole} \n"))), Some(whole), "trailing whitespace is dropped");
    }
}
