//! Tests of the tools of agents: MCP servers over stdio and HTTP, HTTP tools, and definitions. The tests need no
//! network.

// Tests may unwrap: a panic is a failed test.
#![allow(clippy::unwrap_used)]

#[path = "../outgoing/peer.rs"]
#[allow(dead_code)]
mod peer;

mod definitions;
mod faults;
mod published;
mod requests;
mod servers;
mod tool_env;
mod web;
