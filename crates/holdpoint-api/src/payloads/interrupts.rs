//! Payloads of events about interrupts: requests, answers, votes, side questions and conversations.

use std::borrow::Cow;

use holdpoint_ids::{Kind, NodeId, RunId, Via};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::{Instant, Members};

/// The payload of `node.suspended`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspended<'a> {
    /// The agent of a low-confidence interrupt.
    pub agent_id: Option<Cow<'a, Value>>,
    /// The conversation of a conversation exchange.
    pub conversation_id: Option<Cow<'a, Value>>,
    /// The kind that a custom interrupt names.
    pub custom_kind: Option<Cow<'a, Value>>,
    /// The type of the external event that the interrupt waits for.
    pub event_type: Option<Cow<'a, Value>>,
    /// The deadline of the interrupt.
    pub expires_at: Option<Instant>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The key of the interrupt, unique in the run.
    pub key: Option<Cow<'a, str>>,
    /// The kind of the interrupt.
    pub kind: Option<Kind>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The confidence of the model.
    pub observed: Option<Cow<'a, Value>>,
    /// low-confidence or conversation-input. Absent for other kinds.
    pub reason: Option<Cow<'a, str>>,
    /// The required confidence.
    pub threshold: Option<Cow<'a, Value>>,
    /// The number of the turn of the conversation.
    pub turn_index: Option<Cow<'a, Value>>,
}

/// The payload of `node.resumed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeResumed<'a> {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    pub node_id: NodeId,
    /// The answer.
    pub resume_value: Option<Cow<'a, Value>>,
}

/// The payload of `interrupt.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested<'a> {
    /// The data that the interrupt shows.
    pub data: Cow<'a, Value>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The key of the interrupt, unique in the run.
    pub key: Cow<'a, str>,
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The id of the node.
    pub node_id: NodeId,
    /// The instant at which the interrupt opened.
    pub requested_at: Instant,
    /// The id of the run.
    pub run_id: RunId,
    /// The time until the deadline, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// The payload of `approval.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested<'a> {
    /// The actions that the approval offers.
    pub actions: Option<Cow<'a, Value>>,
    /// The principals that may decide.
    pub approvers_list: Option<Cow<'a, Value>>,
    /// The id of the artifact.
    pub artifact_id: Option<Cow<'a, Value>>,
    /// The type of the artifact.
    pub artifact_type: Option<Cow<'a, Value>>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    pub node_id: NodeId,
    /// The number of required approvals.
    pub required_approvals: Option<Cow<'a, Value>>,
}

/// The payload of `clarification.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationRequested<'a> {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    pub node_id: NodeId,
    /// The questions.
    #[serialize_always]
    pub questions: Option<Cow<'a, Value>>,
}

/// The payload of `interrupt.resolved`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InterruptResolvedPayload")]
pub struct InterruptResolved<'a> {
    /// The action of an answer to an approval.
    pub action: Option<Cow<'a, str>>,
    /// The decision of an approval.
    pub decision: Option<Cow<'a, str>>,
    /// The artifact as the approver edited it.
    pub edited_artifact_data: Option<Cow<'a, Value>>,
    /// The id of the grant that the decision created.
    pub grant_id: Option<String>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The id of the node.
    pub node_id: NodeId,
    /// The outcome of the interrupt.
    pub outcome: Option<Cow<'a, str>>,
    /// The votes that decided.
    pub quorum: Option<Cow<'a, Value>>,
    /// The reason of the decision.
    pub reason: Option<Cow<'a, Value>>,
    /// The requested change of the artifact.
    pub refine_feedback: Option<Cow<'a, Value>>,
    /// The instant of the answer.
    pub resolved_at: Option<Instant>,
    /// The principal that answered.
    pub resolved_by: Option<Cow<'a, str>>,
    /// The answer. Null if the interrupt timed out.
    pub resume_value: Option<Cow<'a, Value>>,
    /// Data that the client sent with the answer. Nothing verifies it: names in it are claims.
    pub client_metadata: Option<Cow<'a, Map<String, Value>>>,
    /// The id of the run.
    pub run_id: RunId,
    /// The credential of the answer.
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
    /// The principal that answered.
    pub answered_by: Cow<'a, str>,
    /// The answers by question.
    #[serialize_always]
    pub answers: Option<Cow<'a, Value>>,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `authorization.decided`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided<'a> {
    /// The action of the answer.
    pub action: Cow<'a, str>,
    /// True if the principal may decide.
    pub allowed: bool,
    /// The principal that answered.
    pub principal: Cow<'a, str>,
    /// The reason.
    pub reason: Cow<'a, str>,
    /// The id of the interrupt.
    pub resource: String,
}

