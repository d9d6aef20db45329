//! Graphs on a LangGraph server: one in this process that speaks the real wire and fails as told, and the real one.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../place/mod.rs"]
mod place;

mod answers;
mod fake;
mod fake_world;
mod house;
mod nodes;
mod outages;
mod real_langgraph;
mod real_server;
mod refusals;
