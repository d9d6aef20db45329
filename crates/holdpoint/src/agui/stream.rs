//! The stream of a segment of a run as server-sent events: until the run waits for an answer or ends. The last event
//! always states how the segment ended.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use holdpoint_api::agui::{Event, Frame, Message};
use holdpoint_core::{Run, RunEnd, RunRef, TenantId, Timestamp};
use holdpoint_engine::{Engine, RecordedEvent, SiblingsWait};
use tokio::time::Instant;

use super::client_order::ClientOrder;
use super::history::ThreadSource;
use super::interrupts;
use super::messages::{CLIENT_MESSAGES_MAX, MESSAGES_MAX, RECENT_MESSAGES, snapshot_size};
use super::open_interrupts::open_interrupts;
use super::resume_plan::AgUiViolation;
use super::state;
use super::target::AgUiTarget;
use super::translate::{SegmentEnd, Translator};
use crate::app::App;
use crate::error::ApiError;
use crate::streams::{self, FrameQueue, FrameSource, LogWait, StreamPermit, Wakeup};

/// The number of messages that are compared with those of the client at the end of a run.
const LAST_MESSAGES: usize = 32;

/// The content of the stream of a response.
#[derive(Debug)]
pub(super) enum StreamContent {
    /// The request was rejected and had no effect.
    Refused(AgUiViolation),
    Follow(Box<LogSegment>),
}

/// A part of the log of a run.
#[derive(Debug)]
pub(super) struct LogSegment {
    pub of: RunRef,
    /// The run before the first event.
    pub from: Run,
    /// The length of the log after the request. The segment cannot end before this event.
    pub until: u64,
    /// Set if only the final state is sent: the client has got the events before.
    pub state_only: bool,
    /// Events that are sent first.
    pub opening: Vec<Event>,
}

/// The client of a stream: its thread, its target, and the events that it knows.
#[derive(Debug)]
pub(super) struct StreamContext {
    pub tenant: TenantId,
    pub thread: String,
    pub target: AgUiTarget,
    pub translator: Translator,
    pub order: ClientOrder,
}

impl StreamContext {
    pub(super) fn source<'a>(&'a self, engine: &'a Engine) -> ThreadSource<'a> {
        ThreadSource { engine, tenant: &self.tenant, thread: &self.thread, target: &self.target }
    }
}

pub(super) fn response(
    app: &App,
    permit: StreamPermit,
    context: StreamContext,
    content: StreamContent,
) -> Response {
    match content {
        StreamContent::Refused(AgUiViolation { code, message }) => {
            let events = [context.translator.begin(), context.translator.error(code, &message)];
            let frames = events.map(|event| frame(event, app.engine.now()).unwrap_or_default());
            let only = stream::once(async move { frames.concat().into() });
            streams::respond(permit, only, end_of_credential)
        }
        StreamContent::Follow(segment) => {
            let frames = SegmentStream::new(app, context, *segment).into_frames();
            streams::respond(permit, frames, end_of_credential)
        }
    }
}

/// Returns a stream without events.
pub(super) fn empty(permit: StreamPermit) -> Response {
    streams::respond(permit, stream::empty(), end_of_credential)
}

/// Returns the event that ends a stream when the credential of its caller ends. The run continues.
fn end_of_credential(ended: &ApiError) -> Bytes {
    let body = ended.body();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let event = Event::RunError { message: text("message"), code: Some(text("error")), usage: Vec::new() };
    line(&Frame::from(event)).map_or_else(|_| streams::comment(ended), Bytes::from)
}

struct SegmentStream {
    app: App,
    context: StreamContext,
    of: RunRef,
    /// The run right before the next event.
    run: Run,
    changes: LogWait,
    /// The length of the log before the segment.
    since: u64,
    until: u64,
    state_only: bool,
    /// Events that are sent first.
    opening: Vec<Event>,
    siblings: SiblingsWait,
    /// The instant at which the segment ends although child runs are executing.
    ends_at: Option<Instant>,
}

