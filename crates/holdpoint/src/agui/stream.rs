//! A segment of a run as server-sent events: from where it begins until the run waits for somebody or has ended. There is
//! always an event that says how it ended.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use holdpoint_api::agui::{Event, Frame};
use holdpoint_core::{Run, RunRef, TenantId, Timestamp};
use holdpoint_engine::Recorded;

use super::follow::Follower;
use super::history::History;
use super::order::ClientOrder;
use super::resume::Violation;
use super::state;
use super::target::Target;
use super::translate::{Rest, Translator};
use crate::app::App;
use crate::error::ApiError;
use crate::sse;
use crate::streams::StreamPermit;

/// What is told.
#[derive(Debug)]
pub(super) enum Segment {
    /// Nothing was done, and why.
    Refused(Violation),
    Follow(Box<Stretch>),
}

/// A part of a run's log.
#[derive(Debug)]
pub(super) struct Stretch {
    pub of: RunRef,
    /// The run where the part begins.
    pub from: Run,
    /// What was caused is in the first so many events: the run is not looked at before.
    pub until: u64,
    /// Only where the run stands is told, and not how it came there: the client was told before.
    pub quiet: bool,
    /// What comes first.
    pub opening: Vec<Event>,
}

/// To whom it is told.
#[derive(Debug)]
pub(super) struct Audience {
    pub tenant: TenantId,
    pub thread: String,
    pub target: Target,
    pub translator: Translator,
    pub order: ClientOrder,
}

pub(super) fn response(app: &App, permit: StreamPermit, audience: Audience, segment: Segment) -> Response {
    let mut telling = Telling::new(app, audience);
    telling.say(telling.audience.translator.begin());
    match segment {
        Segment::Refused(Violation { code, message }) => {
            telling.say(telling.audience.translator.error(code, &message));
            telling.closed = true;
        }
        Segment::Follow(stretch) => telling.follow(*stretch),
    }
    let frames =
        unfold(telling, |mut telling| async move { telling.chunk().await.map(|bytes| (bytes, telling)) });
    sse::streamed(permit, frames, end_of_credential)
}

/// Returns a stream without events.
pub(super) fn empty(permit: StreamPermit) -> Response {
    sse::streamed(permit, futures_util::stream::empty(), end_of_credential)
}

/// Returns the event that ends a stream whose credential has ended. The run goes on.
fn end_of_credential(ended: &ApiError) -> Bytes {
    let body = ended.body();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let event = Event::RunError { message: text("message"), code: Some(text("error")), usage: Vec::new() };
    line(&Frame::from(event)).map_or_else(|_| sse::comment(ended), Bytes::from)
}

struct Telling {
    app: App,
    audience: Audience,
    follower: Option<Follower>,
    until: u64,
    quiet: bool,
    ready: VecDeque<Bytes>,
    closed: bool,
}

impl Telling {
    fn new(app: &App, audience: Audience) -> Self {
        let (app, ready) = (app.clone(), VecDeque::new());
        Self { app, audience, follower: None, until: 0, quiet: false, ready, closed: false }
    }

    fn follow(&mut self, stretch: Stretch) {
        stretch.opening.into_iter().for_each(|event| self.say(event));
        (self.until, self.quiet) = (stretch.until, stretch.quiet);
        self.follower = Some(Follower::new(&self.app, stretch.of, stretch.from));
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                // What is there goes out together.
                let all: Vec<Bytes> = self.ready.drain(..).collect();
                return Some(all.concat().into());
            }
            if self.closed {
                return None;
            }
            let rest = self.follower.as_ref().and_then(|follower| self.rest(follower.run()));
            if let Some(rest) = rest {
                self.end(rest).await;
                continue;
            }
            let Some(follower) = &mut self.follower else { return None };
            let found = follower.next().await;
            self.take(found);
        }
    }

    fn rest(&self, run: &Run) -> Option<Rest> {
        if run.seq < self.until { None } else { Rest::of(run) }
    }

    fn take(&mut self, found: Result<Option<Vec<Recorded>>, ApiError>) {
        match found {
            Ok(Some(found)) => found.iter().for_each(|one| self.pass_on(one)),
            Ok(None) => {
                self.break_off("shutting_down", "the server is going down; the run goes on afterwards");
            }
            Err(error) => {
                tracing::warn!(?error, "a stream ends because its run could not be read");
                self.break_off("internal_error", "the run could not be read; it goes on by itself");
            }
        }
    }

    fn pass_on(&mut self, one: &Recorded) {
        let Some(follower) = &mut self.follower else { return };
        let run = follower.apply(one);
        if self.quiet {
            return;
        }
        for event in self.audience.translator.hear(&one.event, run) {
            self.say_at(event, Some(one.at));
        }
    }

    /// Where the run stands, and with it everything that a client needs to go on from there.
    async fn end(&mut self, rest: Rest) {
        let audience = &self.audience;
        let history =
            History::read(&self.app.engine, &audience.tenant, &audience.thread, &audience.target).await;
        let messages = match history {
            Ok(history) => history.snapshot(),
            Err(error) => {
                tracing::warn!(?error, "a stream ends because its thread could not be read");
                return self.break_off("internal_error", "the thread could not be read");
            }
        };
        for event in self.audience.translator.close() {
            self.say(event);
        }
        if self.audience.order.differs_from(&messages) {
            // Only a client without messages takes the order from a snapshot.
            self.say(Event::MessagesSnapshot { messages: Vec::new() });
        }
        let Some(follower) = &self.follower else { return };
        let run = follower.run();
        let state = Event::StateSnapshot { snapshot: (*state::of(run)).clone() };
        let last = self.audience.translator.end(run, rest);
        for event in [state, Event::MessagesSnapshot { messages }, last] {
            self.say(event);
        }
        self.closed = true;
    }

    /// The run is not at fault, and goes on.
    fn break_off(&mut self, code: &str, message: &str) {
        for event in self.audience.translator.close() {
            self.say(event);
        }
        self.say(self.audience.translator.error(code, message));
        self.closed = true;
    }

    fn say(&mut self, event: Event) {
        self.say_at(event, None);
    }

    fn say_at(&mut self, event: Event, at: Option<Timestamp>) {
        self.audience.order.hear(&event);
        let at = at.unwrap_or_else(|| self.app.engine.now());
        let frame = Frame { timestamp: Some(at.0), ..Frame::from(event) };
        match line(&frame) {
            Ok(line) => self.ready.push_back(line.into()),
            Err(error) => tracing::error!(%error, "an event could not be written"),
        }
    }
}

/// Returns a frame of a stream of server-sent events. Lines end with LF, because clients know nothing else.
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
