//! Interrupts: answers, votes, side questions, and the history of a run.

use std::borrow::Cow;

use holdpoint_ids::{
    Kind, NodeId, ResumeDecisionAction, RunId, Status, StrictValue, TenantId, Via, WorkflowId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::grants::Permit;
pub use crate::side_questions::{AnswerAsk, Ask, AskAnswered, AskList};

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
    /// A change of the whole artifact.
    Whole {
        /// The requested change.
        text: String,
    },
    /// A change of one section.
    Section {
        /// The path of the section.
        section_path: String,
        /// The requested change.
        text: String,
    },
    /// A change of some items.
    Items {
        /// The ids of the items.
        item_ids: Vec<String>,
        /// The requested change.
        text: String,
    },
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
    /// The artifact that replaces the one that was shown. For a tool call: an EditedCall.
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
    /// The interrupt that the side question is about.
    pub interrupt_id: Cow<'a, str>,
    /// The number of the side question, from 1.
    pub ask_id: u32,
    /// The side question.
    pub question: Cow<'a, str>,
    /// The approver.
    pub asked_by: Cow<'a, str>,
    /// The instant of the side question.
    pub asked_at: Instant,
    /// The data of the interrupt.
    pub data: Cow<'a, Value>,
}

/// The effect of an answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptResolved {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the interrupt.
    pub interrupt_id: Option<String>,
    /// The status of the run after the answer.
    pub status: Status,
    /// The effect of the answer.
    pub outcome: AnswerOutcome,
    /// The number of the side question that the answer asked.
    #[schemars(range(min = 1))]
    pub ask_id: Option<u32>,
    /// The number of required approvals.
    #[schemars(range(min = 1))]
    pub required_approvals: Option<u64>,
    /// The votes in the order in which they were cast.
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
    /// The answer is a side question.
    Asked,
}

/// A vote of an approver.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// The principal in whose name the vote was cast.
    pub decided_by: String,
    /// The principal that voted in the name of decidedBy.
    pub acted_by: Option<String>,
    /// The action of the vote.
    pub action: String,
    /// The instant of the vote.
    pub at: Instant,
    /// Data that the client sent with the answer. Nothing verifies it: names in it are claims.
    pub client_metadata: Option<Map<String, Value>>,
    /// The credential of the vote.
    pub via: Option<Via>,
    /// True if the vote was cast in the source of this fork; it does not count.
    pub copied: Option<bool>,
}

/// A page of the interrupts of a run, in their order.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptHistory<'a> {
    /// The id of the run.
    pub run_id: RunId,
    /// The interrupts of this page.
    pub interrupts: Vec<InterruptRecord<'a>>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// An interrupt with its votes, side questions and decision.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRecord<'a> {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The id of the node.
    pub node_id: NodeId,
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The key of the interrupt, unique in the run.
    pub key: Cow<'a, str>,
    /// The title of the interrupt.
    pub title: Cow<'a, str>,
    /// The data that the interrupt shows.
    pub data: Cow<'a, Value>,
    /// The digest of the data.
    pub digest: Option<Cow<'a, str>>,
    /// The instant at which the interrupt opened.
    pub requested_at: Instant,
    /// The time until the deadline, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The deadline of the interrupt.
    pub expires_at: Option<Instant>,
    /// The JSON Schema of the answer.
    #[schemars(extend("type" = ["object", "boolean"]))]
    pub resume_schema: Option<Cow<'a, Value>>,
    /// The state of the interrupt.
    pub status: InterruptStatus,
    /// The principals that may answer: names, role:x or group:y.
    pub assignees: Vec<String>,
    /// The number of required approvals.
    pub required_approvals: Option<u64>,
    /// The votes in the order in which they were cast.
    pub votes: Vec<Vote>,
    /// The number of repeated votes.
    pub repeated_votes: u32,
    /// The side questions in the order in which they were asked.
    pub asks: Vec<Ask>,
    /// The outcome. Absent while the interrupt is open.
    pub decision: Option<InterruptDecision>,
    /// The effects that an approval permits.
    pub permits: Option<Vec<Permit>>,
    /// The id of the grant that the decision created.
    pub grant_id: Option<String>,
}

/// The state of an interrupt. The end of a run cancels its open interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptStatus {
    /// The interrupt waits for an answer.
    Open,
    /// An answer resolved the interrupt.
    Answered,
    /// The deadline passed without an answer.
    TimedOut,
    /// The interrupt was cancelled.
    Cancelled,
}

/// The outcome of an interrupt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptDecision {
    /// The answer. Null if the interrupt timed out.
    pub value: Value,
    /// The principal that answered.
    pub by: String,
    /// The instant of the outcome.
    pub at: Instant,
    /// The action of an answer to an approval.
    pub action: Option<String>,
    /// The decision of an approval.
    pub decision: Option<String>,
    /// The reason of the decision.
    pub reason: Option<String>,
    /// Data that the client sent with the answer. Nothing verifies it: names in it are claims.
    #[serde(rename = "clientMetadata")]
    pub client_metadata: Option<Map<String, Value>>,
    /// The credential of the answer.
    pub via: Option<Via>,
}
