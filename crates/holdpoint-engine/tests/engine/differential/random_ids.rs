//! Makes the results of two engines comparable: replaces random ids by numbers in order of first appearance.

use std::collections::HashMap;

/// The random ids of one engine and their numbers.
#[derive(Default)]
pub(crate) struct RandomIds(HashMap<String, usize>);

const UUID_CHARS: usize = 36;

impl RandomIds {
    /// Replaces every UUID by its number and removes the task numbers of the runtime.
    pub(crate) fn normalize(&mut self, text: &str) -> String {
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
