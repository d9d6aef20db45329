//! Records the progress of a turn as events of the run while the provider works. Texts are buffered for a short time to
//! avoid a commit per word. The last reports are recorded with the outcome of the turn.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::time::Duration;

use holdpoint_core::agent::{
    Agent, AgentAction, CallRequest, CallStatus, ChunkContent, Message, ProviderReply, ProviderReport,
    ReasoningPart, ReplyChunk, Role, StreamProgress, Usage,
};
use holdpoint_core::limits::STEP_RESULT_BYTES_MAX;
use holdpoint_engine::extension::excerpt;
use holdpoint_engine::{EffectContext, Stop};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::metrics::KindMetrics;
use super::{LockedHandle, ProviderMessage, ProviderProgress};

/// The longest time that reports are buffered before they are committed.
const BUFFER_TIME_MAX: Duration = Duration::from_millis(50);
/// The number of buffered bytes at which the reports are committed without further delay.
const BUFFER_BYTES_MAX: usize = 1024;
/// The limit of a chunk that is made of several texts.
const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// The limit of a recorded result. A longer one is cut. The JSON of a text can be longer by a factor of six.
const RESULT_BYTES_MAX: usize = STEP_RESULT_BYTES_MAX / 8;

/// The reports of a turn that are not recorded yet, and the messages that are not complete.
pub(crate) struct TurnReports {
    reports: UnboundedReceiver<ProviderProgress>,
    attempt: u32,
    /// The number of chunks of this attempt.
    chunks: u32,
    /// The messages that are being written, by the ids that readers see.
    open: Vec<OpenMessage>,
    /// The ids of complete messages.
    complete: BTreeSet<String>,
    queue: Vec<AgentAction>,
    queued_bytes: usize,
    queued_since: Option<Instant>,
    /// The instant of the first text.
    first_text: Option<Instant>,
    /// The tokens of the complete messages.
    usage: Usage,
}

#[derive(Default)]
struct OpenMessage {
    id: String,
    text: String,
    reasoning: String,
    /// The last chunk of the reasoning is not recorded yet.
    is_reasoning: bool,
}

impl TurnReports {
    /// Starts the reports of a turn. `agent` has the messages of earlier turns, and of a process that has ended.
    /// `streamed` is the progress of their chunks.
    pub(crate) fn new(
        agent: Option<&Agent>,
        streamed: Option<StreamProgress>,
        reports: UnboundedReceiver<ProviderProgress>,
    ) -> Self {
        let messages = agent.into_iter().flat_map(|agent| &agent.messages);
        Self {
            reports,
            attempt: streamed.map_or(1, |streamed| streamed.attempt.saturating_add(1)),
            chunks: 0,
            open: Vec::new(),
            complete: messages.map(|message| message.id.clone()).collect(),
            queue: Vec::new(),
            queued_bytes: 0,
            queued_since: None,
            first_text: None,
            usage: Usage::default(),
        }
    }

