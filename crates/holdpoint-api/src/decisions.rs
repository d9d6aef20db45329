//! Decisions about tool calls of agents.

use std::collections::BTreeMap;

use holdpoint_ids::{ResumeDecisionAction, RunId, Status, StrictValue, ToolCallResumeMode};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::basics::{NO_CONTROL, not_null};
use crate::interrupts::AnswerOutcome;

/// The largest number of characters in the id of a decision. An idempotency key can be such an id.
pub const DECISION_ID_CHARS_MAX: usize = 255;

/// The body of `POST /v1/runs/{runId}/decision` and of `POST /v1/threads/{threadId}/decision`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    extend(
        "additionalProperties" = false,
        "oneOf" = [{"required": ["toolCallId"]}, {"required": ["ticketId"]}],
        "not" = {"required": ["result", "payload"]}
    ),
    transform = add_payload,
    example = json!({"toolCallId": "call-1-0", "action": "resume"})
)]
pub struct DecideCall {
    /// The id of the tool call. Not together with ticketId.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String")]
    pub tool_call_id: Option<String>,
    /// The id of the ticket. Not together with toolCallId.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String")]
    pub ticket_id: Option<String>,
    /// resume lets the call proceed; cancel declines it.
    pub action: ResumeDecisionAction,
    /// The answer that the tool requires. `{arguments}` or `{result}` change a call that is allowed.
    #[serde(alias = "payload")]
    pub result: Option<StrictValue>,
    /// The reason, which the agent receives with cancel.
    pub reason: Option<String>,
    /// The id of the decision. A second request with the same id is the same decision. The default is the
    /// Idempotency-Key.
    #[schemars(length(min = 1, max = DECISION_ID_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub decision_id: Option<String>,
    /// The digest of the data that the approver was shown, as the list of pending interrupts has it. A decision with
    /// another digest is rejected.
    pub digest: Option<String>,
    /// Unknown members, which the server rejects by name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, StrictValue>,
}

/// Adds `payload`, an alias of `result`.
fn add_payload(schema: &mut Schema) {
    if let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        members.insert("payload".to_owned(), json!({"description": "An alias of result."}));
    }
}

/// A decision that the run has received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallDecided {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the thread.
    pub thread_id: String,
    /// The id of the decision.
    pub decision_id: String,
    /// The status of the run.
    pub status: Status,
    /// The effect of the decision.
    pub outcome: AnswerOutcome,
    /// The id of the ticket.
    pub ticket_id: Option<String>,
    /// The id of the tool call.
    pub tool_call_id: Option<String>,
}

/// The reason for which a run waits, with the calls that wait for a decision.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunWaitingState {
    /// The reason for which the run waits.
    pub reason: WaitingReason,
    /// The ids of the tickets.
    pub ticket_ids: Vec<String>,
    /// The tool calls that wait.
    pub tickets: Vec<ToolTicket>,
    /// The text of the open interrupt, if it has one.
    pub message: Option<String>,
    /// The dispatch in which the run began to wait, as long as it is stored.
    pub since_dispatch_id: Option<String>,
}

/// The reason for which a run waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WaitingReason {
    /// The run waits for an answer.
    UserInput,
    /// A tool call waits for a decision.
    ToolPermission,
    /// The run waits for an external event.
    ExternalEvent,
    /// The run is paused.
    ManualPause,
}

/// A tool call that waits for a decision, or whose decision is not executed yet.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolTicket {
    /// The id of the ticket.
    pub ticket_id: String,
    /// The id of the tool call.
    pub tool_call_id: String,
    /// The name of the tool.
    pub tool_name: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// The effect of the decision on the call.
    pub resume_mode: ToolCallResumeMode,
    /// The reason for which the call waits.
    pub reason: String,
    /// The text that the approver is shown.
    pub message: String,
    /// The JSON Schema of the result.
    pub response_schema: Option<Value>,
    /// The deadline of the decision.
    pub expires_at: Option<Instant>,
    /// The state of the call.
    pub status: TicketStatus,
    /// The decision, if there is one.
    pub decision: Option<TicketDecision>,
}

/// The state of a call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum TicketStatus {
    /// The call waits for a decision.
    Suspended,
    /// The call is decided, and the decision is not executed yet.
    Resuming,
}

/// The decision about a call. It has no author if the deadline passed.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TicketDecision {
    /// The id of the decision.
    pub decision_id: Option<String>,
    /// The principal that decided.
    pub decided_by: Option<String>,
    /// The instant of the decision.
    pub decided_at: Instant,
    /// True if the deadline passed without a decision.
    pub timed_out: bool,
}
