//! The next step of an agent, computed from its recorded state only.

use std::sync::Arc;

use super::{Agent, CallStatus, ResumePolicy, ToolCall};

/// The next step of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentStep {
    /// Call the model.
    Model,
    /// Process these calls: new ones as the permission rules decided, suspended ones as the approver decided. A call
    /// that began and has no result is repeated, or an approver is asked.
    Calls(Vec<Arc<ToolCall>>),
    /// Discard the last reply, because it was not ratified, and tell the agent.
    Overruled,
    /// Wait for a decision or for the end of a child run that performs a call.
    Wait,
    /// Complete the node: the last reply is final.
    Finish,
}

impl Agent {
    /// Returns the next step of the agent.
    pub fn next_step(&self, policy: ResumePolicy) -> AgentStep {
        if let Some(reply) = self.unratified {
            return if reply.overruled { AgentStep::Overruled } else { AgentStep::Wait };
        }
        let unended = || self.calls.iter().filter(|call| !call.status.is_terminal());
        let suspended = unended().any(|call| call.status == CallStatus::Suspended);
        let ready = unended().filter(|call| match call.status {
            CallStatus::New => true,
            CallStatus::Running => call.unfinished_run().is_none(),
            CallStatus::Resuming => policy == ResumePolicy::AsDecided || !suspended,
            CallStatus::Suspended | CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled => {
                false
            }
        });
        let ready: Vec<_> = ready.cloned().collect();
        if !ready.is_empty() {
            return AgentStep::Calls(ready);
        }
        if suspended || unended().next().is_some() {
            return AgentStep::Wait;
        }
        if self.has_unseen() || self.steps == 0 { AgentStep::Model } else { AgentStep::Finish }
    }
}

impl ToolCall {
    /// Returns true if the call began, has no recorded result and must not be repeated without approval.
    pub fn has_unknown_outcome(&self) -> bool {
        self.status == CallStatus::Running && !self.idempotent && self.run.is_none()
    }
}
