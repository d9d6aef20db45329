//! Agents: a model, tools, and rules about which calls somebody must allow first. The loop is one node type; what it
//! does is recorded by the core, so that it goes on where it was, on any node.

mod calls;
mod clearance;
mod client;
mod connection;
mod definition;
mod doubt;
mod earlier;
pub(crate) mod edits;
pub mod model;
pub(crate) mod node;
pub(crate) mod rules;
mod servers;
mod setup;
mod speech;
pub mod tool;
mod watch;
mod workflows;

pub use client::{CLIENT_CONTEXT, CLIENT_TOOLS};
pub(crate) use connection::check_reserved_names;
pub use connection::{Connection, Connections};
pub use definition::AgentFlaw;
pub(crate) use definition::variables;
pub(crate) use node::AgentNode;
pub use setup::AgentSettings;
pub(crate) use setup::{Agents, NODE, workflow_id};
pub(crate) use watch::ended;

/// What is wrong with a definition, whoever is to use it.
pub(crate) fn check(definition: &serde_json::Value) -> Result<(), AgentFlaw> {
    definition::Definition::parse(definition).map(|_| ())
}