    /// Records reports until `work` has ended. Reports that arrive during a commit are part of the next one.
    pub(crate) async fn record_during<T>(
        &mut self,
        context: &mut EffectContext,
        handle: &LockedHandle,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        let mut work = std::pin::pin!(work);
        let mut writing = None;
        let result = loop {
            let due = self.due().filter(|_| writing.is_none());
            let written = async {
                match &mut writing {
                    Some(writing) => writing.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                result = &mut work => break result,
                run = written => {
                    writing = None;
                    context.replace_run(run?);
                }
                () = sleep_until_due(due) => writing = Some(context.commit_actions_concurrently(self.take())),
                Some(progress) = self.reports.recv() => self.push(handle, progress),
            }
        };
        if let Some(writing) = writing {
            context.replace_run(writing.await?);
        }
        while let Ok(progress) = self.reports.try_recv() {
            self.push(handle, progress);
        }
        Ok(result)
    }

    /// Returns the last actions of the turn. A message that the provider did not complete counts as it was written.
    pub(crate) fn finish(&mut self, handle: &LockedHandle) -> Vec<AgentAction> {
        if !handle.has_dropped_reports() {
            let ids: Vec<String> = self.open.iter().map(|open| open.id.clone()).collect();
            for id in ids {
                self.complete(id, ProviderMessage::default(), Vec::new());
            }
        }
        self.take()
    }

    /// Adds the tokens and the time to the first text to the measures.
    pub(crate) fn count(&self, metrics: &KindMetrics, begun: Instant) {
        metrics.count_tokens(self.usage);
        if let Some(first_text) = self.first_text {
            metrics.count_first_text(first_text.saturating_duration_since(begun));
        }
    }

    fn due(&self) -> Option<Instant> {
        let since = self.queued_since?;
        Some(if self.queued_bytes >= BUFFER_BYTES_MAX { since } else { since + BUFFER_TIME_MAX })
    }

    fn take(&mut self) -> Vec<AgentAction> {
        (self.queued_bytes, self.queued_since) = (0, None);
        std::mem::take(&mut self.queue)
    }

    fn enqueue(&mut self, action: AgentAction, bytes: usize) {
        self.queue.push(action);
        self.queued_bytes += bytes;
        self.queued_since.get_or_insert_with(Instant::now);
    }

    fn push(&mut self, handle: &LockedHandle, progress: ProviderProgress) {
        match progress {
            ProviderProgress::Text { message, delta } => self.push_text(handle.message_id(&message), &delta),
            ProviderProgress::Reasoning { message, delta } => {
                self.push_reasoning(handle.message_id(&message), &delta);
            }
            ProviderProgress::Message(message) => {
                let calls = message.calls.iter().map(|call| CallRequest {
                    id: handle.call_id(&call.id),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                });
                let calls = calls.collect();
                self.complete(handle.message_id(&message.id), message, calls);
            }
            ProviderProgress::Result { call, content, is_error } => {
                let (call, content) = (handle.call_id(&call), bounded(content));
                let status = if is_error { CallStatus::Failed } else { CallStatus::Succeeded };
                let bytes = content.to_string().len();
                let report = ProviderReport::Result { call, status, content };
                self.enqueue(AgentAction::ReportFromProvider(Box::new(report)), bytes);
            }
            ProviderProgress::Restarted => self.restart(),
        }
    }

    fn push_text(&mut self, id: String, delta: &str) {
        if delta.is_empty() || self.complete.contains(&id) {
            return;
        }
        self.first_text.get_or_insert_with(Instant::now);
        self.end_reasoning(&id);
        self.open_message(&id).text.push_str(delta);
        self.push_chunk(id, ChunkContent::Text { text: delta.to_owned(), end: None });
    }

    fn push_reasoning(&mut self, id: String, delta: &str) {
        if delta.is_empty() || self.complete.contains(&id) {
            return;
        }
        let open = self.open_message(&id);
        open.is_reasoning = true;
        open.reasoning.push_str(delta);
        self.push_chunk(id, ChunkContent::Reasoning { part: 0, text: delta.to_owned(), last: false });
    }

    /// Records the end of the reasoning of a message.
    fn end_reasoning(&mut self, id: &str) {
        let open = self.open.iter_mut().find(|open| open.id == id);
        if open.is_some_and(|open| std::mem::take(&mut open.is_reasoning)) {
            let end = ChunkContent::Reasoning { part: 0, text: String::new(), last: true };
            self.push_chunk(id.to_owned(), end);
        }
    }

    fn open_message(&mut self, id: &str) -> &mut OpenMessage {
        let at = self.open.iter().position(|open| open.id == id).unwrap_or_else(|| {
            self.open.push(OpenMessage { id: id.to_owned(), ..OpenMessage::default() });
            self.open.len() - 1
        });
        &mut self.open[at]
    }

    /// Adds a chunk, or adds its text to the last chunk that is not recorded yet.
    fn push_chunk(&mut self, message: String, content: ChunkContent) {
        let bytes = content.text().len();
        if let Some(AgentAction::Stream(queued)) = self.queue.last_mut()
            && queued.message == message
            && queued.attempt == self.attempt
            && join(&mut queued.content, &content)
        {
            self.queued_bytes += bytes;
            return;
        }
        let (attempt, index) = (self.attempt, self.chunks);
        self.chunks = index.saturating_add(1);
        self.enqueue(AgentAction::Stream(Box::new(ReplyChunk { message, attempt, index, content })), bytes);
    }

    /// Records a complete message, and its last chunk if it was streamed.
    fn complete(&mut self, id: String, mut whole: ProviderMessage, calls: Vec<CallRequest>) {
        self.end_reasoning(&id);
        let streamed = self.open.iter().position(|open| open.id == id).map(|at| self.open.remove(at));
        let reasoning = streamed.as_ref().map(|streamed| streamed.reasoning.clone()).unwrap_or_default();
        if let Some(streamed) = streamed.as_ref().filter(|_| whole.text.is_empty()) {
            whole.text.clone_from(&streamed.text);
        }
        if (whole.text.is_empty() && calls.is_empty()) || !self.complete.insert(id.clone()) {
            return;
        }
        if let Some(streamed) = streamed.filter(|streamed| !streamed.text.is_empty()) {
            let rest = match whole.text.strip_prefix(streamed.text.as_str()) {
                Some(rest) => rest.to_owned(),
                None => {
                    self.begin_attempt();
                    whole.text.clone()
                }
            };
            let end = Some(end_of_message(&whole, &calls));
            self.push_chunk(id.clone(), ChunkContent::Text { text: rest, end });
        }
        self.usage.add(whole.usage);
        let mut message = Message::new(id, Role::Assistant, whole.text);
        if !reasoning.is_empty() {
            let source = whole.model.clone();
            message.reasoning =
                vec![ReasoningPart { text: reasoning, data: Value::Null, source, shown: true }];
        }
        message.calls = calls;
        let bytes = json!(message).to_string().len();
        let reply = ProviderReply { message, usage: whole.usage, model: whole.model };
        self.enqueue(
            AgentAction::ReportFromProvider(Box::new(ProviderReport::Reply(Box::new(reply)))),
            bytes,
        );
    }

    /// Discards the incomplete messages. A new attempt tells readers to discard the chunks that they have.
    fn restart(&mut self) {
        self.open.clear();
        self.begin_attempt();
    }

    fn begin_attempt(&mut self) {
        if self.chunks > 0 {
            self.attempt = self.attempt.saturating_add(1);
            self.chunks = 0;
        }
    }
}

/// Adds a chunk to the one before it. Returns false if they do not belong together or would be too large.
fn join(queued: &mut ChunkContent, next: &ChunkContent) -> bool {
    if queued.text().len() + next.text().len() > CHUNK_BYTES_MAX {
        return false;
    }
    match (queued, next) {
        (ChunkContent::Text { text, end: end @ None }, ChunkContent::Text { text: more, end: next_end }) => {
            text.push_str(more);
            end.clone_from(next_end);
            true
        }
        (
            ChunkContent::Reasoning { text, last: last @ false, .. },
            ChunkContent::Reasoning { text: more, last: next_last, .. },
        ) => {
            text.push_str(more);
            *last = *next_last;
            true
        }
        _ => false,
    }
}

/// Returns the report of a message that only requests a call, for a call that no message has.
pub(crate) fn request_of_call(call: CallRequest) -> AgentAction {
    let mut message = Message::new(format!("{}:request", call.id), Role::Assistant, "");
    message.calls.push(call);
    let reply = ProviderReply { message, usage: Usage::default(), model: String::new() };
    AgentAction::ReportFromProvider(Box::new(ProviderReport::Reply(Box::new(reply))))
}

fn end_of_message(whole: &ProviderMessage, calls: &[CallRequest]) -> Map<String, Value> {
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut meta = Map::from_iter([("finishReason".to_owned(), json!(finish))]);
    if !whole.model.is_empty() {
        meta.insert("model".to_owned(), json!(whole.model));
    }
    if whole.usage.total() > 0 {
        meta.insert("usage".to_owned(), json!(whole.usage));
    }
    if !calls.is_empty() {
        let calls = calls.iter().map(|call| json!({ "id": call.id, "name": call.name }));
        meta.insert("toolCalls".to_owned(), calls.collect());
    }
    meta
}

/// Returns a result that is not too large. A longer one becomes a text that is cut.
fn bounded(content: Value) -> Value {
    let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    if text.len() <= RESULT_BYTES_MAX {
        return content;
    }
    Value::String(format!("{}…", excerpt(&text, RESULT_BYTES_MAX)))
}

async fn sleep_until_due(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
