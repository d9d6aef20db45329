//! Agents: a model, tools, and rules about which calls somebody must allow first. The loop is one node type; what it
//! does is recorded by the core, so that it goes on where it was, on any node.

pub mod model;
pub mod tool;
