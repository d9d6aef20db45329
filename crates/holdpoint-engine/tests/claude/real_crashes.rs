//! The real program, killed in the middle of a call, or with a model that is not there.

use std::fs;

use serde_json::{Value, json};

use crate::real_world::{publisher, world};
use crate::stand_in::StandIn;
use crate::world::{Meeting, World, asks, said, troubled};

/// A shell in the middle of a call that has had its effect.
fn meeting_shell(world: &World, port: u16) -> Value {
    let file = world.place.path().join("published.txt");
    // The agent's program says in the environment which process it is.
    let command = format!(
        "echo one >> {}; exec 3<>/dev/tcp/127.0.0.1/{port}; echo here $PPID >&3; read line <&3; echo met",
        file.display()
    );
    json!(["Bash", {"command": command, "description": "publish"}])
}

fn traces(world: &World) -> usize {
    fs::read_to_string(world.place.path().join("published.txt")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_call_that_was_cut_short_is_asked_about_and_its_shell_is_gone() {
    let meeting = Meeting::new().await;
    let model = StandIn::with(json!([{"text": "not yet"}])).await;
    let mut world = world(&model, json!({})).await;
    model.play(json!([{"calls": [meeting_shell(&world, meeting.port())]}, {"text": "final: {results}"}]));
    world.start().await;
    world.begin_answer(json!({"decision": "approve"})).await;
    let met = meeting.met().await;
    met.kill();
    // The shell has a session of its own and would go on.
    met.hangs_up().await;
    let standing = world.settled().await;
    assert_eq!(asks(&standing).0, "outcome_unknown");
    assert_eq!(traces(&world), 1);
    world.begin_answer(json!({"decision": "retry"})).await;
    meeting.met().await.go_on().await;
    assert_eq!(said(&world.settled().await), "final: met");
    assert_eq!(traces(&world), 2);
}

#[tokio::test]
async fn whoever_does_not_repeat_it_tells_the_agent_that_nobody_knows() {
    let meeting = Meeting::new().await;
    let model = StandIn::with(json!([{"text": "not yet"}])).await;
    let mut world = world(&model, json!({})).await;
    model.play(json!([{"calls": [meeting_shell(&world, meeting.port())]}, {"text": "final: {results}"}]));
    world.start().await;
    world.begin_answer(json!({"decision": "approve"})).await;
    meeting.met().await.kill();
    asks(&world.settled().await);
    let standing = world.answer(json!({"decision": "reject", "reason": "it is on the page"})).await;
    assert!(said(&standing).contains("whether it was made is unknown"), "{standing:?}");
    assert_eq!(traces(&world), 1);
}

#[tokio::test]
async fn a_call_of_a_server_that_knows_its_callers_is_repeated_and_has_one_effect() {
    let (meeting, place) = (Meeting::new().await, tempfile::tempdir().unwrap());
    let file = place.path().join("calls.jsonl");
    let call = json!(["mcp__pub__publish", {"text": "hello"}]);
    let model = StandIn::with(json!([{"calls": [call]}, {"text": "final: {results}"}])).await;
    let servers = publisher(&file, Some(meeting.port()));
    let mut world = world(&model, json!({"mcpServers": servers, "idempotent": ["mcp__pub__*"]})).await;
    world.start().await;
    world.begin_answer(json!({"decision": "approve"})).await;
    meeting.met().await.kill();
    assert_eq!(said(&world.settled().await), "final: published 1 in all");
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_cancelled_run_leaves_no_program_and_no_shell() {
    let meeting = Meeting::new().await;
    let model = StandIn::with(json!([{"text": "not yet"}])).await;
    let mut world = world(&model, json!({})).await;
    model.play(json!([{"calls": [meeting_shell(&world, meeting.port())]}, {"text": "final: {results}"}]));
    world.start().await;
    world.begin_answer(json!({"decision": "approve"})).await;
    let met = meeting.met().await;
    let program = std::path::Path::new("/proc").join(met.pid.to_string());
    world.cancel().await;
    met.hangs_up().await;
    while program.exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(traces(&world), 1);
}

#[tokio::test]
async fn an_overloaded_api_after_the_call_does_not_make_the_call_again() {
    let model = StandIn::with(json!([{"text": "not yet"}])).await;
    let mut world = world(&model, json!({})).await;
    let file = world.place.path().join("published.txt");
    let call = json!(["Bash", {"command": format!("echo one >> {}; echo wrote", file.display())}]);
    model.play(json!([{"calls": [call]}, {"status": 529}]));
    world.start().await;
    let (code, message) = troubled(&world.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "provider_unreachable");
    assert!(message.contains("529") && message.contains("the decision was carried out"), "{message}");
    model.play(json!([{"calls": [call]}, {"text": "final"}]));
    assert_eq!(said(&world.answer(json!({"decision": "approve"})).await), "final");
    assert_eq!(traces(&world), 1);
}

#[tokio::test]
async fn a_key_that_is_refused_or_missing_and_a_request_that_is_refused_are_told_apart() {
    let key = json!({"file": "key.txt"});
    for (key, status, code) in
        [(&key, 401, "provider_auth"), (&key, 400, "provider_rejected"), (&Value::Null, 529, "provider_auth")]
    {
        let model = StandIn::with(json!([{"status": status}])).await;
        let mut world = world(&model, json!({"apiKey": key})).await;
        let (found, message) = troubled(&world.start().await);
        assert_eq!(found, code, "{message}");
    }
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_interrupted_and_can_be_gone_on_with() {
    let meeting = Meeting::new().await;
    let model = StandIn::with(json!([{"text": "not yet"}])).await;
    let mut world = world(&model, json!({})).await;
    model.play(json!([{"calls": [meeting_shell(&world, meeting.port())]}, {"text": "final"}]));
    asks(&world.start().await);
    world.set(json!({"turnMs": 6000}));
    world.move_to("sessions").await;
    world.begin_answer(json!({"decision": "approve"})).await;
    let met = meeting.met().await;
    let (code, _) = troubled(&world.settled().await);
    assert_eq!(code, "provider_timeout");
    met.hangs_up().await;
    assert_eq!(said(&world.answer(json!({"decision": "approve"})).await), "final");
    assert_eq!(traces(&world), 1);
}
