//! Commits the text, the reasoning and the arguments of a reply in chunks while the model generates it, so that readers
//! of the log can follow. Deltas are buffered for a short time to avoid a commit per word.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::Run;
use holdpoint_core::agent::{Agent, AgentAction, CallRequest, ChunkContent, ReplyChunk, StreamProgress};
use holdpoint_core::limits::CALLS_PER_REPLY_MAX;
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

/// The maximum length of a call id, which is part of the key of an interrupt.
const CALL_ID_CHARS_MAX: usize = 96;

/// The part of a reply that has arrived so far.
#[derive(Debug)]
pub(super) struct ReplyStream<'a> {
    agent: &'a Agent,
    message: String,
    attempt: u32,
    /// The number of chunks of this attempt that were built for a commit.
    chunks: u32,
    /// The text of these chunks.
    written: String,
    /// The content that arrived after these chunks.
    pending: Vec<ChunkContent>,
    pending_bytes: usize,
    pending_since: Option<Instant>,
    shows_reasoning: bool,
    /// The part of the reasoning that has not ended.
    open_reasoning: Option<u32>,
    calls: Vec<StreamedCall>,
}

/// A tool call whose arguments are arriving.
#[derive(Debug, Default)]
struct StreamedCall {
    id: Option<String>,
    is_named: bool,
    /// Arguments that arrived before the name of the tool.
    held: String,
}

/// The content and metadata of a complete reply.
pub(super) struct FinishedReply<'a> {
    pub text: &'a str,
    pub calls: &'a [CallRequest],
    pub finish: FinishReason,
    pub model: &'a str,
    pub usage: Value,
}

impl<'a> ReplyStream<'a> {
    /// Creates the stream of the next reply. If the record has chunks of this reply, they come from a process
    /// that has ended, and the stream begins a new attempt.
    pub(super) fn new(agent: &'a Agent, progress: Option<StreamProgress>) -> Self {
        Self {
            agent,
            message: message_id(agent),
            attempt: progress.map_or(1, |progress| progress.attempt.saturating_add(1)),
            chunks: 0,
            written: String::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            pending_since: None,
            shows_reasoning: false,
            open_reasoning: None,
            calls: Vec::new(),
        }
    }

    /// Includes the reasoning in the stream.
    pub(super) fn show_reasoning(&mut self) {
        self.shows_reasoning = true;
    }

    fn push(&mut self, delta: ReplyDelta, now: Instant) {
        match delta {
            ReplyDelta::Text(text) => {
                self.end_reasoning(None, now);
                self.add(ChunkContent::Text { text, end: None }, now);
            }
            ReplyDelta::Reasoning { part, text } if self.shows_reasoning => {
                let part = u32::try_from(part).unwrap_or(u32::MAX);
                self.end_reasoning(Some(part), now);
                self.open_reasoning = Some(part);
                self.add(ChunkContent::Reasoning { part, text, last: false }, now);
            }
            ReplyDelta::Reasoning { .. } => {}
            ReplyDelta::Call { index, id, name, arguments } => {
                self.end_reasoning(None, now);
                self.push_call(index, id, name, arguments, now);
            }
            ReplyDelta::Restarted => self.restart(),
        }
    }

