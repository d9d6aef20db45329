//! Models: what is asked, what comes back, and how it can go wrong. One file below for each way to reach one.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::{CallRequest, Message, Usage};
use serde_json::{Map, Value};

use super::tool::ToolSpec;
use crate::outgoing::Outgoing;

mod key;
mod members;
mod openai;
mod scripted;

pub use key::{KeyRef, Secret};
pub use openai::{HeaderText, OpenAi, Settings};
pub use scripted::Scripted;

/// What a model is asked.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub instructions: Option<String>,
    /// In the order in which models take them.
    pub messages: Vec<Arc<Message>>,
    pub tools: Vec<Arc<ToolSpec>>,
    /// What a definition says besides: temperature, maxTokens and the like.
    pub options: Map<String, Value>,
    /// How often this run's model has replied before.
    pub step: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    pub text: String,
    /// With the ids that the model gave; they may be missing or repeat earlier ones.
    pub calls: Vec<CallRequest>,
    pub usage: Usage,
    /// The model that has answered, as it calls itself.
    pub model: String,
    pub finish: Finish,
    /// How sure the model says it is, if it does.
    pub confidence: Option<f64>,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    #[default]
    Stop,
    Calls,
    /// It was cut off at its limit of tokens.
    Length,
    Filtered,
}

/// A piece of a reply, as it comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    /// A piece of the arguments of the call at this place in the reply.
    Call {
        index: usize,
        id: Option<String>,
        name: Option<String>,
        arguments: String,
    },
    /// The reply broke off, and the model is asked again: what came so far is void.
    Restarted,
}

/// Where arguments that are no JSON object are kept, as the model wrote them.
const UNPARSED: &str = "_unparsed";

/// What a model wrote instead of arguments. Such a call must not be made and nobody should be asked about it: the agent
/// is told that its arguments could not be understood.
pub fn unparsed(arguments: &Value) -> Option<&str> {
    let members = arguments.as_object().filter(|members| members.len() == 1)?;
    members.get(UNPARSED)?.as_str()
}

/// What is wrong with the `model` of a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadModel {
    /// A path from the model, such as `steps[0].calls[1].name`; empty for the whole.
    pub field: String,
    pub message: String,
}

impl BadModel {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// The model of a definition. `base` is the folder of a definition that is the operator's own file: without it, nothing
/// that reads files or the environment is accepted. A connection of the operator (`use`) is looked up before.
pub fn from_definition(
    model: &Value,
    base: Option<&Path>,
    outgoing: &Outgoing,
) -> Result<Arc<dyn Model>, BadModel> {
    match model.get("provider").and_then(Value::as_str) {
        Some("openai") => {
            let settings = Settings::parse(model, base)?;
            Ok(Arc::new(OpenAi::new(settings, outgoing.clone())?))
        }
        Some("scripted") => Ok(Arc::new(Scripted::parse(model, base)?)),
        Some(_) => Err(BadModel::new("provider", "must be \"openai\" or \"scripted\"")),
        None if model.get("use").is_some() => {
            Err(BadModel::new("use", "names no connection that is known here"))
        }
        None if model.is_object() => Err(BadModel::new("provider", "is missing")),
        None => Err(BadModel::new("", "must be an object")),
    }
}

/// How a model failed to reply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Worth another try, after a while.
    #[error("the model is not available: {message}")]
    Unavailable { message: String, retry_after_ms: Option<u64> },
    #[error("the model did not reply within {0} ms")]
    TimedOut(u64),
    #[error("the conversation is longer than the model can take: {0}")]
    ContextOverflow(String),
    #[error("the model refused: {0}")]
    Refused(String),
    #[error("the model's key is not accepted: {0}")]
    Unauthorized(String),
    #[error("the model did not understand the request: {0}")]
    BadRequest(String),
    #[error("the model's answer could not be understood: {0}")]
    BadReply(String),
}

impl ModelError {
    /// The code under which a run fails with it.
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

    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::TimedOut(_) | Self::BadReply(_) => true,
            Self::ContextOverflow(_) | Self::Refused(_) | Self::Unauthorized(_) | Self::BadRequest(_) => {
                false
            }
        }
    }
}

pub type Replying<'a> = Pin<Box<dyn Future<Output = Result<Reply, ModelError>> + Send + 'a>>;
/// Whoever listens while a model speaks.
pub type Listener<'a> = &'a mut (dyn FnMut(Delta) + Send);

pub trait Model: Send + Sync {
    /// One reply. Dropped before it is done, the request is given up.
    fn reply<'a>(&'a self, prompt: &'a Prompt, listener: Listener<'a>) -> Replying<'a>;

    /// Whether asking costs nothing, changes nothing and takes no time: then it can just as well be done again.
    fn is_instant(&self) -> bool {
        false
    }
}
