//! Sample extensions of the engine.
//!
//! - [`ContentReview`]: the graph `content-review`, which writes a text, shows it to a reviewer and publishes it
//! - [`demo`]: agents that need no model
//! - [`Conformance`]: the node types that the public OpenWOP suite needs

#![warn(missing_docs)]

use holdpoint_core::{TenantId, WorkflowId};
use holdpoint_engine::extension::{Extension, NodeTypes};
use serde_json::Value;

pub mod content_review;
pub mod demo;
mod mock_agent;
mod requires_missing;

const CONTENT_REVIEW: &str = include_str!("content-review.json");

/// The graph `content-review`. The engine registers it when a tenant uses it and has no workflow with its id.
#[derive(Clone, Copy, Debug)]
pub struct ContentReview;

impl Extension for ContentReview {
    fn add_nodes(&self, types: &mut NodeTypes) {
        content_review::add_to(types);
    }

    fn offered_workflow(&self, _tenant: &TenantId, id: &WorkflowId) -> Option<Value> {
        let is_offered = id.as_str() == "content-review";
        is_offered.then(|| {
            serde_json::from_str(CONTENT_REVIEW).expect("the file is part of this crate and a test reads it")
        })
    }
}

/// The node types that the public OpenWOP suite needs.
#[derive(Clone, Copy, Debug)]
pub struct Conformance;

impl Extension for Conformance {
    fn add_nodes(&self, types: &mut NodeTypes) {
        types.pure("core.conformance.mock-agent", mock_agent::MockAgent);
        types.pure("conformance.requiresMissing", requires_missing::RequiresMissing);
    }
}
