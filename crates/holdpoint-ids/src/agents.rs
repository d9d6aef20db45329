//! Enums of the agent API.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The author of a message.
    Role {
        System = "system",
        User = "user",
        Assistant = "assistant",
        Tool = "tool",
    }
}

words! {
    /// The effect of a decision on a tool call.
    #[derive(Default)]
    ToolCallResumeMode {
        /// The call is made, with its own arguments.
        #[default]
        ReplayToolCall = "replay_tool_call",
        /// The decision is the result; the tool is not called.
        UseDecisionAsToolResult = "use_decision_as_tool_result",
        /// The call is made with the decision in its arguments.
        PassDecisionToTool = "pass_decision_to_tool",
    }
}

words! {
    /// The decision about a tool call.
    ResumeDecisionAction {
        Resume = "resume",
        Cancel = "cancel",
    }
}

words! {
    /// The effect of the permission rules on a tool call.
    Behaviour {
        Allow = "allow",
        /// A person decides.
        Ask = "ask",
        Deny = "deny",
    }
}

impl std::fmt::Display for Behaviour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

words! {
    /// The state of a tool call.
    CallStatus {
        New = "new",
        Running = "running",
        Suspended = "suspended",
        /// A decision is recorded and not applied yet.
        Resuming = "resuming",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl CallStatus {
    /// Returns true if the call has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::New | Self::Running | Self::Suspended | Self::Resuming => false,
        }
    }
}

/// The treatment of messages for a thread that has an open run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// The open run gets the messages; without one a new run is started.
    #[default]
    Queue,
    /// The same as `queue`.
    #[serde(alias = "steer")]
    LiveThenQueue,
    /// The open run is cancelled first.
    InterruptThenQueue,
    /// The messages are rejected if no run is open.
    ResumeOpenRun,
}
