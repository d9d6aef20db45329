//! Holds: interrupts of programs without a workflow. A hold is a run, so that lists, answers and webhooks treat it like
//! every other interrupt.

pub(crate) mod handlers;
pub(crate) mod routes;
mod translate;
