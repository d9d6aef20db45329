//! What is kept of a session between turns, sealed in the handle. Nothing here is shown to anybody.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::{Case, Trouble, code};

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reference {
    /// The agent's name for the conversation.
    pub(super) session: String,
    /// Of the program that began or last carried on.
    #[serde(default)]
    pub(super) version: Option<String>,
    /// Which tools there were.
    pub(super) tools: String,
    /// How often the conversation was attached to the handle. A folder that is behind must fetch it.
    #[serde(default)]
    pub(super) turn: u64,
    /// The call that waits for people.
    #[serde(default)]
    pub(super) deferred: Option<Deferred>,
    /// The call that the program was told it may make. On disk before the program is told.
    #[serde(default)]
    pub(super) allowed: Option<Allowed>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Deferred {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
    /// The start or answer that came to it: told again, that comes to the same, and decides nothing.
    #[serde(default)]
    pub(super) attempt: String,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Allowed {
    pub(super) id: String,
    /// The answer that allowed it. It counts once.
    pub(super) attempt: String,
    /// What it is called with, where somebody changed that.
    pub(super) input: Option<Value>,
}

impl Reference {
    pub(super) fn fresh(tools: String) -> Self {
        let session = Uuid::now_v7().to_string();
        Self { session, version: None, tools, turn: 0, deferred: None, allowed: None }
    }

    pub(super) fn of(case: &Case) -> Result<Self, Trouble> {
        let lost = || Trouble::lasting(code::STATE_LOST, "what was kept of the agent's session is gone");
        case.reference().and_then(|kept| serde_json::from_value(kept).ok()).ok_or_else(lost)
    }

    pub(super) async fn keep(&self, case: &Case) -> Result<(), Trouble> {
        case.keep(self.to_value()).await
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The program was told that it may make this call.
    pub(super) fn allowed(&self, id: &str) -> Option<&Allowed> {
        self.allowed.as_ref().filter(|allowed| allowed.id == id)
    }
}
