//! Side questions of approvers.

use holdpoint_ids::{NodeId, RunId, Via, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;

/// A side question: a question that an approver asks before the decision.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// The number of the side question, from 1.
    #[schemars(range(min = 1))]
    pub ask_id: u32,
    /// The side question.
    pub question: String,
    /// The principal that asked.
    pub asked_by: String,
    /// The instant of the side question.
    pub asked_at: Instant,
    /// The credential of the side question.
    pub via: Option<Via>,
    /// The answer.
    pub answer: Option<String>,
    /// The principal that answered.
    pub answered_by: Option<String>,
    /// The instant of the answer.
    pub answered_at: Option<Instant>,
}

/// The side questions about an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskList {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The side questions in the order in which they were asked.
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

/// A side question with its answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskAnswered {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The number of the side question, from 1.
    #[schemars(range(min = 1))]
    pub ask_id: u32,
    /// The side question.
    pub question: String,
    /// The principal that asked.
    pub asked_by: String,
    /// The instant of the side question.
    pub asked_at: Instant,
    /// The credential of the side question.
    pub via: Option<Via>,
    /// The answer.
    pub answer: String,
    /// The principal that answered.
    pub answered_by: String,
    /// The instant of the answer.
    pub answered_at: Instant,
}
