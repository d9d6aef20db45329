//! A model that says what a script says: for tests, examples, and trying an agent without any model. It knows nothing
//! but its prompt, so the same prompt always gets the same reply.

use std::path::Path;
use std::time::Duration;

use holdpoint_core::agent::{CallRequest, Usage};
use holdpoint_core::parse_strict;
use serde_json::{Map, Value};

use super::members::Members;
use super::{BadModel, Delta, Finish, Listener, Model, ModelError, Prompt, Reply, Replying};

mod scene;

use scene::Scene;

const DELAY_MS_MAX: u64 = 600_000;
const SCRIPT_BYTES_MAX: u64 = 4 * 1024 * 1024;
const LAST_WORDS: &str = "Done.";

/// Replies by number: the first reply of a run is the first entry, and so on. An entry has alternatives, of which the
/// first whose condition holds is taken.
#[derive(Clone, Debug)]
pub struct Scripted {
    entries: Vec<Vec<Step>>,
}

#[derive(Clone, Debug)]
struct Step {
    when: Condition,
    /// How the text comes; without pauses in words.
    pieces: Vec<String>,
    calls: Vec<CallRequest>,
    confidence: Option<f64>,
    usage: Usage,
    error: Option<Mishap>,
    /// Before a reply, or before each of its pieces.
    delay_ms: u64,
}

/// Texts to be found, whatever their case. All of them.
#[derive(Clone, Debug, Default)]
struct Condition {
    result: Option<String>,
    user: Option<String>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mishap {
    Unavailable,
    Timeout,
    Overflow,
    Refused,
}

impl Scripted {
    /// `{"steps": […]}`, or `{"file": "…"}` in a definition that is a file in `base`; the file holds either the same
    /// object or the list alone.
    pub fn parse(model: &Value, base: Option<&Path>) -> Result<Self, BadModel> {
        let mut members = Members::of(model, "")?;
        members.value("provider");
        let (steps, file) = (members.value("steps"), members.text("file")?);
        members.end()?;
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
            _ => Err(BadModel::new("steps", "must be there, or \"file\" instead of it")),
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
            parse_strict(&bytes).map_err(|error| BadModel::new("", format!("is no JSON: {error}")))?;
        if document.is_array() {
            return Self::of_steps(&document, "steps");
        }
        let mut members = Members::of(&document, "")?;
        let steps = members.value("steps").ok_or_else(|| BadModel::new("steps", "is missing"))?;
        members.end()?;
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
                    .map(|(at, step)| Step::parse(step, &format!("{path}[{at}]")))
                    .collect(),
                one => Step::parse(one, &path).map(|step| vec![step]),
            }
        };
        Ok(Self { entries: steps.iter().enumerate().map(entry).collect::<Result<_, _>>()? })
    }

    async fn reply(&self, prompt: &Prompt, listener: Listener<'_>) -> Result<Reply, ModelError> {
        let scene = Scene::of(prompt);
        let entry = usize::try_from(prompt.step).ok().and_then(|at| self.entries.get(at));
        let Some(step) = entry.and_then(|entry| entry.iter().find(|step| step.when.holds(&scene))) else {
            listener(Delta::Text(LAST_WORDS.to_owned()));
            return Ok(Reply {
                text: LAST_WORDS.to_owned(),
                model: "scripted".to_owned(),
                ..Reply::default()
            });
        };
        step.perform(&scene, listener).await
    }
}

impl Model for Scripted {
    fn reply<'a>(&'a self, prompt: &'a Prompt, listener: Listener<'a>) -> Replying<'a> {
        Box::pin(self.reply(prompt, listener))
    }

    fn is_instant(&self) -> bool {
        self.entries.iter().flatten().all(|step| step.delay_ms == 0)
    }
}