impl SegmentStream {
    fn new(app: &App, context: StreamContext, segment: LogSegment) -> Self {
        let LogSegment { of, from: run, until, state_only, mut opening } = segment;
        opening.insert(0, context.translator.begin());
        let changes = LogWait::new(app.engine.events().subscribe(&of), &app.stopping);
        let since = run.seq;
        let siblings = SiblingsWait::default();
        let (app, ends_at) = (app.clone(), None);
        Self { app, context, of, run, changes, since, until, state_only, opening, siblings, ends_at }
    }

    fn segment_end(&self) -> Option<SegmentEnd> {
        if self.run.seq < self.until { None } else { SegmentEnd::of(&self.run) }
    }

    fn push_recorded(&mut self, one: &RecordedEvent, queue: &mut FrameQueue) {
        if self.state_only {
            self.run.apply(&one.event, one.at);
            return;
        }
        let mut events = self.context.translator.translate_closed(&one.event, &self.run);
        self.run.apply(&one.event, one.at);
        events.extend(self.context.translator.translate(&one.event, &self.run));
        for event in events {
            self.push_at(event, one.at, queue);
        }
    }

    /// Returns whether the segment waits a moment for child runs that are executing, so that the client gets their
    /// interrupts together.
    fn waits_for_siblings(&mut self, end: SegmentEnd) -> bool {
        let is_own = interrupts::open_for_people(&self.run).next().is_some();
        self.ends_at = match end {
            SegmentEnd::Interrupts if !is_own && !self.state_only => self.siblings.deadline(&self.run),
            SegmentEnd::Interrupts | SegmentEnd::Ended | SegmentEnd::ClientTools => None,
        };
        self.ends_at.is_some()
    }

    /// Continues after a state in which the segment could have ended.
    async fn continue_run(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        self.siblings.reset();
        self.ends_at = None;
        self.read_events(queue).await
    }

    /// Sends the state, the messages and the end of the segment: all that a client needs to continue.
    async fn end(&mut self, end: SegmentEnd, queue: &mut FrameQueue) -> Result<(), ApiError> {
        let open = match end {
            SegmentEnd::Interrupts => {
                open_interrupts(&self.app.engine, &self.context.tenant, &Arc::new(self.run.clone())).await?
            }
            SegmentEnd::Ended | SegmentEnd::ClientTools => Vec::new(),
        };
        if open.is_empty() && end == SegmentEnd::Interrupts {
            // All of them have been answered since then: the log has further events.
            return self.continue_run(queue).await;
        }
        let closing = self.context.translator.close(&self.run, &open);
        let messages = match self.is_client_complete().await? {
            true => None,
            false => Some(self.read_snapshot().await?),
        };
        self.push_all(closing, queue);
        if messages.as_ref().is_some_and(|messages| self.context.order.differs_from(messages)) {
            // The empty snapshot clears the client: a client with messages keeps their order.
            self.push_all([Event::MessagesSnapshot { messages: Vec::new() }], queue);
        }
        let state = Event::StateSnapshot { snapshot: (*state::visible(&self.run)).clone() };
        let last = self.context.translator.end(&self.run, end, &open);
        let messages = messages.map(|messages| Event::MessagesSnapshot { messages });
        self.push_all([state].into_iter().chain(messages).chain([last]), queue);
        queue.close();
        Ok(())
    }

    /// Returns whether a client of a long thread has got all its messages from the stream of a completed run. It then
    /// needs no snapshot. A client that waits always gets one, as the protocol requires.
    async fn is_client_complete(&self) -> Result<bool, ApiError> {
        let (context, run) = (&self.context, &self.run);
        let sizes = RECENT_MESSAGES + 1..=CLIENT_MESSAGES_MAX;
        let is_completed = matches!(run.end, Some(RunEnd::Completed { .. })) && !self.state_only;
        if !is_completed || !sizes.contains(&context.order.len()) || context.translator.needs_correction() {
            return Ok(false);
        }
        let last = context.source(&self.app.engine).read(LAST_MESSAGES).await?;
        // Otherwise the segment can have older messages that other clients sent.
        let is_whole_segment = !last.is_after(&run.id, self.since);
        Ok(is_whole_segment && context.order.ends_with(last.messages()))
    }

