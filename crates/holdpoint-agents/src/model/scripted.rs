//! A model that replies from a script, for tests, examples and trials without a real model. It has no state: the same
//! prompt always gets the same reply.

use std::path::Path;
use std::time::Duration;

use holdpoint_core::agent::{CallRequest, ReasoningPart, Usage};
use holdpoint_core::parse_strict;
use serde_json::{Map, Value};

use super::members::ModelMembers;
use super::{
    BadModel, DeltaHandler, FinishReason, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta, ReplyFuture,
};

mod prompt_summary;

use prompt_summary::PromptSummary;

const DELAY_MS_MAX: u64 = 600_000;
const SCRIPT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The number of characters of the arguments of a call that arrive together if they have a delay.
const ARGUMENT_PIECE_CHARS: usize = 8;
const DEFAULT_TEXT: &str = "Done.";

/// A scripted model. Reply `n` of a run comes from entry `n`. An entry is a list of alternatives; the first one whose
/// condition holds is used.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    entries: Vec<Vec<ScriptedReply>>,
}

#[derive(Clone, Debug)]
struct ScriptedReply {
    when: ReplyCondition,
    /// The parts of the text, with a delay before each. Each part is sent word by word.
    pieces: Vec<String>,
    /// The parts of the reasoning before the text.
    reasoning: Vec<String>,
    calls: Vec<CallRequest>,
    confidence: Option<f64>,
    usage: Usage,
    error: Option<ScriptedError>,
    /// The delay before each piece, or before a reply without text.
    delay_ms: u64,
    /// The delay before each piece of the arguments of a call. Without it, they arrive at once.
    argument_delay_ms: Option<u64>,
}

/// Texts that the prompt must contain, ignoring case. All of them must be found.
#[derive(Clone, Debug, Default)]
struct ReplyCondition {
    result: Option<String>,
    user: Option<String>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScriptedError {
    Unavailable,
    Timeout,
    Overflow,
    Refused,
}

impl ScriptedModel {
    /// Parses `{"steps": […]}`, or `{"file": "…"}` with a path relative to `base`. `base` is the folder of a definition
    /// that is a file of the operator. The script file contains either the same object or only the list.
    pub fn parse(model: &Value, base: Option<&Path>) -> Result<Self, BadModel> {
        let mut members = ModelMembers::of(model, "")?;
        members.value("provider");
        let (steps, file) = (members.value("steps"), members.text("file")?);
        members.reject_unknown()?;
        match (steps, file) {
            (Some(steps), None) => Self::of_steps(steps, "steps"),
            (None, Some(file)) => {
                let Some(base) = base else {
                    return Err(BadModel::new("file", "is only accepted in the operator's own files"));
                };
                Self::of_file(&base.join(file)).map_err(|flaw| {
                    let place =
                        if flaw.field.is_empty() { String::new() } else { format!("{}: ", flaw.field) };
                    BadModel::new("file", format!("{place}{}", flaw.message))
                })
            }
            _ => Err(BadModel::new("steps", "is missing; give steps or file")),
        }
    }

