//! Tests of the LangGraph provider: with a fake server in this process, which can fail on request, and with the
//! published server.

// Tests may unwrap: a panic is a failed test.
#![allow(clippy::unwrap_used)]

#[path = "../test_database/mod.rs"]
mod test_database;

mod answers;
mod fake;
mod fake_state;
mod graph_env;
mod nodes;
mod outages;
mod real_langgraph;
mod real_server;
mod refusals;
