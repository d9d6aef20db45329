//! Commits the text of a reply in chunks while the model generates it, so that readers of the log can follow. Deltas
//! are buffered for a short time to avoid a commit per word.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::Run;
use holdpoint_core::agent::{Agent, AgentAction, CallRequest, ReplyChunk};
use holdpoint_engine::extension::RunEndWatch;
use holdpoint_engine::{EffectContext, Stop};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::model::{FinishReason, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta};

/// The longest time that text is buffered before it is committed.
const BUFFER_TIME_MAX: Duration = Duration::from_millis(50);
/// The number of buffered bytes at which the text is committed without further delay.
const BUFFER_BYTES_MAX: usize = 1024;

/// The part of a reply that has arrived so far.
#[derive(Debug)]
pub(super) struct ReplyStream {
    message: String,
    attempt: u32,
    /// The number of chunks of this attempt that were built for a commit.
    chunks: u32,
    /// The text of these chunks.
    written: String,
    /// The text that arrived after these chunks.
    pending: String,
    pending_since: Option<Instant>,
}

/// The content and metadata of a complete reply.
pub(super) struct FinishedReply<'a> {
    pub text: &'a str,
    pub calls: &'a [CallRequest],
    pub finish: FinishReason,
    pub model: &'a str,
    pub usage: Value,
}

impl ReplyStream {
    /// Creates the stream of the next reply. If the record has chunks of this reply, they come from a process
    /// that has ended, and the stream begins a new attempt.
    pub(super) fn new(agent: &Agent) -> Self {
        Self {
            message: message_id(agent),
            attempt: agent.streamed.map_or(1, |streamed| streamed.attempt.saturating_add(1)),
            chunks: 0,
            written: String::new(),
            pending: String::new(),
            pending_since: None,
        }
    }

    fn push(&mut self, delta: ReplyDelta, now: Instant) {
        match delta {
            ReplyDelta::Text(text) => {
                self.pending.push_str(&text);
                self.pending_since.get_or_insert(now);
            }
            ReplyDelta::Restarted => self.restart(),
            // Calls are recorded with the complete reply.
            ReplyDelta::Call { .. } => {}
        }
    }

    fn restart(&mut self) {
        self.pending.clear();
        self.pending_since = None;
        // A new attempt is needed only if chunks of this one were committed.
        if self.chunks > 0 {
            self.attempt = self.attempt.saturating_add(1);
            self.chunks = 0;
            self.written.clear();
        }
    }

    fn due(&self) -> Option<Instant> {
        let since = self.pending_since?;
        Some(if self.pending.len() >= BUFFER_BYTES_MAX { since } else { since + BUFFER_TIME_MAX })
    }

    fn take_chunk(&mut self) -> ReplyChunk {
        let text = std::mem::take(&mut self.pending);
        self.pending_since = None;
        self.written.push_str(&text);
        self.chunk(text, None)
    }

    /// Returns the last chunk with the rest of the text. None if the reply has no text and no chunk was recorded.
    pub(super) fn finish(mut self, whole: &FinishedReply<'_>) -> Option<ReplyChunk> {
        if !whole.text.starts_with(&self.written) {
            self.restart();
        }
        let rest = whole.text[self.written.len()..].to_owned();
        let is_empty = whole.text.is_empty() && self.chunks == 0 && self.attempt == 1;
        (!is_empty).then(|| self.chunk(rest, Some(whole.meta())))
    }

    fn chunk(&mut self, text: String, end: Option<Map<String, Value>>) -> ReplyChunk {
        let index = self.chunks;
        self.chunks = index.saturating_add(1);
        ReplyChunk { message: self.message.clone(), attempt: self.attempt, index, text, end }
    }
}

pub(super) fn message_id(agent: &Agent) -> String {
    format!("reply-{}", agent.steps + 1)
}

impl FinishedReply<'_> {
    fn meta(&self) -> Map<String, Value> {
        let finish = match self.finish {
            FinishReason::Stop => "stop",
            FinishReason::Calls => "tool_calls",
            FinishReason::Length => "length",
            FinishReason::Filtered => "content_filter",
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

type PendingWrite = Pin<Box<dyn Future<Output = Result<Arc<Run>, Stop>> + Send>>;

/// Calls the model and commits its text in chunks. Text that arrives during a commit is part of the next chunk or of
/// the reply.
pub(super) async fn stream_reply(
    context: &mut EffectContext,
    model: &dyn Model,
    prompt: &ModelPrompt,
    stream: &mut ReplyStream,
) -> Result<Result<ModelReply, ModelError>, Stop> {
    let watch = RunEndWatch::of(context);
    let (sender, mut deltas) = mpsc::unbounded_channel();
    let mut listener = move |delta| {
        // The receiver lives as long as the call of the model.
        let _ = sender.send(delta);
    };
    let mut call = model.reply(prompt, &mut listener);
    let mut ended = std::pin::pin!(watch.wait_until_ended());
    let mut writing: Option<PendingWrite> = None;
    let reply = loop {
        let due = stream.due().filter(|_| writing.is_none());
        tokio::select! {
            biased;
            reply = &mut call => break reply,
            run = await_write(&mut writing) => {
                writing = None;
                context.replace_run(run?);
            }
            () = sleep_until_due(due) => writing = Some(context.commit_action_concurrently(AgentAction::Stream(Box::new(stream.take_chunk())))),
            Some(delta) = deltas.recv() => stream.push(delta, Instant::now()),
            stop = &mut ended => return Err(stop),
        }
    };
    while let Ok(delta) = deltas.try_recv() {
        stream.push(delta, Instant::now());
    }
    if let Some(writing) = writing {
        context.replace_run(writing.await?);
    }
    Ok(reply)
}

/// Waits for the pending write. Never returns if there is none.
async fn await_write(writing: &mut Option<PendingWrite>) -> Result<Arc<Run>, Stop> {
    match writing {
        Some(writing) => writing.await,
        None => pending().await,
    }
}

async fn sleep_until_due(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
