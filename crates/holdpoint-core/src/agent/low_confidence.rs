//! Replies with low confidence. An approver ratifies such a reply or replaces it before the agent acts on it.

use serde_json::{Value, json};

use super::Message;
use crate::InterruptId;
use crate::interrupt::{Interrupt, Resolution};

/// A reply that waits for ratification. It is removed when the reply is ratified, or when the agent has received the
/// decision that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnratifiedReply {
    /// The low-confidence interrupt.
    pub interrupt: InterruptId,
    /// True if an answer replaced the reply, or if the interrupt expired.
    pub overruled: bool,
}

impl Message {
    /// Returns the decision in this message: its content, with the tool calls if there are any.
    pub fn decision(&self) -> Value {
        if self.calls.is_empty() {
            return self.content.clone();
        }
        json!({ "text": self.content, "calls": self.calls })
    }
}

impl Interrupt {
    /// Returns true if the answer accepts the decision that was shown, or repeats it.
    pub(crate) fn is_ratified(&self) -> bool {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return false };
        let accepts = || matches!(value.get("action").and_then(Value::as_str), Some("accept" | "ratify"));
        self.data.get("decision") == Some(value) || accepts()
    }

    /// Returns the message for an agent whose reply was replaced, and the principal that replaced it.
    pub(crate) fn override_message(&self) -> (String, Option<String>) {
        let (value, by) = match &self.resolution {
            Some(Resolution::Answered { value, by, .. }) => (value, Some(by.clone())),
            Some(Resolution::TimedOut { .. }) | None => {
                return (
                    "Your last reply was not ratified before the deadline. It does not count.".to_owned(),
                    None,
                );
            }
        };
        let decision = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (format!("Your last reply was not ratified. This was decided instead: {decision}"), by)
    }
}
