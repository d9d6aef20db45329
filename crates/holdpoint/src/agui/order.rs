//! The order in which a client has the messages of its thread, as far as its input and its stream tell. Pure.

use std::collections::HashSet;

use holdpoint_api::agui::{Event, Message};

/// Follows what clients do: new messages go to the end, and a snapshot does not move what is there. Results of calls are not
/// followed: clients put them behind their calls, where the thread has them, too.
#[derive(Debug, Default)]
pub(super) struct ClientOrder {
    ids: Vec<String>,
    known: HashSet<String>,
}

impl ClientOrder {
    /// `ids` are those of the input.
    pub(super) fn new<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let mut order = Self::default();
        ids.for_each(|id| order.add(id));
        order
    }

    pub(super) fn hear(&mut self, event: &Event) {
        if let Event::TextMessageStart { message_id, .. } = event {
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

    /// Returns whether the client has the messages in another order than these after a snapshot of them.
    pub(super) fn differs_from(&self, messages: &[Message]) -> bool {
        let messages = messages.iter().filter(|message| !matches!(message, Message::Tool { .. }));
        let wanted: Vec<&str> = messages.map(Message::id).collect();
        let all: HashSet<&str> = wanted.iter().copied().collect();
        let kept = self.ids.iter().map(String::as_str).filter(|id| all.contains(id));
        let new = wanted.iter().copied().filter(|id| !self.known.contains(*id));
        !kept.chain(new).eq(wanted.iter().copied())
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
    fn what_is_new_goes_behind_what_a_client_has() {
        let mut order = ClientOrder::new(["a", "gone"].into_iter());
        order.hear(&Event::TextMessageStart { message_id: "c".into(), role: None, name: None });
        assert!(!order.differs_from(&users(&["a", "c", "d"])));
        assert!(order.differs_from(&users(&["a", "b", "c"])), "b would go behind c");
        order.hear(&Event::MessagesSnapshot { messages: users(&["a", "b", "c"]) });
        assert!(order.differs_from(&users(&["a", "b", "c"])), "and stay there");
        order.hear(&Event::MessagesSnapshot { messages: Vec::new() });
        order.hear(&Event::MessagesSnapshot { messages: users(&["a", "b", "c"]) });
        assert!(!order.differs_from(&users(&["a", "b", "c"])));
    }
}
