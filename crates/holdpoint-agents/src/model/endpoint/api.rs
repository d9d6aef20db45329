//! The APIs of endpoints: the path, the key, the request and the response of each.

use serde::de::DeserializeOwned;

use super::super::{DeltaHandler, ModelPrompt};
use super::assembly::ReplyAssembly;
use super::failure::{AttemptFailure, HiddenSecrets};
use super::settings::EndpointSettings;
use super::{anthropic_messages, chat_completions, openai_responses};

/// The API of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointApi {
    /// The chat completions API, `/chat/completions`.
    ChatCompletions,
    /// The responses API of OpenAI, `/responses`.
    Responses,
    /// The messages API of Anthropic, `/messages`.
    Messages,
}

/// A header of a request.
pub(super) struct Header {
    pub name: &'static str,
    pub value: String,
}

impl EndpointApi {
    /// Returns the API of a `provider` in a definition.
    pub(in super::super) fn of_provider(provider: &str) -> Option<Self> {
        let all = [Self::ChatCompletions, Self::Responses, Self::Messages];
        all.into_iter().find(|api| api.provider() == provider)
    }

    fn provider(self) -> &'static str {
        match self {
            Self::ChatCompletions => "openai",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic",
        }
    }

    /// Returns the source of the reasoning of a model.
    pub(super) fn source_of(self, model: &str) -> String {
        format!("{}:{model}", self.provider())
    }

    pub(super) fn path(self) -> &'static [&'static str] {
        match self {
            Self::ChatCompletions => &["chat", "completions"],
            Self::Responses => &["responses"],
            Self::Messages => &["messages"],
        }
    }

    /// Returns the members of a request that options must not set.
    pub(super) fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::ChatCompletions => &chat_completions::RESERVED,
            Self::Responses => &openai_responses::RESERVED,
            Self::Messages => &anthropic_messages::RESERVED,
        }
    }

    pub(super) fn temperature_max(self) -> f64 {
        match self {
            Self::ChatCompletions | Self::Responses => 2.0,
            Self::Messages => 1.0,
        }
    }

    /// Returns the media types of attachments that the API accepts.
    pub(super) fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::ChatCompletions => &chat_completions::MEDIA_TYPES,
            Self::Responses => &openai_responses::MEDIA_TYPES,
            Self::Messages => &anthropic_messages::MEDIA_TYPES,
        }
    }

    /// Returns the headers that every request has.
    pub(super) fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ChatCompletions | Self::Responses => &[],
            Self::Messages => &[("anthropic-version", anthropic_messages::VERSION)],
        }
    }

    /// Returns the header with the key.
    pub(super) fn key_header(self, key: &str) -> Header {
        match self {
            Self::ChatCompletions | Self::Responses => {
                Header { name: "authorization", value: format!("Bearer {key}") }
            }
            Self::Messages => Header { name: "x-api-key", value: key.to_owned() },
        }
    }

    pub(super) fn body(self, settings: &EndpointSettings, prompt: &ModelPrompt) -> Vec<u8> {
        let body = match self {
            Self::ChatCompletions => chat_completions::body(settings, prompt),
            Self::Responses => openai_responses::body(settings, prompt),
            Self::Messages => anthropic_messages::body(settings, prompt),
        };
        serde_json::Value::Object(body).to_string().into_bytes()
    }

    /// Adds the data of one event to a reply.
    pub(super) fn add_event(
        self,
        reply: &mut ReplyAssembly,
        data: &[u8],
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        match data.trim_ascii() {
            b"" => Ok(()),
            b"[DONE]" => {
                reply.set_done();
                Ok(())
            }
            data => match self {
                Self::ChatCompletions => {
                    chat_completions::add_chunk(reply, parse(data, "an event")?, hidden, listener)
                }
                Self::Responses => {
                    openai_responses::add_event(reply, &parse(data, "an event")?, hidden, listener)
                }
                Self::Messages => {
                    anthropic_messages::add_event(reply, parse(data, "an event")?, hidden, listener)
                }
            },
        }
    }

    /// Adds a response that is one document.
    pub(super) fn add_document(
        self,
        reply: &mut ReplyAssembly,
        bytes: &[u8],
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        const SUBJECT: &str = "the response";
        match self {
            Self::ChatCompletions => {
                chat_completions::add_document(reply, parse(bytes, SUBJECT)?, hidden, listener)?;
            }
            Self::Responses => {
                openai_responses::add_document(reply, &parse(bytes, SUBJECT)?, hidden, listener)?;
            }
            Self::Messages => {
                anthropic_messages::add_document(reply, parse(bytes, SUBJECT)?, hidden, listener)?;
            }
        }
        reply.set_done();
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8], subject: &str) -> Result<T, AttemptFailure> {
    serde_json::from_slice(bytes).map_err(|error| {
        AttemptFailure::bad_reply(format!("{subject} is not valid JSON: {}", describe_json_error(&error)))
    })
}

/// Describes a JSON error by its position, without the content.
fn describe_json_error(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "unexpected",
        serde_json::error::Category::Eof => "cut off",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "malformed",
    };
    format!("{what} at column {} of line {}", error.column(), error.line())
}
