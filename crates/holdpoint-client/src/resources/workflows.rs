//! Workflow definitions.

use holdpoint_api::grants::WorkflowGrants;
use holdpoint_api::ids::encode_segment;
use holdpoint_api::workflows::{WorkflowList, WorkflowRegistered};
use serde::Serialize;
use serde_json::Value;

use crate::{Client, Request};

/// Registers and reads workflow definitions.
#[derive(Clone, Copy, Debug)]
pub struct Workflows<'a>(pub(super) &'a Client);

impl Workflows<'_> {
    /// Lists the registered workflows.
    pub fn list(self) -> Request<WorkflowList> {
        self.0.get("/v1/workflows")
    }

    /// Returns a registered definition.
    pub fn get(self, workflow: &str) -> Request<Value> {
        self.0.get(format!("/v1/workflows/{}", encode_segment(workflow)))
    }

    /// Registers a definition, or a new revision of it.
    pub fn put(self, workflow: &str, definition: &impl Serialize) -> Request<WorkflowRegistered> {
        self.0.put(format!("/v1/workflows/{}", encode_segment(workflow))).body(definition)
    }

    /// Registers a definition from its JSON text, which is sent unchanged.
    pub fn put_text(self, workflow: &str, definition: String) -> Request<WorkflowRegistered> {
        self.0.put(format!("/v1/workflows/{}", encode_segment(workflow))).body_text(definition)
    }

    /// Returns the effects that the gates of a workflow permit.
    pub fn grants(self, workflow: &str) -> Request<WorkflowGrants> {
        self.0.get(format!("/v1/workflows/{}/grants", encode_segment(workflow)))
    }
}
