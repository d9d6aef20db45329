//! Models: prompts, replies and errors. Each provider has a file below.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::{CallRequest, Message, ReasoningPart, Usage};
use holdpoint_engine::outgoing::Outgoing;
use serde_json::{Map, Value};

use super::tool::ToolSpec;

mod confidence;
mod endpoint;
mod fallbacks;
mod key;
mod members;
mod scripted;

pub use confidence::{ConfidenceRule, with_confidence};
pub(crate) use endpoint::check_media;
pub use endpoint::{AttachmentRules, EndpointApi, EndpointModel, EndpointSettings, HeaderText};
pub use fallbacks::with_fallbacks;
pub use holdpoint_engine::extension::{KeyRef, SecretText};

pub use scripted::ScriptedModel;

/// The input of one call of a model.
#[derive(Clone, Debug)]
pub struct ModelPrompt {
    /// The system prompt.
    pub instructions: Option<String>,
    /// The messages, with each tool result after the call that it belongs to.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model can call.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Further request members: `temperature`, `maxTokens` and others.
    pub options: Map<String, Value>,
    /// The number of replies in this run so far.
    pub step: u32,
}

/// The result of one call of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelReply {
    /// The reasoning before the reply, in the order of its parts.
    pub reasoning: Vec<ReasoningPart>,
    /// The text of the reply.
    pub text: String,
    /// The tool calls with the ids of the model, which may be missing or repeated.
    pub calls: Vec<CallRequest>,
    /// The tokens that the reply used.
    pub usage: Usage,
    /// The model name that the provider reports.
    pub model: String,
    /// The reason why the reply ended.
    pub finish: FinishReason,
    /// The confidence from 0 to 1, if the model reports one.
    pub confidence: Option<f64>,
    /// The mean probability of the tokens of the text, if the prompt asked for it and the endpoint reports it.
    pub token_probability: Option<f64>,
}

/// The reason why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// The reply is complete.
    #[default]
    Stop,
    /// The model requests tool calls.
    Calls,
    /// The reply reached the token limit.
    Length,
    /// A content filter stopped the reply.
    Filtered,
}

/// A part of a reply that arrives while the model generates it.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyDelta {
    /// The next part of the text.
    Text(String),
    /// The next piece of the reasoning.
    Reasoning {
        /// The position of the part in the reasoning of the reply.
        part: usize,
        /// The text of the piece.
        text: String,
    },
    /// The next part of a tool call.
    Call {
        /// The position of the call in the reply.
        index: usize,
        /// The id, in the first part of the call.
        id: Option<String>,
        /// The name of the tool, in the first part of the call.
        name: Option<String>,
        /// The next part of the arguments, as JSON text.
        arguments: String,
    },
    /// The reply failed and the model is called again. The listener must discard all earlier deltas.
    Restarted,
}

/// The member that contains the original text of arguments that are not a JSON object.
const UNPARSED: &str = "_unparsed";

/// Returns the original text of arguments that are not a JSON object. Such a call is neither made nor shown to an
/// approver: it fails with an error for the agent.
pub fn unparsed_arguments(arguments: &Value) -> Option<&str> {
    let members = arguments.as_object().filter(|members| members.len() == 1)?;
    members.get(UNPARSED)?.as_str()
}

const PROVIDERS: &str = "must be \"openai\", \"openai-responses\", \"anthropic\" or \"scripted\"";

/// A flaw of the `model` of a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadModel {
    /// The path in the model, such as `steps[0].calls[1].name`; empty for the model itself.
    pub field: String,
    /// The reason why the field is invalid.
    pub message: String,
}

impl BadModel {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// Builds the model of a definition. `base` is the folder of a definition that is a file of the operator; without it,
/// members that read files or the environment are rejected. The caller must have replaced `use` with the settings of
/// the connection.
pub fn from_definition(
    model: &Value,
    base: Option<&Path>,
    outgoing: &Outgoing,
) -> Result<Arc<dyn Model>, BadModel> {
    match model.get("provider").and_then(Value::as_str) {
        Some("scripted") => Ok(Arc::new(ScriptedModel::parse(model, base)?)),
        Some(provider) if EndpointApi::of_provider(provider).is_some() => {
            let settings = EndpointSettings::parse(model, base)?;
            Ok(Arc::new(EndpointModel::new(settings, outgoing.clone())?))
        }
        Some(_) => Err(BadModel::new("provider", PROVIDERS)),
        None if model.get("use").is_some() => Err(BadModel::new("use", "names no known connection")),
        None if model.is_object() => Err(BadModel::new("provider", "is missing")),
        None => Err(BadModel::new("", "must be an object")),
    }
}

/// A failed call of a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The model cannot be reached, is overloaded or limits the rate. A later call may succeed.
    #[error("the model is not available: {message}")]
    Unavailable {
        /// The reason, without secrets.
        message: String,
        /// The wait that the provider requests.
        retry_after_ms: Option<u64>,
    },
    /// The reply was not complete after this number of milliseconds.
    #[error("the model did not reply within {0} ms")]
    TimedOut(u64),
    /// The prompt exceeds the context window.
    #[error("the conversation exceeds the context window of the model: {0}")]
    ContextOverflow(String),
    /// The model or a content filter refused to reply.
    #[error("the model refused: {0}")]
    Refused(String),
    /// The API key is missing or was rejected.
    #[error("the API key of the model was not accepted: {0}")]
    Unauthorized(String),
    /// The provider rejected the request.
    #[error("the model rejected the request: {0}")]
    BadRequest(String),
    /// The reply is incomplete or malformed.
    #[error("the reply of the model is invalid: {0}")]
    BadReply(String),
}

impl ModelError {
    /// Returns the error code of a run that fails with this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "model_unavailable",
            Self::TimedOut(_) => "model_timeout",
            Self::ContextOverflow(_) => "context_overflow",
            Self::Refused(_) => "model_refused",
            Self::Unauthorized(_) => "model_unauthorized",
            Self::BadRequest(_) => "model_bad_request",
            Self::BadReply(_) => "model_bad_reply",
        }
    }

    /// Returns true if a later call may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::TimedOut(_) | Self::BadReply(_) => true,
            Self::ContextOverflow(_) | Self::Refused(_) | Self::Unauthorized(_) | Self::BadRequest(_) => {
                false
            }
        }
    }
}

/// The future of a reply.
pub type ReplyFuture<'a> = Pin<Box<dyn Future<Output = Result<ModelReply, ModelError>> + Send + 'a>>;
/// The callback that receives the parts of a reply while the model generates it.
pub type DeltaHandler<'a> = &'a mut (dyn FnMut(ReplyDelta) + Send);

/// A language model.
pub trait Model: Send + Sync {
    /// Generates one reply. Dropping the future cancels the request.
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, listener: DeltaHandler<'a>) -> ReplyFuture<'a>;

    /// Returns true if a call has no cost, no effect and no delay. Such a call can be repeated after a crash.
    fn is_instant(&self) -> bool {
        false
    }

    /// Checks that the model accepts the attachments in the content of a message. The error names the part and the
    /// reason. Prompts contain a text in the place of a part that is not accepted.
    fn check_content(&self, _content: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Returns the media types of the attachments that the model accepts.
    fn media_types(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Returns true if replies have a `token_probability` when the option `logprobs` of the prompt is set.
    fn reports_token_probabilities(&self) -> bool {
        false
    }
}
