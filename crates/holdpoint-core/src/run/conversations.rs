//! Folds the conversations of a run: their opening, their exchanges and their closing.

use std::sync::Arc;

use serde_json::Value;

use super::Run;
use crate::InterruptId;

/// A conversation of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The id, which begins with the id of the run and is therefore unique across runs.
    pub id: String,
    /// The name that the workflow gave to the conversation.
    pub name: Option<String>,
    /// The index of the next exchange, from 0.
    pub turns: u64,
    /// The interrupt that opened the conversation.
    pub opened_by: InterruptId,
    /// The interrupt that closed the conversation.
    pub closed_by: Option<InterruptId>,
}

impl Run {
    /// Returns the conversation with this id or name, or the last open conversation if no name is given.
    pub fn conversation(&self, named: Option<&str>) -> Option<&Conversation> {
        let mut known = self.conversations.iter().rev().map(Arc::as_ref);
        match named {
            Some(name) => known.find(|one| one.id == name || one.name.as_deref() == Some(name)),
            None => known.find(|one| one.closed_by.is_none()),
        }
    }

    pub(super) fn open_conversation(&mut self, opened_by: InterruptId, name: Option<&str>) {
        let Some(id) = self.interrupt(opened_by).and_then(|asked| id_in(&asked.data)) else { return };
        let (id, name) = (id.to_owned(), name.map(str::to_owned));
        self.conversations.push(Arc::new(Conversation { id, name, turns: 0, opened_by, closed_by: None }));
    }

    pub(super) fn close_conversation(&mut self, closed_by: InterruptId) {
        let id = self.interrupt(closed_by).and_then(|asked| id_in(&asked.data)).map(str::to_owned);
        self.update_conversation(id.as_deref(), |known| known.closed_by = Some(closed_by));
    }

    pub(super) fn count_turn(&mut self, data: &Value) {
        let turn = data.get("turnIndex").and_then(Value::as_u64).unwrap_or_default();
        self.update_conversation(id_in(data), |known| known.turns = known.turns.max(turn.saturating_add(1)));
    }

    fn update_conversation(&mut self, id: Option<&str>, change: impl FnOnce(&mut Conversation)) {
        if let Some(known) = self.conversations.iter_mut().find(|one| Some(one.id.as_str()) == id) {
            change(Arc::make_mut(known));
        }
    }
}

fn id_in(data: &Value) -> Option<&str> {
    data.get("conversationId").and_then(Value::as_str)
}
