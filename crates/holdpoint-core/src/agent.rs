//! Agents: a model, tools, and calls that may have to wait for somebody. What is known of one while its node is at work,
//! folded from events, and what it does next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::interrupt::{Decision, Request};
pub use crate::permission::Behaviour;
use crate::{InterruptId, WorkflowId};

mod asking;
mod call;
mod doubt;
mod message;
mod next;
mod piece;
mod resuming;
mod ticket;

pub use asking::{ARGUMENTS_SCHEMA, Asking, CLIENT_TOOL, CONFIRM, OUTCOME_UNKNOWN};
pub use call::{CallFlaw, CallRun, CallStatus, ToolCall};
pub use doubt::Doubt;
pub use holdpoint_ids::{ResumeDecisionAction, Role, ToolCallResumeMode};
pub use message::{CallRequest, Message, in_prompt_order};
pub use next::Next;
pub use piece::{Piece, Told};
pub use resuming::Resumption;
pub(crate) use resuming::edited_arguments;
pub use ticket::{PendingToolCall, SuspendTicket, Suspension, ToolCallResume};

/// What a call of a model cost, as far as the model said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl Usage {
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// When decisions about several calls are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumePolicy {
    #[default]
    AsDecided,
    /// Only when none is missing any more.
    WaitAll,
}

/// An agent at work in one visit of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// As they came; see [`in_prompt_order`].
    pub messages: Vec<Arc<Message>>,
    /// In the order in which the model wanted them.
    pub calls: Vec<Arc<ToolCall>>,
    /// How often the model has replied.
    pub steps: u32,
    pub usage: Usage,
    /// How many of the messages the model had seen, itself included, when it last replied.
    pub seen: usize,
    /// Of a reply under way: what was told of it.
    pub told: Option<Told>,
    /// Somebody has to ratify the last reply before anything comes of it.
    pub doubt: Option<Doubt>,
}

/// What an agent does, to be written down.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The model says something; the reply it belongs to is yet to come, or right behind it.
    Tell(Box<Piece>),
    /// The model replied.
    Reply(Box<Reply>),
    /// The reply was a decision; with a question where the agent is not sure enough of it.
    Decide { decision: Box<Decision>, question: Option<Box<Request>> },
    /// The agent hears what was decided instead of what it replied.
    Overrule,
    /// A call waits for somebody.
    Suspend { call: String, ticket: Box<Ticket> },
    /// A call begins; with these arguments, where they are not those that the model gave.
    Begin { call: String, arguments: Option<Value> },
    /// A call begins with the start of a run that carries it out: both happen, or neither does. With these arguments, where
    /// they are not those that the model gave. A run that may not be started is the end of the call.
    Start { call: String, workflow: WorkflowId, arguments: Option<Value> },
    /// A call has ended.
    Return { call: String, status: CallStatus, content: Value },
    /// A variable of the run becomes this.
    Set { name: String, value: Value },
    /// To a variable that is a whole number this is added; what is none counts as zero.
    Add { name: String, value: i64 },
    /// Somebody says something to the agent: a workflow, in whose name it works.
    Hear(Message),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub message: Message,
    /// What rules say of the calls in the message, in their order.
    pub gates: Vec<Gate>,
    pub usage: Usage,
    pub model: String,
    /// How many messages of the run the model was shown.
    pub seen: usize,
    pub took_ms: Option<u64>,
}

/// What is known of a call before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    pub behaviour: Behaviour,
    /// Which rule said so.
    pub why: Option<String>,
    /// It may be done again when nobody knows whether it was done.
    pub idempotent: bool,
    /// The front end carries it out.
    pub client: bool,
}

/// What somebody is asked about a call, and what the answer does.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    pub request: Request,
    pub mode: ToolCallResumeMode,
}

/// The question that a call waits for, or waited for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub interrupt: InterruptId,
    pub mode: ToolCallResumeMode,
}

impl Agent {
    pub fn call(&self, id: &str) -> Option<&ToolCall> {
        self.calls.iter().map(Arc::as_ref).find(|call| call.id == id)
    }

    /// Calls that somebody has to say something about.
    pub fn suspended(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls.iter().map(Arc::as_ref).filter(|call| call.status == CallStatus::Suspended)
    }

    /// Whether something was said since the model last looked.
    pub fn has_unseen(&self) -> bool {
        self.messages.len() > self.seen
    }

    /// What the agent said last.
    pub fn last_reply(&self) -> Option<&Message> {
        self.messages.iter().rev().map(Arc::as_ref).find(|message| message.role == Role::Assistant)
    }
}
