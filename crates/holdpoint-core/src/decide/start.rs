//! Decides the start of a run: checks its inputs, options, tags and metadata.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::check_unfinished;
use super::configurable::check_configurable;
use crate::command::StartRequest;
use crate::event::{Event, RunParameters};
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::workflow::Workflow;
use crate::{Timestamp, limits};

/// Starts a run.
pub(super) fn start(run: &Run, start: &StartRequest, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    if run.started.is_some() {
        return Err(Refusal::AlreadyStarted);
    }
    check_unfinished(run)?;
    check_inputs(&run.workflow, &start.inputs)?;
    check_configurable(&run.workflow, &start.configurable)?;
    start.check()?;
    start.dispatch.check(now)?;
    let started = Event::RunStarted(Arc::new(RunParameters {
        workflow: run.workflow.id.clone(),
        revision: run.workflow.revision,
        owner: start.owner.clone(),
        inputs: start.inputs.clone(),
        configurable: start.configurable.clone(),
        tags: start.tags.clone(),
        metadata: start.metadata.clone(),
        thread: start.thread.clone(),
        scope: start.scope.clone(),
        callback_url: start.callback_url.clone(),
        trace: start.trace.clone(),
        trace_state: start.trace_state.clone(),
        engine_version: start.engine_version,
        parent: start.parent.clone(),
        fork: start.fork.clone(),
        forked_by: start.forked_by.clone(),
        grants: start.grants.clone(),
        requested_by: start.requested_by.clone(),
        credentials: start.credentials.clone(),
        callback_secret: start.callback_secret.clone(),
        source: start.source,
        branch_of: start.branch_of.clone(),
        client_run: start.client_run.clone(),
        dispatch: start.dispatch.clone(),
        trigger: start.trigger.clone(),
    }));
    let mut events = vec![started];
    if let Some((node, messages)) = start.messages.as_deref() {
        events.extend(super::agent::add_messages(run, node, messages)?);
    }
    Ok(events)
}

impl StartRequest {
    /// Checks the parts of a start that do not depend on the workflow.
    pub fn check(&self) -> Result<(), Refusal> {
        check_tags(&self.tags)?;
        check_metadata(&self.metadata)?;
        check_thread(self.thread.as_deref())
    }
}

fn check_inputs(workflow: &Workflow, inputs: &Map<String, Value>) -> Result<(), Refusal> {
    if let Some(name) = inputs.keys().find(|name| workflow.is_channel(name)) {
        return Err(Refusal::invalid(format!("inputs.{name}"), "is a channel; only nodes can write to it"));
    }
    for variable in &workflow.variables {
        let field = || format!("inputs.{}", variable.name);
        // An input takes precedence over the default, even if the input is null.
        match inputs.get(&variable.name).or(variable.default.as_ref()) {
            None | Some(Value::Null) if variable.required => {
                return Err(Refusal::invalid(field(), "is required by the workflow"));
            }
            Some(value) if !value.is_null() && !variable.kind.admits(value) => {
                let message = format!("must be of type {}", variable.kind.as_str());
                return Err(Refusal::invalid(field(), message));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_tags(tags: &[String]) -> Result<(), Refusal> {
    if tags.len() > limits::TAGS_MAX {
        let message = format!("has {} entries; at most {} are accepted", tags.len(), limits::TAGS_MAX);
        return Err(Refusal::invalid("tags", message));
    }
    match tags.iter().position(|tag| tag.chars().count() > limits::TAG_CHARS_MAX) {
        Some(index) => {
            let message = format!("is longer than {} characters", limits::TAG_CHARS_MAX);
            Err(Refusal::invalid(format!("tags[{index}]"), message))
        }
        None => Ok(()),
    }
}

fn check_thread(thread: Option<&str>) -> Result<(), Refusal> {
    let Some(thread) = thread else { return Ok(()) };
    if thread.trim().is_empty() || thread.chars().count() > limits::THREAD_CHARS_MAX {
        let message = format!("must be 1 to {} characters", limits::THREAD_CHARS_MAX);
        return Err(Refusal::invalid("threadId", message));
    }
    Ok(())
}

fn check_metadata(metadata: &Map<String, Value>) -> Result<(), Refusal> {
    if metadata.is_empty() {
        return Ok(());
    }
    let value = Value::Object(metadata.clone());
    if levels(&value) > limits::METADATA_LEVELS_MAX {
        let message = format!("is nested deeper than {} levels", limits::METADATA_LEVELS_MAX);
        return Err(Refusal::invalid("metadata", message));
    }
    check_size("metadata", &value, limits::METADATA_BYTES_MAX)
        .map_err(|refusal| Refusal::invalid("metadata", refusal.to_string()))
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}
