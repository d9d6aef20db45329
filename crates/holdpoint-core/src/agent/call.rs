//! One call of a tool: its states, and which may follow which.

pub use holdpoint_ids::CallStatus;
use serde_json::Value;

use super::{Behaviour, Waiting};
use crate::RunId;

/// Why something cannot be done to a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFlaw {
    #[error("the agent has made no call {0:?}")]
    Unknown(String),
    #[error("call {call:?} is {from} and cannot become {to}", from = .from.as_str(), to = .to.as_str())]
    Illegal { call: String, from: CallStatus, to: CallStatus },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// As the model gave them.
    pub arguments: Value,
    /// Which reply of the model wanted it, from 1.
    pub step: u32,
    pub behaviour: Behaviour,
    pub why: Option<String>,
    pub idempotent: bool,
    /// The front end carries it out, and brings the result.
    pub client: bool,
    pub status: CallStatus,
    pub waiting: Option<Waiting>,
    /// How often it was begun.
    pub begun: u32,
    /// The arguments it was last begun with, where they are not those that the model gave.
    pub begun_with: Option<Value>,
    /// The run that carries it out, of a call that is a workflow.
    pub run: Option<CallRun>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRun {
    pub id: RunId,
    /// What it came to is yet to be written down as the result of the call.
    pub ended: bool,
}

impl ToolCall {
    pub fn check(&self, next: CallStatus) -> Result<(), CallFlaw> {
        if may_become(self.status, next) {
            return Ok(());
        }
        Err(CallFlaw::Illegal { call: self.id.clone(), from: self.status, to: next })
    }

    /// The run that carries it out and has not ended.
    pub fn run_under_way(&self) -> Option<&RunId> {
        let run = self.run.as_ref().filter(|run| !run.ended && !self.status.is_terminal());
        run.map(|run| &run.id)
    }

    /// What it runs with.
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
    fn a_call_goes_only_where_the_contract_lets_it() {
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
