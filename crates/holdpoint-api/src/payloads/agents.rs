//! Payloads of events about agents: messages, replies of models and tool calls.

use std::borrow::Cow;

use holdpoint_ids::{Behaviour, CallStatus, NodeId, Role, ToolCallResumeMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::agents::{MessageCall, TokenUsage};

/// The payload of `holdpoint.message.added`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageAdded<'a> {
    /// The node of the agent.
    pub node_id: NodeId,
    /// The new message.
    pub message: AgentMessage<'a>,
}

/// The payload of `holdpoint.model.replied`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReplied<'a> {
    /// The node of the agent.
    pub node_id: NodeId,
    /// The reply.
    pub message: AgentMessage<'a>,
    /// The tokens that the reply used.
    pub usage: TokenUsage,
    /// The model that replied, if its provider names it.
    pub model: Option<Cow<'a, str>>,
    /// The time until the reply was complete.
    pub duration_ms: Option<u64>,
}

/// A message in the log of a run. Calls have the names that front ends use.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage<'a> {
    /// The id of the message.
    pub id: Cow<'a, str>,
    /// The author of the message.
    pub role: Role,
    /// A text or a list of parts. In a message of a tool: the result of the call.
    pub content: Cow<'a, Value>,
    /// The reasoning of the model before the reply, if the agent shows it.
    pub reasoning: Option<Vec<Cow<'a, str>>>,
    /// The calls that a reply of the model requests.
    pub tool_calls: Option<Vec<MessageCall<'a>>>,
    /// The call whose result the message is.
    pub tool_call_id: Option<Cow<'a, str>>,
    /// The principal that sent the message.
    pub by: Option<Cow<'a, str>>,
    /// Data that clients store with the message.
    pub metadata: Option<Cow<'a, Map<String, Value>>>,
}

/// The tool call that an event is about.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCall<'a> {
    /// The node of the agent.
    pub node_id: NodeId,
    /// The id in the definition of the agent, or the id of its node.
    pub agent_id: Cow<'a, str>,
    /// The id of the call.
    pub call_id: Cow<'a, str>,
    /// The name of the tool.
    pub tool_name: Option<Cow<'a, str>>,
    /// The arguments that the model gave.
    pub arguments: Option<Cow<'a, Value>>,
}

/// The payload of `agent.toolCalled`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled<'a> {
    /// The tool call.
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    /// The effect of the permission rules.
    pub permission: Behaviour,
    /// The rule that decided the permission.
    pub reason: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.tool.suspended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSuspended<'a> {
    /// The tool call.
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    /// The interrupt that the call waits for.
    pub interrupt_id: String,
    /// The effect of the decision on the call.
    pub resume_mode: ToolCallResumeMode,
}

/// The payload of `holdpoint.tool.begun`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolBegun<'a> {
    /// The tool call.
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    /// The arguments that replace those of the model.
    pub effective_arguments: Option<Cow<'a, Value>>,
    /// The grants that the call uses.
    pub grant_ids: Option<Vec<String>>,
}

/// The payload of `agent.toolReturned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturned<'a> {
    /// The tool call.
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    /// The final state of the call.
    pub status: CallStatus,
    /// The result, or the error that the model receives.
    pub result: Cow<'a, Value>,
}
