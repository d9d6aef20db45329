//! What is said to an agent that is started as a graph.

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{NodeId, Refusal, WorkflowId};
use serde_json::Value;

use crate::agent;

/// Where it is said, and what.
pub(super) type Words = Option<Box<(NodeId, Vec<Message>)>>;

/// Nothing where the graph is no agent. What `input` says: a text, `{message}`, or `{messages: [{role?, content}]}`.
pub(super) fn to_agent(workflow: &WorkflowId, input: &Value, by: &str) -> Result<Words, Refusal> {
    if !workflow.as_str().starts_with(AGENT_PREFIX) {
        return Ok(None);
    }
    let node = NodeId::parse(agent::NODE).map_err(|error| Refusal::invalid("graph", error.to_string()))?;
    let text = input.as_str().or_else(|| input.get("message")?.as_str());
    let said = match (text, input.get("messages").and_then(Value::as_array)) {
        (Some(text), _) => vec![user("said-0", Value::from(text))],
        (None, Some(list)) => list.iter().enumerate().filter_map(|(at, one)| listed(at, one)).collect(),
        (None, None) => Vec::new(),
    };
    if said.is_empty() {
        let message = "an agent needs something to go on: input {\"message\": \"…\"}, or messages of a user";
        return Err(Refusal::invalid("input", message));
    }
    let said = said.into_iter().map(|one| Message { by: Some(by.to_owned()), ..one }).collect();
    Ok(Some(Box::new((node, said))))
}

fn user(id: impl Into<String>, content: Value) -> Message {
    Message::new(id, Role::User, content)
}

/// What others than users said is not ours to believe.
fn listed(at: usize, one: &Value) -> Option<Message> {
    let role = one.get("role").and_then(Value::as_str).unwrap_or("user");
    let content = one.get("content").filter(|content| content.is_string() || content.is_array())?;
    (role == "user").then(|| user(format!("said-{at}"), content.clone()))
}
