//! A reply from its pieces.

use holdpoint_core::agent::{CallRequest, Usage};
use holdpoint_core::parse_strict;
use serde_json::{Map, Value, json};

use super::super::{Delta, Finish, Listener, ModelError, Reply, UNPARSED};
use super::failure::{Failure, Hidden};
use super::wire::{CallPiece, Choice, Chunk, FunctionPiece, Piece};

const CALLS_MAX: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: String,
    refusal: String,
    calls: Vec<Slot>,
    usage: Usage,
    model: Option<String>,
    finish: Option<String>,
    has_choice: bool,
    /// The server has said that nothing follows.
    done: bool,
    bytes: usize,
    bytes_max: usize,
}

/// A call while its pieces come.
#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Assembly {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// The model has said why it stopped: what follows is about costs.
    pub(super) fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The data of one event.
    pub(super) fn event(
        &mut self,
        data: &[u8],
        hidden: &Hidden,
        listener: Listener<'_>,
    ) -> Result<(), Failure> {
        match data.trim_ascii() {
            b"" => Ok(()),
            b"[DONE]" => {
                self.done = true;
                Ok(())
            }
            data => {
                let chunk = serde_json::from_slice(data).map_err(|error| {
                    Failure::bad_reply(format!("a piece of it is no JSON: {}", of(&error)))
                })?;
                self.chunk(chunk, hidden, listener)
            }
        }
    }

    /// An answer that came as one document.
    pub(super) fn document(
        &mut self,
        bytes: &[u8],
        hidden: &Hidden,
        listener: Listener<'_>,
    ) -> Result<(), Failure> {
        let chunk = serde_json::from_slice(bytes)
            .map_err(|error| Failure::bad_reply(format!("it is no JSON: {}", of(&error))))?;
        self.chunk(chunk, hidden, listener)?;
        if !self.has_choice {
            return Err(Failure::bad_reply("it holds no choice"));
        }
        self.done = true;
        Ok(())
    }

    fn chunk(&mut self, chunk: Chunk, hidden: &Hidden, listener: Listener<'_>) -> Result<(), Failure> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Failure::said(None, &json!({"error": error}).to_string(), None, hidden));
        }
        if let Some(usage) = chunk.usage {
            self.usage.input_tokens = usage.prompt_tokens.unwrap_or(self.usage.input_tokens);
            self.usage.output_tokens = usage.completion_tokens.unwrap_or(self.usage.output_tokens);
        }
        self.model = self.model.take().or(chunk.model.filter(|model| !model.is_empty()));
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.choice(choice, listener)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice, listener: Listener<'_>) -> Result<(), Failure> {
        self.has_choice = true;
        if let Some(piece) = choice.delta.or(choice.message) {
            self.piece(piece, listener)?;
        }
        self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
        Ok(())
    }

    fn piece(&mut self, piece: Piece, listener: Listener<'_>) -> Result<(), Failure> {
        let text = piece.text();
        self.grow(text.len())?;
        if !text.is_empty() {
            self.text.push_str(&text);
            listener(Delta::Text(text));
        }
        if let Some(refusal) = piece.refusal {
            self.grow(refusal.len())?;
            self.refusal.push_str(&refusal);
        }
        for call in piece.tool_calls.into_iter().flatten() {
            self.call(call, listener)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: CallPiece, listener: Listener<'_>) -> Result<(), Failure> {
        let arguments = piece.function.as_ref().map(FunctionPiece::arguments).unwrap_or_default();
        let name = piece.function.and_then(|function| function.name).filter(|name| !name.is_empty());
        let id = piece.id.filter(|id| !id.is_empty());
        self.grow(
            arguments.len() + name.as_ref().map_or(0, String::len) + id.as_ref().map_or(0, String::len),
        )?;
        let index = match self.slot(piece.index, id.as_deref(), name.as_deref()) {
            Some(index) => index,
            None if self.calls.len() == CALLS_MAX => {
                return Err(Failure::for_good(ModelError::BadReply(format!(
                    "it wants more than {CALLS_MAX} calls"
                ))));
            }
            None => {
                self.calls.push(Slot { index: piece.index, ..Slot::default() });
                self.calls.len() - 1
            }
        };
        let slot = &mut self.calls[index];
        // Some servers repeat both in every piece.
        let id = id.filter(|_| slot.id.is_empty()).inspect(|id| slot.id.clone_from(id));
        let name = name.filter(|_| slot.name.is_empty()).inspect(|name| slot.name.clone_from(name));
        slot.arguments.push_str(&arguments);
        listener(Delta::Call { index, id, name, arguments });
        Ok(())
    }

    /// Which call a piece belongs to: the last one of its index, or the last one of all where servers count none. Some
    /// give every call the same index; those begin with another id and a name.
    fn slot(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
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

    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes;
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        Err(Failure::too_large(self.bytes_max))
    }

    /// The reply, when nothing more comes.
    pub(super) fn end(self, model: &str, hidden: &Hidden) -> Result<Reply, Failure> {
        if !self.is_complete() {
            return Err(Failure::bad_reply("it ended before it was complete"));
        }
        if !self.refusal.is_empty() {
            return Err(Failure::for_good(ModelError::Refused(hidden.excerpt(&self.refusal))));
        }
        let finish = match self.finish.as_deref() {
            Some("content_filter") => {
                let why = "the provider's content filter stopped the reply".to_owned();
                return Err(Failure::for_good(ModelError::Refused(why)));
            }
            Some("error") => {
                return Err(Failure::unavailable("it says that it failed in the middle of its reply"));
            }
            Some("length") => Finish::Length,
            _ if self.calls.is_empty() => Finish::Stop,
            // Some servers say that they stopped where they want calls.
            _ => Finish::Calls,
        };
        if self.calls.iter().any(|slot| slot.name.is_empty()) {
            return Err(Failure::bad_reply("it wants a call that has no name"));
        }
        let calls = self.calls.into_iter().map(|slot| CallRequest {
            arguments: arguments(&slot.arguments, finish),
            id: slot.id,
            name: slot.name,
        });
        Ok(Reply {
            text: self.text,
            calls: calls.collect(),
            usage: self.usage,
            model: self.model.unwrap_or_else(|| model.to_owned()),
            finish,
            confidence: None,
        })
    }
}

/// Arguments as an object. None at all mean none, unless the model was cut off: it might have gone on to name some.
/// Whatever else is no object, or could be read in two ways, is kept as it is for somebody to see, and never guessed at.
fn arguments(text: &str, finish: Finish) -> Value {
    if text.trim().is_empty() && finish != Finish::Length {
        return Value::Object(Map::new());
    }
    match parse_strict(text.as_bytes()) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ UNPARSED: text }),
    }
}

/// Where it went wrong, without what stood there.
fn of(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "unexpected",
        serde_json::error::Category::Eof => "cut off",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "malformed",
    };
    format!("{what} at column {} of line {}", error.column(), error.line())
}