    async fn read_snapshot(&self) -> Result<Vec<Message>, ApiError> {
        let of_run: usize = self
            .run
            .nodes
            .iter()
            .filter_map(|node| node.agent.as_deref())
            .map(|agent| agent.messages.len())
            .sum();
        let shown = if self.state_only { MESSAGES_MAX } else { self.context.order.len() };
        // The messages of the run contain the calls of its interrupts.
        let limit = snapshot_size(shown.max(of_run));
        Ok(self.context.source(&self.app.engine).read(limit).await?.snapshot())
    }

    /// Ends the stream with an error that does not concern the run; the run continues.
    fn abort(&mut self, code: &str, message: &str, queue: &mut FrameQueue) {
        let mut last = self.context.translator.close(&self.run, &[]);
        last.push(self.context.translator.error(code, message));
        self.push_all(last, queue);
        queue.close();
    }

    fn push_all(&mut self, events: impl IntoIterator<Item = Event>, queue: &mut FrameQueue) {
        for event in events {
            self.push_at(event, self.app.engine.now(), queue);
        }
    }

    fn push_at(&mut self, event: Event, at: Timestamp, queue: &mut FrameQueue) {
        self.context.order.apply(&event);
        queue.extend(frame(self.context.translator.adapt(event), at));
    }
}

impl FrameSource for SegmentStream {
    const JOINED: bool = true;

    async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        if !self.opening.is_empty() {
            let opening = std::mem::take(&mut self.opening);
            self.push_all(opening, queue);
            return Ok(());
        }
        match self.segment_end() {
            Some(end) if !self.waits_for_siblings(end) => self.end(end, queue).await,
            Some(_) => self.read_events(queue).await,
            None => self.continue_run(queue).await,
        }
    }

    fn fail(&mut self, queue: &mut FrameQueue) {
        let message = match self.segment_end() {
            None => "the run could not be read; the run itself continues",
            Some(_) => "the thread could not be read",
        };
        self.abort("internal_error", message, queue);
    }

    fn read_failure(&self) -> &'static str {
        match self.segment_end() {
            None => "cannot read a run; its stream ends",
            Some(_) => "cannot read a thread; its stream ends",
        }
    }
}

impl SegmentStream {
    /// Reads further events of the run, or waits for them.
    async fn read_events(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        let found = match self.app.engine.events().count(&self.of).await? {
            count if count > self.run.seq => self.app.engine.events().follow(&self.of, self.run.seq).await?,
            _ => Vec::new(),
        };
        if found.is_empty() && self.changes.next_until(self.ends_at).await == Wakeup::Stopping {
            let message = "the server is shutting down; the run continues after the restart";
            self.abort("shutting_down", message, queue);
        }
        found.iter().for_each(|one| self.push_recorded(one, queue));
        Ok(())
    }
}

fn frame(event: Event, at: Timestamp) -> Option<Bytes> {
    let frame = Frame { timestamp: Some(at.0), ..Frame::from(event) };
    let line = line(&frame).inspect_err(|error| tracing::error!(%error, "cannot serialize an event"));
    line.ok().map(Bytes::from)
}

/// Returns an event as a frame of server-sent events. Lines end with LF, the only line ending that clients accept.
fn line(frame: &Frame) -> Result<String, serde_json::Error> {
    Ok(format!("data: {}\n\n", serde_json::to_string(frame)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_line_of_data_and_an_empty_line() {
        let event = Event::StepStarted { step_name: "a\nb".to_owned() };
        let line = line(&Frame::from(event)).unwrap();
        assert_eq!(line, "data: {\"type\":\"STEP_STARTED\",\"stepName\":\"a\\nb\"}\n\n");
    }
}
