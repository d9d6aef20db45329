//! What is kept of a thread between calls: its name, and what the server calls the questions that were shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::providers::{Case, Trouble, code};

/// The server's names of questions, by ours.
pub(super) type Names = BTreeMap<String, String>;

// Without Debug: nobody is to be shown any of it.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Reference {
    pub thread: String,
    /// What was asked last.
    #[serde(default)]
    pending: Names,
    /// The attempt that led to those.
    #[serde(default)]
    by: Option<String>,
    /// What that attempt answered: it may come again, and its keys are not those of now.
    #[serde(default)]
    before: Names,
}

impl Reference {
    /// The same for the same start, and for nothing else.
    pub(super) fn new(case: &Case) -> Self {
        let parts = json!(["langgraph", case.tenant(), case.state_key(), case.attempt()]);
        let digest = Sha256::digest(parts.to_string());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        let thread = uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string();
        Self { thread, pending: Names::new(), by: None, before: Names::new() }
    }

    pub(super) fn of(case: &Case) -> Result<Self, Trouble> {
        let kept = case.reference().and_then(|kept| serde_json::from_value(kept).ok());
        kept.ok_or_else(|| Trouble::lasting(code::STATE_LOST, "what was kept of the graph cannot be read"))
    }

    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    /// The names of the questions that an attempt answers.
    pub(super) fn asked(&self, attempt: &str) -> &Names {
        if self.by.as_deref() == Some(attempt) { &self.before } else { &self.pending }
    }

    /// What was open the last time that anybody was asked.
    pub(super) fn last_asked(&self) -> &Names {
        &self.pending
    }

    /// With what an attempt led to.
    #[must_use]
    pub(super) fn asking(self, names: Names, attempt: &str) -> Self {
        let before = self.asked(attempt).clone();
        Self { thread: self.thread, pending: names, by: Some(attempt.to_owned()), before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(id: &str) -> Names {
        [("i0".to_owned(), id.to_owned())].into()
    }

    #[test]
    fn an_attempt_that_comes_again_answers_what_it_answered_before() {
        let fresh = Reference { thread: "t".into(), pending: Names::new(), by: None, before: Names::new() };
        let started = fresh.asking(names("a"), "start");
        assert_eq!(started.asked("first"), &names("a"));
        assert_eq!(started.asked("start"), &Names::new());
        let answered = started.asking(names("b"), "first");
        assert_eq!(answered.asked("first"), &names("a"));
        let again = answered.asking(names("b"), "first");
        assert_eq!(again.asked("first"), &names("a"));
        assert_eq!(again.asked("second"), &names("b"));
    }
}
