//! Assembles a reply from the chunks of a response.

use holdpoint_core::agent::{CallRequest, Usage};
use holdpoint_core::parse_strict;
use serde_json::{Map, Value, json};

use super::super::{DeltaHandler, FinishReason, ModelError, ModelReply, ReplyDelta, UNPARSED};
use super::failure::{AttemptFailure, HiddenSecrets};
use super::wire::{CallPiece, Choice, FunctionPiece, MessagePiece, ResponseChunk};

const CALLS_MAX: usize = 128;

#[derive(Debug, Default)]
pub(super) struct ReplyAssembly {
    text: String,
    refusal: String,
    calls: Vec<PartialCall>,
    usage: Usage,
    model: Option<String>,
    finish: Option<String>,
    has_choice: bool,
    /// The server has sent the end of the stream.
    done: bool,
    bytes: usize,
    bytes_max: usize,
}

/// A tool call whose pieces are still arriving.
#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl ReplyAssembly {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Returns true if the finish reason has arrived. Only token counts can follow.
    pub(super) fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Adds the data of one event.
    pub(super) fn add_event(
        &mut self,
        data: &[u8],
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        match data.trim_ascii() {
            b"" => Ok(()),
            b"[DONE]" => {
                self.done = true;
                Ok(())
            }
            data => {
                let chunk = serde_json::from_slice(data).map_err(|error| {
                    AttemptFailure::bad_reply(format!(
                        "an event is not valid JSON: {}",
                        describe_json_error(&error)
                    ))
                })?;
                self.add_chunk(chunk, hidden, listener)
            }
        }
    }

    /// Adds a response that is one document.
    pub(super) fn add_document(
        &mut self,
        bytes: &[u8],
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        let chunk = serde_json::from_slice(bytes).map_err(|error| {
            AttemptFailure::bad_reply(format!(
                "the response is not valid JSON: {}",
                describe_json_error(&error)
            ))
        })?;
        self.add_chunk(chunk, hidden, listener)?;
        if !self.has_choice {
            return Err(AttemptFailure::bad_reply("the response has no choice"));
        }
        self.done = true;
        Ok(())
    }

    fn add_chunk(
        &mut self,
        chunk: ResponseChunk,
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(AttemptFailure::from_response(
                None,
                &json!({"error": error}).to_string(),
                None,
                hidden,
            ));
        }
        if let Some(usage) = chunk.usage {
            self.usage.input_tokens = usage.prompt_tokens.unwrap_or(self.usage.input_tokens);
            self.usage.output_tokens = usage.completion_tokens.unwrap_or(self.usage.output_tokens);
        }
        self.model = self.model.take().or(chunk.model.filter(|model| !model.is_empty()));
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.add_choice(choice, listener)?;
        }
        Ok(())
    }

    fn add_choice(&mut self, choice: Choice, listener: DeltaHandler<'_>) -> Result<(), AttemptFailure> {
        self.has_choice = true;
        if let Some(piece) = choice.delta.or(choice.message) {
            self.add_piece(piece, listener)?;
        }
        self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
        Ok(())
    }

    fn add_piece(&mut self, piece: MessagePiece, listener: DeltaHandler<'_>) -> Result<(), AttemptFailure> {
        let text = piece.text();
        self.count_bytes(text.len())?;
        if !text.is_empty() {
            self.text.push_str(&text);
            listener(ReplyDelta::Text(text));
        }
        if let Some(refusal) = piece.refusal {
            self.count_bytes(refusal.len())?;
            self.refusal.push_str(&refusal);
        }
        for call in piece.tool_calls.into_iter().flatten() {
            self.add_call(call, listener)?;
        }
        Ok(())
    }

    fn add_call(&mut self, piece: CallPiece, listener: DeltaHandler<'_>) -> Result<(), AttemptFailure> {
        let arguments = piece.function.as_ref().map(FunctionPiece::arguments).unwrap_or_default();
        let name = piece.function.and_then(|function| function.name).filter(|name| !name.is_empty());
        let id = piece.id.filter(|id| !id.is_empty());
        self.count_bytes(
            arguments.len() + name.as_ref().map_or(0, String::len) + id.as_ref().map_or(0, String::len),
        )?;
        let index = match self.find_call(piece.index, id.as_deref(), name.as_deref()) {
            Some(index) => index,
            None if self.calls.len() == CALLS_MAX => {
                return Err(AttemptFailure::permanent(ModelError::BadReply(format!(
                    "the reply has more than {CALLS_MAX} tool calls"
                ))));
            }
            None => {
                self.calls.push(PartialCall { index: piece.index, ..PartialCall::default() });
                self.calls.len() - 1
            }
        };
        let slot = &mut self.calls[index];
        // Some servers repeat the id and the name in every piece.
        let id = id.filter(|_| slot.id.is_empty()).inspect(|id| slot.id.clone_from(id));
        let name = name.filter(|_| slot.name.is_empty()).inspect(|name| slot.name.clone_from(name));
        slot.arguments.push_str(&arguments);
        listener(ReplyDelta::Call { index, id, name, arguments });
        Ok(())
    }

    /// Returns the position of the call that a piece belongs to: the last call with its index, or the last call if the
    /// piece has no index. Returns None if the piece begins a new call. Some servers give every call the same index;
    /// such a call begins with a piece that has a new id and a name.
    fn find_call(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let at = match index {
            Some(_) => self.calls.iter().rposition(|slot| slot.index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let slot = &self.calls[at];
        let other_id = id.is_some_and(|id| !slot.id.is_empty() && slot.id != id);
        let begins =
            name.is_some() && !slot.name.is_empty() && (other_id || (index.is_none() && id.is_none()));
        (!begins).then_some(at)
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), AttemptFailure> {
        self.bytes += bytes;
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        Err(AttemptFailure::too_large(self.bytes_max))
    }

    /// Returns the reply after the last chunk.
    pub(super) fn finish(self, model: &str, hidden: &HiddenSecrets) -> Result<ModelReply, AttemptFailure> {
        if !self.is_complete() {
            return Err(AttemptFailure::bad_reply("the reply ended before it was complete"));
        }
        if !self.refusal.is_empty() {
            return Err(AttemptFailure::permanent(ModelError::Refused(hidden.excerpt(&self.refusal))));
        }
        let finish = match self.finish.as_deref() {
            Some("content_filter") => {
                let why = "the provider's content filter stopped the reply".to_owned();
                return Err(AttemptFailure::permanent(ModelError::Refused(why)));
            }
            Some("error") => {
                return Err(AttemptFailure::unavailable(
                    "the server reported an error in the middle of the reply",
                ));
            }
            Some("length") => FinishReason::Length,
            _ if self.calls.is_empty() => FinishReason::Stop,
            // Some servers report `stop` although the reply has tool calls.
            _ => FinishReason::Calls,
        };
        if self.calls.iter().any(|slot| slot.name.is_empty()) {
            return Err(AttemptFailure::bad_reply("the reply has a tool call without a name"));
        }
        let calls = self.calls.into_iter().map(|slot| CallRequest {
            arguments: parse_arguments(&slot.arguments, finish),
            id: slot.id,
            name: slot.name,
        });
        Ok(ModelReply {
            text: self.text,
            calls: calls.collect(),
            usage: self.usage,
            model: self.model.unwrap_or_else(|| model.to_owned()),
            finish,
            confidence: None,
        })
    }
}

/// Parses arguments. An empty text is an empty object, unless the reply reached its token limit: then arguments may be
/// missing. A text that is not an object, or is ambiguous, is kept unchanged under `_unparsed` and never interpreted.
fn parse_arguments(text: &str, finish: FinishReason) -> Value {
    if text.trim().is_empty() && finish != FinishReason::Length {
        return Value::Object(Map::new());
    }
    match parse_strict(text.as_bytes()) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ UNPARSED: text }),
    }
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
