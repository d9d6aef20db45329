//! Decides the completion of a node: its variables, channel writes, outputs and artifact. An invalid result fails the
//! node instead.

use serde_json::{Value, json};

use super::failure::fail;
use super::finish::remaining_bytes;
use super::interrupt_request::agent_decided;
use crate::NodeId;
use crate::command::{ChannelWrite, Completion};
use crate::event::{Event, RunError};
use crate::interrupt::low_confidence::check_agent;
use crate::limits;
use crate::refusal::{check_size, json_bytes};
use crate::run::Run;
use crate::run::channels::check_write;
use crate::workflow::Node;

/// Completes a node, or fails it if its result is invalid.
pub(super) fn complete(run: &Run, node: NodeId, completion: &Completion) -> Vec<Event> {
    match run.workflow.node(&node).map(|known| completion_events(run, known, completion)) {
        Some(Ok(events)) => events,
        Some(Err(error)) => fail(run, node, error),
        None => Vec::new(),
    }
}

fn completion_events(run: &Run, node: &Node, completion: &Completion) -> Result<Vec<Event>, RunError> {
    check_room(run, completion)?;
    let mut events = variable_changes(run, &node.id, &completion.variables)?;
    for write in &completion.channels {
        events.push(channel_write_event(run, node, write)?);
    }
    for (place, chunk) in completion.chunks.iter().enumerate() {
        let (text, meta) = (chunk.text.clone(), chunk.meta.clone());
        let last = place + 1 == completion.chunks.len();
        events.push(Event::MessageChunk { node: node.id.clone(), chunk: text, last, meta });
    }
    for decided in &completion.decisions {
        check_agent(Some(&json!(decided.agent)), "agentId")
            .map_err(|bad| RunError::new("invalid_decision", bad.to_string()))?;
        events.push(agent_decided(node.id.clone(), decided));
    }
    let mapped = completion.outputs.iter().filter(|(name, _)| !completion.unmapped.contains(name));
    for (name, value) in mapped {
        check_variable(run, name, value)?;
    }
    events.push(Event::NodeCompleted {
        node: node.id.clone(),
        outputs: completion.outputs.clone(),
        branch: completion.branch.clone(),
        unmapped: completion.unmapped.clone(),
    });
    if node.artifact_type.is_some() {
        let artifact = run.artifact_id(&node.id);
        let version = run.node_state(&node.id).map_or(1, |state| state.visit);
        events.push(Event::ArtifactCreated { node: node.id.clone(), artifact, version });
    }
    Ok(events)
}

/// Rejects a result that is larger than the limit of a node or than the remaining size of the run.
fn check_room(run: &Run, completion: &Completion) -> Result<(), RunError> {
    let max = limits::NODE_OUTPUT_BYTES_MAX.min(remaining_bytes(run));
    let too_large = |why: String| RunError::new("output_too_large", why);
    check_size("the node's output", &completion.outputs, max).map_err(|why| too_large(why.to_string()))?;
    let variables = completion.variables.iter().map(|(_, value)| json_bytes(value));
    let channels = completion.channels.iter().map(|write| json_bytes(&write.value));
    let chunks = completion.chunks.iter().map(|chunk| chunk.text.len() + json_bytes(&chunk.meta));
    let decisions = completion.decisions.iter().map(|decided| json_bytes(&decided.decision));
    let beside: usize = variables.chain(channels).chain(chunks).chain(decisions).sum();
    if beside > max {
        let what = "the variables, channels, chunks and decisions of the node are";
        return Err(too_large(format!("{what} {beside} bytes; at most {max} are accepted")));
    }
    Ok(())
}

/// Returns an event for each variable whose value changes.
pub(super) fn variable_changes(
    run: &Run,
    node: &NodeId,
    changes: &[(String, Value)],
) -> Result<Vec<Event>, RunError> {
    let mut events: Vec<Event> = Vec::new();
    for (place, (name, next)) in changes.iter().enumerate() {
        check_variable(run, name, next)?;
        let earlier = changes[..place].iter().rev().find(|(other, _)| other == name).map(|(_, value)| value);
        let previous = earlier.or_else(|| run.variables.get(name)).cloned();
        if previous.as_ref() != Some(next) {
            // The stored event cannot represent a previous value of null.
            let previous = previous.filter(|value| !value.is_null());
            let (node, name, next) = (node.clone(), name.clone(), next.clone());
            events.push(Event::VariableChanged { node, name, previous, next });
        }
    }
    Ok(events)
}

/// Rejects a value whose type differs from the declared one. Also rejects every value for the name of a channel,
/// because it would bypass the rules of the channel.
fn check_variable(run: &Run, name: &str, value: &Value) -> Result<(), RunError> {
    if run.workflow.is_channel(name) {
        let message = format!("{name:?} is a channel; use a channel write");
        return Err(RunError::new("invalid_variable", message));
    }
    let declared = run.workflow.variables.iter().find(|variable| variable.name == *name);
    if let Some(declared) = declared.filter(|known| !value.is_null() && !known.kind.admits(value)) {
        let message = format!("variable {name:?} must be of type {}", declared.kind.as_str());
        return Err(RunError::new("invalid_variable", message));
    }
    Ok(())
}

fn channel_write_event(run: &Run, node: &Node, write: &ChannelWrite) -> Result<Event, RunError> {
    let (channel, invalid) = (&write.channel, |why: String| RunError::new("invalid_channel_write", why));
    let declared = run.workflow.channels.get(channel);
    if let Some(declared) = declared {
        if !declared.may_write(node) {
            let message = format!("node {} may not write to the channel {channel:?}", node.id);
            return Err(RunError::new("channel_access_denied", message));
        }
        declared
            .check(&write.value)
            .map_err(|(at, why)| invalid(format!("channel {channel:?}{at}: {why}")))?;
    }
    check_write(write.reducer, &write.value).map_err(|why| invalid(format!("channel {channel:?}: {why}")))?;
    Ok(Event::ChannelWritten {
        node: node.id.clone(),
        channel: channel.clone(),
        value: write.value.clone(),
        reducer: write.reducer,
        ttl_ms: write.ttl_ms.or_else(|| declared?.ttl_ms),
        max_size: write.max_size.or_else(|| declared?.max_size),
    })
}
