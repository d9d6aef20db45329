//! Validates the input of a client, and finds its new messages and the results of client tools. Pure.

use std::collections::HashSet;

use holdpoint_api::agents::MESSAGE_ID_CHARS_MAX;
use holdpoint_api::agui::{self as wire, InputMessage, RESUME_ENTRIES_MAX, RUN_ID_CHARS_MAX, RunAgentInput};
use holdpoint_api::ids::StrictValue;
use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{RequestSource, Transport, limits};
use serde_json::{Map, Value};

use super::history::History;
use super::messages::{ROLE_KEY, user_content};
use crate::error::ApiError;
use crate::json::to_json;

/// Rejects invalid input.
pub(super) fn check(input: &RunAgentInput) -> Result<(), ApiError> {
    check_name("threadId", &input.thread_id, limits::THREAD_CHARS_MAX)?;
    if input.thread_id.trim().is_empty() {
        return Err(ApiError::invalid("threadId", "must not be blank"));
    }
    check_name("runId", &input.run_id, RUN_ID_CHARS_MAX)?;
    if let Some(parent) = &input.parent_run_id {
        check_name("parentRunId", parent, RUN_ID_CHARS_MAX)?;
    }
    if input.resume.len() > RESUME_ENTRIES_MAX {
        return Err(ApiError::invalid("resume", format!("must have at most {RESUME_ENTRIES_MAX} entries")));
    }
    for (at, message) in input.messages.iter().enumerate().filter(|(_, message)| role(message).is_some()) {
        let field = format!("messages[{at}].id");
        let Some(id) = &message.id else { return Err(ApiError::invalid(&field, "is missing")) };
        check_name(&field, id, MESSAGE_ID_CHARS_MAX)?;
        let content = message.content.as_ref().map(|content| &content.0);
        let fits = match content {
            Some(Value::String(_)) => true,
            Some(Value::Array(parts)) => parts.iter().all(Value::is_object),
            Some(_) | None => false,
        };
        if !fits {
            let field = format!("messages[{at}].content");
            return Err(ApiError::invalid(&field, "must be a string or a list of parts"));
        }
    }
    Ok(())
}

pub(super) fn check_name(field: &str, text: &str, most: usize) -> Result<(), ApiError> {
    if (1..=most).contains(&text.chars().count()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("must be 1 to {most} characters, none of them a control character")))
}

/// Returns the role of a message to the agent. Returns None for messages of agents and tools, which the server knows.
fn role(message: &InputMessage) -> Option<Role> {
    match message.role.as_str() {
        "user" => Some(Role::User),
        "system" | "developer" => Some(Role::System),
        _ => None,
    }
}

/// Returns the messages that are not in the history, in order, in the name of `by`. If the history is cut, older messages
/// of the thread can be among them.
pub(super) fn unknown_messages(input: &RunAgentInput, history: &History, by: &str) -> Vec<Message> {
    let mut known: HashSet<&str> = history.input_messages().map(wire::Message::id).collect();
    let instructions: HashSet<&str> = history.input_messages().filter_map(instruction).collect();
    let old = count_old_messages(input, history, &known);
    let mut new: Vec<Message> = Vec::new();
    for (at, given) in input.messages.iter().enumerate() {
        let Some(role) = role(given) else { continue };
        let id = given.id.as_deref().unwrap_or_default();
        let content = given.content.as_ref().map(|content| content.0.clone()).unwrap_or_default();
        if !known.insert(id) || (role == Role::User && at < old) {
            continue;
        }
        // Some front ends send their instructions with every request, with a new id each time.
        let text = || Message::new("", role, content.clone()).text();
        if role == Role::System && instructions.contains(text().as_str()) {
            continue;
        }
        let mut message = Message::new(id, role, content);
        message.by = Some(by.to_owned());
        message.source = Some(RequestSource::user(Transport::Agui));
        if given.role == "developer" {
            message.metadata.insert(ROLE_KEY.to_owned(), Value::from("developer"));
        }
        new.push(message);
    }
    new
}

/// Adds the tools and the context of the client to the metadata of the last message.
pub(super) fn add_client_metadata(new: &mut [Message], input: &RunAgentInput) {
    if let Some(last) = new.last_mut() {
        for (name, given) in [("clientTools", &input.tools), ("context", &input.context)] {
            if !given.is_empty() {
                let given = given.iter().map(|one| one.0.clone()).collect();
                last.metadata.insert(name.to_owned(), given);
            }
        }
    }
}

/// Returns whether the client has another content of a message of a user.
pub(super) fn was_edited(given: &InputMessage, known: &wire::Message) -> bool {
    let wire::Message::User { content, .. } = known else { return false };
    given.content.as_ref().is_none_or(|given| given.0 != *content && user_content(&given.0) != *content)
}

fn instruction(message: &wire::Message) -> Option<&str> {
    match message {
        wire::Message::System { content, .. } | wire::Message::Developer { content, .. } => Some(content),
        wire::Message::User { .. }
        | wire::Message::Assistant { .. }
        | wire::Message::Reasoning { .. }
        | wire::Message::Tool { .. } => None,
    }
}

/// Returns the number of messages at the beginning of an input that are older than the history. Only the last messages
/// of a long thread are read, so a client may send older ones. They come before a known message, or before a message of
/// an agent or a tool.
fn count_old_messages(input: &RunAgentInput, history: &History, known: &HashSet<&str>) -> usize {
    let is_known = |given: &InputMessage| {
        role(given).is_none() || given.id.as_deref().is_some_and(|id| known.contains(id))
    };
    let last = || input.messages.iter().rposition(is_known).map_or(0, |last| last + 1);
    if history.is_cut() { last() } else { 0 }
}

