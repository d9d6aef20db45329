//! Errors: the body of every response that is not a success.

use std::borrow::Cow;

use holdpoint_ids::{Kind, RunId, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::decisions::TicketDecision;

pub use holdpoint_ids::ErrorCode;

/// The body of every response that is not a success.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Error {
    /// The stable error code, for programs. The examples are the codes of this version; other versions may have further
    /// codes.
    #[schemars(regex(pattern = "^[a-z][a-z_]*$"), extend("examples" = ErrorCode::WORDS))]
    pub error: Cow<'static, str>,
    /// The error in a sentence, for people.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Further members, depending on the code.
    pub details: Option<Box<ErrorDetails>>,
}

/// Details of an error. The members depend on the code.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetails {
    /// The member, parameter or header that is invalid.
    pub field: Option<String>,
    /// The number of events in the log.
    pub events: Option<u64>,
    /// The types of events that a webhook may subscribe to.
    pub known: Option<Vec<Cow<'static, str>>>,
    /// The supported values.
    pub supported: Option<Vec<Cow<'static, str>>>,
    /// The latest expiry that the new key may have.
    pub expires_at_max: Option<Instant>,
    /// Every flaw of the workflow.
    pub flaws: Option<Vec<WorkflowFlaw>>,
    /// The feature that the operator has disabled.
    pub required_capability: Option<String>,
    /// The node that needs the feature.
    pub node_id: Option<String>,
    /// The scope that the caller lacks.
    pub scope_required: Option<String>,
    /// The keys of the open interrupts of a graph.
    pub keys: Option<Vec<String>>,
    /// The ids of the open interrupts.
    pub interrupt_ids: Option<Vec<String>>,
    /// The limit that the body or the value exceeds.
    pub max_bytes: Option<usize>,
    /// The status of the run.
    pub run_status: Option<Status>,
    /// The unfinished run.
    pub active_run_id: Option<RunId>,
    /// The name of the server that has the unfinished run.
    pub active_host: Option<Cow<'static, str>>,
    /// Seconds after which a retry may succeed.
    pub retry_after: Option<u64>,
    /// Milliseconds after which a retry may succeed.
    pub retry_after_ms: Option<u64>,
    /// The subject of the rate limit: key, address, route or global.
    pub scope: Option<String>,
    /// The quota that is used up.
    pub quota: Option<Cow<'static, str>>,
    /// The limit of the quota.
    pub limit: Option<u64>,
    /// The status of the dispatch.
    pub status: Option<Cow<'static, str>>,
    /// The run of the dispatch.
    pub run_id: Option<String>,
    /// The other dispatch.
    pub dispatch_id: Option<String>,
    /// The epoch of the dispatch.
    pub dispatch_epoch: Option<u64>,
    /// The epoch of the thread.
    pub current_epoch: Option<u64>,
    /// The version that the request expects.
    pub expected: Option<u64>,
    /// The version that is stored.
    pub actual: Option<u64>,
    /// The state of a webhook, or of a link: answered, cancelled, expired or revoked.
    pub state: Option<Cow<'static, str>>,
    /// The kind of the interrupt of the link.
    pub kind: Option<Kind>,
    /// The title of the interrupt of the link.
    pub title: Option<String>,
    /// The principal that answered the interrupt of the link.
    pub answered_by: Option<String>,
    /// The instant of that answer.
    pub answered_at: Option<Instant>,
    /// The action of that answer.
    pub action: Option<Value>,
    /// The decision that was made before.
    #[serde(flatten)]
    pub decision: Option<TicketDecision>,
    /// The id under which the log of the server has the cause.
    pub correlation_id: Option<String>,
}

impl ErrorDetails {
    /// Returns details that name an invalid field.
    pub fn of_field(name: &str) -> Self {
        Self { field: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns details that name a missing scope.
    pub fn of_scope(name: &str) -> Self {
        Self { scope_required: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns details that name the state of a resource.
    pub fn of_state(name: &'static str) -> Self {
        Self { state: Some(name.into()), ..Self::default() }
    }
}

/// A flaw of a workflow.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowFlaw {
    /// The node that has the flaw. Absent if the definition itself has it.
    pub node_id: Option<String>,
    /// The member, as a path from the node or from the definition.
    pub field: String,
    /// The flaw in a sentence.
    pub message: String,
}
