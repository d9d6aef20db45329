//! Side questions of approvers: over HTTP, on the command line, and answered by a service.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, client_with_key, linear};

/// Starts a run at a gate whose approvers may ask side questions.
fn start_asking_run(client: &Client) -> String {
    let config = json!({"title": "Ship?", "actions": ["accept", "ask"]});
    client.put("/v1/workflows/asking", &linear("asking", &[("gate", "core.approvalGate", config)]));
    client.start_run("asking")
}

fn ask(client: &Client, run: &str, question: &str) -> Value {
    client.answer(run, "gate", &json!({"action": "ask", "question": question})).body
}

fn output_text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_side_question_is_answered_once_by_a_permitted_caller() {
    let server = Server::start();
    let client = &server.client;
    let run = start_asking_run(client);
    assert_eq!(ask(client, &run, "Why?")["askId"], 1);
    assert_eq!(ask(client, &run, "How?")["askId"], 2);
    assert_eq!(client.get("/v1/interrupts").body["interrupts"][0]["openAsks"], 2);
    let path = format!("/v1/runs/{run}/interrupts/gate/asks");
    let made = client.post("/v1/keys", &json!({"principal": "owner", "scopes": ["runs:create"]}));
    let owner = client.with_key(made.body["key"].as_str());
    let answered = owner.post(&format!("{path}/1"), &json!({"answer": "So."})).body;
    assert_eq!((&answered["answer"], &answered["answeredBy"]), (&json!("So."), &json!("owner")));
    let again = client.post(&format!("{path}/1"), &json!({"answer": "No."}));
    assert_eq!((again.status, again.code()), (409, "ask_already_answered"), "{again:?}");
    let asks = client.get(&path).body["asks"].clone();
    assert_eq!((&asks[0]["answer"], &asks[1]["answer"]), (&json!("So."), &Value::Null));
    assert_eq!(client.get("/v1/interrupts").body["interrupts"][0]["openAsks"], 1);
    for wrong in ["3", "0", "x"] {
        let answer = client.post(&format!("{path}/{wrong}"), &json!({"answer": "No."}));
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    client.post(&format!("{path}/2"), &json!({"answer": ""})).assert_envelope(400, "validation_error");
    assert_eq!(client.status(&run), "waiting-approval", "side questions do not decide");
    client.answer(&run, "gate", &accept());
    assert_eq!(client.post(&format!("{path}/2"), &json!({"answer": "Late."})).status, 409);
}

#[test]
fn a_side_question_is_not_answered_by_its_asker_or_by_non_assignees() {
    let server = Server::start();
    let client = &server.client;
    let config = json!({"actions": ["accept", "ask"], "approversList": ["ann", "bob"]});
    client.put("/v1/workflows/listed", &linear("listed", &[("gate", "core.approvalGate", config)]));
    let run = client.start_run("listed");
    let key = |name: &str| client_with_key(client, &json!({"principal": name}));
    let (ann, bob, eve) = (key("ann"), key("bob"), key("eve"));
    for question in ["Why?", "How?"] {
        ask(&ann, &run, question);
    }
    let path = format!("/v1/runs/{run}/interrupts/gate/asks");
    for other in [&ann, &eve] {
        other.post(&format!("{path}/1"), &json!({"answer": "So."})).assert_envelope(403, "forbidden");
    }
    assert_eq!(bob.post(&format!("{path}/1"), &json!({"answer": "So."})).status, 200);
    assert_eq!(
        client.post(&format!("{path}/2"), &json!({"answer": "So."})).status,
        200,
        "the requester may answer"
    );
}

#[test]
fn the_command_line_asks_lists_and_answers_side_questions() {
    let server = Server::start();
    let run = start_asking_run(&server.client);
    let expect = |arguments: &[&str], parts: &[&str]| {
        let text = output_text(&server.run(arguments));
        parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text}"));
    };
    expect(&["answer", &run, "gate", "ask"], &["--question"]);
    expect(&["answer", &run, "gate", "ask", "--question", "Why?"], &["asked a side question at gate"]);
    expect(&["asks", "list", &run], &["Why?", "gate", "ANSWER"]);
    expect(&["pending"], &["ASKS"]);
    expect(&["asks", "answer", &run, "gate", "1", "So."], &["answered side question 1"]);
    expect(&["asks", "list", &run], &["So."]);
    expect(&["asks", "answer", &run, "gate", "1", "No."], &["already"]);
    expect(&["pending", "--kind", "approval", "--workflow", "asking", "--newest"], &[&run, "Ship?"]);
    expect(&["pending", "--assignee", "me", "--counts"], &["pending", "approval 1"]);
    expect(&["pending", "--older-than", "1h"], &["no pending interrupts"]);
    expect(&["answer", &run, "gate", "accept"], &["completed"]);
    expect(&["runs", "interrupts", &run], &["answered", "granted", "Ship?"]);
}

/// Starts an HTTP service that responds with these answers in turn. Returns its address and the requests.
fn start_service(answers: Vec<(u16, Value)>) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/answers", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (status, answer) in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut text = String::new();
                reader.read_line(&mut text).unwrap();
                if let Some(bytes) = text.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                if text.trim().is_empty() {
                    break;
                }
                head.push_str(&text);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = answer.to_string();
            let head_of_answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            (&stream).write_all((head_of_answer + &answer).as_bytes()).unwrap();
            sender.send((head, serde_json::from_slice(&body).unwrap())).unwrap();
        }
    });
    (url, requests)
}

#[test]
fn the_answer_service_gets_a_side_question_and_its_answer_is_recorded() {
    let (url, requests) = start_service(vec![(200, json!({"answer": "Only the price."}))]);
    let data = tempfile::tempdir().unwrap();
    let flags = ["--ask-url", &url, "--ask-token", "hunter2", "--outgoing-allow-loopback"];
    let server = Server::start_in(data.path(), &flags);
    let run = start_asking_run(&server.client);
    ask(&server.client, &run, "What changed?");
    let (head, asked) = requests.recv().unwrap();
    assert!(
        head.starts_with("POST /answers ") && head.to_lowercase().contains("authorization: bearer hunter2"),
        "{head}"
    );
    assert_eq!(
        (&asked["runId"], &asked["question"], &asked["askId"]),
        (&json!(run), &json!("What changed?"), &json!(1))
    );
    assert_eq!((&asked["nodeId"], &asked["data"]["title"]), (&json!("gate"), &json!("Ship?")));
    let events = server.client.wait_for_event(&run, |event| event["type"] == "holdpoint.ask.answered");
    assert_eq!(events.last().unwrap()["payload"]["answer"], "Only the price.");
    let asks = server.client.get(&format!("/v1/runs/{run}/interrupts/gate/asks")).body;
    assert_eq!(asks["asks"][0]["answeredBy"], "system:answer-service");
    assert_eq!(server.client.status(&run), "waiting-approval");
}

#[test]
fn a_side_question_survives_a_restart_of_the_server() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(data.path(), &[]);
    let run = start_asking_run(&server.client);
    ask(&server.client, &run, "Why?");
    server.kill();
    drop(server);
    let (url, requests) = start_service(vec![(200, json!({"answer": "So."}))]);
    let server = Server::start_in(data.path(), &["--ask-url", &url, "--outgoing-allow-loopback"]);
    assert_eq!(requests.recv().unwrap().1["question"], "Why?");
    server.client.wait_for_event(&run, |event| event["type"] == "holdpoint.ask.answered");
}
