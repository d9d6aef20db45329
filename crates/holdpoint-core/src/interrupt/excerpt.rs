//! A line of what is asked, for lists: enough to tell one question from the next with the same title.

use std::io::{self, Write};

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
    let is_whole = match value {
        Value::Null => Ok(()),
        Value::String(text) => line.write_all(text.as_bytes()),
        Value::Object(members) => members.iter().enumerate().try_for_each(|(index, (name, value))| {
            let comma = if index == 0 { "" } else { ", " };
            write!(line, "{comma}{name}: ")?;
            member(&mut line, value)
        }),
        other => member(&mut line, other),
    }
    .is_ok();
    let text = line.text.trim_end();
    (!text.is_empty()).then(|| if is_whole { text.to_owned() } else { format!("{text}…") })
}

fn member(line: &mut Line, value: &Value) -> io::Result<()> {
    match value {
        Value::String(text) => line.write_all(text.as_bytes()),
        other => serde_json::to_writer(line, other).map_err(io::Error::from),
    }
}

/// Takes what fits on it. What is not shown as a letter is a blank, and blanks are one.
#[derive(Default)]
struct Line {
    text: String,
    chars: usize,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Texts and what JSON is made of come in whole characters.
        for letter in String::from_utf8_lossy(bytes).chars() {
            let is_blank = letter.is_whitespace() || letter.is_control();
            if is_blank && (self.text.is_empty() || self.text.ends_with(' ')) {
                continue;
            }
            if self.chars == CHARS_MAX {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.text.push(if is_blank { ' ' } else { letter });
            self.chars += 1;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
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
                json!({"to": "bob", "amount": 30, "lines": [1, "a b"]}),
                Some("to: bob, amount: 30, lines: [1,\"a b\"]"),
            ),
            (json!(7), Some("7")),
            (json!(["a", null]), Some("[\"a\",null]")),
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
