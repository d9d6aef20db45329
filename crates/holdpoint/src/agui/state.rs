//! The state of a run for front ends, and the initial variables of the next run of a thread.

use std::sync::Arc;

use holdpoint_core::Run;
use holdpoint_core::workflow::AGENT_PREFIX;
use serde_json::{Map, Value};

/// Returns the variables of a run without sensitive ones. The final outputs of an agent are excluded, because they are
/// in its messages.
pub(super) fn visible(run: &Run) -> Arc<Value> {
    let ended =
        run.nodes.iter().find_map(|node| node.outputs.as_object().filter(|outputs| !outputs.is_empty()));
    let outputs = ended.filter(|_| run.workflow.id.as_str().starts_with(AGENT_PREFIX));
    let shown = |name: &str| !run.is_hidden(name) && outputs.is_none_or(|map| !map.contains_key(name));
    match run.variables.as_object() {
        Some(all) if all.keys().any(|name| !shown(name)) => {
            let left = all.iter().filter(|(name, _)| shown(name));
            Arc::new(Value::Object(left.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        Some(_) | None => run.variables.clone(),
    }
}

/// Returns the initial variables of a run: the state that the client sent, or else the variables of the previous run of
/// the thread. Sensitive variables, which the client does not see, are kept. Channels are excluded: only nodes write
/// them.
pub(super) fn initial_variables(previous: Option<&Run>, given: Option<&Value>) -> Map<String, Value> {
    let given = given.and_then(Value::as_object).filter(|given| !given.is_empty());
    let Some(previous) = previous else { return given.cloned().unwrap_or_default() };
    let (shown, all) = (visible(previous), previous.variables.as_object());
    let sent = given.or_else(|| shown.as_object()).into_iter().flatten();
    let hidden = all.into_iter().flatten().filter(|(name, _)| previous.is_hidden(name));
    let names = |(name, _): &(&String, &Value)| !previous.channels.contains(*name);
    sent.chain(hidden).filter(names).map(|(name, value)| (name.clone(), value.clone())).collect()
}
