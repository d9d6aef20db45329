//! Agents: a model, tools, and rules for the calls that need an approval. The agent loop is one node type. The core
//! records each of its steps, so any process can continue the run.
//!
//! Add [`AgentRuntime`] to the options of the engine, and import [`EngineAgents`] for `engine.agents()`. Tools that are
//! written in Rust implement [`tool::Toolbox`]; [`AgentSettings::rust`] has them by name.

#![warn(missing_docs)]

mod agents;
mod budgets;
mod calls;
mod clearance;
mod client_metadata;
mod connection;
mod definition;
mod edits;
mod history;
mod low_confidence;
pub mod model;
mod node;
mod reply_stream;
mod rules;
mod servers;
mod setup;
mod thread_input;
pub mod tool;
mod traits;
mod workflow_tools;

pub use agents::{Agents, EngineAgents};
pub use client_metadata::{CLIENT_CONTEXT, CLIENT_TOOLS};
pub(crate) use connection::check_reserved_names;
pub use connection::{Connection, Connections};
pub use definition::AgentFlaw;
pub(crate) use definition::variables;
pub use setup::{AgentRuntime, AgentSettings, workflow_id};
pub(crate) use setup::{NODE, NODE_TYPE};
pub use thread_input::{AgentInput, MessageTiming};
pub use traits::AgentTraits;

/// Checks a definition, except for its connections: the tenant decides which connections it may use.
pub(crate) fn check(definition: &serde_json::Value) -> Result<(), AgentFlaw> {
    definition::Definition::parse(definition).map(|_| ())
}
