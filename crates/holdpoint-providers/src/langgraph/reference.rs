//! The state of a thread between calls: its id, and the server's ids of the interrupts that were shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{LockedHandle, ProviderError, code};

/// The server's interrupt ids by item key.
pub(super) type InterruptIds = BTreeMap<String, String>;

// Without Debug, because none of it may appear in logs.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct LangGraphReference {
    pub thread: String,
    /// The interrupts that were shown last.
    #[serde(default)]
    pending: InterruptIds,
    /// The attempt that led to `pending`.
    #[serde(default)]
    by: Option<String>,
    /// The interrupts that this attempt answered. A retry of it uses these keys, not those of `pending`.
    #[serde(default)]
    before: InterruptIds,
    /// The attempt that starts the last turn after the first, and the checkpoint of the thread before it.
    #[serde(default)]
    turn: Option<TurnStart>,
}

#[derive(Clone, Deserialize, Serialize)]
struct TurnStart {
    attempt: String,
    checkpoint: String,
}

impl LangGraphReference {
    /// Returns the initial reference. The thread id is derived from the attempt, so a retry gets the same one.
    pub(super) fn new(handle: &LockedHandle) -> Self {
        let parts = json!(["langgraph", handle.tenant(), handle.state_key(), handle.attempt()]);
        let digest = Sha256::digest(parts.to_string());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        let thread = uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string();
        Self { thread, pending: InterruptIds::new(), by: None, before: InterruptIds::new(), turn: None }
    }

    pub(super) fn of(handle: &LockedHandle) -> Result<Self, ProviderError> {
        let kept = handle.reference().and_then(|kept| serde_json::from_value(kept).ok());
        kept.ok_or_else(|| {
            ProviderError::permanent(code::STATE_LOST, "the stored state of the graph is missing or invalid")
        })
    }

    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    /// Returns the ids of the interrupts that an attempt answers.
    pub(super) fn ids_answered_by(&self, attempt: &str) -> &InterruptIds {
        if self.by.as_deref() == Some(attempt) { &self.before } else { &self.pending }
    }

    /// Returns the ids of the interrupts that were shown last.
    pub(super) fn pending_ids(&self) -> &InterruptIds {
        &self.pending
    }

    /// Returns the reference with the interrupts that an attempt led to.
    #[must_use]
    pub(super) fn with_pending(self, ids: InterruptIds, attempt: &str) -> Self {
        let before = self.ids_answered_by(attempt).clone();
        Self { pending: ids, by: Some(attempt.to_owned()), before, ..self }
    }

    /// Returns the checkpoint of the thread before the turn that an attempt starts, if it was recorded.
    pub(super) fn checkpoint_before(&self, attempt: &str) -> Option<&str> {
        let turn = self.turn.as_ref().filter(|turn| turn.attempt == attempt);
        turn.map(|turn| turn.checkpoint.as_str())
    }

    /// Returns the reference with the checkpoint before the turn that an attempt starts.
    #[must_use]
    pub(super) fn with_checkpoint(self, attempt: &str, checkpoint: &str) -> Self {
        let (attempt, checkpoint) = (attempt.to_owned(), checkpoint.to_owned());
        Self { turn: Some(TurnStart { attempt, checkpoint }), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(id: &str) -> InterruptIds {
        [("i0".to_owned(), id.to_owned())].into()
    }

    #[test]
    fn a_repeated_attempt_answers_the_same_interrupts() {
        let fresh = LangGraphReference {
            thread: "t".into(),
            pending: InterruptIds::new(),
            by: None,
            before: InterruptIds::new(),
            turn: None,
        };
        let started = fresh.with_pending(ids("a"), "start");
        assert_eq!(started.ids_answered_by("first"), &ids("a"));
        assert_eq!(started.ids_answered_by("start"), &InterruptIds::new());
        let answered = started.with_pending(ids("b"), "first");
        assert_eq!(answered.ids_answered_by("first"), &ids("a"));
        let again = answered.with_pending(ids("b"), "first");
        assert_eq!(again.ids_answered_by("first"), &ids("a"));
        assert_eq!(again.ids_answered_by("second"), &ids("b"));
    }
}
