//! Predicts the order in which a client has the messages of its thread, from its input and its stream. Pure.

use std::collections::HashSet;

use holdpoint_api::agui::{Event, Message};

/// The order of the messages at a client. Clients append new messages, and a snapshot does not move known messages.
/// Results of calls are ignored: clients put them after their calls, as the thread does.
#[derive(Debug, Default)]
pub(super) struct ClientOrder {
    ids: Vec<String>,
    known: HashSet<String>,
}

impl ClientOrder {
    /// Returns the order of a client that sent messages with these ids.
    pub(super) fn new<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let mut order = Self::default();
        ids.for_each(|id| order.add(id));
        order
    }

    /// Applies an event of the stream in the same way as a client.
    pub(super) fn apply(&mut self, event: &Event) {
        if let Event::TextMessageStart { message_id, .. } | Event::ReasoningMessageStart { message_id, .. } =
            event
        {
            self.add(message_id);
        } else if let Event::ToolCallStart { parent_message_id: Some(parent), .. } = event {
            self.add(parent);
        } else if let Event::MessagesSnapshot { messages } = event {
            let kept: HashSet<&str> = messages.iter().map(Message::id).collect();
            self.ids.retain(|id| kept.contains(id.as_str()));
            self.known.retain(|id| kept.contains(id.as_str()));
            messages.iter().for_each(|message| self.add(message.id()));
        }
    }

    /// Returns whether the client would have these messages in another order after a snapshot of them.
    pub(super) fn differs_from(&self, messages: &[Message]) -> bool {
        let messages = messages.iter().filter(|message| !matches!(message, Message::Tool { .. }));
        let wanted: Vec<&str> = messages.map(Message::id).collect();
        let all: HashSet<&str> = wanted.iter().copied().collect();
        let kept = self.ids.iter().map(String::as_str).filter(|id| all.contains(id));
        let new = wanted.iter().copied().filter(|id| !self.known.contains(*id));
        !kept.chain(new).eq(wanted.iter().copied())
    }

    /// Returns the number of messages at the client.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether the last messages of the client are exactly these, and in the same order. Results of calls that
    /// the client got from the stream are not compared.
    pub(super) fn ends_with<'m>(&self, messages: impl Iterator<Item = &'m Message>) -> bool {
        let (results, wanted): (Vec<_>, Vec<_>) =
            messages.partition(|message| matches!(message, Message::Tool { .. }));
        let results: HashSet<&str> = results.into_iter().map(Message::id).collect();
        let first = wanted.first().map(|message| message.id());
        let Some(at) = self.ids.iter().rposition(|id| Some(id.as_str()) == first) else { return false };
        let last = self.ids[at..].iter().map(String::as_str).filter(|id| !results.contains(id));
        last.eq(wanted.into_iter().map(Message::id))
    }

    fn add(&mut self, id: &str) {
        if self.known.insert(id.to_owned()) {
            self.ids.push(id.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn users(ids: &[&str]) -> Vec<Message> {
        ids.iter().map(|id| Message::User { id: (*id).to_owned(), content: json!("") }).collect()
    }

    #[test]
    fn the_end_of_the_thread_at_a_client_has_the_same_messages_in_the_same_order() {
        let result = |id: &str| Message::Tool { id: id.into(), tool_call_id: "c".into(), content: json!("") };
        let ends = |client: &[&str], thread: &[Message]| {
            ClientOrder::new(client.iter().copied()).ends_with(thread.iter())
        };
        assert!(ends(&["old", "a", "b"], &users(&["a", "b"])));
        assert!(!ends(&["a", "b"], &users(&["a", "c", "b"])), "the client lacks a message");
        assert!(!ends(&["a", "x", "b"], &users(&["a", "b"])), "the thread lacks a message");
        assert!(!ends(&["b", "a"], &users(&["a", "b"])) && !ends(&["b"], &users(&["a", "b"])));
        let thread = [users(&["a"]), vec![result("a:result")], users(&["b"])].concat();
        assert!(ends(&["a", "b"], &thread), "a result from the stream");
        assert!(ends(&["a", "a:result", "b"], &thread), "a result in the input");
        assert!(!ends(&["a", "own", "b"], &thread), "a result with an id of the client");
        assert!(!ends(&["a"], &[]) && !ends(&[], &[]));
    }

    #[test]
    fn new_messages_are_appended_and_known_ones_keep_their_place() {
        let mut order = ClientOrder::new(["a", "gone"].into_iter());
        order.apply(&Event::TextMessageStart { message_id: "c".into(), role: None, name: None });
        assert!(!order.differs_from(&users(&["a", "c", "d"])));
        assert!(order.differs_from(&users(&["a", "b", "c"])), "b would come after c");
        order.apply(&Event::MessagesSnapshot { messages: users(&["a", "b", "c"]) });
        assert!(order.differs_from(&users(&["a", "b", "c"])), "b stays after c");
        order.apply(&Event::MessagesSnapshot { messages: Vec::new() });
        order.apply(&Event::MessagesSnapshot { messages: users(&["a", "b", "c"]) });
        assert!(!order.differs_from(&users(&["a", "b", "c"])));
    }
}
