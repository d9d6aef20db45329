//! What tools say is kept in a run's log and read by models, so there is a limit to it. More is cut, and says so.

use serde_json::{Value, json};

/// Bytes of one result, as JSON.
pub(super) const RESULT_BYTES_MAX: usize = 256 * 1024;

/// Bytes that are taken from the other side at all. Beyond them nothing is read, and so there is nothing to cut.
pub(super) const TAKEN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The value, or as much of its text as there is room for.
pub(crate) fn cut(value: Value) -> Value {
    let text = match value {
        // What JSON makes of it may be longer, but six times the limit at the worst.
        Value::String(text) if text.len() <= RESULT_BYTES_MAX => return Value::String(text),
        Value::String(text) => text,
        other => {
            let text = other.to_string();
            if text.len() <= RESULT_BYTES_MAX {
                return other;
            }
            text
        }
    };
    let bytes = text.len();
    let kept = excerpt(&text, RESULT_BYTES_MAX);
    json!({
        "truncated": true,
        "note": format!("The tool said {bytes} bytes; these are the first {}.", kept.len()),
        "text": kept,
    })
}

/// The beginning of a text, in whole characters.
pub(super) fn excerpt(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_as_it_is_and_what_does_not_is_flagged() {
        let fits = "x".repeat(RESULT_BYTES_MAX);
        assert_eq!(cut(json!(fits)), json!(fits));
        let long = "ä".repeat(RESULT_BYTES_MAX);
        let cut_text = cut(json!(long));
        assert_eq!(cut_text["truncated"], true);
        assert_eq!(cut_text["text"].as_str().unwrap().len(), RESULT_BYTES_MAX);
        assert!(cut_text["note"].as_str().unwrap().contains(&long.len().to_string()));
        let list = cut(json!([long]));
        assert!(list["text"].as_str().unwrap().starts_with("[\"ä"));
        assert_eq!(excerpt("aä", 2), "a");
    }
}
