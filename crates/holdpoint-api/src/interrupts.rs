//! Interrupts: answers, votes, questions of approvers, and the history of a run.

use std::borrow::Cow;

use holdpoint_ids::{
    Kind, NodeId, ResumeDecisionAction, RunId, Status, StrictValue, TenantId, Via, WorkflowId, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::grants::Permit;

/// The query parameter that names an interrupt of a node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptQuery {
    /// The id of the interrupt. Required here or in the body if the node has several open interrupts.
    pub interrupt_id: Option<String>,
}

/// The body of `POST /v1/runs/{runId}/interrupts/{nodeId}` and of an answer over a link.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolveInterrupt {
    /// The answer. Its form depends on the kind of the interrupt.
    pub resume_value: StrictValue,
    /// The digest of the payload that was shown to the approver. An answer with the digest of another payload is
    /// rejected with payload_mismatch.
    pub digest: Option<String>,
    /// The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected
    /// with interrupt_ambiguous.
    pub interrupt_id: Option<String>,
}

/// A requested change of an artifact, by the part that it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "scope", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum RefineFeedback {
    Whole { text: String },
    Section { section_path: String, text: String },
    Items { item_ids: Vec<String>, text: String },
}

/// The body of `POST /v1/runs/{runId}/approvals/{nodeId}`: the answer itself, with an action or with the decision of
/// older clients.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", try_from = "StrictValue")]
#[schemars(!try_from)]
pub struct ResolveApproval {
    /// The digest of the payload that was shown to the approver. An answer with the digest of another payload is
    /// rejected with payload_mismatch.
    pub digest: Option<String>,
    /// The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected
    /// with interrupt_ambiguous.
    pub interrupt_id: Option<String>,
    /// The members of the answer.
    #[serde(flatten)]
    pub resume_value: Map<String, Value>,
}

impl TryFrom<StrictValue> for ResolveApproval {
    type Error = &'static str;

    fn try_from(StrictValue(value): StrictValue) -> Result<Self, Self::Error> {
        let Value::Object(mut members) = value else { return Err("must be an object with an action") };
        let mut take = |member: &str, wrong| match members.shift_remove(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong),
        };
        let digest = take("digest", "digest must be a string")?;
        let interrupt_id = take("interruptId", "interruptId must be a string")?;
        Ok(Self { digest, interrupt_id, resume_value: members })
    }
}

/// The answer to an approval, as resumeValue.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAnswer<'a> {
    /// One of the actions that the interrupt offers.
    pub action: Cow<'a, str>,
    /// The reason of the approver.
    pub feedback: Option<Cow<'a, str>>,
    /// The artifact that replaces the one that was shown. Of a tool call, an EditedCall.
    pub edited_artifact_data: Option<Cow<'a, Value>>,
    /// The change that the action refine requests.
    pub refine_feedback: Option<RefineFeedback>,
    /// The side question of the action ask.
    pub question: Option<Cow<'a, str>>,
}

/// The part of a tool call that an approver replaces.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EditedCall<'a> {
    /// The arguments of the call.
    pub arguments: Option<Cow<'a, Value>>,
    /// The result of the call, which is then not made.
    pub result: Option<Cow<'a, Value>>,
}

/// The answer to a tool call that waits, as resumeValue.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallAnswer<'a> {
    /// resume lets the call proceed; cancel declines it.
    pub action: ResumeDecisionAction,
    /// The answer that the tool requires.
    pub result: Option<Cow<'a, Value>>,
    /// The reason, which the agent receives with cancel.
    pub reason: Option<Cow<'a, str>>,
}

/// The answer to a clarification, as resumeValue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClarificationAnswer<'a> {
    /// The answers by the id of their question, or in the order of the questions.
    pub answers: Cow<'a, Value>,
}

/// The body of a request to the service that answers side questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SideQuestion<'a> {
    /// The tenant of the run.
    pub tenant_id: TenantId,
    /// The run that waits.
    pub run_id: RunId,
    /// The workflow of the run.
    pub workflow_id: WorkflowId,
    /// The node that waits.
    pub node_id: NodeId,
    /// The interrupt that the question is about.
    pub interrupt_id: Cow<'a, str>,
    /// The number of the question.
    pub ask_id: u32,
    /// The question of the approver.
    pub question: Cow<'a, str>,
    /// The approver.
    pub asked_by: Cow<'a, str>,
    /// The instant of the question.
    pub asked_at: Instant,
    /// The data of the interrupt.
    pub data: Cow<'a, Value>,
}

