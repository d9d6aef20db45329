//! `core.ai.callPrompt`: replies with the `mockProvider` in the options of a run. This engine has no model for it.

use serde_json::{Map, Value, json};

use super::{Outputs, PureNode};
use crate::context::{Context, Stop};

pub(super) struct CallPromptNode;

impl PureNode for CallPromptNode {
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let Some(mock) = context.configurable().and_then(|options| options.get("mockProvider")) else {
            return Err(Stop::failed(
                "provider_not_configured",
                "this server has no model provider for core.ai.callPrompt; set configurable.mockProvider to \
                 {\"id\": \"stream-text\"} for a mock reply, or register a node type that calls a model",
            ));
        };
        match mock.get("id").and_then(Value::as_str) {
            Some("stream-text") => {}
            other => {
                let message =
                    format!("there is no mock provider {:?}; known: stream-text", other.unwrap_or("?"));
                return Err(Stop::failed("unsupported_mock_provider", message));
            }
        }
        let config = mock.get("config").and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(emit_chunks(context, &config))
    }
}

/// Emits one chunk per token. Delays in the mock config are ignored: all chunks are committed at once.
fn emit_chunks(context: &mut Context, config: &Map<String, Value>) -> Outputs {
    let tokens = config.get("tokens").or_else(|| config.get("chunks")).and_then(Value::as_array);
    let mut tokens: Vec<String> = match tokens {
        Some(tokens) => tokens.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => ["mock", " response"].map(str::to_owned).into(),
    };
    let text = tokens.concat();
    let count = tokens.len();
    let usage = config
        .get("usage")
        .cloned()
        .unwrap_or_else(|| json!({"promptTokens": 1, "completionTokens": count, "totalTokens": count + 1}));
    let model = config.get("model").cloned().unwrap_or_else(|| json!("mock-stream-text-v1"));
    let finish = config.get("finishReason").cloned().unwrap_or_else(|| json!("stop"));
    let meta = Map::from_iter([("model".to_owned(), model.clone())]);
    // A reply without tokens has one empty chunk.
    let last = tokens.pop().unwrap_or_default();
    for token in tokens {
        context.emit_chunk(token, meta.clone());
    }
    let mut end = meta;
    end.insert("finishReason".to_owned(), finish.clone());
    end.insert("usage".to_owned(), usage.clone());
    context.emit_chunk(last, end);
    let outputs = [("text", json!(text)), ("model", model), ("finishReason", finish), ("usage", usage)];
    outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
