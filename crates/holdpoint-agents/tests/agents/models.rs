//! Tests of models: chat-completions endpoints over real sockets, and scripted models. The tests need no network.

mod definitions;
mod failures;
pub(crate) mod fake_endpoint;
mod keys;
mod replies;
mod requests;
mod retries;
mod scripts;
