//! Converts the response of a server to a call into JSON for the agent.

use holdpoint_engine::extension::{excerpt, truncate};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use serde_json::{Value, json};

use crate::tool::CallOutcome;

pub(super) fn outcome(response: CallToolResponse) -> CallOutcome {
    match response {
        CallToolResponse::Complete(result) => {
            let failed = result.is_error == Some(true);
            let value = truncate(value(result));
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
    if let Some(structured) = result.structured_content {
        return structured;
    }
    let mut blocks = result.content;
    match (blocks.len(), blocks.pop()) {
        (_, None) => Value::Null,
        (1, Some(ContentBlock::Text(text))) => Value::String(text.text),
        (_, Some(last)) => {
            blocks.push(last);
            // Content that was parsed from JSON can be serialized again.
            blocks.iter().map(|block| serde_json::to_value(block).unwrap_or_default()).collect()
        }
    }
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
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}});
        let link = json!({"type": "resource_link", "uri": "file:///b", "name": "b"});
        let text = json!({"type": "text", "text": "t"});
        assert_eq!(outcome_of(json!({"content": [image]})), CallOutcome::Result(json!([image])));
        assert_eq!(
            outcome_of(json!({"content": [text, image, resource, link]})),
            CallOutcome::Result(json!([text, image, resource, link]))
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
