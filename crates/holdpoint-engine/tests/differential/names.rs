//! Makes what two engines said comparable: what is random in it becomes a number by order of first appearance.

use std::collections::HashMap;

/// The random words that one engine has used so far.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, usize>);

const UUID_CHARS: usize = 36;

impl Names {
    /// The text with every UUID replaced by its number, and without the numbers of the runtime's tasks.
    pub(crate) fn normal(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if is_uuid(rest) {
                let next = self.0.len();
                let number = *self.0.entry(rest[..UUID_CHARS].to_owned()).or_insert(next);
                out.push_str(&format!("#{number}"));
                rest = &rest[UUID_CHARS..];
            } else if let Some(tail) = rest.strip_prefix("the worker panicked: task ") {
                out.push_str("the worker panicked: task ");
                rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            } else {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        out
    }
}

fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= UUID_CHARS
        && bytes[..UUID_CHARS].iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
