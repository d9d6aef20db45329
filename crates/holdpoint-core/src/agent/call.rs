//! Tool calls: their state and its valid transitions.

pub use holdpoint_ids::CallStatus;
use serde_json::Value;

use super::{Behaviour, CallInterrupt};
use crate::RunId;

/// The reason why a command about a tool call is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolCallError {
    /// The agent has no call with this id.
    #[error("the agent has no tool call {0:?}")]
    Unknown(String),
    /// The call cannot change to this state.
    #[error("call {call:?} is {from} and cannot become {to}", from = .from.as_str(), to = .to.as_str())]
    InvalidTransition {
        /// The id of the call.
        call: String,
        /// The current state.
        from: CallStatus,
        /// The requested state.
        to: CallStatus,
    },
}

/// One tool call of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id that the model gave it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments from the model.
    pub arguments: Value,
    /// The number of the model reply that requested it, from 1.
    pub step: u32,
    /// The decision of the permission rules.
    pub behaviour: Behaviour,
    /// The rule that decided, with its explanation.
    pub why: Option<String>,
    /// True if the call may be repeated when its outcome is unknown.
    pub idempotent: bool,
    /// True if the front end performs the call and sends the result.
    pub client: bool,
    /// The state of the call.
    pub status: CallStatus,
    /// The interrupt that the call waits for, or the last one that it waited for.
    pub interrupt: Option<CallInterrupt>,
    /// The number of times the call began.
    pub begun: u32,
    /// The arguments with which the call last began, if they differ from those of the model.
    pub begun_with: Option<Value>,
    /// The child run that performs the call, if the tool is a workflow.
    pub run: Option<CallRun>,
}

/// The child run that performs a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRun {
    /// The id of the child run.
    pub id: RunId,
    /// True if the child run has ended. Its result may not yet be recorded as the result of the call.
    pub ended: bool,
}

impl ToolCall {
    /// Rejects a state that cannot follow the current one.
    pub fn check_transition(&self, next: CallStatus) -> Result<(), ToolCallError> {
        if may_become(self.status, next) {
            return Ok(());
        }
        Err(ToolCallError::InvalidTransition { call: self.id.clone(), from: self.status, to: next })
    }

    /// Returns the child run that performs the call, if it has not ended.
    pub fn unfinished_run(&self) -> Option<&RunId> {
        let run = self.run.as_ref().filter(|run| !run.ended && !self.status.is_terminal());
        run.map(|run| &run.id)
    }

    /// Returns the arguments with which the call runs.
    pub fn effective_arguments(&self) -> &Value {
        self.begun_with.as_ref().unwrap_or(&self.arguments)
    }
}

/// Returns whether a call may change from one state to another. A call may keep its state.
fn may_become(from: CallStatus, next: CallStatus) -> bool {
    if from == next {
        return true;
    }
    match from {
        CallStatus::New => true,
        CallStatus::Running => next == CallStatus::Suspended || next.is_terminal(),
        CallStatus::Suspended => next == CallStatus::Resuming || next == CallStatus::Cancelled,
        CallStatus::Resuming => {
            next == CallStatus::Running || next == CallStatus::Suspended || next.is_terminal()
        }
        CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::may_become;
    use holdpoint_ids::CallStatus::{self, Cancelled, Failed, New, Resuming, Running, Succeeded, Suspended};

    #[test]
    fn a_call_changes_state_only_as_the_contract_allows() {
        let ends = [Succeeded, Failed, Cancelled];
        for from in CallStatus::ALL {
            for to in CallStatus::ALL {
                let expected = from == to
                    || match from {
                        New => true,
                        Running => to == Suspended || ends.contains(&to),
                        Suspended => [Resuming, Cancelled].contains(&to),
                        Resuming => [Running, Suspended].contains(&to) || ends.contains(&to),
                        Succeeded | Failed | Cancelled => false,
                    };
                assert_eq!(may_become(from, to), expected, "{from:?} -> {to:?}");
            }
        }
    }
}
