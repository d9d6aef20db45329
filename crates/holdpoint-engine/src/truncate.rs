//! Truncates the results of tools, which are stored in the log of the run and sent to models.

use serde_json::{Value, json};

/// The limit of one result, in bytes of JSON.
pub const RESULT_BYTES_MAX: usize = 256 * 1024;

/// Returns the value, or the beginning of its text if it is above the limit.
pub fn truncate(value: Value) -> Value {
    let text = match value {
        // The JSON of the text can be longer than the limit, by a factor of at most six.
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
        "note": format!("The tool returned {bytes} bytes; these are the first {}.", kept.len()),
        "text": kept,
    })
}

/// Returns the beginning of a text, in whole characters.
pub fn excerpt(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_above_the_limit_is_truncated_and_marked() {
        let fits = "x".repeat(RESULT_BYTES_MAX);
        assert_eq!(truncate(json!(fits)), json!(fits));
        let long = "ä".repeat(RESULT_BYTES_MAX);
        let cut_text = truncate(json!(long));
        assert_eq!(cut_text["truncated"], true);
        assert_eq!(cut_text["text"].as_str().unwrap().len(), RESULT_BYTES_MAX);
        assert!(cut_text["note"].as_str().unwrap().contains(&long.len().to_string()));
        let list = truncate(json!([long]));
        assert!(list["text"].as_str().unwrap().starts_with("[\"ä"));
        assert_eq!(excerpt("aä", 2), "a");
    }
}
