//! Converts the response of a server to a call into JSON for the agent.

use holdpoint_core::agent::is_content_parts;
use holdpoint_core::limits;
use holdpoint_engine::extension::{excerpt, truncate};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use serde_json::{Value, json};

use crate::model::check_media;
use crate::tool::CallOutcome;

pub(super) fn outcome(response: CallToolResponse) -> CallOutcome {
    match response {
        CallToolResponse::Complete(result) => {
            let failed = result.is_error == Some(true);
            let value = value(result);
            // Content parts have a limit of their own, and a cut attachment is useless.
            let value = if is_content_parts(&value) { fit(value) } else { truncate(value) };
            if failed { CallOutcome::Failed(value) } else { CallOutcome::Result(value) }
        }
        // The client did not announce support for these responses.
        CallToolResponse::InputRequired(_) => unsupported("the server requests input"),
        CallToolResponse::Task(_) => unsupported("the server started a background task"),
        _ => unsupported("the server sent an unknown type of response"),
    }
}

fn unsupported(what: &str) -> CallOutcome {
    CallOutcome::Failed(json!({"error": format!("{what}, which is not supported")}))
}

/// Converts a protocol error. The server received the call and rejected it.
pub(super) fn error_outcome(error: &ErrorData) -> CallOutcome {
    let message = excerpt(&error.message, MESSAGE_BYTES_MAX);
    CallOutcome::Failed(json!({"error": message, "code": error.code.0}))
}

const MESSAGE_BYTES_MAX: usize = 4096;

fn value(result: CallToolResult) -> Value {
    let mut blocks = result.content;
    // Content that was parsed from JSON can be serialized again.
    let shown: Vec<Value> =
        blocks.iter().map(|block| serde_json::to_value(block).unwrap_or_default()).collect();
    let has_media = shown.iter().any(|block| media(block).is_some());
    match result.structured_content {
        Some(structured) if has_media => {
            let text = json!({"type": "text", "text": structured.to_string()});
            let attachments = shown.iter().filter(|block| media(block).is_some()).map(part);
            return std::iter::once(text).chain(attachments).collect();
        }
        Some(structured) => return structured,
        None if has_media => return shown.iter().map(part).collect(),
        None => {}
    }
    match (blocks.len(), blocks.pop()) {
        (_, None) => Value::Null,
        (1, Some(ContentBlock::Text(text))) => Value::String(text.text),
        (_, Some(last)) => {
            blocks.push(last);
            shown.into()
        }
    }
}

/// The data of a block and its media type.
struct Media<'a> {
    media_type: &'a str,
    data: &'a str,
}

/// Returns the media of an image, of audio, or of a resource with binary content.
fn media(block: &Value) -> Option<Media<'_>> {
    let text = |path: &str| block.pointer(path).and_then(Value::as_str);
    match text("/type")? {
        "image" | "audio" => Some(Media { media_type: text("/mimeType")?, data: text("/data")? }),
        "resource" => Some(Media {
            media_type: text("/resource/mimeType").unwrap_or("application/octet-stream"),
            data: text("/resource/blob")?,
        }),
        _ => None,
    }
}

/// Converts a block to a content part. A text replaces an attachment whose media type is not accepted, or whose data is
/// of another type.
fn part(block: &Value) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let Some(Media { media_type, data }) = media(block) else {
        let plain = ["/text", "/resource/text"].iter().find_map(|path| block.pointer(path)?.as_str());
        return plain.map_or_else(|| text(&block.to_string()), text);
    };
    let kind = match media_type.split_once('/') {
        Some(("image", _)) => "image",
        Some(("audio", _)) => "audio",
        _ => "document",
    };
    match check_media(media_type, data) {
        Ok(_) => json!({"type": kind, "source": {"type": "data", "value": data, "mimeType": media_type}}),
        Err(why) => text(&format!("(An attachment was left out: {}.)", excerpt(&why, MESSAGE_BYTES_MAX))),
    }
}

