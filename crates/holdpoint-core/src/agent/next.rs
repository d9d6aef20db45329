//! What an agent does next, from what is on record and nothing else.

use std::sync::Arc;

use super::{Agent, Behaviour, CallStatus, ResumePolicy, ToolCall};

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The model is asked.
    Model,
    /// These calls can go on: rules look at new ones, decisions are carried out, and what was begun and has no result is
    /// either done again or asked about.
    Calls(Vec<Arc<ToolCall>>),
    /// Somebody decided something else than the last reply: it is taken back, and the agent is told.
    Overruled,
    /// Nothing, until somebody decides, or a run ends that carries out a call.
    Wait,
    /// The last reply was the last.
    Finish,
}

impl Agent {
    pub fn next(&self, policy: ResumePolicy) -> Next {
        if let Some(doubt) = self.doubt {
            return if doubt.overruled { Next::Overruled } else { Next::Wait };
        }
        let unended = || self.calls.iter().filter(|call| !call.status.is_terminal());
        let suspended = unended().any(|call| call.status == CallStatus::Suspended);
        let ready = unended().filter(|call| match call.status {
            CallStatus::New => true,
            CallStatus::Running => call.run_under_way().is_none(),
            CallStatus::Resuming => policy == ResumePolicy::AsDecided || !suspended,
            CallStatus::Suspended | CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled => {
                false
            }
        });
        let ready: Vec<_> = ready.cloned().collect();
        if !ready.is_empty() {
            return Next::Calls(ready);
        }
        if suspended || unended().next().is_some() {
            return Next::Wait;
        }
        if self.has_unseen() || self.steps == 0 { Next::Model } else { Next::Finish }
    }
}

impl ToolCall {
    /// It was begun, nobody knows whether it was done, and doing it twice would hurt.
    pub fn is_in_doubt(&self) -> bool {
        self.status == CallStatus::Running && !self.idempotent && self.run.is_none()
    }

    /// Nobody needs to be asked, and nobody has been.
    pub fn may_run(&self) -> bool {
        self.status == CallStatus::New && self.behaviour == Behaviour::Allow
    }
}
