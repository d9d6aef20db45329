//! What was said in a thread, as a front end sees it. Pure. The same names as in streams, so that nothing is there twice.

use holdpoint_api::agui::{Function, Message, ToolCall};
use holdpoint_core::agent::{self, Role};
use holdpoint_core::{Event, Run, RunId};
use serde_json::Value;

use super::ids;

/// What a snapshot has at most: the last messages, and fewer where they are large, since clients take no larger frame
/// than 10 MiB.
pub(super) const MESSAGES_MAX: usize = 1000;
pub(super) const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Where a message that was told to an agent keeps the word that the client has for its author.
pub(super) const ROLE: &str = "role";

/// Returns about how many bytes a message has in a snapshot.
pub(super) fn weight(message: &agent::Message) -> usize {
    let size = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
    size(&message.content) + message.calls.iter().map(|call| size(&call.arguments)).sum::<usize>()
}

/// A message of a run that is of one agent alone.
pub(super) fn of_agent(run: &RunId, message: &agent::Message) -> Message {
    shown(message, |name| ids::of_agent(run, name))
}

/// What a run of a workflow was given, and what its nodes have said, with the number of the event that first says it.
/// `run` is as it was before the events.
pub(super) fn of_workflow(mut run: Run, events: &[holdpoint_engine::Recorded]) -> Vec<(u64, Message)> {
    let mut said = Vec::new();
    for one in events {
        run.apply(&one.event, one.at);
        hear(&run, (one.seq, &one.event), &mut said);
    }
    said
}

fn hear(run: &Run, (seq, event): (u64, &Event), said: &mut Vec<(u64, Message)>) {
    if let Event::RunStarted(started) = event {
        let given = started.inputs.get("messages").and_then(Value::as_array).into_iter().flatten();
        said.extend(given.filter_map(told).map(|message| (seq, message)));
    } else if let Event::MessageChunk { node, chunk, meta, .. } = event {
        // What agents say piece by piece comes again as a whole.
        if meta.get("messageId").is_none() {
            add_text(said, (seq, ids::text(run, node)), chunk);
        }
    } else if let Event::MessageAdded { node, message } = event {
        // What the workflow itself tells an agent was not said by anybody.
        if message.by.is_some() {
            said.push((seq, shown(message, |name| ids::said(run, node, name))));
        }
    } else if let Event::ModelReplied { node, message, .. } = event {
        said.push((seq, shown(message, |name| ids::said(run, node, name))));
    } else if let Event::ToolReturned { node, call, content, .. } = event {
        let result = shown(&agent::Message::result_of(call, content), |name| ids::said(run, node, name));
        let place = place_of_result(said, &ids::said(run, node, call));
        said.insert(place, (seq, result));
    }
}

/// Right behind the reply that wanted the call, and what came back before.
fn place_of_result(said: &[(u64, Message)], call: &str) -> usize {
    let wanted = |message: &Message| matches!(message, Message::Assistant { tool_calls, .. } if tool_calls.iter().any(|one| one.id == call));
    let Some(reply) = said.iter().rposition(|(_, message)| wanted(message)) else { return said.len() };
    let results = said[reply + 1..].iter().take_while(|(_, message)| matches!(message, Message::Tool { .. }));
    reply + 1 + results.count()
}

fn add_text(said: &mut Vec<(u64, Message)>, (seq, id): (u64, String), chunk: &str) {
    let known = said.iter_mut().rev().find(|(_, message)| message.id() == id);
    if let Some((_, Message::Assistant { content, .. })) = known {
        content.get_or_insert_default().push_str(chunk);
    } else {
        let content = Some(chunk.to_owned());
        said.push((seq, Message::Assistant { id, content, tool_calls: Vec::new() }));
    }
}

/// A message in the inputs of a workflow, as [`crate::agui::run`] puts it there.
fn told(given: &Value) -> Option<Message> {
    let id = given.get("id")?.as_str()?.to_owned();
    let content = given.get("content").cloned().unwrap_or_default();
    let text = || agent::Message::new("", Role::User, content.clone()).text();
    Some(match given.get("role")?.as_str()? {
        "system" => Message::System { id, content: text() },
        "developer" => Message::Developer { id, content: text() },
        _ => Message::User { content: user_content(&content), id },
    })
}