/// Replaces the largest attachments with texts until the parts are within their limit.
fn fit(mut content: Value) -> Value {
    let max = limits::CONTENT_PARTS_BYTES_MAX;
    while content.to_string().len() > max {
        let size = |part: &Value| part.pointer("/source/value").and_then(Value::as_str).map_or(0, str::len);
        let largest = content.as_array_mut().and_then(|parts| parts.iter_mut().max_by_key(|part| size(part)));
        let Some(largest) = largest.filter(|part| size(part) > 0) else { return truncate(content) };
        let why = format!("(An attachment was left out: the result has more than {max} bytes.)");
        *largest = json!({"type": "text", "text": why});
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(result: Value) -> CallOutcome {
        outcome(CallToolResponse::Complete(serde_json::from_value(result).unwrap()))
    }

    #[test]
    fn a_single_text_is_a_string_and_structured_content_has_precedence() {
        let text = json!({"type": "text", "text": "hello"});
        assert_eq!(outcome_of(json!({"content": [text]})), CallOutcome::Result(json!("hello")));
        assert_eq!(
            outcome_of(json!({"content": [text], "structuredContent": {"n": 1}})),
            CallOutcome::Result(json!({"n": 1}))
        );
        assert_eq!(outcome_of(json!({"content": []})), CallOutcome::Result(Value::Null));
    }

    #[test]
    fn other_content_is_a_list_of_blocks() {
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}});
        let link = json!({"type": "resource_link", "uri": "file:///b", "name": "b"});
        let text = json!({"type": "text", "text": "t"});
        assert_eq!(
            outcome_of(json!({"content": [text, resource, link]})),
            CallOutcome::Result(json!([text, resource, link]))
        );
    }

    fn jpeg(bytes: usize) -> String {
        format!("/9j/{}", "A".repeat(bytes / 4 * 4))
    }

    #[test]
    fn attachments_are_content_parts() {
        let image = json!({"type": "image", "data": jpeg(8), "mimeType": "image/jpeg"});
        let blob = json!({"uri": "file:///a", "blob": "JVBERi0x", "mimeType": "application/pdf"});
        let source = |data: &str, kind: &str| json!({"type": "data", "value": data, "mimeType": kind});
        let picture = json!({"type": "image", "source": source(&jpeg(8), "image/jpeg")});
        let document = json!({"type": "document", "source": source("JVBERi0x", "application/pdf")});
        let content = json!([{"type": "text", "text": "t"}, image, {"type": "resource", "resource": blob}]);
        let expected = json!([{"type": "text", "text": "t"}, picture, document]);
        assert_eq!(outcome_of(json!({"content": content})), CallOutcome::Result(expected));
        let expected = json!([{"type": "text", "text": "{\"n\":1}"}, picture]);
        let both = json!({"content": [image], "structuredContent": {"n": 1}});
        assert_eq!(outcome_of(both), CallOutcome::Result(expected));
    }

    #[test]
    fn a_text_replaces_an_attachment_that_is_not_accepted() {
        for (media_type, data) in [("image/svg+xml", "PHN2Zz4="), ("image/png", "/9j/"), ("image/jpeg", "no")]
        {
            let image = json!({"type": "image", "data": data, "mimeType": media_type});
            let CallOutcome::Result(parts) = outcome_of(json!({"content": [image]})) else { panic!() };
            assert!(
                parts[0]["text"].as_str().unwrap().starts_with("(An attachment was left out: "),
                "{parts}"
            );
        }
    }

    #[test]
    fn the_largest_attachments_are_left_out_above_the_limit() {
        let image = |bytes: usize| json!({"type": "image", "data": jpeg(bytes), "mimeType": "image/jpeg"});
        let large = limits::CONTENT_PARTS_BYTES_MAX - 400;
        let CallOutcome::Result(parts) = outcome_of(json!({"content": [image(large), image(800)]})) else {
            panic!()
        };
        assert_eq!((&parts[0]["type"], &parts[1]["type"]), (&json!("text"), &json!("image")));
        assert!(
            matches!(outcome_of(json!({"content": [image(large)]})), CallOutcome::Result(one) if one[0]["type"] == "image")
        );
    }

    #[test]
    fn an_error_of_the_server_is_a_failed_outcome() {
        let text = json!({"type": "text", "text": "no such file"});
        assert_eq!(
            outcome_of(json!({"content": [text], "isError": true})),
            CallOutcome::Failed(json!("no such file"))
        );
        assert_eq!(
            error_outcome(&ErrorData::invalid_params("bad", None)),
            CallOutcome::Failed(json!({"error": "bad", "code": -32602}))
        );
    }
}