impl Step {
    fn parse(value: &Value, path: &str) -> Result<Self, BadModel> {
        let mut members = Members::of(value, path)?;
        let when = match members.value("if") {
            Some(condition) => Condition::parse(condition, &members.at("if"))?,
            None => Condition::default(),
        };
        let calls =
            members.value("calls").map_or(Ok(Vec::new()), |calls| parse_calls(calls, &members.at("calls")));
        let step = Self {
            when,
            pieces: parse_text(&mut members)?,
            calls: calls?,
            confidence: members.take("confidence", "a number from 0 to 1")?,
            usage: members.take("usage", "{\"inputTokens\": …, \"outputTokens\": …}")?.unwrap_or_default(),
            error: members.take("error", "one of unavailable, timeout, overflow, refused")?,
            delay_ms: members.count("delayMs", (0, DELAY_MS_MAX))?.unwrap_or(0),
        };
        if step.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(members.flaw("confidence", "must be a number from 0 to 1"));
        }
        members.end()?;
        Ok(step)
    }

    async fn perform(&self, scene: &Scene, listener: Listener<'_>) -> Result<Reply, ModelError> {
        let mut text = String::new();
        // What says nothing, or fails, takes its time too.
        let silence = String::new();
        let pieces = if self.pieces.is_empty() { std::slice::from_ref(&silence) } else { &self.pieces };
        for piece in pieces {
            if self.delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(self.delay_ms)).await;
            }
            let piece = scene.fill(piece);
            piece.split_inclusive(' ').for_each(|word| listener(Delta::Text(word.to_owned())));
            text.push_str(&piece);
        }
        if let Some(mishap) = self.error {
            return Err(mishap.error(self.delay_ms));
        }
        let filled =
            |call: &CallRequest| CallRequest { arguments: scene.fill_all(&call.arguments), ..call.clone() };
        let calls: Vec<CallRequest> = self.calls.iter().map(filled).collect();
        for (index, call) in calls.iter().enumerate() {
            let id = Some(call.id.clone()).filter(|id| !id.is_empty());
            let (name, arguments) = (Some(call.name.clone()), call.arguments.to_string());
            listener(Delta::Call { index, id, name, arguments });
        }
        Ok(Reply {
            text,
            finish: if calls.is_empty() { Finish::Stop } else { Finish::Calls },
            calls,
            usage: self.usage,
            model: "scripted".to_owned(),
            confidence: self.confidence,
        })
    }
}

/// Whole, or in the pieces in which it is said.
fn parse_text(members: &mut Members<'_>) -> Result<Vec<String>, BadModel> {
    let text: Option<String> = members.take("text", "a string")?;
    let pieces: Option<Vec<String>> = members.take("pieces", "a list of strings")?;
    match (text, pieces) {
        (Some(_), Some(_)) => Err(members.flaw("pieces", "cannot stand beside \"text\"")),
        (text, pieces) => Ok(pieces.unwrap_or_else(|| text.into_iter().collect())),
    }
}

fn parse_calls(value: &Value, path: &str) -> Result<Vec<CallRequest>, BadModel> {
    let Value::Array(calls) = value else { return Err(BadModel::new(path, "must be a list")) };
    let parse = |(at, call): (usize, &Value)| {
        let mut members = Members::of(call, format!("{path}[{at}]"))?;
        let name = members.needed_text("name")?;
        let id: Option<String> = members.text("id")?;
        let arguments: Option<Map<String, Value>> = members.take("arguments", "an object")?;
        members.end()?;
        let arguments = Value::Object(arguments.unwrap_or_default());
        Ok(CallRequest { id: id.unwrap_or_default(), name, arguments })
    };
    calls.iter().enumerate().map(parse).collect()
}

impl Condition {
    fn parse(value: &Value, path: &str) -> Result<Self, BadModel> {
        let mut members = Members::of(value, path)?;
        let condition =
            Self { result: members.text("lastToolResultContains")?, user: members.text("userSays")? };
        members.end()?;
        Ok(condition)
    }

    fn holds(&self, scene: &Scene) -> bool {
        let found = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| text.to_lowercase().contains(&wanted.to_lowercase()))
        };
        found(&self.result, &scene.last_result) && found(&self.user, &scene.user)
    }
}

impl Mishap {
    fn error(self, delay_ms: u64) -> ModelError {
        let message = "the script says so".to_owned();
        match self {
            Self::Unavailable => ModelError::Unavailable { message, retry_after_ms: None },
            Self::Timeout => ModelError::TimedOut(delay_ms),
            Self::Overflow => ModelError::ContextOverflow(message),
            Self::Refused => ModelError::Refused(message),
        }
    }
}
