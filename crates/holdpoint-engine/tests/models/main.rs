//! Tests of models: chat-completions endpoints over real sockets, and scripted models. The tests need no network.

// Tests may unwrap: a panic is a failed test.
#![allow(clippy::unwrap_used)]

mod definitions;
mod failures;
mod fake_endpoint;
mod keys;
mod replies;
mod requests;
mod retries;
mod scripts;
