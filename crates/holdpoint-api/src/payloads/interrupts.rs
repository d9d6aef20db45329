//! Payloads of events about interrupts: requests, answers, votes, questions and conversations.

use std::borrow::Cow;

use holdpoint_ids::{Kind, NodeId, RunId, Via};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::{Instant, Members};

/// The payload of `node.suspended`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspended<'a> {
    pub agent_id: Option<Cow<'a, Value>>,
    pub conversation_id: Option<Cow<'a, Value>>,
    pub custom_kind: Option<Cow<'a, Value>>,
    pub event_type: Option<Cow<'a, Value>>,
    pub expires_at: Option<Instant>,
    pub interrupt_id: String,
    pub key: Option<Cow<'a, str>>,
    pub kind: Option<Kind>,
    pub node_id: NodeId,
    pub observed: Option<Cow<'a, Value>>,
    pub reason: Option<Cow<'a, str>>,
    pub threshold: Option<Cow<'a, Value>>,
    pub turn_index: Option<Cow<'a, Value>>,
}

/// The payload of `node.resumed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeResumed<'a> {
    pub interrupt_id: String,
    pub node_id: NodeId,
    pub resume_value: Option<Cow<'a, Value>>,
}

/// The payload of `interrupt.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested<'a> {
    pub data: Cow<'a, Value>,
    pub interrupt_id: String,
    pub key: Cow<'a, str>,
    pub kind: Kind,
    pub node_id: NodeId,
    pub requested_at: Instant,
    pub run_id: RunId,
    pub timeout_ms: Option<u64>,
}

/// The payload of `approval.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested<'a> {
    pub actions: Option<Cow<'a, Value>>,
    pub approvers_list: Option<Cow<'a, Value>>,
    pub artifact_id: Option<Cow<'a, Value>>,
    pub artifact_type: Option<Cow<'a, Value>>,
    pub interrupt_id: String,
    pub node_id: NodeId,
    pub required_approvals: Option<Cow<'a, Value>>,
}

/// The payload of `clarification.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationRequested<'a> {
    pub interrupt_id: String,
    pub node_id: NodeId,
    #[serialize_always]
    pub questions: Option<Cow<'a, Value>>,
}

/// The payload of `interrupt.resolved`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InterruptResolvedPayload")]
pub struct InterruptResolved<'a> {
    pub action: Option<Cow<'a, str>>,
    pub decision: Option<Cow<'a, str>>,
    pub edited_artifact_data: Option<Cow<'a, Value>>,
    pub grant_id: Option<String>,
    pub interrupt_id: String,
    pub kind: Kind,
    pub node_id: NodeId,
    pub outcome: Option<Cow<'a, str>>,
    pub quorum: Option<Cow<'a, Value>>,
    pub reason: Option<Cow<'a, Value>>,
    pub refine_feedback: Option<Cow<'a, Value>>,
    pub resolved_at: Option<Instant>,
    pub resolved_by: Option<Cow<'a, str>>,
    /// Null if the interrupt timed out.
    pub resume_value: Option<Cow<'a, Value>>,
    pub run_id: RunId,
    pub via: Option<Via>,
}

/// The payload of `approval.received`: the members of the answer, and nodeId.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalReceived<'a>(pub Members<'a, Cow<'a, Value>>);

/// The payload of `clarification.resolved`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationResolved<'a> {
    pub answered_by: Cow<'a, str>,
    #[serialize_always]
    pub answers: Option<Cow<'a, Value>>,
    pub node_id: NodeId,
}

/// The payload of `authorization.decided`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided<'a> {
    pub action: Cow<'a, str>,
    pub allowed: bool,
    pub principal: Cow<'a, str>,
    pub reason: Cow<'a, str>,
    pub resource: String,
}

/// The payload of `approval.granted`, `approval.rejected` and `approval.overridden`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateDecided<'a> {
    #[serialize_always]
    pub gate_id: Option<Cow<'a, Value>>,
    #[serialize_always]
    pub principal: Option<Cow<'a, str>>,
    pub quorum_progress: Option<QuorumProgress>,
    pub reason: Option<Cow<'a, Value>>,
}

/// The number of approvals of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuorumProgress {
    pub granted: usize,
    pub required: u64,
}

/// The payload of `holdpoint.vote.cast`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteCast<'a> {
    pub acted_by: Option<Cow<'a, str>>,
    #[serialize_always]
    pub action: Option<Cow<'a, Value>>,
    #[serialize_always]
    pub decided_at: Option<Cow<'a, Value>>,
    pub decided_by: Cow<'a, str>,
    pub interrupt_id: String,
    #[serialize_always]
    pub node_id: Option<NodeId>,
    pub via: Option<Via>,
}

/// The payload of `holdpoint.vote.repeated`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteRepeated<'a> {
    pub acted_by: Option<Cow<'a, str>>,
    pub action: Cow<'a, str>,
    pub decided_by: Cow<'a, str>,
    pub interrupt_id: String,
    #[serialize_always]
    pub node_id: Option<NodeId>,
    pub via: Option<Via>,
}

/// The payload of `holdpoint.ask.raised`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskRaised<'a> {
    pub acted_by: Option<Cow<'a, str>>,
    pub ask_id: u32,
    pub asked_by: Cow<'a, str>,
    pub interrupt_id: String,
    #[serialize_always]
    pub node_id: Option<NodeId>,
    pub question: Cow<'a, str>,
    pub via: Option<Via>,
}

/// The payload of `holdpoint.ask.answered`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AskAnsweredPayload")]
pub struct AskAnswered<'a> {
    pub answer: Cow<'a, str>,
    pub answered_by: Cow<'a, str>,
    pub ask_id: u32,
    pub interrupt_id: String,
    #[serialize_always]
    pub node_id: Option<NodeId>,
}

/// The payload of `agent.decided`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDecided<'a> {
    pub agent_id: Cow<'a, str>,
    pub confidence: Option<f64>,
    pub decision: Cow<'a, Value>,
    /// The reason that the confidence is invalid.
    pub flaw: Option<Cow<'a, str>>,
    pub message_id: Option<Cow<'a, str>>,
    pub node_id: NodeId,
    pub via: Via,
}

/// The payload of `conversation.opened`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationOpened<'a> {
    pub conversation_id: Option<Cow<'a, Value>>,
    pub initial_prompt: Option<Cow<'a, Value>>,
    #[serialize_always]
    pub opened_by: Option<Cow<'a, str>>,
    pub title: Option<Cow<'a, Value>>,
}

/// The payload of `conversation.exchanged`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationExchanged<'a> {
    pub conversation_id: Option<Cow<'a, Value>>,
    pub outcome: Option<Cow<'a, Value>>,
    pub turn_index: Option<Cow<'a, Value>>,
}

/// The payload of `conversation.closed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationClosed<'a> {
    pub conversation_id: Option<Cow<'a, Value>>,
    pub reason: Option<Cow<'a, Value>>,
    #[serialize_always]
    pub turn_count: Option<u64>,
}
