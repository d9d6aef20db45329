//! The data of a hold, read from `ask --show`: JSON, or text with its line breaks.

use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;
use crate::values;

#[derive(Debug, PartialEq)]
pub(super) struct HoldData {
    pub(super) value: Value,
    /// None for JSON.
    pub(super) media_type: Option<&'static str>,
}

impl HoldData {
    /// Reads an argument, `@file`, or standard input for `-`.
    pub(super) fn read(source: &str) -> Result<Self, Failure> {
        let Some(path) = source.strip_prefix('@').or((source == "-").then_some(source)) else {
            // An argument that begins with `{` and is not JSON is an error, not text.
            return if source.trim_start().starts_with('{') {
                values::json("--show", source).map(Self::json)
            } else {
                Ok(Self::parse(source))
            };
        };
        let text = values::read(path)?;
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        Ok(match ending.to_ascii_lowercase().as_str() {
            "json" => Self::json(values::parse_json("--show", &text)?),
            "md" | "markdown" => Self::text(&text, "text/markdown"),
            "diff" | "patch" => Self::text(&text, "text/x-diff"),
            "txt" | "log" => Self::text(&text, "text/plain"),
            _ => Self::parse(&text),
        })
    }

    fn parse(text: &str) -> Self {
        serde_json::from_str(text).map_or_else(|_| Self::text(text, "text/plain"), Self::json)
    }

    fn json(value: Value) -> Self {
        // A JSON string is shown like text without quotes.
        let media_type = value.is_string().then_some("text/plain");
        Self { value, media_type }
    }

    fn text(text: &str, media_type: &'static str) -> Self {
        Self { value: Value::from(text), media_type: Some(media_type) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_stays_json_and_other_text_keeps_its_lines() {
        let read = |source: &str| HoldData::read(source).map(|data| (data.value, data.media_type)).ok();
        assert_eq!(read("{\"a\": 1}"), Some((json!({"a": 1}), None)));
        assert_eq!(read("[1, 2]"), Some((json!([1, 2]), None)));
        assert_eq!(read("[INFO] two\nlines"), Some((json!("[INFO] two\nlines"), Some("text/plain"))));
        assert_eq!(read("\"quoted\""), Some((json!("quoted"), Some("text/plain"))));
        assert_eq!(read("{\"a\": 1"), None);
        assert_eq!(read("@/nonexistent/file"), None);
    }

    #[test]
    fn the_extension_of_a_file_decides_its_media_type() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            HoldData::read(&format!("@{}", path.display())).ok()
        };
        for (name, media_type) in [
            ("notes.md", "text/markdown"),
            ("NOTES.MD", "text/markdown"),
            ("change.diff", "text/x-diff"),
            ("a.patch", "text/x-diff"),
            ("build.log", "text/plain"),
            ("plain", "text/plain"),
        ] {
            let data = read(name, "- one\n- two\n").unwrap();
            assert_eq!((data.value, data.media_type), (json!("- one\n- two\n"), Some(media_type)), "{name}");
        }
        assert_eq!(
            read("a.json", "{\"a\": 1}").unwrap(),
            HoldData { value: json!({"a": 1}), media_type: None }
        );
        assert_eq!(read("b.json", "no JSON"), None);
        assert_eq!(read("count.txt", "17").unwrap().value, json!("17"));
    }
}
