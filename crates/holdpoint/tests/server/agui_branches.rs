//! `parentRunId` of AG-UI: an input continues an earlier run of its thread.

use serde_json::{Value, json};

use crate::agui::{AguiEvents, FrontEnd};
use crate::harness::Server;

/// Sends one message as a run with this id, with more members of the input.
fn say(front: &FrontEnd, run: &str, text: &str, more: Value) -> AguiEvents {
    let messages = json!([{"id": format!("m-{run}"), "role": "user", "content": text}]);
    let mut input = json!({"runId": run, "messages": messages});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    front.post(input)
}

fn texts(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

fn latest(front: &FrontEnd) -> String {
    front.thread()["runId"].as_str().unwrap().to_owned()
}

#[test]
fn a_thread_continues_after_an_earlier_run_without_the_later_ones() {
    let server = Server::start_with(&["--demo"]);
    let front = FrontEnd::new(&server.client, "echo", "t1");
    say(&front, "r1", "one", json!({})).assert_success();
    let first = latest(&front);
    say(&front, "r2", "two", json!({})).assert_success();
    let second = latest(&front);
    say(&front, "r3", "three", json!({"parentRunId": second})).assert_success();
    let branched = say(&front, "r4", "four", json!({"parentRunId": first}));
    branched.assert_success();
    assert_eq!(branched.0[0]["parentRunId"], json!(first));
    let expected = ["one", "You said: one", "four", "You said: four"];
    assert_eq!(texts(&json!(branched.messages())), expected);
    assert_eq!(texts(&front.thread()["messages"]), expected, "after a reload");
    let later = say(&front, "r5", "five", json!({}));
    let expected = [&expected[..], &["five", "You said: five"]].concat();
    assert_eq!(texts(&json!(later.messages())), expected, "the thread stays on the branch");
    let again = say(&front, "r6", "six", json!({"parentRunId": "r4"}));
    let expected = ["one", "You said: one", "four", "You said: four", "six", "You said: six"];
    assert_eq!(texts(&json!(again.messages())), expected, "the run is named by the client's runId");
    say(&front, "r7", "seven", json!({"parentRunId": second})).assert_refused("UNKNOWN_PARENT_RUN");
}

#[test]
fn a_branch_of_a_workflow_has_the_history_up_to_the_run() {
    let server = Server::start_with(&["--demo"]);
    let front = FrontEnd::new(&server.client, "sample-approval", "t1");
    let run = |id: &str, text: &str, more: Value| {
        let asked = say(&front, id, text, more);
        let entry = json!({"interruptId": asked.ids()[0], "status": "resolved", "payload": true});
        front.resume(json!([entry])).assert_success();
        latest(&front)
    };
    let first = run("r1", "one", json!({}));
    run("r2", "two", json!({}));
    run("r3", "three", json!({"parentRunId": first}));
    assert_eq!(texts(&front.thread()["messages"]), ["one", "three"]);
}

#[test]
fn a_run_that_is_not_part_of_the_thread_is_refused() {
    let server = Server::start_with(&["--demo"]);
    let other = FrontEnd::new(&server.client, "echo", "other");
    say(&other, "r0", "secret", json!({})).assert_success();
    let front = FrontEnd::new(&server.client, "echo", "t1");
    say(&front, "r1", "one", json!({"parentRunId": "r0"})).assert_refused("UNKNOWN_PARENT_RUN");
    say(&front, "r1", "one", json!({})).assert_success();
    for unknown in [latest(&other), "r0".to_owned(), "no such run".to_owned()] {
        say(&front, "r2", "two", json!({"parentRunId": unknown})).assert_refused("UNKNOWN_PARENT_RUN");
    }
    assert_eq!(texts(&front.thread()["messages"]), ["one", "You said: one"], "no input had an effect");
}

#[test]
fn a_thread_with_an_open_run_does_not_branch() {
    let server = Server::start_with(&["--demo"]);
    let front = FrontEnd::new(&server.client, "approve", "t1");
    let asked = say(&front, "r1", "Write", json!({}));
    let answer =
        json!([{"interruptId": asked.ids()[0], "status": "resolved", "payload": {"approved": true}}]);
    let answered = front.post(json!({"runId": "r2", "parentRunId": "r1", "resume": answer}));
    answered.assert_success();
    assert_eq!(answered.0[0]["parentRunId"], "r1", "an answer does not branch");
    let first = latest(&front);
    say(&front, "r3", "Again", json!({})).interrupts();
    say(&front, "r4", "Otherwise", json!({"parentRunId": first})).assert_refused("THREAD_BUSY");
}
