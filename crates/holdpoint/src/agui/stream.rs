//! The stream of a segment of a run as server-sent events: until the run waits for an answer or ends. The last event
//! always states how the segment ended.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use holdpoint_api::agui::{Event, Frame};
use holdpoint_core::{Run, RunRef, TenantId, Timestamp};
use holdpoint_engine::RecordedEvent;

use super::client_order::ClientOrder;
use super::history::History;
use super::resume_plan::AgUiViolation;
use super::run_follower::RunFollower;
use super::state;
use super::target::AgUiTarget;
use super::translate::{SegmentEnd, Translator};
use crate::app::App;
use crate::error::ApiError;
use crate::sse;
use crate::streams::StreamPermit;

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

pub(super) fn response(
    app: &App,
    permit: StreamPermit,
    context: StreamContext,
    content: StreamContent,
) -> Response {
    let mut stream = SegmentStream::new(app, context);
    stream.push(stream.context.translator.begin());
    match content {
        StreamContent::Refused(AgUiViolation { code, message }) => {
            stream.push(stream.context.translator.error(code, &message));
            stream.closed = true;
        }
        StreamContent::Follow(segment) => stream.follow(*segment),
    }
    let frames =
        unfold(stream, |mut stream| async move { stream.next_chunk().await.map(|bytes| (bytes, stream)) });
    sse::respond(permit, frames, end_of_credential)
}

/// Returns a stream without events.
pub(super) fn empty(permit: StreamPermit) -> Response {
    sse::respond(permit, futures_util::stream::empty(), end_of_credential)
}

/// Returns the event that ends a stream when the credential of its caller ends. The run continues.
fn end_of_credential(ended: &ApiError) -> Bytes {
    let body = ended.body();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let event = Event::RunError { message: text("message"), code: Some(text("error")), usage: Vec::new() };
    line(&Frame::from(event)).map_or_else(|_| sse::comment(ended), Bytes::from)
}

struct SegmentStream {
    app: App,
    context: StreamContext,
    follower: Option<RunFollower>,
    until: u64,
    state_only: bool,
    ready: VecDeque<Bytes>,
    closed: bool,
}

impl SegmentStream {
    fn new(app: &App, context: StreamContext) -> Self {
        let (app, ready) = (app.clone(), VecDeque::new());
        Self { app, context, follower: None, until: 0, state_only: false, ready, closed: false }
    }

    fn follow(&mut self, segment: LogSegment) {
        segment.opening.into_iter().for_each(|event| self.push(event));
        (self.until, self.state_only) = (segment.until, segment.state_only);
        self.follower = Some(RunFollower::new(&self.app, segment.of, segment.from));
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                // All queued frames are one chunk.
                let all: Vec<Bytes> = self.ready.drain(..).collect();
                return Some(all.concat().into());
            }
            if self.closed {
                return None;
            }
            let end = self.follower.as_ref().and_then(|follower| self.segment_end(follower.run()));
            if let Some(end) = end {
                self.end(end).await;
                continue;
            }
            let Some(follower) = &mut self.follower else { return None };
            let found = follower.next().await;
            self.handle_read(found);
        }
    }

    fn segment_end(&self, run: &Run) -> Option<SegmentEnd> {
        if run.seq < self.until { None } else { SegmentEnd::of(run) }
    }

    fn handle_read(&mut self, found: Result<Option<Vec<RecordedEvent>>, ApiError>) {
        match found {
            Ok(Some(found)) => found.iter().for_each(|one| self.push_recorded(one)),
            Ok(None) => {
                self.abort(
                    "shutting_down",
                    "the server is shutting down; the run continues after the restart",
                );
            }
            Err(error) => {
                tracing::warn!(?error, "cannot read a run; its stream ends");
                self.abort("internal_error", "the run could not be read; the run itself continues");
            }
        }
    }

    fn push_recorded(&mut self, one: &RecordedEvent) {
        let Some(follower) = &mut self.follower else { return };
        let run = follower.apply(one);
        if self.state_only {
            return;
        }
        for event in self.context.translator.translate(&one.event, run) {
            self.push_at(event, Some(one.at));
        }
    }

    /// Sends the state, the messages and the end of the segment: all that a client needs to continue.
    async fn end(&mut self, end: SegmentEnd) {
        let context = &self.context;
        let history =
            History::read(&self.app.engine, &context.tenant, &context.thread, &context.target).await;
        let messages = match history {
            Ok(history) => history.snapshot(),
            Err(error) => {
                tracing::warn!(?error, "cannot read a thread; its stream ends");
                return self.abort("internal_error", "the thread could not be read");
            }
        };
        for event in self.context.translator.close() {
            self.push(event);
        }
        if self.context.order.differs_from(&messages) {
            // Only a client without messages accepts the order of a snapshot.
            self.push(Event::MessagesSnapshot { messages: Vec::new() });
        }
        let Some(follower) = &self.follower else { return };
        let run = follower.run();
        let state = Event::StateSnapshot { snapshot: (*state::visible(run)).clone() };
        let last = self.context.translator.end(run, end);
        for event in [state, Event::MessagesSnapshot { messages }, last] {
            self.push(event);
        }
        self.closed = true;
    }

    /// Ends the stream with an error that does not concern the run; the run continues.
    fn abort(&mut self, code: &str, message: &str) {
        for event in self.context.translator.close() {
            self.push(event);
        }
        self.push(self.context.translator.error(code, message));
        self.closed = true;
    }

    fn push(&mut self, event: Event) {
        self.push_at(event, None);
    }

    fn push_at(&mut self, event: Event, at: Option<Timestamp>) {
        self.context.order.apply(&event);
        let at = at.unwrap_or_else(|| self.app.engine.now());
        let frame = Frame { timestamp: Some(at.0), ..Frame::from(event) };
        match line(&frame) {
            Ok(line) => self.ready.push_back(line.into()),
            Err(error) => tracing::error!(%error, "cannot serialize an event"),
        }
    }
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
