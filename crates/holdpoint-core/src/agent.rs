//! Agents: the state of an agent node, folded from events, and the choice of its next step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::interrupt::{AgentDecision, InterruptRequest};
pub use crate::permission::Behaviour;
use crate::{InterruptId, WorkflowId};

mod activity;
mod call;
mod call_interrupts;
mod content_parts;
mod low_confidence;
mod message;
mod next_step;
mod provider_report;
mod reply_chunk;
mod resumption;
mod ticket;

pub use activity::ActivityReport;
pub use call::{CallRun, CallStatus, ToolCall, ToolCallError};
pub use call_interrupts::{
    ARGUMENTS_SCHEMA, ApprovalSettings, CLIENT_TOOL, CONFIRM, OUTCOME_UNKNOWN, PROVIDER_CALL,
};
pub use content_parts::{content_parts_as_text, is_content_parts};
pub use holdpoint_ids::{ResumeDecisionAction, Role, ToolCallResumeMode};
pub use low_confidence::UnratifiedReply;
pub use message::{CallRequest, Message, ReasoningPart, ReasoningVisibility, in_prompt_order};
pub use next_step::AgentStep;
pub use provider_report::{ProviderReply, ProviderReport};
pub use reply_chunk::{ChunkContent, ReplyChunk, StreamProgress};
pub use resumption::Resumption;
pub(crate) use resumption::edited_arguments;
pub use ticket::{PendingToolCall, SuspendTicket, Suspension, ToolCallResume};

/// The tokens that a call of a model used, as the model reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Tokens of the reply that are reasoning, if the model reports them. They are part of `output_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Adds the tokens of another call.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }

    /// Returns the sum of input and output tokens.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// The rule for when an agent applies the decisions about its suspended calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumePolicy {
    /// Each decision is applied as soon as it is made.
    #[default]
    AsDecided,
    /// Decisions are applied when all suspended calls are decided.
    WaitAll,
}

/// The state of an agent during one execution of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// The messages in the order of their events. [`in_prompt_order`] sorts them for the model.
    pub messages: Vec<Arc<Message>>,
    /// The tool calls in the order in which the model requested them.
    pub calls: Vec<Arc<ToolCall>>,
    /// The number of replies of the model.
    pub steps: u32,
    /// The tokens of all replies.
    pub usage: Usage,
    /// The number of messages up to and including the last reply: those that the model has seen.
    pub seen: usize,
    /// The interrupt that must ratify the last reply before the agent acts on it.
    pub unratified: Option<UnratifiedReply>,
    /// True if a provider executes the agent. Its messages and calls are only shown.
    pub at_provider: bool,
}

/// An action of an agent, to be recorded as events.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    /// Records a chunk of a reply. The reply of an agent follows, in this or a later command. A node that is not an
    /// agent can also stream.
    Stream(Box<ReplyChunk>),
    /// Records a report of an activity. A report that does not fit is dropped.
    Report(Box<ActivityReport>),
    /// Records a reply of the model.
    Reply(Box<ReplyRecord>),
    /// Records the decision that a reply contains. Opens a low-confidence interrupt if one is required.
    Decide {
        /// The decision and its confidence.
        decision: Box<AgentDecision>,
        /// The request of the low-confidence interrupt.
        question: Option<Box<InterruptRequest>>,
    },
    /// Tells the agent the decision that replaces its last reply.
    Overrule,
    /// Suspends a call with an interrupt.
    Suspend {
        /// The id of the call.
        call: String,
        /// The interrupt.
        ticket: Box<Ticket>,
    },
    /// Begins a call.
    Begin {
        /// The id of the call.
        call: String,
        /// The arguments, if they differ from those of the model.
        arguments: Option<Value>,
    },
    /// Begins a call and starts the child run that performs it, atomically. If the child run is refused, the call ends.
    StartRun {
        /// The id of the call.
        call: String,
        /// The workflow of the child run.
        workflow: WorkflowId,
        /// The arguments, if they differ from those of the model.
        arguments: Option<Value>,
    },
    /// Records the result of a call.
    Return {
        /// The id of the call.
        call: String,
        /// The final state of the call.
        status: CallStatus,
        /// The result for the model.
        content: Value,
    },
    /// Sets a variable of the run.
    SetVariable {
        /// The name of the variable.
        name: String,
        /// The new value.
        value: Value,
    },
    /// Adds to an integer variable of the run. A variable that is missing or not an integer counts as zero.
    AddToVariable {
        /// The name of the variable.
        name: String,
        /// The number to add.
        value: i64,
    },
    /// Adds a message to the agent, on behalf of the workflow.
    AddMessage(Message),
    /// Records what a provider reports about its work. A report that is known or too large is ignored.
    ReportFromProvider(Box<ProviderReport>),
}

/// A reply of the model with the data that is recorded with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplyRecord {
    /// The reply.
    pub message: Message,
    /// One policy for each call in the message, in the same order.
    pub policies: Vec<CallPolicy>,
    /// The tokens of this reply.
    pub usage: Usage,
    /// The name of the model.
    pub model: String,
    /// The number of messages of the run in the prompt.
    pub seen: usize,
    /// The duration of the model call.
    pub took_ms: Option<u64>,
}

/// The properties of a call that are fixed before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPolicy {
    /// The decision of the permission rules.
    pub behaviour: Behaviour,
    /// The rule that decided, with its explanation.
    pub why: Option<String>,
    /// True if the call may be repeated when its outcome is unknown.
    pub idempotent: bool,
    /// True if the front end performs the call.
    pub client: bool,
}

/// The interrupt that suspends a call, and the effect of its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    /// The request of the interrupt.
    pub request: InterruptRequest,
    /// The effect of the answer on the call.
    pub mode: ToolCallResumeMode,
}

/// The interrupt that a call waits for, or the last one that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallInterrupt {
    /// The id of the interrupt.
    pub id: InterruptId,
    /// The effect of the answer on the call.
    pub mode: ToolCallResumeMode,
}

impl Agent {
    /// Returns the tool call with this id.
    pub fn call(&self, id: &str) -> Option<&ToolCall> {
        self.calls.iter().map(Arc::as_ref).find(|call| call.id == id)
    }

    /// Returns the calls that wait for a decision.
    pub fn suspended_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls.iter().map(Arc::as_ref).filter(|call| call.status == CallStatus::Suspended)
    }

    /// Returns true if messages were added after the model's last reply.
    pub fn has_unseen(&self) -> bool {
        self.messages.len() > self.seen
    }

    /// Returns the last message of the model.
    pub fn last_reply(&self) -> Option<&Message> {
        self.messages.iter().rev().map(Arc::as_ref).find(|message| message.role == Role::Assistant)
    }
}
