//! Models: what is asked, what comes back, and how it can go wrong. One file below for each way to reach one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::{CallRequest, Message, Usage};
use serde_json::{Map, Value};

use super::tool::ToolSpec;

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
}

struct Stub(Vec<Value>);
impl Model for Stub {
    fn reply<'a>(&'a self, prompt: &'a Prompt, _: Listener<'a>) -> Replying<'a> {
        Box::pin(async move {
            let Some(step) = self.0.get(prompt.step as usize) else {
                return Ok(Reply { text: "Done.".into(), ..Reply::default() });
            };
            let user = prompt.messages.iter().rev().find(|m| m.role == holdpoint_core::agent::Role::User);
            let user = user.map(|m| m.text()).unwrap_or_default();
            Ok(Reply {
                text: step["text"].as_str().unwrap_or("").replace("{{user}}", &user),
                calls: serde_json::from_value(step.get("calls").cloned().unwrap_or(serde_json::json!([])))
                    .unwrap(),
                ..Reply::default()
            })
        })
    }
}
pub(crate) fn from_definition(
    model: &Value,
    _base: Option<&std::path::Path>,
    _outgoing: &crate::outgoing::Outgoing,
) -> Result<Arc<dyn Model>, super::AgentFlaw> {
    Ok(Arc::new(Stub(model["steps"].as_array().cloned().unwrap_or_default())))
}
