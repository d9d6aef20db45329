//! Pending interrupts, answers, side questions, links and external events.

use holdpoint_api::arrivals::{EventReceived, SendEvent};
use holdpoint_api::ids::encode_segment;
use holdpoint_api::interrupts::{
    AnswerAsk, AskAnswered, AskList, InterruptHistory, InterruptQuery, InterruptResolved, ResolveApproval,
    ResolveInterrupt,
};
use holdpoint_api::links::{LinkedInterrupt, MintToken, TokenMinted};
use holdpoint_api::pending::{ListPending, PendingCounts, PendingInterrupts, StreamPending};

use crate::events::{EventStream, StreamEnd};
use crate::{Client, Request};

/// Finds and answers interrupts.
#[derive(Clone, Copy, Debug)]
pub struct Interrupts<'a>(pub(super) &'a Client);

impl Interrupts<'_> {
    /// Lists pending interrupts.
    pub fn pending(self, filter: &ListPending) -> Request<PendingInterrupts<'static>> {
        self.0.get("/v1/interrupts").query(filter)
    }

    /// Counts pending interrupts.
    pub fn counts(self, filter: &ListPending) -> Request<PendingCounts> {
        self.0.get("/v1/interrupts:counts").query(filter)
    }

    /// Watches the counts of pending interrupts. The stream ends when the server closes it.
    pub fn watch_counts(self, filter: &ListPending, query: &StreamPending) -> EventStream {
        EventStream::new(self.0.get("/v1/interrupts/stream").query(filter).query(query), StreamEnd::AtClose)
    }

    /// Lists all interrupts of a run with their answers.
    pub fn history(self, run: &str) -> Request<InterruptHistory<'static>> {
        self.0.get(format!("/v1/runs/{}/interrupts", encode_segment(run)))
    }

    /// Answers an interrupt.
    pub fn resolve(self, run: &str, node: &str, answer: &ResolveInterrupt) -> Request<InterruptResolved> {
        self.0
            .post(format!("/v1/runs/{}/interrupts/{}", encode_segment(run), encode_segment(node)))
            .body(answer)
    }

    /// Answers an approval.
    pub fn resolve_approval(
        self,
        run: &str,
        node: &str,
        answer: &ResolveApproval,
    ) -> Request<InterruptResolved> {
        self.0
            .post(format!("/v1/runs/{}/approvals/{}", encode_segment(run), encode_segment(node)))
            .body(answer)
    }

    /// Lists the side questions of an interrupt.
    pub fn asks(self, run: &str, node: &str, query: &InterruptQuery) -> Request<AskList> {
        self.0
            .get(format!("/v1/runs/{}/interrupts/{}/asks", encode_segment(run), encode_segment(node)))
            .query(query)
    }

    /// Answers a side question.
    pub fn answer_ask(
        self,
        run: &str,
        node: &str,
        ask: &str,
        query: &InterruptQuery,
        answer: &AnswerAsk,
    ) -> Request<AskAnswered> {
        self.0
            .post(format!(
                "/v1/runs/{}/interrupts/{}/asks/{}",
                encode_segment(run),
                encode_segment(node),
                encode_segment(ask)
            ))
            .body(answer)
            .query(query)
    }

    /// Creates a signed link that shows or answers an interrupt without an API key.
    pub fn create_link(
        self,
        run: &str,
        node: &str,
        query: &InterruptQuery,
        link: &MintToken,
    ) -> Request<TokenMinted> {
        self.0
            .post(format!("/v1/runs/{}/interrupts/{}/tokens", encode_segment(run), encode_segment(node)))
            .body(link)
            .query(query)
    }

    /// Returns the interrupt of a link. Needs no key.
    pub fn inspect_link(self, token: &str) -> Request<LinkedInterrupt<'static>> {
        self.0.get(format!("/v1/interrupts/{}", encode_segment(token)))
    }

    /// Answers the interrupt of a link. Needs no key.
    pub fn resolve_link(self, token: &str, answer: &ResolveInterrupt) -> Request<InterruptResolved> {
        self.0.post(format!("/v1/interrupts/{}", encode_segment(token))).body(answer)
    }

    /// Sends an external event to the interrupts that wait for it.
    pub fn send_event(self, event: &SendEvent) -> Request<EventReceived> {
        self.0.post("/v1/events").body(event)
    }
}
