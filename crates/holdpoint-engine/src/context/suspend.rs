//! `suspend`: the alias of `interrupt` with which packs open interrupts.

use holdpoint_core::{InterruptRequest, Kind};
use serde_json::Value;

use super::{Context, Stop};

/// A request of [`Context::suspend`]. Its fields have the names that packs use.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspendRequest {
    /// The kind of the interrupt.
    pub reason: Kind,
    /// The key of the interrupt. Without it, the key is derived from the run, the node and a count.
    pub resume_key: Option<String>,
    /// The payload to show.
    pub data: Value,
    /// The JSON Schema of the answer.
    pub answer_schema: Option<Value>,
    /// The time until the deadline.
    pub timeout_ms: Option<u64>,
}

impl SuspendRequest {
    /// Creates a request with only a reason and data.
    pub fn new(reason: Kind, data: Value) -> Self {
        Self { reason, resume_key: None, data, answer_schema: None, timeout_ms: None }
    }
}

impl From<SuspendRequest> for InterruptRequest {
    fn from(request: SuspendRequest) -> Self {
        let SuspendRequest { reason, resume_key, data, answer_schema, timeout_ms } = request;
        let (key, resume_schema) = (resume_key, answer_schema);
        Self { key, resume_schema, timeout_ms, ..Self::new(reason, data) }
    }
}

impl Context {
    /// Opens an interrupt like [`Self::interrupt`], with the field names of `suspend`.
    pub fn suspend(&mut self, request: SuspendRequest) -> Result<Value, Stop> {
        self.interrupt(request.into())
    }
}
