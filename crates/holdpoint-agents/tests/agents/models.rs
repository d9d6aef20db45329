//! Tests of models: endpoints over real sockets, and scripted models. The tests need no network.

mod anthropic_messages;
mod attachments;
mod confidence;
mod definitions;
mod failures;
pub(crate) mod fake_endpoint;
mod fallbacks;
mod keys;
mod openai_responses;
mod reasoning;
mod replies;
mod requests;
mod retries;
mod scripts;
