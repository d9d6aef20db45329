//! OpenWOP v1: requests become commands, events become its documents. No rules live here.

pub(crate) mod approvals;
pub(crate) mod arrivals;
pub(crate) mod artifacts;
pub(crate) mod asks;
pub(crate) mod control;
pub(crate) mod debug_bundle;
pub(crate) mod discovery;
mod documents;
pub(crate) mod events;
pub(crate) mod forks;
pub(crate) mod history;
pub(crate) mod interrupts;
pub(crate) mod links;
pub(crate) mod log;
mod mode;
pub(crate) mod pending;
pub(crate) mod routes;
pub(crate) mod runs;
mod snapshot;
mod start_headers;
pub(crate) mod threads;
mod translate;
pub(crate) mod webhooks;
pub(crate) mod workflows;
