//! What a front end is shown as the state of a run, and may give to the next one.

use std::sync::Arc;

use holdpoint_core::Run;
use holdpoint_core::workflow::AGENT_PREFIX;
use serde_json::Value;

/// The run's variables. What an agent says at its end is in its messages, and no part of the state.
pub(super) fn of(run: &Run) -> Arc<Value> {
    let ended =
        run.nodes.iter().find_map(|node| node.outputs.as_object().filter(|outputs| !outputs.is_empty()));
    let Some(outputs) = ended.filter(|_| run.workflow.id.as_str().starts_with(AGENT_PREFIX)) else {
        return run.variables.clone();
    };
    let mut state = (*run.variables).clone();
    if let Value::Object(members) = &mut state {
        members.retain(|name, _| !outputs.contains_key(name));
    }
    Arc::new(state)
}