/// `name` makes names on the wire of those that are only unique in a run.
fn shown(message: &agent::Message, name: impl Fn(&str) -> String) -> Message {
    match message.role {
        Role::System if message.metadata.get(ROLE).and_then(Value::as_str) == Some("developer") => {
            Message::Developer { id: message.id.clone(), content: message.text() }
        }
        Role::System => Message::System { id: message.id.clone(), content: message.text() },
        Role::User => Message::User { id: message.id.clone(), content: user_content(&message.content) },
        Role::Assistant => {
            let calls = message.calls.iter();
            let calls = calls.map(|call| tool_call(name(&call.id), &call.name, &call.arguments));
            let content = Some(message.text()).filter(|text| !text.is_empty());
            Message::Assistant { id: name(&message.id), content, tool_calls: calls.collect() }
        }
        Role::Tool => Message::Tool {
            id: name(&message.id),
            tool_call_id: name(message.call_id.as_deref().unwrap_or_default()),
            content: as_text(&message.content),
        },
    }
}

/// A result as every client takes it.
pub(super) fn as_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Parts that a client does not know would end its run; they are told as text.
fn user_content(content: &Value) -> Value {
    let known = |part: &Value| match part.get("type").and_then(Value::as_str) {
        Some("text") => part.get("text").is_some_and(Value::is_string),
        Some("image" | "audio" | "video" | "document") => part.get("source").is_some_and(Value::is_object),
        Some("binary") => part.get("mimeType").is_some_and(Value::is_string),
        Some(_) | None => false,
    };
    match content {
        Value::String(_) => content.clone(),
        Value::Array(parts) if parts.iter().all(known) => content.clone(),
        _ => Value::String(agent::Message::new("", Role::User, content.clone()).text()),
    }
}

/// The last of them, as many as one frame takes. A result without its call is left out, too.
pub(super) fn snapshot(said: &[Message]) -> Vec<Message> {
    let mut bytes = 0;
    let sized = said.iter().rev().take(MESSAGES_MAX).take_while(|message| {
        bytes += serde_json::to_string(message).map_or(usize::MAX / 2, |text| text.len());
        bytes <= BYTES_MAX
    });
    let first = said.len() - sized.count();
    let orphans = if first == 0 {
        0
    } else {
        said[first..].iter().take_while(|message| matches!(message, Message::Tool { .. })).count()
    };
    said[first + orphans..].to_vec()
}

fn tool_call(id: String, name: &str, arguments: &Value) -> ToolCall {
    let function = Function { name: name.to_owned(), arguments: arguments.to_string() };
    ToolCall { id, kind: "function".into(), function }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::agent::CallRequest;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_runs_become_names_of_threads_and_those_of_clients_stay() {
        let call = CallRequest { id: "c1".into(), name: "f".into(), arguments: json!({"a": 1}) };
        let mut reply = agent::Message::new("reply-1", Role::Assistant, "");
        reply.calls.push(call);
        let result = agent::Message::result_of("c1", &json!({"ok": true}));
        let mut wish = agent::Message::new("d", Role::System, "Be brief.");
        wish.metadata.insert(ROLE.to_owned(), json!("developer"));
        let said = [agent::Message::new("u", Role::User, "Hello"), wish, reply, result];
        let shown = said.map(|one| of_agent(&RunId::parse("r").unwrap(), &one));
        let shown = serde_json::to_value(shown).unwrap();
        let expected = json!([
            {"role": "user", "id": "u", "content": "Hello"},
            {"role": "developer", "id": "d", "content": "Be brief."},
            {"role": "assistant", "id": "r:reply-1", "toolCalls": [
                {"id": "r:c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "id": "r:c1:result", "toolCallId": "r:c1", "content": "{\"ok\":true}"},
        ]);
        assert_eq!(shown, expected);
    }

    #[test]
    fn parts_that_no_client_knows_become_text() {
        let known = json!([{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url"}}]);
        assert_eq!(user_content(&known), known);
        let strange = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]);
        assert_eq!(user_content(&strange), json!("a"));
    }

    #[test]
    fn a_snapshot_is_the_last_of_a_long_thread() {
        let user = |at: usize| Message::User { id: at.to_string(), content: json!("x") };
        let said: Vec<Message> = (0..MESSAGES_MAX + 5).map(user).collect();
        let shown = snapshot(&said);
        assert_eq!((shown.len(), shown[0].id()), (MESSAGES_MAX, "5"));
        let large =
            |at: usize| Message::User { id: at.to_string(), content: json!("x".repeat(BYTES_MAX / 2)) };
        let shown = snapshot(&[large(1), large(2), user(3)]);
        assert_eq!(shown.iter().map(Message::id).collect::<Vec<_>>(), ["2", "3"]);
        let tool = Message::Tool { id: "t".into(), tool_call_id: "c".into(), content: String::new() };
        let mut said: Vec<Message> = vec![user(0), tool];
        said.extend((1..MESSAGES_MAX).map(user));
        assert_eq!(snapshot(&said)[0].id(), "1", "its call is not there any more");
    }
}
