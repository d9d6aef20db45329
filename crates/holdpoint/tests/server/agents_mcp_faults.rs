//! MCP servers that die in a call, cannot be started or do not answer: what the agent, its approvers and its run then
//! come to. And that nothing of theirs is left behind when the program goes down.

use serde_json::{Value, json};

use crate::harness::Server;
use crate::place::Place;
use crate::workshop::{Errand, Workshop, cancel, descendants, gone, of_call, resume, server_script, until};

const CONFIRM: &str = "tool:PermissionConfirm";
const UNKNOWN: &str = "tool:OutcomeUnknown";

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "arguments": {}})
}

/// Begins a run whose first call is allowed at once.
fn allowed<'a>(server: &'a Server, thread: &str) -> Errand<'a> {
    let errand = Errand::begin(&server.client, "clerk", thread);
    errand.asked(CONFIRM, &["c1"]);
    errand.decide(&resume("c1"));
    errand
}

#[test]
fn a_server_that_dies_in_a_call_leaves_a_question_and_the_next_call_finds_it_again() {
    let (place, workshop) = (Place::sqlite(), Workshop::program());
    let steps = json!([
        {"calls": [call("c1", "die")]}, {"calls": [workshop.call("c2", "second")]}, {"text": "I heard: {{lastResult}}"},
    ]);
    workshop.hire("clerk", &steps, &json!({}));
    let server = workshop.open(&place);
    let errand = allowed(&server, "t1");
    let asked = errand.asked(UNKNOWN, &["c1"]);
    let message = asked[0]["message"].as_str().unwrap();
    assert!(
        message.contains("whether die was carried out: the MCP server own: it ended before it"),
        "{message}"
    );
    errand.decide(&cancel("c1", "leave it"));
    errand.asked(CONFIRM, &["c2"]);
    errand.decide(&resume("c2"));
    errand.completed();
    assert_eq!(errand.told("c1").0, json!({"cancelled": "leave it"}));
    assert_eq!(errand.told("c2"), (json!("noted second"), "I heard: noted second".to_owned()));
}

#[test]
fn a_call_that_may_be_repeated_and_fails_every_time_is_told_to_the_agent() {
    let (place, workshop) = (Place::sqlite(), Workshop::program().repeatable());
    let steps = json!([{"calls": [call("c1", "die")]}, {"text": "I heard: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let server = workshop.open(&place);
    let errand = allowed(&server, "t1");
    let log = errand.completed();
    assert_eq!(of_call(&log, "agent.toolReturned", "c1")[0]["payload"]["status"], "failed");
    let (told, last) = errand.told("c1");
    assert!(told["error"].as_str().unwrap().contains("the MCP server own"), "{told}");
    assert!(last.contains("the MCP server own"), "{last}");
}

#[test]
fn a_call_that_takes_too_long_becomes_a_question_that_says_so() {
    for workshop in [Workshop::program(), Workshop::web()] {
        let (place, workshop) = (Place::sqlite(), workshop.with("timeoutMs", &json!(2000)));
        let steps =
            json!([{"calls": [workshop.stalling("c1", "first")]}, {"text": "I heard: {{lastResult}}"}]);
        workshop.hire("clerk", &steps, &json!({}));
        let server = workshop.open(&place);
        let errand = allowed(&server, "t1");
        let asked = errand.asked(UNKNOWN, &["c1"]);
        let message = asked[0]["message"].as_str().unwrap();
        assert!(message.contains("the MCP server own: no answer within 2000 ms"), "{message}");
        assert_eq!(workshop.done(), ["first"]);
        errand.decide(&resume("c1"));
        errand.completed();
        assert_eq!(workshop.done(), ["first", "first"]);
        assert_eq!(errand.told("c1").1, "I heard: noted first");
    }
}

/// Its tools are asked for before anything else, and again for a while.
#[test]
fn a_server_that_cannot_be_reached_delays_the_run_and_the_run_says_which() {
    std::thread::scope(|scope| {
        for (command, why) in [
            (json!(["/no/such/program"]), "/no/such/program cannot be started: No such file"),
            (json!(["sleep", "1000"]), "it did not answer in time"),
            (json!(["python3", server_script(), "--exit"]), ""),
        ] {
            scope.spawn(move || assert_unreachable(&command, why));
        }
    });
}

fn assert_unreachable(command: &Value, why: &str) {
    let workshop = Workshop::program().with("command", command).with("timeoutMs", &json!(1000));
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "Done."}]);
    workshop.hire("clerk", &steps, &json!({}));
    let place = Place::sqlite();
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    let delay = delayed(&errand, |delay| delay["until"].is_string());
    let message = delay["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("the MCP server own cannot be reached") && message.contains(why),
        "{message}"
    );
    until("the delay is counted", || {
        let metrics = server.client.get("/metrics").body;
        metrics.as_str()?.contains("\nholdpoint_node_delays_total 1\n").then_some(())
    });
}

