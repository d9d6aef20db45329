//! The progress that a provider reports during a start or an answer: text, reasoning, tool calls and their results.

use holdpoint_core::agent::Usage;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A report about the work of a graph, for [`LockedHandle::report`](crate::LockedHandle::report). Ids are those of the
/// provider; readers see other ids. Texts contain no address, id or path of the provider.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderProgress {
    /// The next text of a message that the model is writing.
    Text {
        /// The id of the message.
        message: String,
        /// The text.
        delta: String,
    },
    /// The next text of the reasoning before a message.
    Reasoning {
        /// The id of the message.
        message: String,
        /// The text.
        delta: String,
    },
    /// A complete message. A message that is reported again is ignored.
    Message(ProviderMessage),
    /// The result of a tool call.
    Result {
        /// The id of the call.
        call: String,
        /// The result.
        content: Value,
        /// True if the call failed or was not made.
        is_error: bool,
    },
    /// The provider begins again: the incomplete messages so far do not count.
    Restarted,
}

/// A complete message of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderMessage {
    /// The id of the message.
    pub id: String,
    /// The whole text.
    pub text: String,
    /// The tool calls that the message requests.
    pub calls: Vec<ProviderCall>,
    /// The tokens of the message.
    pub usage: Usage,
    /// The name of the model. Empty if it is unknown.
    pub model: String,
}

/// A tool call in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderCall {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

impl ProviderProgress {
    /// Returns the approximate size of the report.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text { delta, .. } | Self::Reasoning { delta, .. } => delta.len(),
            Self::Message(message) => {
                let calls = message.calls.iter().map(|call| call.name.len() + size(&call.arguments));
                message.text.len() + calls.sum::<usize>()
            }
            Self::Result { content, .. } => size(content),
            Self::Restarted => 0,
        }
    }
}

fn size(value: &Value) -> usize {
    value.as_str().map_or_else(|| value.to_string().len(), str::len)
}

/// Returns the id that readers see for an id of the provider. It is the same for every retry, and the provider's id
/// cannot be derived from it.
pub(crate) fn public_id(prefix: &str, parts: [&str; 3]) -> String {
    let digest = Sha256::digest(Value::from(parts.to_vec()).to_string());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}-{digits}")
}
