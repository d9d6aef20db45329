//! AG-UI over HTTP: reasoning, streamed arguments, activities, content parts and the metadata of answers.

use serde_json::{Value, json};

use crate::agui::{AguiEvents, AguiFixture, FrontEnd, asking_agent, declare};
use crate::harness::Server;

fn deltas(events: &AguiEvents, kind: &str) -> Vec<String> {
    let text = |event: &&Value| event["delta"].as_str().unwrap().to_owned();
    events.find(kind).iter().map(text).collect()
}

/// Returns the messages of the last snapshot of a stream.
fn snapshot(events: &AguiEvents) -> Vec<Value> {
    events.find("MESSAGES_SNAPSHOT").last().unwrap()["messages"].as_array().unwrap().clone()
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn reasoning_arguments_and_progress_are_streamed_and_results_have_parts() {
    let server = Server::start_with(&["--demo"]);
    let front = FrontEnd::new(&server.client, "reasoning", "t1");
    let said = front.say("u1", "How were the quarters?");
    said.assert_success();
    assert_eq!(said.find("REASONING_START").len(), 3, "two parts before the call and one after it");
    let thoughts = deltas(&said, "REASONING_MESSAGE_CONTENT").concat();
    assert!(
        thoughts.starts_with("The user asks ") && thoughts.ends_with("is the highest one."),
        "{thoughts}"
    );
    let arguments = deltas(&said, "TOOL_CALL_ARGS");
    assert!(arguments.len() > 2, "the arguments arrive in pieces: {arguments:?}");
    let whole: Value = serde_json::from_str(&arguments.concat()).unwrap();
    assert_eq!(whole["title"], "Revenue by quarter");
    let reports: Vec<&str> = said.kinds().into_iter().filter(|kind| kind.starts_with("ACTIVITY")).collect();
    assert_eq!(reports.first(), Some(&"ACTIVITY_SNAPSHOT"), "{said:?}");
    let result = &said.find("TOOL_CALL_RESULT")[0]["content"];
    assert_eq!((&result[0]["type"], &result[1]["source"]["mimeType"]), (&json!("text"), &json!("image/png")));
    let messages = snapshot(&said);
    let expected = ["user", "reasoning", "reasoning", "assistant", "tool", "reasoning", "assistant"];
    assert_eq!(roles(&messages), expected);
    assert_eq!(messages[1]["id"], said.find("REASONING_START")[0]["messageId"], "ids are the same");
    assert_eq!(front.thread()["messages"], json!(messages), "after a reload");
    assert_eq!(said.last()["usage"][0]["reasoningTokens"], 33);
    let shown = server.client.get("/ag-ui/reasoning/capabilities").body;
    assert_eq!(
        (&shown["reasoning"]["supported"], &shown["humanInTheLoop"]["approveWithEdits"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn a_client_before_1_0_gets_results_as_text() {
    let server = Server::start_with(&["--demo"]);
    let input = json!({"threadId": "t1", "runId": "r", "messages": [{"id": "u1", "role": "user", "content": "Draw"}]});
    let said = AguiEvents::request(&server.client, "POST", "/ag-ui/reasoning", Some(&input));
    assert_eq!(said.find("TOOL_CALL_RESULT")[0]["content"], "Revenue by quarter\n[image/png]");
    let tool = snapshot(&said).into_iter().find(|message| message["role"] == "tool").unwrap();
    assert_eq!(tool["content"], "Revenue by quarter\n[image/png]");
}

#[test]
fn hidden_reasoning_is_in_no_stream_snapshot_or_event() {
    let server = Server::start_with(&["--demo"]);
    declare(
        &server.client,
        &json!({"agentId": "quiet", "model": {"provider": "scripted", "steps": [
            {"reasoning": ["the secret plan"], "text": "Hello.", "delayMs": 100}]}}),
    );
    let front = FrontEnd::new(&server.client, "quiet", "t1");
    let said = front.say("u1", "Hi");
    said.assert_success();
    assert!(!json!(said.0).to_string().contains("secret"), "{said:?}");
    assert!(!front.thread().to_string().contains("secret"));
    let run = front.thread()["runId"].as_str().unwrap().to_owned();
    for path in [
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/events/poll?streamMode=debug"),
        "/v1/threads/t1/messages".to_owned(),
    ] {
        let shown = server.client.get(&path);
        assert_eq!(shown.status, 200, "{path}: {shown:?}");
        assert!(!shown.body.to_string().contains("secret"), "{path}: {shown:?}");
    }
    let shown = server.client.get("/ag-ui/quiet/capabilities").body;
    assert_eq!(shown["reasoning"]["supported"], false);
}

fn resume_with(metadata: &Value, id: &str) -> Value {
    json!([{"interruptId": id, "status": "resolved", "payload": {"approved": true}, "metadata": metadata}])
}

#[test]
fn metadata_of_an_answer_is_kept_as_a_claim_and_does_not_change_the_decider() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
    let asked = front.say("u1", "Write");
    let id = asked.ids()[0].clone();
    front.resume(resume_with(&json!({"approver": "the boss", "decidedBy": "root"}), &id)).assert_success();
    let run = front.thread()["runId"].as_str().unwrap().to_owned();
    let records = fixture.server.client.get(&format!("/v1/runs/{run}/interrupts")).body;
    let decision = &records["interrupts"][0]["decision"];
    assert_eq!(decision["clientMetadata"], json!({"approver": "the boss", "decidedBy": "root"}), "{records}");
    assert!(!["the boss", "root"].contains(&decision["by"].as_str().unwrap()), "{decision}");
    assert_eq!(decision["value"].get("approver"), None, "metadata is not part of the answer");
    let events =
        fixture.server.client.get(&format!("/v1/runs/{run}/events/poll?streamMode=debug")).body.to_string();
    assert!(events.contains(r#""clientMetadata":{"approver":"the boss""#), "{events}");
}

#[test]
fn metadata_above_its_limit_is_refused_and_the_interrupt_stays_open() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
    let id = front.say("u1", "Write").ids()[0].clone();
    let large = json!({"note": "x".repeat(8 * 1024)});
    front.resume(resume_with(&large, &id)).assert_refused("INVALID_PAYLOAD");
    assert_eq!(fixture.mails(), Vec::<Value>::new());
    front.resume(resume_with(&json!({}), &id)).assert_success();
    assert_eq!(fixture.mails().len(), 1);
}

#[test]
fn edits_are_a_capability_only_of_agents_that_offer_them() {
    let server = Server::start_with(&["--demo"]);
    let edits = |agent: &str| {
        let shown = server.client.get(&format!("/ag-ui/{agent}/capabilities")).body;
        shown["humanInTheLoop"]["approveWithEdits"].clone()
    };
    assert_eq!((edits("edit"), edits("approve"), edits("echo")), (json!(true), json!(false), json!(false)));
    let nested = server.client.get("/ag-ui/nested/capabilities").body;
    assert_eq!(nested["multiAgent"]["delegation"], true);
}
