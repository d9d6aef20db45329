//! Reports of a provider about the agent that it executes. They are shown to readers and decide nothing.

use serde_json::Value;

use super::{CallStatus, Message, Usage};

/// A complete message of the agent, or the result of one of its calls.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderReport {
    /// A message of the model with its calls.
    Reply(Box<ProviderReply>),
    /// The result of a call.
    Result {
        /// The id of the call.
        call: String,
        /// The final state of the call.
        status: CallStatus,
        /// The result.
        content: Value,
    },
}

/// A message of a model at a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderReply {
    /// The message. Its id identifies a repeated report.
    pub message: Message,
    /// The tokens of the message.
    pub usage: Usage,
    /// The name of the model. Empty if the provider does not report it.
    pub model: String,
}
