//! Graphs that are started, continued and answered by their state key.

use std::time::Duration;

use holdpoint_api::Page;
use holdpoint_api::chat::{Chat, ChatHistory, ChatOutcome, ChatStanding, WAIT_MS_DEFAULT};
use holdpoint_api::ids::encode_segment;

use crate::{Client, Request};

/// The time that a response may take beyond the wait itself.
const WAIT_MARGIN: Duration = Duration::from_secs(30);

/// Starts, continues, answers and shows graphs by their state key.
#[derive(Clone, Copy, Debug)]
pub struct Chats<'a>(pub(super) &'a Client);

impl Chats<'_> {
    /// Starts a graph or its next turn, or answers its interrupt, and waits for the outcome.
    pub fn send(self, chat: &Chat) -> Request<ChatOutcome> {
        let wait = Duration::from_millis(chat.wait_ms.unwrap_or(WAIT_MS_DEFAULT));
        self.0.post("/api/v1/ai/chat").body(chat).timeout(wait.saturating_add(WAIT_MARGIN))
    }

    /// Returns the state of a graph.
    pub fn get(self, state_key: &str) -> Request<ChatStanding> {
        self.0.get(format!("/api/v1/ai/chat/{}", encode_segment(state_key)))
    }

    /// Returns a page of the turns of a graph, the newest first.
    pub fn history(self, state_key: &str, page: &Page) -> Request<ChatHistory> {
        self.0.get(format!("/api/v1/ai/chat/{}/history", encode_segment(state_key))).query(page)
    }

    /// Ends a conversation: cancels its graph and deletes its state, also at its provider.
    pub fn delete(self, state_key: &str) -> Request<ChatStanding> {
        self.0.delete(format!("/api/v1/ai/chat/{}", encode_segment(state_key)))
    }
}
