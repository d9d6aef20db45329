//! A line of what is asked, for lists: enough to tell one question from the next with the same title.

use std::fmt::{self, Write};

use serde_json::Value;

use super::Interrupt;

const CHARS_MAX: usize = 160;

/// Where what is asked says most about itself, the best first.
const PLACES: [&str; 10] = [
    "/toolCall/arguments",
    "/artifactData/arguments",
    "/artifactData/input",
    "/description",
    "/message",
    "/artifactData",
    "/data",
    "/correlation",
    "/decision",
    "/questions/1/question",
];

impl Interrupt {
    /// What a person would read beside the title. Nothing where there is nothing more.
    pub fn excerpt(&self) -> Option<String> {
        PLACES.iter().find_map(|place| line(self.data.pointer(place)?))
    }
}

fn line(value: &Value) -> Option<String> {
    let mut line = Line::default();
    // The only thing that can go wrong is that it is full.
    let is_whole = line.put(value).is_ok();
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
    /// As people write things down, and not as programs do.
    fn put(&mut self, value: &Value) -> fmt::Result {
        match value {
            Value::Null => Ok(()),
            Value::String(text) => self.write_str(text),
            Value::Bool(_) | Value::Number(_) => write!(self, "{value}"),
            Value::Array(items) => {
                let between = if items.iter().any(Value::is_object) { "; " } else { ", " };
                items.iter().enumerate().try_for_each(|(index, item)| {
                    self.write_str(if index == 0 { "" } else { between })?;
                    self.put(item)
                })
            }
            Value::Object(members) => members.iter().enumerate().try_for_each(|(index, (name, value))| {
                write!(self, "{}{name}: ", if index == 0 { "" } else { ", " })?;
                self.put(value)
            }),
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
                Some("lines: 1, a b, to: bob, urgent: true"),
            ),
            (
                json!([{"amount": 4, "item": "desk"}, {"item": "lamp"}]),
                Some("amount: 4, item: desk; item: lamp"),
            ),
            (json!(7), Some("7")),
            (json!(""), None),
            (json!({}), None),
            (json!(null), None),
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
