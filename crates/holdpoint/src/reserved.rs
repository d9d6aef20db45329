//! Reserved names of the server. Workflows and runs of callers must not use them.

use holdpoint_core::workflow::{AGENT_PREFIX, provider_graph};
use holdpoint_engine::{Holds, Triggers};

use crate::error::ApiError;

/// Prefix of the exclusive scope of the runs of a thread.
const THREAD_PREFIX: &str = "thread:";

/// Returns the reason for which no workflow can have this id, or None if it can.
pub(crate) fn explain_reserved_workflow(id: &str) -> Option<&'static str> {
    if id == Holds::WORKFLOW {
        return Some("is the id of the workflow of holds; use another id");
    }
    if id.starts_with(AGENT_PREFIX) {
        return Some("must not begin with agent:, the prefix of agents; register it as an agent");
    }
    provider_graph(id).map(|_| "must not contain a colon, which is part of the ids of graphs of providers")
}

pub(crate) fn check_workflow(field: &str, id: &str) -> Result<(), ApiError> {
    explain_reserved_workflow(id).map_or(Ok(()), |why| Err(ApiError::invalid(field, why)))
}

pub(crate) fn check_scope(field: &str, scope: Option<&str>) -> Result<(), ApiError> {
    if scope.is_some_and(|scope| scope.starts_with(Triggers::SCOPE_PREFIX)) {
        return Err(ApiError::invalid(
            field,
            "must not begin with trigger:, the prefix of the scopes of triggers",
        ));
    }
    if scope.is_some_and(|scope| scope.starts_with(THREAD_PREFIX)) {
        return Err(ApiError::invalid(
            field,
            "must not begin with thread:, the prefix of the scopes of threads",
        ));
    }
    Ok(())
}
