//! A line of what is asked, for lists: enough to tell one question from the next with the same title.

use std::fmt::{self, Write};

use serde_json::{Map, Value};

use super::Interrupt;

const CHARS_MAX: usize = 160;

/// Where what is asked says most about itself, the best first.
const PLACES: [&str; 8] = [
    "/toolCall/arguments",
    "/artifactData",
    "/data",
    "/message",
    "/correlation",
    "/decision",
    "/description",
    "/questions/1/question",
];
/// The same of calls that an approval shows as its artifact.
const OF_CALLS: [&str; 2] = ["/artifactData/arguments", "/artifactData/input"];

impl Interrupt {
    /// What a person would read beside the title. Nothing where there is nothing more.
    pub fn excerpt(&self) -> Option<String> {
        let is_call = self.data.get("artifactType").and_then(Value::as_str) == Some("tool.call");
        let of_calls = OF_CALLS.iter().filter(|_| is_call);
        of_calls.chain(&PLACES).find_map(|place| line(self.data.pointer(place)?))
    }
}

fn line(value: &Value) -> Option<String> {
    let mut line = Line::default();
    // The only thing that can go wrong is that it is full.
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

/// Takes what fits on it. What is not shown as a letter is a blank, and blanks are one.
#[derive(Default)]
struct Line {
    text: String,
    chars: usize,
    /// Is written when something comes behind it.
    blank: bool,
}

impl Line {
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

    /// What somebody wrote must not read as a part beside it.
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

impl fmt::Write for Line {
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
    fn a_line_is_read_as_a_person_reads() {
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
            assert_eq!(line(&value).as_deref(), text, "{value}");
        }
    }

    #[test]
    fn it_is_never_long_and_says_when_there_is_more() {
        for long in [json!("é".repeat(161)), json!({ "a": vec!["é"; 100_000] })] {
            let text = line(&long).unwrap();
            assert_eq!((text.chars().count(), text.chars().last()), (CHARS_MAX + 1, Some('…')));
        }
        let whole = "é".repeat(CHARS_MAX);
        assert_eq!(line(&json!(whole)), Some(whole.clone()));
        assert_eq!(line(&json!(format!("{whole} \n"))), Some(whole), "blanks at the end are nothing");
    }
}
