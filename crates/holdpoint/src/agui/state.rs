//! What a front end is shown as the state of a run, and what it and the run before leave to the next one.

use std::sync::Arc;

use holdpoint_core::Run;
use holdpoint_core::workflow::AGENT_PREFIX;
use serde_json::{Map, Value};

/// The run's variables, but for what must not be shown. What an agent says at its end is in its messages, and no part of
/// the state.
pub(super) fn of(run: &Run) -> Arc<Value> {
    let ended =
        run.nodes.iter().find_map(|node| node.outputs.as_object().filter(|outputs| !outputs.is_empty()));
    let outputs = ended.filter(|_| run.workflow.id.as_str().starts_with(AGENT_PREFIX));
    let shown = |name: &str| !run.is_hidden(name) && outputs.is_none_or(|said| !said.contains_key(name));
    match run.variables.as_object() {
        Some(all) if all.keys().any(|name| !shown(name)) => {
            let left = all.iter().filter(|(name, _)| shown(name));
            Arc::new(Value::Object(left.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        Some(_) | None => run.variables.clone(),
    }
}

/// With what variables a run begins: those of the thread's last run, unless the client says otherwise. What the client was
/// not shown stays as it was, and channels are written by nodes only.
pub(super) fn initial(previous: Option<&Run>, given: Option<&Value>) -> Map<String, Value> {
    let given = given.and_then(Value::as_object).filter(|given| !given.is_empty());
    let Some(previous) = previous else { return given.cloned().unwrap_or_default() };
    let (shown, all) = (of(previous), previous.variables.as_object());
    let said = given.or_else(|| shown.as_object()).into_iter().flatten();
    let hidden = all.into_iter().flatten().filter(|(name, _)| previous.is_hidden(name));
    let names = |(name, _): &(&String, &Value)| !previous.channels.contains(*name);
    said.chain(hidden).filter(names).map(|(name, value)| (name.clone(), value.clone())).collect()
}
