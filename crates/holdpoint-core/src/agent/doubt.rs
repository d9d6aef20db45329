//! Replies that their model is not sure enough of: somebody ratifies them, or decides something else instead, before
//! anything comes of them.

use serde_json::{Value, json};

use super::Message;
use crate::InterruptId;
use crate::interrupt::{Interrupt, Resolution};

/// The last reply waits to be ratified. Gone when it was, or when the agent has been told what was decided instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    pub interrupt: InterruptId,
    /// Somebody has decided something else.
    pub overruled: bool,
}

impl Message {
    /// What an agent decided by saying this: its words, and with calls those as well.
    pub fn decision(&self) -> Value {
        if self.calls.is_empty() {
            return self.content.clone();
        }
        json!({ "text": self.content, "calls": self.calls })
    }
}

impl Interrupt {
    /// Whether the decision that was shown stands: whoever answered said so, or said the same.
    pub(crate) fn ratifies(&self) -> bool {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return false };
        let accepts = || matches!(value.get("action").and_then(Value::as_str), Some("accept" | "ratify"));
        self.data.get("decision") == Some(value) || accepts()
    }

    /// What the agent is told that was overruled, and who did so.
    pub(crate) fn decided_instead(&self) -> (String, Option<String>) {
        let (value, by) = match &self.resolution {
            Some(Resolution::Answered { value, by, .. }) => (value, Some(by.clone())),
            Some(Resolution::TimedOut { .. }) | None => {
                return ("Nobody has ratified your last reply in time. It does not count.".to_owned(), None);
            }
        };
        let said = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (format!("Your last reply was not ratified. This was decided instead: {said}"), by)
    }
}
