//! What a model says is written down while it still speaks, so that whoever reads the log reads along. A little is
//! gathered first: a commit for each word would be one too many.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::Run;
use holdpoint_core::agent::{Act, Agent, CallRequest, Piece};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::model::{Delta, Finish, Model, ModelError, Prompt, Reply};
use super::watch::Watch;
use crate::context::{EffectContext, Stop};

/// How long a piece is waited for that can go with it.
const GATHER: Duration = Duration::from_millis(50);
/// How much is not waited with.
const GATHER_BYTES: usize = 1024;

/// A reply as far as it was said.
#[derive(Debug)]
pub(super) struct Speech {
    message: String,
    attempt: u32,
    /// How many pieces of this attempt are written down or about to be, and their text.
    pieces: u32,
    told: String,
    /// What was said since.
    untold: String,
    since: Option<Instant>,
}

/// What is known of a reply when it is complete.
pub(super) struct Whole<'a> {
    pub text: &'a str,
    pub calls: &'a [CallRequest],
    pub finish: Finish,
    pub model: &'a str,
    pub usage: Value,
}

impl Speech {
    /// Of the reply that comes next. What is on record of it was said by a process that has gone.
    pub(super) fn of(agent: &Agent) -> Self {
        Self {
            message: message_id(agent),
            attempt: agent.told.map_or(1, |told| told.attempt.saturating_add(1)),
            pieces: 0,
            told: String::new(),
            untold: String::new(),
            since: None,
        }
    }

    fn hear(&mut self, delta: Delta, now: Instant) {
        match delta {
            Delta::Text(text) => {
                self.untold.push_str(&text);
                self.since.get_or_insert(now);
            }
            Delta::Restarted => self.restart(),
            // They come with the reply: half of a call is of no use.
            Delta::Call { .. } => {}
        }
    }

    fn restart(&mut self) {
        self.untold.clear();
        self.since = None;
        // What nobody was told needs not be taken back.
        if self.pieces > 0 {
            self.attempt = self.attempt.saturating_add(1);
            self.pieces = 0;
            self.told.clear();
        }
    }

    fn due(&self) -> Option<Instant> {
        let since = self.since?;
        Some(if self.untold.len() >= GATHER_BYTES { since } else { since + GATHER })
    }

    fn next(&mut self) -> Piece {
        let text = std::mem::take(&mut self.untold);
        self.since = None;
        self.told.push_str(&text);
        self.piece(text, None)
    }

    /// The rest of it; nothing where nobody was told anything and there is nothing to tell.
    pub(super) fn last(mut self, whole: &Whole<'_>) -> Option<Piece> {
        if !whole.text.starts_with(&self.told) {
            self.restart();
        }
        let rest = whole.text[self.told.len()..].to_owned();
        let silent = whole.text.is_empty() && self.pieces == 0 && self.attempt == 1;
        (!silent).then(|| self.piece(rest, Some(whole.meta())))
    }

    fn piece(&mut self, text: String, end: Option<Map<String, Value>>) -> Piece {
        let index = self.pieces;
        self.pieces = index.saturating_add(1);
        Piece { message: self.message.clone(), attempt: self.attempt, index, text, end }
    }
}

pub(super) fn message_id(agent: &Agent) -> String {
    format!("reply-{}", agent.steps + 1)
}

impl Whole<'_> {
    fn meta(&self) -> Map<String, Value> {
        let finish = match self.finish {
            Finish::Stop => "stop",
            Finish::Calls => "tool_calls",
            Finish::Length => "length",
            Finish::Filtered => "content_filter",
        };
        let mut meta = Map::from_iter([
            ("finishReason".to_owned(), json!(finish)),
            ("model".to_owned(), json!(self.model)),
            ("usage".to_owned(), self.usage.clone()),
        ]);
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|call| json!({ "id": call.id, "name": call.name }));
            meta.insert("toolCalls".to_owned(), calls.collect());
        }
        meta
    }
}

type Writing = Pin<Box<dyn Future<Output = Result<Arc<Run>, Stop>> + Send>>;

/// Asks the model. What it says while a commit is under way goes with the next one, or with the reply.
pub(super) async fn listen(
    context: &mut EffectContext,
    model: &dyn Model,
    prompt: &Prompt,
    speech: &mut Speech,
) -> Result<Result<Reply, ModelError>, Stop> {
    let watch = Watch::of(context);
    let (say, mut said) = mpsc::unbounded_channel();
    let mut listener = move |delta| {
        // Who listens does so as long as the model is asked.
        let _ = say.send(delta);
    };
    let mut replying = model.reply(prompt, &mut listener);
    let mut ended = std::pin::pin!(watch.ended());
    let mut writing: Option<Writing> = None;
    let reply = loop {
        let due = speech.due().filter(|_| writing.is_none());
        tokio::select! {
            biased;
            reply = &mut replying => break reply,
            run = written(&mut writing) => {
                writing = None;
                context.go_on_from(run?);
            }
            () = at(due) => writing = Some(context.write_aside(Act::Tell(Box::new(speech.next())))),
            Some(delta) = said.recv() => speech.hear(delta, Instant::now()),
            () = &mut ended => return Err(Stop::Lost),
        }
    };
    while let Ok(delta) = said.try_recv() {
        speech.hear(delta, Instant::now());
    }
    if let Some(writing) = writing {
        context.go_on_from(writing.await?);
    }
    Ok(reply)
}

/// Never, while nothing is being written.
async fn written(writing: &mut Option<Writing>) -> Result<Arc<Run>, Stop> {
    match writing {
        Some(writing) => writing.await,
        None => pending().await,
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