/// Returns the result of a client tool, by the id of the call on the wire.
pub(super) fn result_of<'a>(input: &'a RunAgentInput, call: &str) -> Option<&'a InputMessage> {
    let mut results = input.messages.iter().rev().filter(|message| message.role == "tool");
    results.find(|message| message.tool_call_id.as_deref() == Some(call))
}

/// Returns the inputs of a workflow: its state, the inputs of the front end, and the messages.
pub(super) fn inputs_of_workflow(
    mut state: Map<String, Value>,
    forwarded: Option<&Value>,
    new: &[Message],
) -> Map<String, Value> {
    if let Some(Value::Object(more)) = forwarded.and_then(|props| props.get("inputs")) {
        state.extend(more.clone());
    }
    let messages = new.iter().map(|one| {
        let developer = one.metadata.contains_key(ROLE_KEY);
        let role = match one.role {
            Role::System if developer => "developer",
            Role::System => "system",
            Role::User | Role::Assistant | Role::Tool => "user",
        };
        to_json(&InputMessage {
            id: Some(one.id.clone()),
            role: role.to_owned(),
            content: Some(StrictValue(one.content.clone())),
            ..Default::default()
        })
    });
    state.insert("messages".to_owned(), messages.collect());
    if let Some(last) = new.iter().rev().find(|one| one.role == Role::User) {
        state.insert("message".to_owned(), last.text().into());
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(value: Value) -> RunAgentInput {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_unknown_messages_to_the_agent_are_new() {
        let input = input(json!({"threadId": "t", "runId": "r", "tools": [{"name": "f"}], "messages": [
            {"id": "u1", "role": "user", "content": "a"},
            {"id": "x", "role": "assistant", "content": "b"},
            {"id": "y", "role": "tool", "toolCallId": "c", "content": "b"},
            {"id": "d1", "role": "developer", "content": "c"},
            {"id": "u1", "role": "user", "content": "again"},
        ]}));
        check(&input).unwrap();
        let mut new = unknown_messages(&input, &History::default(), "ann");
        add_client_metadata(&mut new, &input);
        assert_eq!(new.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["u1", "d1"]);
        assert_eq!(new[1].metadata["clientTools"], json!([{"name": "f"}]));
        assert_eq!((new[1].role, new[0].by.as_deref()), (Role::System, Some("ann")));
        assert!(result_of(&input, "c").is_some() && result_of(&input, "d").is_none());
    }

    #[test]
    fn messages_before_a_known_one_are_old_in_a_long_thread() {
        let user = |id: &str| json!({"id": id, "role": "user", "content": id});
        let system = json!({"id": "s", "role": "system", "content": "be brief"});
        let reply = json!({"id": "r:reply-9", "role": "assistant", "content": "b"});
        let messages = || vec![wire::Message::User { id: "u9".into(), content: json!("u9") }];
        let new = |messages: Vec<Value>, history: &History| -> Vec<String> {
            let input = input(json!({"threadId": "t", "runId": "r", "messages": messages}));
            unknown_messages(&input, history, "ann").into_iter().map(|one| one.id).collect()
        };
        let (cut, whole) = (History::of(messages(), true), History::of(messages(), false));
        assert_eq!(new(vec![user("u1"), user("u9"), user("u10")], &cut), ["u10"]);
        assert_eq!(new(vec![user("u1"), user("u9"), user("u10")], &whole), ["u1", "u10"]);
        assert_eq!(new(vec![user("u1"), reply.clone(), user("u10"), user("u11")], &cut), ["u10", "u11"]);
        assert_eq!(new(vec![system, user("u1"), reply, user("u10")], &cut), ["s", "u10"]);
        assert_eq!(new(vec![user("u10")], &cut), ["u10"], "a client that sends only its new message");
    }

    #[test]
    fn invalid_input_is_rejected() {
        for (change, field) in [
            (json!({"threadId": ""}), "threadId"),
            (json!({"threadId": " "}), "threadId"),
            (json!({"runId": "a\u{0}"}), "runId"),
            (json!({"parentRunId": ""}), "parentRunId"),
            (json!({"messages": [{"role": "user", "content": "a"}]}), "messages[0].id"),
            (json!({"messages": [{"id": "a", "role": "user", "content": 7}]}), "messages[0].content"),
        ] {
            let mut value = json!({"threadId": "t", "runId": "r"});
            value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let refused = check(&input(value)).unwrap_err();
            assert_eq!(refused.body()["details"]["field"], field);
        }
    }

    #[test]
    fn a_workflow_gets_all_messages_and_the_last_one_as_text() {
        let messages = [Message::new("a", Role::User, "one"), Message::new("b", Role::System, "two")];
        let state = Map::from_iter([("n".to_owned(), json!(1))]);
        let given = json!({"inputs": {"n": 2, "messages": "mine"}});
        let inputs = inputs_of_workflow(state, Some(&given), &messages);
        let expected = json!({"n": 2, "message": "one", "messages": [
            {"id": "a", "role": "user", "content": "one"}, {"id": "b", "role": "system", "content": "two"}]});
        assert_eq!(Value::Object(inputs), expected);
    }
}
