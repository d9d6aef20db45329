//! Assembles a reply from the parts that an API delivers. All APIs share the limits, the calls and the end of a reply.

use holdpoint_core::agent::{CallRequest, ReasoningPart, Usage};
use holdpoint_core::parse_strict;
use serde_json::{Map, Value, json};

use super::super::{DeltaHandler, FinishReason, ModelError, ModelReply, ReplyDelta, UNPARSED};
use super::failure::{AttemptFailure, HiddenSecrets};
use super::settings::EndpointSettings;

const CALLS_MAX: usize = 128;

#[derive(Debug, Default)]
pub(super) struct ReplyAssembly {
    text: String,
    refusal: String,
    calls: Vec<PartialCall>,
    pub(super) usage: Usage,
    model: Option<String>,
    end: Option<ReplyEnd>,
    /// The server has sent the end of the stream.
    done: bool,
    log_probability: LogProbability,
    reasoning: Vec<PartialReasoning>,
    /// Set if the reply has text, a refusal or a call.
    has_content: bool,
    bytes: usize,
    bytes_max: usize,
}

/// The end of a reply as the server reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyEnd {
    Complete,
    /// The reply reached its token limit.
    Length,
    /// The provider stopped the reply, with the reason.
    Refused(&'static str),
    /// The server failed in the middle of the reply.
    Failed,
}

pub(super) const FILTERED: ReplyEnd = ReplyEnd::Refused("the provider's content filter stopped the reply");

/// The sum of the logarithms of token probabilities.
#[derive(Debug, Default)]
struct LogProbability {
    sum: f64,
    tokens: u32,
}

/// A part of the reasoning whose pieces are still arriving.
#[derive(Debug)]
struct PartialReasoning {
    /// The index that the server gives the part.
    index: u64,
    text: String,
    data: Map<String, Value>,
}

/// A tool call whose pieces are still arriving.
#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// A piece of a tool call.
#[derive(Debug, Default)]
pub(super) struct CallPiece {
    /// The index that the server gives the call.
    pub index: Option<u64>,
    pub id: Option<String>,
    pub name: Option<String>,
    pub arguments: String,
}

impl ReplyAssembly {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Returns true if the end of the reply has arrived. Only token counts can follow.
    pub(super) fn is_complete(&self) -> bool {
        self.done || self.end.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Returns true if the reply has no content yet.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_content
    }

    pub(super) fn set_done(&mut self) {
        self.done = true;
    }

    pub(super) fn set_end(&mut self, end: ReplyEnd) {
        self.end = Some(end);
    }

    /// Sets the model name. The first one counts.
    pub(super) fn set_model(&mut self, model: Option<String>) {
        self.model = self.model.take().or(model.filter(|model| !model.is_empty()));
    }

    /// Adds the logarithm of the probability of a token.
    pub(super) fn add_token(&mut self, log_probability: f64) {
        self.log_probability.sum += log_probability;
        self.log_probability.tokens = self.log_probability.tokens.saturating_add(1);
    }

    pub(super) fn add_text(
        &mut self,
        text: String,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        self.count_bytes(text.len())?;
        if !text.is_empty() {
            self.has_content = true;
            self.text.push_str(&text);
            listener(ReplyDelta::Text(text));
        }
        Ok(())
    }

    pub(super) fn add_refusal(&mut self, refusal: &str) -> Result<(), AttemptFailure> {
        self.count_bytes(refusal.len())?;
        self.has_content |= !refusal.is_empty();
        self.refusal.push_str(refusal);
        Ok(())
    }

    pub(super) fn add_call(
        &mut self,
        piece: CallPiece,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        let name = piece.name.filter(|name| !name.is_empty());
        let id = piece.id.filter(|id| !id.is_empty());
        let arguments = piece.arguments;
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
        self.has_content = true;
        let slot = &mut self.calls[index];
        // Some servers repeat the id and the name in every piece.
        let id = id.filter(|_| slot.id.is_empty()).inspect(|id| slot.id.clone_from(id));
        let name = name.filter(|_| slot.name.is_empty()).inspect(|name| slot.name.clone_from(name));
        slot.arguments.push_str(&arguments);
        listener(ReplyDelta::Call { index, id, name, arguments });
        Ok(())
    }

    /// Adds readable text to the part of the reasoning with this index.
    pub(super) fn add_reasoning(
        &mut self,
        index: u64,
        text: &str,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        self.count_bytes(text.len())?;
        if !text.is_empty() {
            let part = self.reasoning_at(index);
            self.reasoning[part].text.push_str(text);
            listener(ReplyDelta::Reasoning { part, text: text.to_owned() });
        }
        Ok(())
    }

    /// Adds data of the provider to the part of the reasoning with this index. `change` gets the data so far.
    pub(super) fn add_reasoning_data(
        &mut self,
        index: u64,
        bytes: usize,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), AttemptFailure> {
        self.count_bytes(bytes)?;
        let part = self.reasoning_at(index);
        change(&mut self.reasoning[part].data);
        Ok(())
    }

    /// Returns true if the part of the reasoning with this index has text.
    pub(super) fn has_reasoning(&self, index: u64) -> bool {
        self.reasoning.iter().any(|part| part.index == index && !part.text.is_empty())
    }

    fn reasoning_at(&mut self, index: u64) -> usize {
        self.reasoning.iter().position(|part| part.index == index).unwrap_or_else(|| {
            self.reasoning.push(PartialReasoning { index, text: String::new(), data: Map::new() });
            self.reasoning.len() - 1
        })
    }

    /// Returns true if the call with this index has arguments.
    pub(super) fn has_arguments(&self, index: Option<u64>) -> bool {
        self.calls
            .iter()
            .rev()
            .find(|slot| slot.index == index)
            .is_some_and(|slot| !slot.arguments.is_empty())
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

    /// Returns the reply after its last part.
    pub(super) fn finish(
        self,
        settings: &EndpointSettings,
        hidden: &HiddenSecrets,
    ) -> Result<ModelReply, AttemptFailure> {
        if !self.is_complete() {
            return Err(AttemptFailure::bad_reply("the reply ended before it was complete"));
        }
        if !self.refusal.is_empty() {
            return Err(AttemptFailure::permanent(ModelError::Refused(hidden.excerpt(&self.refusal))));
        }
        let finish = match self.end {
            Some(ReplyEnd::Refused(why)) => {
                return Err(AttemptFailure::permanent(ModelError::Refused(why.to_owned())));
            }
            Some(ReplyEnd::Failed) => {
                return Err(AttemptFailure::unavailable(
                    "the server reported an error in the middle of the reply",
                ));
            }
            Some(ReplyEnd::Length) => FinishReason::Length,
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
        let source = settings.source();
        let reasoning = self.reasoning.into_iter().map(|part| ReasoningPart {
            text: part.text,
            data: if part.data.is_empty() { Value::Null } else { Value::Object(part.data) },
            source: source.clone(),
            shown: false,
        });
        Ok(ModelReply {
            reasoning: reasoning.collect(),
            text: self.text,
            calls: calls.collect(),
            usage: self.usage,
            model: self.model.unwrap_or_else(|| settings.model.clone()),
            finish,
            confidence: None,
            token_probability: self.log_probability.mean(),
        })
    }
}

impl LogProbability {
    /// Returns the geometric mean of the probabilities. None without a token.
    fn mean(&self) -> Option<f64> {
        let mean = (self.sum / f64::from(self.tokens)).exp();
        mean.is_finite().then_some(mean.clamp(0.0, 1.0))
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