    fn of_file(path: &Path) -> Result<Self, BadModel> {
        let unreadable = |error: std::io::Error| BadModel::new("", format!("cannot be read: {error}"));
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > SCRIPT_BYTES_MAX {
            return Err(BadModel::new("", format!("is larger than {SCRIPT_BYTES_MAX} bytes")));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let document =
            parse_strict(&bytes).map_err(|error| BadModel::new("", format!("is not valid JSON: {error}")))?;
        if document.is_array() {
            return Self::of_steps(&document, "steps");
        }
        let mut members = ModelMembers::of(&document, "")?;
        let steps = members.value("steps").ok_or_else(|| BadModel::new("steps", "is missing"))?;
        members.reject_unknown()?;
        Self::of_steps(steps, "steps")
    }

    fn of_steps(steps: &Value, path: &str) -> Result<Self, BadModel> {
        let Value::Array(steps) = steps else { return Err(BadModel::new(path, "must be a list")) };
        let entry = |(at, entry): (usize, &Value)| {
            let path = format!("{path}[{at}]");
            match entry {
                Value::Array(several) => several
                    .iter()
                    .enumerate()
                    .map(|(at, step)| ScriptedReply::parse(step, &format!("{path}[{at}]")))
                    .collect(),
                one => ScriptedReply::parse(one, &path).map(|step| vec![step]),
            }
        };
        Ok(Self { entries: steps.iter().enumerate().map(entry).collect::<Result<_, _>>()? })
    }

    async fn reply(
        &self,
        prompt: &ModelPrompt,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        let summary = PromptSummary::of(prompt);
        let entry = usize::try_from(prompt.step).ok().and_then(|at| self.entries.get(at));
        let Some(step) = entry.and_then(|entry| entry.iter().find(|step| step.when.holds(&summary))) else {
            listener(ReplyDelta::Text(DEFAULT_TEXT.to_owned()));
            return Ok(ModelReply {
                text: DEFAULT_TEXT.to_owned(),
                model: "scripted".to_owned(),
                ..ModelReply::default()
            });
        };
        step.produce(&summary, listener).await
    }
}

impl Model for ScriptedModel {
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, listener: DeltaHandler<'a>) -> ReplyFuture<'a> {
        Box::pin(self.reply(prompt, listener))
    }

    fn is_instant(&self) -> bool {
        let is_instant =
            |step: &ScriptedReply| step.delay_ms == 0 && step.argument_delay_ms.unwrap_or(0) == 0;
        self.entries.iter().flatten().all(is_instant)
    }
}

impl ScriptedReply {
    fn parse(value: &Value, path: &str) -> Result<Self, BadModel> {
        let mut members = ModelMembers::of(value, path)?;
        let when = match members.value("if") {
            Some(condition) => ReplyCondition::parse(condition, &members.path_of("if"))?,
            None => ReplyCondition::default(),
        };
        let calls = members
            .value("calls")
            .map_or(Ok(Vec::new()), |calls| parse_calls(calls, &members.path_of("calls")));
        let step = Self {
            when,
            pieces: parse_text(&mut members)?,
            reasoning: members.take("reasoning", "a list of strings")?.unwrap_or_default(),
            calls: calls?,
            confidence: members.take("confidence", "a number from 0 to 1")?,
            usage: members.take("usage", "{\"inputTokens\": …, \"outputTokens\": …}")?.unwrap_or_default(),
            error: members.take("error", "one of unavailable, timeout, overflow, refused")?,
            delay_ms: members.count("delayMs", 0..=DELAY_MS_MAX)?.unwrap_or(0),
            argument_delay_ms: members.count("argumentDelayMs", 0..=DELAY_MS_MAX)?,
        };
        if step.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(members.flaw("confidence", "must be a number from 0 to 1"));
        }
        members.reject_unknown()?;
        Ok(step)
    }

    /// Sends the reasoning word by word, with the delay before each part.
    async fn produce_reasoning(
        &self,
        summary: &PromptSummary,
        listener: DeltaHandler<'_>,
    ) -> Vec<ReasoningPart> {
        let mut parts = Vec::new();
        for (part, text) in self.reasoning.iter().enumerate() {
            sleep_ms(self.delay_ms).await;
            let text = summary.fill_placeholders(text);
            for word in text.split_inclusive(' ') {
                listener(ReplyDelta::Reasoning { part, text: word.to_owned() });
            }
            parts.push(ReasoningPart {
                text,
                data: Value::Null,
                source: "scripted".to_owned(),
                shown: false,
            });
        }
        parts
    }

