//! Names that are the host's own: what is registered or started over other doors must not take them.

use holdpoint_core::workflow::{AGENT_PREFIX, PROVIDER_PREFIXES};
use holdpoint_engine::Engine;

use crate::error::ApiError;

/// The scope of a thread's runs begins so.
const THREAD_PREFIX: &str = "thread:";

/// Why no workflow can be registered under an id, if that is so.
pub(crate) fn workflow(id: &str) -> Option<&'static str> {
    if id == Engine::HOLD_WORKFLOW {
        return Some("is the name of the workflow of holds; take another");
    }
    if id.starts_with(AGENT_PREFIX) {
        return Some("must not begin with agent:, as agents do; declare it as an agent");
    }
    let of_provider = PROVIDER_PREFIXES.iter().any(|prefix| id.starts_with(prefix));
    of_provider.then_some("must not begin with langgraph: or claude:, as graphs of providers do")
}

pub(crate) fn check_workflow(field: &str, id: &str) -> Result<(), ApiError> {
    workflow(id).map_or(Ok(()), |why| Err(ApiError::invalid(field, why)))
}

pub(crate) fn check_scope(field: &str, scope: Option<&str>) -> Result<(), ApiError> {
    if scope.is_some_and(|scope| scope.starts_with(THREAD_PREFIX)) {
        return Err(ApiError::invalid(field, "must not begin with thread:, as scopes of threads do"));
    }
    Ok(())
}