/// The payload of `approval.granted`, `approval.rejected` and `approval.overridden`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateDecided<'a> {
    /// The id of the gate in its configuration.
    #[serialize_always]
    pub gate_id: Option<Cow<'a, Value>>,
    /// The principal of the last answer.
    #[serialize_always]
    pub principal: Option<Cow<'a, str>>,
    /// The number of approvals.
    pub quorum_progress: Option<QuorumProgress>,
    /// The reason that the principal gave.
    pub reason: Option<Cow<'a, Value>>,
}

/// The number of approvals of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuorumProgress {
    /// The number of approvals so far.
    pub granted: usize,
    /// The number of required approvals.
    pub required: u64,
}

/// The payload of `holdpoint.vote.cast`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteCast<'a> {
    /// The principal that acted in the name of another one.
    pub acted_by: Option<Cow<'a, str>>,
    /// The action of the vote.
    #[serialize_always]
    pub action: Option<Cow<'a, Value>>,
    /// The instant of the vote.
    #[serialize_always]
    pub decided_at: Option<Cow<'a, Value>>,
    /// The principal in whose name the vote was cast.
    pub decided_by: Cow<'a, str>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    #[serialize_always]
    pub node_id: Option<NodeId>,
    /// Data that the client sent with the answer. Nothing verifies it: names in it are claims.
    pub client_metadata: Option<Cow<'a, Map<String, Value>>>,
    /// The credential of the vote.
    pub via: Option<Via>,
}

/// The payload of `holdpoint.vote.repeated`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteRepeated<'a> {
    /// The principal that acted in the name of another one.
    pub acted_by: Option<Cow<'a, str>>,
    /// The action of the vote.
    pub action: Cow<'a, str>,
    /// The principal in whose name the vote was cast.
    pub decided_by: Cow<'a, str>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    #[serialize_always]
    pub node_id: Option<NodeId>,
    /// The credential of the vote.
    pub via: Option<Via>,
}

/// The payload of `holdpoint.ask.raised`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskRaised<'a> {
    /// The principal that acted in the name of another one.
    pub acted_by: Option<Cow<'a, str>>,
    /// The number of the side question, from 1.
    pub ask_id: u32,
    /// The principal that asked.
    pub asked_by: Cow<'a, str>,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    #[serialize_always]
    pub node_id: Option<NodeId>,
    /// The side question.
    pub question: Cow<'a, str>,
    /// The credential of the side question.
    pub via: Option<Via>,
}

/// The payload of `holdpoint.ask.answered`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AskAnsweredPayload")]
pub struct AskAnswered<'a> {
    /// The answer.
    pub answer: Cow<'a, str>,
    /// The principal that answered.
    pub answered_by: Cow<'a, str>,
    /// The number of the side question, from 1.
    pub ask_id: u32,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    #[serialize_always]
    pub node_id: Option<NodeId>,
}

/// The payload of `agent.decided`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDecided<'a> {
    /// The id of the agent.
    pub agent_id: Cow<'a, str>,
    /// The confidence of the model, from 0 to 1.
    pub confidence: Option<f64>,
    /// The decision of the agent.
    pub decision: Cow<'a, Value>,
    /// The reason for which the confidence is invalid.
    pub flaw: Option<Cow<'a, str>>,
    /// The message with the decision.
    pub message_id: Option<Cow<'a, str>>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The agent as the credential.
    pub via: Via,
}

/// The payload of `conversation.opened`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationOpened<'a> {
    /// The id of the conversation.
    pub conversation_id: Option<Cow<'a, Value>>,
    /// The first prompt of the conversation.
    pub initial_prompt: Option<Cow<'a, Value>>,
    /// The principal that owns the run.
    #[serialize_always]
    pub opened_by: Option<Cow<'a, str>>,
    /// The title of the conversation.
    pub title: Option<Cow<'a, Value>>,
}

/// The payload of `conversation.exchanged`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationExchanged<'a> {
    /// The id of the conversation.
    pub conversation_id: Option<Cow<'a, Value>>,
    /// The answer. Absent if the exchange timed out.
    pub outcome: Option<Cow<'a, Value>>,
    /// The number of the turn.
    pub turn_index: Option<Cow<'a, Value>>,
}

/// The payload of `conversation.closed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationClosed<'a> {
    /// The id of the conversation.
    pub conversation_id: Option<Cow<'a, Value>>,
    /// The reason of the end.
    pub reason: Option<Cow<'a, Value>>,
    /// The number of turns.
    #[serialize_always]
    pub turn_count: Option<u64>,
}