    async fn produce(
        &self,
        summary: &PromptSummary,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut text = String::new();
        let reasoning = self.produce_reasoning(summary, listener).await;
        // The delay also applies to a reply without text.
        let empty = String::new();
        let pieces = if self.pieces.is_empty() { std::slice::from_ref(&empty) } else { &self.pieces };
        for piece in pieces {
            sleep_ms(self.delay_ms).await;
            let piece = summary.fill_placeholders(piece);
            piece.split_inclusive(' ').for_each(|word| listener(ReplyDelta::Text(word.to_owned())));
            text.push_str(&piece);
        }
        if let Some(error) = self.error {
            return Err(error.to_model_error(self.delay_ms));
        }
        let filled = |call: &CallRequest| CallRequest {
            arguments: summary.fill_value(&call.arguments),
            ..call.clone()
        };
        let calls: Vec<CallRequest> = self.calls.iter().map(filled).collect();
        for (index, call) in calls.iter().enumerate() {
            let id = Some(call.id.clone()).filter(|id| !id.is_empty());
            let (name, arguments) = (Some(call.name.clone()), call.arguments.to_string());
            let Some(delay_ms) = self.argument_delay_ms else {
                listener(ReplyDelta::Call { index, id, name, arguments });
                continue;
            };
            listener(ReplyDelta::Call { index, id, name, arguments: String::new() });
            for piece in arguments.chars().collect::<Vec<_>>().chunks(ARGUMENT_PIECE_CHARS) {
                sleep_ms(delay_ms).await;
                let arguments = piece.iter().collect();
                listener(ReplyDelta::Call { index, id: None, name: None, arguments });
            }
        }
        Ok(ModelReply {
            reasoning,
            text,
            finish: if calls.is_empty() { FinishReason::Stop } else { FinishReason::Calls },
            calls,
            usage: self.usage,
            model: "scripted".to_owned(),
            confidence: self.confidence,
            token_probability: None,
        })
    }
}

/// Sleeps, unless the duration is zero.
async fn sleep_ms(duration_ms: u64) {
    if duration_ms > 0 {
        tokio::time::sleep(Duration::from_millis(duration_ms)).await;
    }
}

/// Parses the text of a reply: one string in `text`, or a list of parts in `pieces`.
fn parse_text(members: &mut ModelMembers<'_>) -> Result<Vec<String>, BadModel> {
    let text: Option<String> = members.take("text", "a string")?;
    let pieces: Option<Vec<String>> = members.take("pieces", "a list of strings")?;
    match (text, pieces) {
        (Some(_), Some(_)) => Err(members.flaw("pieces", "cannot be combined with \"text\"")),
        (text, pieces) => Ok(pieces.unwrap_or_else(|| text.into_iter().collect())),
    }
}

fn parse_calls(value: &Value, path: &str) -> Result<Vec<CallRequest>, BadModel> {
    let Value::Array(calls) = value else { return Err(BadModel::new(path, "must be a list")) };
    let parse = |(at, call): (usize, &Value)| {
        let mut members = ModelMembers::of(call, format!("{path}[{at}]"))?;
        let name = members.needed_text("name")?;
        let id: Option<String> = members.text("id")?;
        let arguments: Option<Map<String, Value>> = members.take("arguments", "an object")?;
        members.reject_unknown()?;
        let arguments = Value::Object(arguments.unwrap_or_default());
        Ok(CallRequest { id: id.unwrap_or_default(), name, arguments })
    };
    calls.iter().enumerate().map(parse).collect()
}

impl ReplyCondition {
    fn parse(value: &Value, path: &str) -> Result<Self, BadModel> {
        let mut members = ModelMembers::of(value, path)?;
        let condition =
            Self { result: members.text("lastToolResultContains")?, user: members.text("userSays")? };
        members.reject_unknown()?;
        Ok(condition)
    }

    fn holds(&self, summary: &PromptSummary) -> bool {
        let found = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| text.to_lowercase().contains(&wanted.to_lowercase()))
        };
        found(&self.result, &summary.last_result) && found(&self.user, &summary.user)
    }
}

impl ScriptedError {
    fn to_model_error(self, delay_ms: u64) -> ModelError {
        let message = "the script returns this error".to_owned();
        match self {
            Self::Unavailable => ModelError::Unavailable { message, retry_after_ms: None },
            Self::Timeout => ModelError::TimedOut(delay_ms),
            Self::Overflow => ModelError::ContextOverflow(message),
            Self::Refused => ModelError::Refused(message),
        }
    }
}
