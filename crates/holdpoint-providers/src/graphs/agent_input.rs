//! The messages for an agent that is started as a graph.

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{NodeId, Refusal, WorkflowId, digest};
use serde_json::Value;

use super::GraphStart;

/// The id of the only node of the workflow that an agent is registered as.
const AGENT_NODE: &str = "agent";
/// The part of the digest of a turn id that is in the ids of its messages.
const TURN_DIGEST_CHARS: usize = 16;

/// The node of the agent and the messages.
pub(super) type AgentMessages = Option<Box<(NodeId, Vec<Message>)>>;

/// Returns the messages in `input`: a text, `{message}`, or `{messages: [{role?, content}]}`. Returns `None` if the
/// graph is not an agent.
pub(super) fn read_agent_messages(
    workflow: &WorkflowId,
    start: &GraphStart,
) -> Result<AgentMessages, Refusal> {
    if !workflow.as_str().starts_with(AGENT_PREFIX) {
        return Ok(None);
    }
    let input = &start.input;
    let node = NodeId::parse(AGENT_NODE).map_err(|error| Refusal::invalid("graph", error.to_string()))?;
    let text = input.as_str().or_else(|| input.get("message")?.as_str());
    // The ids of messages are unique in a thread, and a repeated turn has the same ids.
    let prefix = match start.turn_id.as_deref() {
        Some(id) => format!("said-{}", &digest(&Value::from(id))[..TURN_DIGEST_CHARS]),
        None => "said".to_owned(),
    };
    let messages = match (text, input.get("messages").and_then(Value::as_array)) {
        (Some(text), _) => vec![user(format!("{prefix}-0"), Value::from(text))],
        (None, Some(list)) => {
            let named = list.iter().enumerate().map(|(at, one)| (format!("{prefix}-{at}"), one));
            named.filter_map(|(id, one)| user_message(id, one)).collect()
        }
        (None, None) => Vec::new(),
    };
    if messages.is_empty() {
        let message = "an agent needs a user message: set input to {\"message\": \"…\"} or to messages with the role user";
        return Err(Refusal::invalid("input", message));
    }
    let sent =
        |one: Message| Message { by: Some(start.owner.principal.clone()), source: Some(start.source), ..one };
    let messages = messages.into_iter().map(sent).collect();
    Ok(Some(Box::new((node, messages))))
}

fn user(id: impl Into<String>, content: Value) -> Message {
    Message::new(id, Role::User, content)
}

/// Returns a listed message of a user. Messages with other roles are ignored, because the caller could forge them.
fn user_message(id: String, one: &Value) -> Option<Message> {
    let role = one.get("role").and_then(Value::as_str).unwrap_or("user");
    let content = one.get("content").filter(|content| content.is_string() || content.is_array())?;
    (role == "user").then(|| user(id, content.clone()))
}
