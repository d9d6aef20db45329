//! OpenWOP v1: handlers that translate requests into commands, and events into documents of the protocol. Rules about
//! runs are in the core.

pub(crate) mod approvals;
pub(crate) mod artifacts;
pub(crate) mod control;
pub(crate) mod debug_bundle;
pub(crate) mod discovery;
mod documents;
pub(crate) mod events;
pub(crate) mod external_events;
pub(crate) mod forks;
pub(crate) mod history;
pub(crate) mod interrupts;
pub(crate) mod links;
pub(crate) mod log;
pub(crate) mod pending;
pub(crate) mod routes;
pub(crate) mod runs;
pub(crate) mod side_questions;
mod snapshot;
mod start_headers;
mod stream_modes;
pub(crate) mod threads;
mod translate;
pub(crate) mod triggers;
pub(crate) mod webhooks;
pub(crate) mod workflows;