/// Waits until the snapshot of the run tells of a delay like this.
fn delayed(errand: &Errand<'_>, fits: impl Fn(&Value) -> bool) -> Value {
    until("the run is delayed", || {
        let run = errand.client.get(&format!("/v1/runs/{}", errand.run)).body;
        assert_eq!(run["status"], "running", "{run}");
        Some(run["nodeStates"]["agent"]["delay"].clone()).filter(|delay| delay.is_object() && fits(delay))
    })
}

#[test]
fn an_operator_lets_a_run_go_on_whose_server_was_away_for_too_long() {
    let workshop = Workshop::program().waiting(2000);
    let script = workshop.path("server.py");
    let workshop = workshop.with("command", &json!(["python3", script]));
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "I heard: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let place = Place::sqlite();
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    delayed(&errand, |delay| delay["until"].is_null());
    // By the run or by its thread: it is the same queue.
    for id in [errand.run.as_str(), "t1"] {
        let found = server.client.get(&format!("/v1/threads/{id}/dispatches")).body;
        assert_eq!(found["dispatches"][0]["status"], "dead_letter", "{found}");
    }
    let found = server.client.get("/v1/threads/t1/dispatches").body;
    let dispatch = found["dispatches"][0]["dispatchId"].as_str().unwrap().to_owned();
    std::fs::copy(server_script(), &script).unwrap();
    let requeued = server.client.post(&format!("/v1/dispatches/{dispatch}/requeue"), &json!({}));
    assert_eq!(requeued.status, 201, "{requeued:?}");
    errand.asked(CONFIRM, &["c1"]);
    errand.decide(&resume("c1"));
    errand.completed();
    assert_eq!(workshop.done(), ["first"]);
}

#[test]
fn where_nobody_listens_any_longer_nothing_was_called_and_the_approver_is_asked_again() {
    let (place, mut workshop) = (Place::sqlite(), Workshop::plain());
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "I heard: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    errand.asked(CONFIRM, &["c1"]);
    workshop.close_web();
    errand.decide(&resume("c1"));
    let asked = errand.asked(UNKNOWN, &["c1"]);
    let message = asked[0]["message"].as_str().unwrap();
    assert!(message.starts_with("note was not carried out: "), "{message}");
    assert!(message.contains("cannot be connected to"), "{message}");
}

/// The ticket of a call is there while another call of the same reply is at work.
#[test]
fn a_person_is_asked_while_a_slow_call_of_the_same_reply_is_at_work() {
    let (place, workshop) = (Place::sqlite(), Workshop::plain());
    let calls = json!([workshop.stalling("c1", "slow"), workshop.call("c2", "asked")]);
    let rules = json!({"permissions": {"default": "ask", "rules": ["allow stall"]}});
    workshop.hire("clerk", &json!([{"calls": calls}, {"text": "Done."}]), &rules);
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    workshop.wait_for(1);
    errand.asked(CONFIRM, &["c2"]);
    let run = server.client.get(&format!("/v1/runs/{}", errand.run)).body;
    assert_eq!(run["status"], "running", "{run}");
    let pending = server.client.get("/v1/interrupts").body;
    assert_eq!(pending["interrupts"].as_array().map(Vec::len), Some(1), "{pending}");
}

/// A program with a companion that does not notice when nobody speaks any longer.
fn with_a_companion() -> Workshop {
    let command = json!(["sh", "-c", "sleep 1000 & exec python3 \"$0\"", server_script()]);
    Workshop::program().with("command", &command)
}

#[test]
fn nothing_that_a_server_has_started_outlives_a_clean_end() {
    let (place, workshop) = (Place::sqlite(), with_a_companion());
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "Done."}]);
    workshop.hire("clerk", &steps, &json!({}));
    let mut server = workshop.open(&place);
    allowed(&server, "t1").completed();
    let left = descendants(&server);
    assert_eq!(left.len(), 2, "the server and its companion: {left:?}");
    server.terminate();
    assert!(server.wait().success());
    left.into_iter().for_each(gone);
}

#[test]
fn nor_does_it_if_a_call_is_under_way_which_is_then_asked_about() {
    let (place, workshop) = (Place::sqlite(), with_a_companion());
    let steps = json!([{"calls": [workshop.stalling("c1", "first")]}, {"text": "Done."}]);
    workshop.hire("clerk", &steps, &json!({}));
    let mut server = workshop.open(&place);
    let client = server.client.clone();
    let errand = Errand { client: &client, ..allowed(&server, "t1") };
    workshop.wait_for(1);
    let left = descendants(&server);
    assert_eq!(left.len(), 2, "{left:?}");
    server.terminate();
    assert!(server.wait().success());
    left.into_iter().for_each(gone);
    let mut server = workshop.open(&place);
    let client = server.client.clone();
    let errand = errand.with(&client);
    errand.asked(UNKNOWN, &["c1"]);
    errand.decide(&cancel("c1", "leave it"));
    errand.completed();
    assert_eq!(workshop.done(), ["first"]);
    // A kill would leave the companion behind.
    server.terminate();
    assert!(server.wait().success());
}
