//! The response format of endpoints: a chunk of a stream, or a whole document, which is read as one large chunk. All
//! members are optional, because servers omit them or set them to null.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
pub(in super::super) struct ResponseChunk {
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<TokenCounts>,
    pub(super) model: Option<String>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub(super) index: Option<u64>,
    pub(super) delta: Option<MessagePiece>,
    pub(super) message: Option<MessagePiece>,
    pub(super) finish_reason: Option<String>,
    /// The probabilities of the tokens of the text, if the request asked for them.
    pub(super) logprobs: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessagePiece {
    pub(super) content: Option<Value>,
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Option<Vec<CallPiece>>,
    /// Reasoning, as DeepSeek, Moonshot, Qwen, vLLM and llama.cpp send it.
    pub(super) reasoning_content: Option<String>,
    /// Reasoning, as OpenRouter, Groq, Ollama and newer versions of vLLM send it.
    pub(super) reasoning: Option<Value>,
    /// Structured reasoning, as OpenRouter sends it beside `reasoning`.
    pub(super) reasoning_details: Option<Vec<Map<String, Value>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallPiece {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionPiece>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionPiece {
    pub(super) name: Option<String>,
    /// A string with JSON; some servers send the object itself.
    pub(super) arguments: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct TokenCounts {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) completion_tokens_details: Option<TokenDetails>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct TokenDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

impl Choice {
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }

    /// Returns the logarithms of the probabilities of the tokens in this chunk.
    pub(super) fn log_probabilities(&self) -> impl Iterator<Item = f64> {
        let tokens = self.logprobs.as_ref().and_then(|logprobs| logprobs.get("content")?.as_array());
        tokens.into_iter().flatten().filter_map(|token| token.get("logprob")?.as_f64())
    }
}

impl MessagePiece {
    /// Returns the text, which some servers send as a list of parts.
    pub(super) fn text(&self) -> String {
        match &self.content {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        }
    }
}

impl FunctionPiece {
    pub(super) fn arguments(&self) -> String {
        match &self.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}