    fn push_call(
        &mut self,
        index: usize,
        id: Option<String>,
        name: Option<String>,
        arguments: String,
        now: Instant,
    ) {
        // Models number their calls without gaps.
        if index >= CALLS_PER_REPLY_MAX {
            return;
        }
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, StreamedCall::default);
        }
        let call = &mut self.calls[index];
        call.id = call.id.take().or(id);
        if !call.is_named && name.is_none() {
            call.held.push_str(&arguments);
            return;
        }
        let name = name.filter(|_| !std::mem::replace(&mut call.is_named, true));
        let arguments = std::mem::take(&mut call.held) + &arguments;
        let given = call.id.as_deref().unwrap_or_default();
        let id = unique_call_id(given, self.agent, index);
        self.add(ChunkContent::Call { id, name, arguments, last: false }, now);
    }

    /// Marks the end of a part of the reasoning, unless it is the part that continues.
    fn end_reasoning(&mut self, next: Option<u32>, now: Instant) {
        let Some(part) = self.open_reasoning.take_if(|open| Some(*open) != next) else { return };
        self.add(ChunkContent::Reasoning { part, text: String::new(), last: true }, now);
    }

    /// Adds content to the last pending chunk if it continues that chunk.
    fn add(&mut self, content: ChunkContent, now: Instant) {
        self.pending_bytes += content.text().len();
        self.pending_since.get_or_insert(now);
        match (self.pending.last_mut(), content) {
            (Some(ChunkContent::Text { text, end: None }), ChunkContent::Text { text: more, end: None }) => {
                text.push_str(&more);
            }
            (
                Some(ChunkContent::Reasoning { part, text, last: ended @ false }),
                ChunkContent::Reasoning { part: of, text: more, last },
            ) if *part == of => {
                text.push_str(&more);
                *ended = last;
            }
            (
                Some(ChunkContent::Call { id, arguments, .. }),
                ChunkContent::Call { id: of, name: None, arguments: more, .. },
            ) if *id == of => arguments.push_str(&more),
            (_, content) => self.pending.push(content),
        }
    }

    fn restart(&mut self) {
        self.clear_pending();
        self.open_reasoning = None;
        self.calls.clear();
        // A new attempt is needed only if chunks of this one were committed.
        if self.chunks > 0 {
            self.attempt = self.attempt.saturating_add(1);
            self.chunks = 0;
            self.written.clear();
        }
    }

    fn clear_pending(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.pending_since = None;
    }

    fn due(&self) -> Option<Instant> {
        let since = self.pending_since?;
        Some(if self.pending_bytes >= BUFFER_BYTES_MAX { since } else { since + BUFFER_TIME_MAX })
    }

    /// Returns the pending chunks, to be committed together.
    fn take_chunks(&mut self) -> Vec<AgentAction> {
        let pending = std::mem::take(&mut self.pending);
        self.clear_pending();
        pending.into_iter().map(|content| AgentAction::Stream(Box::new(self.chunk(content)))).collect()
    }

    /// Returns the last chunk with the rest of the text. None if the reply has no text and no chunk was recorded. Pending
    /// chunks of other kinds are left out: the complete reply has their content.
    pub(super) fn finish(mut self, whole: &FinishedReply<'_>) -> Option<ReplyChunk> {
        if !whole.text.starts_with(&self.written) {
            self.restart();
        }
        let rest = whole.text[self.written.len()..].to_owned();
        let is_empty = whole.text.is_empty() && self.chunks == 0 && self.attempt == 1;
        (!is_empty).then(|| self.chunk(ChunkContent::Text { text: rest, end: Some(whole.meta()) }))
    }

    fn chunk(&mut self, content: ChunkContent) -> ReplyChunk {
        if let ChunkContent::Text { text, .. } = &content {
            self.written.push_str(text);
        }
        let index = self.chunks;
        self.chunks = index.saturating_add(1);
        ReplyChunk { message: self.message.clone(), attempt: self.attempt, index, content }
    }
}

/// Returns the id of a call in the next reply: the given one, or another one if it is missing, repeated or too long,
/// because models return such ids.
pub(super) fn unique_call_id(given: &str, agent: &Agent, at: usize) -> String {
    let fits = !given.is_empty() && given.chars().count() <= CALL_ID_CHARS_MAX;
    let is_taken = agent.call(given).is_some();
    if fits && !is_taken { given.to_owned() } else { format!("call-{}-{at}", agent.steps + 1) }
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

/// Calls the model and commits its output in chunks. Output that arrives during a commit is part of the next chunk or of
/// the reply.
pub(super) async fn stream_reply(
    context: &mut EffectContext,
    model: &dyn Model,
    prompt: &ModelPrompt,
    stream: &mut ReplyStream<'_>,
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
            () = sleep_until_due(due) => writing = Some(context.commit_actions_concurrently(stream.take_chunks())),
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
