//! Tests of graphs and of their providers.

// Tests may unwrap: a panic is a failed test.
#![allow(clippy::unwrap_used)]

// The names of the fixtures in the tests.
#[path = "../../../holdpoint-engine/tests/fixtures/mod.rs"]
mod fixtures;
use fixtures::{database as test_database, env as test_env};

mod claude;
mod graphs;
mod langgraph;
mod third_party;
mod turns;
