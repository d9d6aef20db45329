//! The state of a session between turns. It is sealed in the handle and never shown to users.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::{LockedHandle, ProviderError, code};

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaudeReference {
    /// Id of the session at the agent.
    pub(super) session: String,
    /// Version of the program in the last turn.
    #[serde(default)]
    pub(super) version: Option<String>,
    /// Digest of the tools at the start of the session.
    pub(super) tools: String,
    /// The number of times the conversation was attached to the handle. A folder with a lower number
    /// has an old conversation and must fetch the attached one.
    #[serde(default)]
    pub(super) turn: u64,
    /// The call that waits for a decision.
    #[serde(default)]
    pub(super) deferred: Option<DeferredCall>,
    /// The call that the program was allowed to make. Stored before the program is told.
    #[serde(default)]
    pub(super) allowed: Option<AllowedCall>,
    /// The start of the last turn after the first.
    #[serde(default)]
    pub(super) next_turn: Option<TurnStart>,
    /// The conversation is too large to be stored, so there is no next turn.
    #[serde(default)]
    pub(super) is_too_large: bool,
}

/// The attempt that starts a turn, and the length of the conversation before it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TurnStart {
    pub(super) attempt: String,
    pub(super) bytes: usize,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DeferredCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
    /// The attempt that led to this call. A retry of that attempt returns the same interrupt without a decision.
    #[serde(default)]
    pub(super) attempt: String,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AllowedCall {
    pub(super) id: String,
    /// The attempt whose answer allowed the call. It allows the call once.
    pub(super) attempt: String,
    /// The input of the call, if an approver edited it.
    pub(super) input: Option<Value>,
}

impl ClaudeReference {
    pub(super) fn new(tools: String) -> Self {
        let session = Uuid::now_v7().to_string();
        Self {
            session,
            version: None,
            tools,
            turn: 0,
            deferred: None,
            allowed: None,
            next_turn: None,
            is_too_large: false,
        }
    }

    pub(super) fn of(handle: &LockedHandle) -> Result<Self, ProviderError> {
        let lost = || {
            ProviderError::permanent(
                code::STATE_LOST,
                "the stored state of the agent session is missing or invalid",
            )
        };
        handle.reference().and_then(|kept| serde_json::from_value(kept).ok()).ok_or_else(lost)
    }

    pub(super) async fn keep(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        handle.keep(self.to_value()).await
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the record of the allowed call if it has this id.
    pub(super) fn allowed_call(&self, id: &str) -> Option<&AllowedCall> {
        self.allowed.as_ref().filter(|allowed| allowed.id == id)
    }
}
