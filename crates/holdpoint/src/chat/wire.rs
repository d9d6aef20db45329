//! What the contract says on the wire.

use holdpoint_core::StrictValue;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Chat {
    pub graph: Option<String>,
    pub state_key: Option<String>,
    pub input: Option<StrictValue>,
    pub messages: Option<Vec<StrictValue>>,
    /// Null is an answer, too.
    #[serde(default, deserialize_with = "given")]
    pub resume_value: Option<StrictValue>,
    pub resume_id: Option<String>,
    pub interrupt: Option<Answered>,
    pub wait_ms: Option<u64>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StrictValue>, D::Error> {
    StrictValue::deserialize(deserializer).map(Some)
}

/// What an answer is about, as it was shown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    pub kind: String,
    pub data: StrictValue,
}

/// Where a graph stands, for whoever began or answered it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Outcome {
    Completed {
        state_key: String,
        output: Value,
    },
    NeedsInput {
        state_key: String,
        interrupt: Envelope,
    },
    Error {
        state_key: String,
        error: Problem,
    },
    /// It is still at work. Only for those who would not wait longer, or ask where it stands.
    Running {
        state_key: String,
    },
}

/// What somebody must answer: nothing else of it leaves here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Envelope {
    pub kind: String,
    pub data: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Problem {
    pub code: String,
    pub message: String,
    /// The same answer under a new `resumeId` may get through.
    pub retryable: bool,
}

/// Where a graph stands, for whoever asks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Standing {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub graph: String,
    pub created_at: String,
    pub expires_at: String,
    /// Why the last answer did not get through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Value>,
}
