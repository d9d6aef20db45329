//! Golden transcripts of AG-UI streams with interrupts of child runs. `WRITE_TRANSCRIPTS=1` writes them again.

use std::path::Path;

use serde_json::{Value, json};

use crate::agui::{AguiEvents, FrontEnd, approved, declare, resolved};
use crate::harness::{Server, linear};

/// Replaces the values that differ between two executions: the id of the root, other UUIDs, digests and timestamps.
fn normalize(root: &str, text: &str) -> String {
    let text = replace_after("\"timestamp\":", |c| c.is_ascii_digit(), &text.replace(root, "RUN"));
    let text = replace_after("sha256:", |c| c.is_ascii_hexdigit(), &text);
    let is_uuid =
        |part: &&str| part.len() == 36 && [8, 13, 18, 23].iter().all(|at| part.as_bytes()[*at] == b'-');
    let parts: Vec<_> = text.split(|c: char| !c.is_ascii_hexdigit() && c != '-').filter(is_uuid).collect();
    parts.iter().fold(text.clone(), |text, uuid| text.replace(uuid, "UUID"))
}

/// Replaces the matching characters after each occurrence of a prefix by one letter.
fn replace_after(prefix: &str, matches: fn(char) -> bool, text: &str) -> String {
    let mut parts = text.split(prefix);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| format!("{before}{prefix}X{}", part.trim_start_matches(matches)))
}

/// Compares the events of two segments with the recorded transcript.
fn assert_recorded(name: &str, first: &AguiEvents, second: &AguiEvents) {
    let below = first.interrupts()[0]["subagentRunId"].as_str().unwrap().to_owned();
    let root = below.split('.').next().unwrap();
    let lines: Vec<String> = first.0.iter().chain(&second.0).map(Value::to_string).collect();
    let text = normalize(root, &(lines.join("\n") + "\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/agui/{name}.txt"));
    if std::env::var_os("WRITE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, text, "WRITE_TRANSCRIPTS=1 writes the transcript again");
}

/// Says something to an agent, approves all interrupts, and compares both segments with the transcript.
fn assert_transcript(server: &Server, agent: &str, name: &str) {
    let front = FrontEnd::new(&server.client, agent, "t1");
    let first = front.say("u1", "Release");
    let answers: Vec<_> = first.ids().iter().map(|one| approved(one)).collect();
    let second = front.resume(json!(answers));
    second.assert_success();
    assert_recorded(name, &first, &second);
}

fn register(server: &Server, workflow: &Value) {
    let path = format!("/v1/workflows/{}", workflow["id"].as_str().unwrap());
    assert_eq!(server.client.put(&path, workflow).status, 201);
}

fn call(id: &'static str, workflow: &str) -> (&'static str, &'static str, Value) {
    (id, "core.subWorkflow", json!({"workflowId": workflow}))
}

#[test]
fn a_workflow_that_calls_a_workflow() {
    assert_transcript(&Server::start_with(&["--demo"]), "demo-release", "nested");
}

#[test]
fn two_levels_of_child_runs() {
    let server = Server::start_with(&["--demo"]);
    register(&server, &linear("outer", &[call("begin", "demo-release")]));
    assert_transcript(&server, "outer", "two-levels");
}

#[test]
fn parallel_child_runs() {
    let server = Server::start_with(&["--demo"]);
    let mut outer = linear("outer", &[call("left", "sample-approval"), call("right", "sample-approval")]);
    outer["edges"] = json!([]);
    register(&server, &outer);
    assert_transcript(&server, "outer", "parallel");
}

#[test]
fn an_agent_as_a_tool() {
    let server = Server::start_with(&["--demo"]);
    declare(
        &server.client,
        &json!({
            "agentId": "manager",
            "model": {"provider": "scripted", "steps": [
                {"text": "I ask.", "calls": [{"id": "c1", "name": "mailAgent", "arguments": {"message": "Send it."}}]},
                {"text": "It was sent."},
            ]},
            "tools": [{
                "type": "workflow", "name": "mailAgent", "workflowId": "agent:approve", "description": "sends a mail",
                "parameters": {"type": "object", "properties": {"message": {"type": "string"}}},
            }],
            "permissions": {"rules": [{"tool": "mailAgent", "behavior": "allow"}]},
        }),
    );
    assert_transcript(&server, "manager", "agent-as-tool");
}

#[test]
fn a_client_before_1_0() {
    let server = Server::start_with(&["--demo"]);
    let post = |more: Value| {
        let mut input = json!({
            "threadId": "t1", "runId": "wire-run", "state": {}, "tools": [], "context": [], "forwardedProps": {},
            "messages": [{"id": "u1", "role": "user", "content": "Release"}],
        });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        AguiEvents::request(&server.client, "POST", "/ag-ui/demo-release", Some(&input))
    };
    let first = post(json!({}));
    let second = post(json!({"resume": [resolved(&first.ids()[0], json!(true))]}));
    assert_recorded("before-1.0", &first, &second);
}
