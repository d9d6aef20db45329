//! Agents: a model, tools, and rules for the calls that need an approval. The agent loop is one node type. The core
//! records each of its steps, so any process can continue the run.

mod calls;
mod clearance;
mod client_metadata;
mod connection;
mod definition;
pub(crate) mod edits;
mod history;
mod low_confidence;
pub mod model;
pub(crate) mod node;
mod reply_stream;
pub(crate) mod rules;
mod run_end;
mod servers;
mod setup;
pub mod tool;
mod workflow_tools;

pub use client_metadata::{CLIENT_CONTEXT, CLIENT_TOOLS};
pub(crate) use connection::check_reserved_names;
pub use connection::{Connection, Connections};
pub use definition::AgentFlaw;
pub(crate) use definition::variables;
pub(crate) use node::AgentNode;
pub(crate) use run_end::wait_for_run_end;
pub use setup::AgentSettings;
pub(crate) use setup::{AgentRuntime, NODE, workflow_id};

/// Checks a definition, except for its connections: the tenant decides which connections it may use.
pub(crate) fn check(definition: &serde_json::Value) -> Result<(), AgentFlaw> {
    definition::Definition::parse(definition).map(|_| ())
}
