//! What a server says about a call, as JSON for the agent.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use serde_json::{Value, json};

use crate::agent::tool::Returned;
use crate::agent::tool::cut::{cut, excerpt};

pub(super) fn returned(response: CallToolResponse) -> Returned {
    match response {
        CallToolResponse::Complete(result) => {
            let failed = result.is_error == Some(true);
            let value = cut(value(result));
            if failed { Returned::Failed(value) } else { Returned::Result(value) }
        }
        // None of them was offered to the server; nobody here could carry on with them.
        CallToolResponse::InputRequired(_) => unsupported("the server asks for input before it goes on"),
        CallToolResponse::Task(_) => unsupported("the server has begun a task to be asked for later"),
        _ => unsupported("the server answers in a way that is not known here"),
    }
}

fn unsupported(what: &str) -> Returned {
    Returned::Failed(json!({"error": format!("{what}, which is not supported")}))
}

/// A server that answers with an error has heard the call and says no.
pub(super) fn refused(error: &ErrorData) -> Returned {
    let message = excerpt(&error.message, MESSAGE_BYTES_MAX);
    Returned::Failed(json!({"error": message, "code": error.code.0}))
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
            // What came as JSON can be told as JSON.
            blocks.iter().map(|block| serde_json::to_value(block).unwrap_or_default()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(result: Value) -> Returned {
        returned(CallToolResponse::Complete(serde_json::from_value(result).unwrap()))
    }

    #[test]
    fn one_text_is_a_text_and_structure_comes_first() {
        let text = json!({"type": "text", "text": "hello"});
        assert_eq!(said(json!({"content": [text]})), Returned::Result(json!("hello")));
        assert_eq!(
            said(json!({"content": [text], "structuredContent": {"n": 1}})),
            Returned::Result(json!({"n": 1}))
        );
        assert_eq!(said(json!({"content": []})), Returned::Result(Value::Null));
    }

    #[test]
    fn everything_else_is_a_list_of_blocks() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}});
        let link = json!({"type": "resource_link", "uri": "file:///b", "name": "b"});
        let text = json!({"type": "text", "text": "t"});
        assert_eq!(said(json!({"content": [image]})), Returned::Result(json!([image])));
        assert_eq!(
            said(json!({"content": [text, image, resource, link]})),
            Returned::Result(json!([text, image, resource, link]))
        );
    }

    #[test]
    fn an_error_is_for_the_agent_to_know() {
        let text = json!({"type": "text", "text": "no such file"});
        assert_eq!(
            said(json!({"content": [text], "isError": true})),
            Returned::Failed(json!("no such file"))
        );
        assert_eq!(
            refused(&ErrorData::invalid_params("bad", None)),
            Returned::Failed(json!({"error": "bad", "code": -32602}))
        );
    }
}
