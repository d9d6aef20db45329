//! Content parts: texts, images, audio and documents in messages and in results of tools.

use serde_json::Value;

/// Returns whether a value is a list of content parts: texts and attachments with their source. Other lists are data.
pub fn is_content_parts(content: &Value) -> bool {
    content.as_array().is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part))
}

fn is_part(part: &Value) -> bool {
    match part.get("type").and_then(Value::as_str) {
        Some("text") => part.get("text").is_some_and(Value::is_string),
        Some("image" | "audio" | "video" | "document") => {
            let text = |path: &str| part.pointer(path).and_then(Value::as_str);
            matches!(text("/source/type"), Some("data" | "url")) && text("/source/value").is_some()
        }
        Some(_) | None => false,
    }
}

/// Returns content parts as text. A media type in brackets replaces each attachment.
pub fn content_parts_as_text(parts: &Value) -> String {
    let text = |part: &Value| match part.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => {
            let kind = part.pointer("/source/mimeType").or_else(|| part.get("type")).and_then(Value::as_str);
            format!("[{}]", kind.unwrap_or("attachment"))
        }
    };
    parts.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_lists_of_texts_and_attachments_are_content_parts() {
        let image =
            json!({"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}});
        let parts = json!([{"type": "text", "text": "a"}, image]);
        assert!(is_content_parts(&parts));
        assert_eq!(content_parts_as_text(&parts), "a\n[image/png]");
        for other in [
            json!([]),
            json!("text"),
            json!([1]),
            json!([{"type": "image", "data": "AA=="}]),
            json!([{"type": "text", "text": "a"}, {"type": "row"}]),
        ] {
            assert!(!is_content_parts(&other), "{other}");
        }
    }
}