/// The effect of an answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptResolved {
    pub run_id: RunId,
    pub node_id: NodeId,
    pub interrupt_id: Option<String>,
    pub status: Status,
    pub outcome: AnswerOutcome,
    /// The number of the question that the approver asked.
    #[schemars(range(min = 1))]
    pub ask_id: Option<u32>,
    #[schemars(range(min = 1))]
    pub required_approvals: Option<u64>,
    pub votes: Option<Vec<Vote>>,
    /// The id of the grant that the decision created.
    pub grant_id: Option<String>,
}

/// The effect of an answer on its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnswerOutcome {
    /// The interrupt is closed.
    Resolved,
    /// The answer is a vote, and more votes are required.
    Voted,
    /// The same principal gave the same answer again.
    Repeated,
    /// The answer is a question of the approver.
    Asked,
}

/// A vote of an approver.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    pub decided_by: String,
    /// The principal that voted in the name of decidedBy.
    pub acted_by: Option<String>,
    pub action: String,
    pub at: Instant,
    pub via: Option<Via>,
    /// The vote was cast in the run that this one was copied from and does not count.
    pub copied: Option<bool>,
}

/// A page of the interrupts of a run, in their order.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptHistory<'a> {
    pub run_id: RunId,
    pub interrupts: Vec<InterruptRecord<'a>>,
    pub next_cursor: Option<String>,
}

/// An interrupt with its votes, questions and decision.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRecord<'a> {
    pub interrupt_id: String,
    pub node_id: NodeId,
    pub kind: Kind,
    pub key: Cow<'a, str>,
    pub title: Cow<'a, str>,
    pub data: Cow<'a, Value>,
    pub digest: Option<Cow<'a, str>>,
    pub requested_at: Instant,
    pub timeout_ms: Option<u64>,
    pub expires_at: Option<Instant>,
    /// The JSON Schema of the answer.
    #[schemars(extend("type" = ["object", "boolean"]))]
    pub resume_schema: Option<Cow<'a, Value>>,
    pub status: InterruptStatus,
    pub assignees: Vec<String>,
    pub required_approvals: Option<u64>,
    pub votes: Vec<Vote>,
    pub repeated_votes: u32,
    pub asks: Vec<Ask>,
    pub decision: Option<InterruptDecision>,
    pub permits: Option<Vec<Permit>>,
    pub grant_id: Option<String>,
}

/// The state of an interrupt. The end of a run cancels its open interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptStatus {
    Open,
    Answered,
    TimedOut,
    Cancelled,
}

/// The outcome of an interrupt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptDecision {
    /// The answer. Null if the interrupt timed out.
    pub value: Value,
    pub by: String,
    pub at: Instant,
    pub action: Option<String>,
    pub decision: Option<String>,
    pub reason: Option<String>,
    pub via: Option<Via>,
}

/// A question that an approver asks before the decision.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    #[schemars(range(min = 1))]
    pub ask_id: u32,
    pub question: String,
    pub asked_by: String,
    pub asked_at: Instant,
    pub via: Option<Via>,
    pub answer: Option<String>,
    pub answered_by: Option<String>,
    pub answered_at: Option<Instant>,
}

/// The questions that approvers asked about an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskList {
    pub run_id: RunId,
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub asks: Vec<Ask>,
}

/// The body of `POST /v1/runs/{runId}/interrupts/{nodeId}/asks/{askId}`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerAsk {
    /// The answer to the side question.
    #[schemars(length(min = 1, max = limits::ASK_CHARS_MAX))]
    pub answer: String,
    /// The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected
    /// with interrupt_ambiguous.
    pub interrupt_id: Option<String>,
}

/// A question of an approver with its answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskAnswered {
    pub run_id: RunId,
    pub node_id: NodeId,
    pub interrupt_id: String,
    #[schemars(range(min = 1))]
    pub ask_id: u32,
    pub question: String,
    pub asked_by: String,
    pub asked_at: Instant,
    pub via: Option<Via>,
    pub answer: String,
    pub answered_by: String,
    pub answered_at: Instant,
}
