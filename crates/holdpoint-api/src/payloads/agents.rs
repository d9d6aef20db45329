//! Payloads of events about agents: messages, replies of models and calls of tools.

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
    pub node_id: NodeId,
    pub message: AgentMessage<'a>,
}

/// The payload of `holdpoint.model.replied`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReplied<'a> {
    pub node_id: NodeId,
    pub message: AgentMessage<'a>,
    pub usage: TokenUsage,
    pub model: Option<Cow<'a, str>>,
    pub duration_ms: Option<u64>,
}

/// A message in the log of a run. Calls have the names that front ends use.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage<'a> {
    pub id: Cow<'a, str>,
    pub role: Role,
    /// A text, or parts. Of a tool, its result.
    pub content: Cow<'a, Value>,
    pub tool_calls: Option<Vec<MessageCall<'a>>>,
    pub tool_call_id: Option<Cow<'a, str>>,
    pub by: Option<Cow<'a, str>>,
    pub metadata: Option<Cow<'a, Map<String, Value>>>,
}

/// The call of a tool that an event is about.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCall<'a> {
    pub node_id: NodeId,
    /// The id in the definition of the agent, or the id of its node.
    pub agent_id: Cow<'a, str>,
    pub call_id: Cow<'a, str>,
    pub tool_name: Option<Cow<'a, str>>,
    pub arguments: Option<Cow<'a, Value>>,
}

/// The payload of `agent.toolCalled`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled<'a> {
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    pub permission: Behaviour,
    /// The rule that decided the permission.
    pub reason: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.tool.suspended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSuspended<'a> {
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    pub interrupt_id: String,
    pub resume_mode: ToolCallResumeMode,
}

/// The payload of `holdpoint.tool.begun`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolBegun<'a> {
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    /// The arguments that replace those of the model.
    pub effective_arguments: Option<Cow<'a, Value>>,
    pub grant_ids: Option<Vec<String>>,
}

/// The payload of `agent.toolReturned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturned<'a> {
    #[serde(flatten)]
    pub call: AgentCall<'a>,
    pub status: CallStatus,
    pub result: Cow<'a, Value>,
}
