//! Tools of agents: MCP servers that behave and others, programs and URLs; HTTP tools; definitions. Everything stays
//! on this machine.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../outgoing/peer.rs"]
#[allow(dead_code)]
mod peer;

mod definitions;
mod faults;
mod published;
mod requests;
mod servers;
mod web;
mod world;
