//! Showing and answering interrupts on the command line: each kind has its form, and a wrong form is rejected.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{PROGRAM, Server, clear_env, gated};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn expect(output: &Output, code: i32, parts: &[&str]) -> String {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    text
}

/// Starts a run that waits at its only node `ask`.
fn start_asking(server: &Server, type_id: &str, config: Value) -> String {
    let mut workflow = gated("asking");
    let mut node = workflow["nodes"][1].clone();
    node["id"] = json!("ask");
    node["typeId"] = json!(type_id);
    node["config"] = config;
    node["inputs"] = json!({"artifact": {"type": "variable", "variableName": "text"}});
    workflow["nodes"] = json!([node]);
    workflow["edges"] = json!([]);
    workflow["variables"] =
        json!([{"name": "text", "type": "string", "defaultValue": format!("{}end", "x".repeat(3000))}]);
    let put = server.client.put("/v1/workflows/asking", &workflow);
    assert!(put.status < 300, "{put:?}");
    server.client.start_run("asking")
}

fn resume_value(server: &Server, run: &str) -> Value {
    let events = server.client.events(run);
    let resolved = events.iter().find(|event| event["type"] == "interrupt.resolved");
    resolved.unwrap_or_else(|| panic!("{events:?}"))["payload"]["resumeValue"].clone()
}

#[test]
fn an_action_word_answers_only_approvals() {
    let server = Server::start();
    let questions = json!({"questions": [{"id": "colour", "question": "Which colour?"}]});
    let run = start_asking(&server, "core.clarificationGate", questions);
    expect(&server.run(&["answer", &run, "ask", "accept"]), 2, &["waits for clarification", "--set"]);
    expect(&server.run(&["answer", &run, "ask", "--set", "colour=blue"]), 0, &["completed"]);
    for (kind, data) in [
        ("external-event", json!({"eventType": "paid", "correlation": {}})),
        ("custom", json!({"customKind": "poll"})),
    ] {
        let run = start_asking(&server, "core.interrupt", json!({"kind": kind, "data": data}));
        expect(&server.run(&["answer", &run, "ask", "accept"]), 2, &[kind, "--value JSON"]);
        assert!(server.client.status(&run).starts_with("waiting"), "no answer was sent");
    }
}

#[test]
fn a_key_that_may_only_answer_can_answer() {
    let server = Server::start();
    let run = server.client.start_run("sample-approval");
    let made = server.client.post("/v1/keys", &json!({"scopes": ["approvals:respond"]}));
    let key = made.body["key"].as_str().unwrap();
    expect(&server.run(&["answer", &run, "review", "accept", "--key", key]), 0, &["answered review"]);
    assert_eq!(server.client.status(&run), "completed");
}

#[test]
fn refine_and_edit_require_their_arguments() {
    let server = Server::start();
    let gate = json!({"title": "Good?", "actions": ["accept", "refine", "edit"]});
    let run = start_asking(
        &server,
        "core.interrupt",
        json!({"kind": "approval", "data": {
            "title": "Good?", "actions": gate["actions"], "artifactId": "a", "artifactType": "text",
        }}),
    );
    expect(&server.run(&["answer", &run, "ask", "refine"]), 2, &["refine --feedback TEXT"]);
    expect(&server.run(&["answer", &run, "ask", "edit-accept"]), 2, &["edit-accept --edited"]);
    expect(&server.run(&["answer", &run, "ask", "refine", "--feedback", "shorter"]), 0, &[]);
    assert_eq!(resume_value(&server, &run)["refineFeedback"], json!({"scope": "whole", "text": "shorter"}));
    let run = start_asking(&server, "core.approvalGate", gate);
    expect(&server.run(&["answer", &run, "ask", "edit-accept", "--edited", r#"{"a":1}"#]), 0, &["completed"]);
    assert_eq!(resume_value(&server, &run)["editedArtifactData"], json!({"a": 1}));
}

#[test]
fn a_waiting_run_shows_the_whole_request() {
    let server = Server::start();
    let gate = json!({
        "title": "Good?", "description": "Read it\nto the end", "actions": ["accept", "reject"],
        "approversList": ["ann", "bootstrap"], "timeoutMs": 3_600_000,
    });
    let run = start_asking(&server, "core.approvalGate", gate);
    let parts = ["Good?", "to the end", "xend\"", "accept, reject", "ann,bootstrap", "(in 59m)"];
    let text = expect(&server.run(&["runs", "show", &run]), 0, &parts);
    assert!(text.contains(&format!("answer with: {PROGRAM} answer {run} ask accept")), "{text}");
    let questions = json!({"questions": [
        {"id": "colour", "question": "Which?", "schema": {"type": "string"}}, {"id": "size", "question": "How big?"},
    ]});
    let run = start_asking(&server, "core.clarificationGate", questions);
    let parts =
        ["colour: Which?", r#"{"type":"string"}"#, "size: How big?", "--set colour=ANSWER --set size=ANSWER"];
    expect(&server.run(&["runs", "show", &run]), 0, &parts);
    let event = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {"order": 7}}});
    let run = start_asking(&server, "core.interrupt", event);
    expect(&server.run(&["runs", "show", &run]), 0, &["paid", "\"order\": 7", "--value JSON"]);
}

#[test]
fn a_start_prints_the_status_and_the_next_command() {
    let server = Server::start();
    let started = expect(
        &server.run(&["runs", "start", "sample-approval", "--data", "some folder"]),
        0,
        &[": waiting-approval at review\n"],
    );
    assert!(started.contains(&format!("answer it in the inbox or with: {PROGRAM} answer ")), "{started}");
    assert!(started.contains(" review accept --data 'some folder'\n"), "{started}");
    assert!(started.contains(&format!("follow it with: {PROGRAM} runs watch ")), "{started}");
    assert!(started.ends_with(" --data 'some folder'\n"), "{started}");
    let mut failing = gated("failing");
    failing["nodes"][0]["typeId"] = json!("core.fail");
    failing["nodes"][0]["config"] = json!({"code": "no_stock", "message": "nothing left"});
    let put = server.client.put("/v1/workflows/failing", &failing);
    assert_eq!(put.status, 201, "{put:?}");
    expect(&server.run(&["runs", "start", "failing"]), 0, &[": failed (no_stock: nothing left)"]);
}

#[test]
fn approve_means_accept_and_an_undeclared_input_is_warned_about() {
    let server = Server::start();
    let started = server.run(&["runs", "start", "sample-approval", "--input", "txt=hi"]);
    expect(&started, 0, &["warning: sample-approval declares no input txt; it declares: text\n"]);
    let run = server.client.start_run("sample-approval");
    expect(&server.run(&["answer", &run, "review", "approve"]), 0, &["completed"]);
    assert_eq!(resume_value(&server, &run)["action"], "accept");
    let started = server.run(&["runs", "start", "sample-approval", "--input", "text=hi"]);
    assert!(!text(&started).contains("warning"), "{}", text(&started));
}

#[test]
fn a_stored_key_is_sent_only_to_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let left = r#"{"server": "http://127.0.0.1:1", "key": "hp_left"}"#;
    std::fs::write(folder.path().join("client.json"), left).unwrap();
    let other = Server::start();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args(arguments).arg("--data").arg(folder.path()).output().unwrap()
    };
    let refused = run(&["pending", "--server", &other.url]);
    let text = expect(&refused, 4, &["is for http://127.0.0.1:1 only", "--key"]);
    assert!(!text.contains("hp_left"), "{text}");
    expect(&run(&["pending"]), 3, &["cannot reach http://127.0.0.1:1"]);
}
